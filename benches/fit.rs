//! Whole fits over N, D and M, and the time of one iteration as a function of M, with the settings of
//! `Dgmm::params(M)`: constant for D-GMM, linear for exhaustive search; with few clusters, soft against hard steps.
//! Reports errors next to seconds. `cargo bench -- --quick` takes a few minutes.

use crate::common::{THREADS, error_per_row, median, overlapping};
use crate::kernel::peak;
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group};
use dgmm::{Dataset, Dgmm, ExactGmm, Fit, KMeans, Params, VcGmm};
use std::time::{Duration, Instant};

fn whole_fit(c: &mut Criterion) {
    let mut table = vec![];
    for (rows, dim, clusters) in
        [(10_000, 16, 100), (50_000, 16, 1_000), (50_000, 128, 100), (50_000, 128, 1_000), (100_000, 64, 4_000)]
    {
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        let mut systems = vec![
            ("D-GMM", Dgmm::params(clusters)),
            ("D-GMM, tol = 1e-5", Dgmm::params(clusters).tol(1e-5)),
            ("k-means, 10 iterations", KMeans::params(clusters).max_iter(10)),
        ];
        if clusters <= 1_000 {
            systems.push(("D-GMM, coreset of 4096", Dgmm::params(clusters).coreset_size(4096)));
            systems.push(("vc-GMM", VcGmm::params(clusters)));
        }
        if clusters <= 100 {
            systems.push(("exact GMM", ExactGmm::params(clusters)));
        }
        let mut group = c.benchmark_group(format!("fit, {rows} x {dim}"));
        group.throughput(Throughput::Elements(rows as u64)).sampling_mode(SamplingMode::Flat);
        for (name, params) in systems {
            let params = params.threads(THREADS);
            let (mut fit, mut seconds) = (None, vec![]);
            group.bench_function(BenchmarkId::new(name, clusters), |b| {
                b.iter(|| {
                    let clock = Instant::now();
                    fit = Some(params.fit(&data).unwrap());
                    seconds.push(clock.elapsed().as_secs_f64());
                })
            });
            if let Some(Fit { model, report, .. }) = fit {
                let (seconds, error) = (median(&mut seconds), error_per_row(&model, &data));
                let iterations = report.iterations.len();
                table.push(format!(
                    "| {rows} x {dim} | {clusters} | {name} | {iterations} | {seconds:.3} | {error:.3} |"
                ));
            }
        }
        group.finish();
    }
    if !table.is_empty() {
        println!("Default settings, seeding and labels included; {THREADS} threads\n");
        println!("| data | M | system | iterations | seconds | error per row |\n|---|---|---|---|---|---|");
        println!("{}\n", table.join("\n"));
    }
}

/// A fit of some iterations. Contenders take turns, so that other load on the machine affects all of them.
struct Contender {
    name: &'static str,
    params: Params,
    /// Seconds of the iterations after the first few, in which S and the phase settle.
    seconds: Vec<f64>,
    fit: Option<Fit<f32>>,
}

impl Contender {
    const WARM: usize = 4;

    fn new(name: &'static str, params: Params, iterations: usize) -> Self {
        let params = params.max_iter(iterations).tol(0.0).threads(THREADS);
        Self { name, params, seconds: vec![], fit: None }
    }

    fn turn(&mut self, data: &Dataset<'_, f32>) {
        let fit = self.params.fit(data).unwrap();
        let ends: Vec<f64> = fit.report.iterations.iter().map(|i| i.seconds).collect();
        self.seconds.extend(ends[Self::WARM.min(ends.len() - 2)..].windows(2).map(|w| w[1] - w[0]));
        self.fit = Some(fit);
    }
}

