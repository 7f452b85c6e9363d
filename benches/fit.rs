//! Whole fits over N, D and M, and the time of one iteration against M: flat for D-GMM, linear for exhaustive search.

use crate::common::{THREADS, error_a_row, overlapping, start};
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group};
use dgmm::bench_api::Stepper;
use dgmm::{Dataset, Dgmm, Engine, ExactGmm, Init, KMeans, Params, VcGmm};
use ndarray::ArrayView2;
use std::time::{Duration, Instant};

/// The D-GMM of the tables: the paper's engine with H = R = 5.
fn dgmm(clusters: usize) -> Params {
    Dgmm::params(clusters).truncation(5).proposals(5).engine(Engine::Pointwise)
}

fn whole_fit(c: &mut Criterion) {
    let mut table = vec![];
    for (rows, dim, clusters) in
        [(10_000, 16, 100), (50_000, 16, 100), (50_000, 16, 1_000), (50_000, 128, 100), (50_000, 128, 1_000)]
    {
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        let mut systems = vec![
            ("k-means", KMeans::params(clusters)),
            ("vc-GMM", VcGmm::params(clusters)),
            ("D-GMM", dgmm(clusters)),
            ("D-GMM, coreset of 4096", dgmm(clusters).coreset_size(4096)),
        ];
        if clusters <= 100 {
            systems.push(("exact GMM", ExactGmm::params(clusters)));
        }
        let mut group = c.benchmark_group(format!("fit, {rows} x {dim}"));
        group.throughput(Throughput::Elements(rows as u64)).sampling_mode(SamplingMode::Flat);
        for (name, params) in systems {
            let params = params.init(Init::AfkMc2).max_iter(10).tol(0.0).threads(THREADS);
            let (mut fit, mut seconds) = (None, vec![]);
            group.bench_function(BenchmarkId::new(name, clusters), |b| {
                b.iter(|| {
                    let clock = Instant::now();
                    fit = Some(params.fit(&data).unwrap());
                    seconds.push(clock.elapsed().as_secs_f64());
                })
            });
            if let Some(fit) = fit {
                let (seconds, error) = (median(&mut seconds), error_a_row(&fit.model, &data));
                table.push(format!("| {rows} x {dim} | {clusters} | {name} | {seconds:.3} | {error:.3} |"));
            }
        }
        group.finish();
    }
    if !table.is_empty() {
        println!("Seeding, 10 iterations and labels; {THREADS} threads\n");
        println!("| data | M | system | seconds | error a row |\n|---|---|---|---|---|\n{}\n", table.join("\n"));
    }
}

/// A system's iterations under way: their seconds, and the error after the last.
struct Timed {
    milliseconds: f64,
    iterations: usize,
    error: f64,
}

impl Timed {
    fn columns(timed: &Option<Self>) -> String {
        match timed {
            Some(t) => format!("{:.1} | {:.3} ({})", t.milliseconds, t.error, t.iterations),
            None => "- | -".into(),
        }
    }
}

fn iteration_against_clusters(c: &mut Criterion) {
    let (rows, dim) = (200_000, 64);
    let x = overlapping(rows, dim);
    let data = Dataset::new(x.view()).unwrap();
    let mut table = vec![];
    let mut group = c.benchmark_group(format!("iteration, {rows} x {dim}"));
    group.throughput(Throughput::Elements(rows as u64)).sampling_mode(SamplingMode::Flat);
    for clusters in [1_000, 2_000, 4_000, 8_000, 16_000] {
        let random = start(&data, clusters);
        let mut time = |name: &str, params: Params, start: Option<ArrayView2<'_, f32>>, warm: usize| {
            let (mut stepper, mut seconds) = (None, vec![]);
            group.bench_function(BenchmarkId::new(name, clusters), |b| {
                let stepper = stepper.get_or_insert_with(|| {
                    let params = params.clone().threads(THREADS);
                    let mut stepper = Stepper::new(&params, &data, start).unwrap();
                    (0..warm).for_each(|_| stepper.iterate().unwrap());
                    stepper
                });
                b.iter(|| {
                    let clock = Instant::now();
                    stepper.iterate().unwrap();
                    seconds.push(clock.elapsed().as_secs_f64());
                })
            });
            let error = error_a_row(stepper?.model(), &data);
            Some(Timed { iterations: warm + seconds.len(), milliseconds: median(&mut seconds) * 1e3, error })
        };
        // Past the first iteration, before which S is not known.
        let usual = time("D-GMM", dgmm(clusters), None, 3);
        // The paper's start: sets at random, which find near clusters only by and by.
        let sets = time("D-GMM, sets at random", dgmm(clusters), Some(random.view()), 15);
        let exhaustive = time("exhaustive", KMeans::params(clusters), Some(random.view()), 0);
        let share = |sampled: &Option<Timed>| match (sampled, &exhaustive) {
            (Some(a), Some(b)) => format!("{:.3}", a.milliseconds / b.milliseconds),
            _ => "-".into(),
        };
        if usual.is_some() || sets.is_some() || exhaustive.is_some() {
            let [a, b, c] = [&usual, &sets, &exhaustive].map(Timed::columns);
            table.push(format!("| {clusters} | {a} | {b} | {c} | {} | {} |", share(&usual), share(&sets)));
        }
    }
    group.finish();
    if !table.is_empty() {
        println!("N = {rows}, D = {dim}, f32, {THREADS} threads; ms an iteration and, after so many, the error a row.");
        println!(
            "D-GMM point by point with H = R = 5, from its usual start (two levels) and from random rows with random"
        );
        println!("sets; exhaustive k-means from random rows; D-GMM's share of its time\n");
        println!(
            "| M | D-GMM | error | D-GMM, random sets | error | exhaustive | error | share | share, random sets |"
        );
        println!("|---|---|---|---|---|---|---|---|---|\n{}\n", table.join("\n"));
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

criterion_group! {
    name = fits;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(1));
    targets = whole_fit, iteration_against_clusters
}
