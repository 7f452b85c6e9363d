//! The halves of an EM iteration: the E-step of each search, and the M-step (sums, rows of S, centers).

use crate::common::{THREADS, overlapping, start};
use crate::kernel::peak;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use dgmm::bench_api::Stepper;
use dgmm::{Dataset, Dgmm, Engine, ExactGmm, KMeans, Params, SimilarityKind, VcGmm};
use std::time::{Duration, Instant};

/// Iterations before the clock runs, so that truncated sets are those of a fit under way.
const WARM: usize = 4;

fn dgmm(clusters: usize, similarity: SimilarityKind) -> Params {
    Dgmm::params(clusters).truncation(5).proposals(5).engine(Engine::Pointwise).similarity(similarity)
}

/// Systems with the largest N M that a bench of them can wait for.
fn systems(clusters: usize) -> Vec<(&'static str, Params, usize)> {
    vec![
        ("exhaustive, hard (k-means)", KMeans::params(clusters), 200_000_000),
        ("exhaustive, soft (exact GMM)", ExactGmm::params(clusters), 20_000_000),
        ("neighbors (vc-GMM)", VcGmm::params(clusters), usize::MAX),
        ("sampled (D-GMM)", dgmm(clusters, SimilarityKind::Cooccurrence), usize::MAX),
    ]
}

fn warmed<'a>(params: &Params, data: &'a Dataset<'a, f32>, clusters: usize) -> Stepper<'a, f32> {
    let params = params.clone().threads(THREADS);
    let mut stepper = Stepper::new(&params, data, Some(start(data, clusters).view())).unwrap();
    (0..WARM).for_each(|_| stepper.iterate().unwrap());
    stepper
}

fn e_step(c: &mut Criterion) {
    for (rows, dim, clusters) in [(100_000, 16, 200), (50_000, 64, 1_000), (50_000, 64, 4_000), (20_000, 256, 1_000)] {
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        let mut group = c.benchmark_group(format!("E-step, {rows} x {dim}"));
        group.throughput(Throughput::Elements(rows as u64));
        for (name, params, _) in systems(clusters).into_iter().filter(|s| rows * clusters <= s.2) {
            let mut stepper = None;
            group.bench_function(BenchmarkId::new(name, clusters), |b| {
                let stepper = stepper.get_or_insert_with(|| warmed(&params, &data, clusters));
                b.iter(|| stepper.expectation().unwrap())
            });
        }
        group.finish();
    }
}

/// Iterations of the grouped engine (E-step with its sums, rows of S, M-step) as multiples of their arithmetic: 2 D operations
/// a distance, at the peak of all threads.
fn grouped(c: &mut Criterion) {
    let mut roofline = vec![];
    for (rows, dim, clusters) in [(200_000, 64, 1_000), (200_000, 64, 4_000), (60_000, 256, 1_000)] {
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        let params = Dgmm::params(clusters).engine(Engine::Grouped);
        let (mut stepper, mut best) = (None, f64::INFINITY);
        let mut group = c.benchmark_group(format!("E-step, {rows} x {dim}"));
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(BenchmarkId::new("grouped (D-GMM), with sums and M-step", clusters), |b| {
            let stepper = stepper.get_or_insert_with(|| warmed(&params, &data, clusters));
            b.iter(|| {
                let clock = Instant::now();
                stepper.iterate().unwrap();
                best = best.min(clock.elapsed().as_secs_f64());
            })
        });
        group.finish();
        if let Some(stepper) = &mut stepper {
            roofline.push((rows, dim, clusters, best, stepper.expectation().unwrap()));
        }
    }
    if !roofline.is_empty() {
        let peak = THREADS as f64 * peak::gflops().0;
        println!("Roofline: {peak:.1} GFLOP/s is the peak of {THREADS} threads\n");
        println!("| grouped iteration | distances a row | ms, best | multiple of its arithmetic |\n|---|---|---|---|");
        for (rows, dim, clusters, seconds, evaluations) in roofline {
            let arithmetic = 2.0 * evaluations as f64 * dim as f64 / (1e9 * peak);
            println!(
                "| {rows} x {dim}, M = {clusters} | {} | {:.1} | {:.1} |",
                evaluations / rows as u64,
                1e3 * seconds,
                seconds / arithmetic
            );
        }
        println!();
    }
}

fn m_step(c: &mut Criterion) {
    for (rows, dim, clusters) in [(50_000, 64, 1_000), (50_000, 64, 4_000), (20_000, 256, 1_000)] {
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        let mut group = c.benchmark_group(format!("M-step, {rows} x {dim}"));
        group.throughput(Throughput::Elements(rows as u64));
        let mut systems = vec![("k-means", KMeans::params(clusters), None), ("vc-GMM", VcGmm::params(clusters), None)];
        for kind in [SimilarityKind::Posterior, SimilarityKind::Kernel] {
            systems.push((kind.name(), dgmm(clusters, kind), Some(kind)));
        }
        for (name, params, pairs) in systems {
            let mut warm = None;
            group.bench_function(BenchmarkId::new(name, clusters), |b| {
                let (stepper, sets) = warm.get_or_insert_with(|| {
                    let stepper = warmed(&params, &data, clusters);
                    let sets = stepper.sets();
                    (stepper, sets)
                });
                b.iter(|| stepper.maximization(sets, pairs).unwrap())
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = steps;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = e_step, grouped, m_step
}