fn iteration_against_clusters(c: &mut Criterion) {
    let (rows, dim) = (100_000, 64);
    let x = overlapping(rows, dim);
    let data = Dataset::new(x.view()).unwrap();
    let mut table = vec![];
    let mut group = c.benchmark_group(format!("iteration, {rows} x {dim}"));
    group.throughput(Throughput::Elements(rows as u64)).sampling_mode(SamplingMode::Flat);
    for clusters in [1_000, 4_000, 16_000] {
        let mut contenders = [
            Contender::new("D-GMM", Dgmm::params(clusters), 10),
            Contender::new("exhaustive, hard", KMeans::params(clusters), 3),
        ];
        group.bench_function(BenchmarkId::new("D-GMM beside exhaustive search", clusters), |b| {
            b.iter_custom(|times| {
                (0..times).for_each(|_| contenders.iter_mut().for_each(|contender| contender.turn(&data)));
                Duration::from_secs_f64(median(&mut contenders[0].seconds.clone()) * times as f64)
            })
        });
        let [.., Contender { fit: Some(_), .. }] = &contenders else { continue };
        let exhaustive = median(&mut contenders[1].seconds);
        let peak = THREADS as f64 * peak::gflops().0;
        for Contender { name, seconds, fit, .. } in &mut contenders {
            let (Some(fit), seconds) = (fit, median(seconds)) else { continue };
            let evaluations = fit.report.iterations.last().map_or(0, |i| i.distance_evals);
            let arithmetic = 2.0 * evaluations as f64 * dim as f64 / (1e9 * peak);
            table.push(format!(
                "| {clusters} | {name} | {:.1} | {:.3} | {} | {:.1} | {:.3} |",
                1e3 * seconds,
                seconds / exhaustive,
                evaluations / rows as u64,
                seconds / arithmetic,
                error_per_row(&fit.model, &data)
            ));
        }
    }
    group.finish();
    if !table.is_empty() {
        println!(
            "N = {rows}, D = {dim}, f32, {THREADS} threads; medians of iterations of whole fits, contenders in turn."
        );
        println!("Arithmetic: 2 D operations per distance at the peak of all threads\n");
        println!(
            "| M | search | ms | share of exhaustive | distances per row | times its arithmetic | error per row |"
        );
        println!("|---|---|---|---|---|---|---|\n{}\n", table.join("\n"));
    }
}

/// Every row is compared with all clusters: the cost of soft posteriors relative to the hard ones of k-means.
fn few_clusters(c: &mut Criterion) {
    let mut table = vec![];
    for (rows, dim, clusters) in [(100_000, 16, 50), (100_000, 16, 200), (50_000, 64, 200), (20_000, 64, 1_000)] {
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        let mut contenders = [
            Contender::new("exhaustive, hard", KMeans::params(clusters), 14),
            Contender::new("exhaustive, soft", ExactGmm::params(clusters), 14),
            Contender::new("soft over the nearest 5", Dgmm::params(clusters), 14),
        ];
        // With more than 100 clusters D-GMM uses another search.
        let contenders = if clusters <= 100 { &mut contenders[..] } else { &mut contenders[..2] };
        let mut group = c.benchmark_group(format!("iteration, {rows} x {dim}"));
        group.throughput(Throughput::Elements(rows as u64)).sampling_mode(SamplingMode::Flat);
        group.bench_function(BenchmarkId::new("soft beside hard", clusters), |b| {
            b.iter_custom(|times| {
                (0..times).for_each(|_| contenders.iter_mut().for_each(|contender| contender.turn(&data)));
                Duration::from_secs_f64(median(&mut contenders[1].seconds.clone()) * times as f64)
            })
        });
        group.finish();
        let hard = if contenders[0].fit.is_some() { median(&mut contenders[0].seconds) } else { continue };
        for Contender { name, seconds, fit, .. } in contenders {
            let (Some(fit), seconds) = (fit, median(seconds)) else { continue };
            table.push(format!(
                "| {rows} x {dim} | {clusters} | {name} | {:.2} | {:.2} | {:.3} |",
                1e3 * seconds,
                seconds / hard,
                error_per_row(&fit.model, &data)
            ));
        }
    }
    if !table.is_empty() {
        println!("f32, {THREADS} threads; medians of iterations of whole fits, contenders in turn\n");
        println!("| data | M | search | ms | times the hard one | error per row |\n|---|---|---|---|---|---|");
        println!("{}\n", table.join("\n"));
    }
}

criterion_group! {
    name = fits;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(1)).measurement_time(Duration::from_secs(1));
    targets = whole_fit, iteration_against_clusters, few_clusters
}
