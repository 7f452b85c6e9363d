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

/// An EM loop under way, with the seconds of those of its iterations that were timed.
struct Contender<'a> {
    stepper: Stepper<'a, f32>,
    seconds: Vec<f64>,
    iterations: usize,
}

impl<'a> Contender<'a> {
    /// Takes `warm` iterations before its clock runs.
    fn new(params: Params, data: &'a Dataset<'a, f32>, start: Option<ArrayView2<'_, f32>>, warm: usize) -> Self {
        let mut stepper = Stepper::new(&params.threads(THREADS), data, start).unwrap();
        (0..warm).for_each(|_| stepper.iterate().unwrap());
        Self { stepper, seconds: vec![], iterations: warm }
    }

    /// Two iterations, of which the second is timed: as in a fit it follows one of its own, and not another's.
    fn turn(&mut self) -> Duration {
        self.iterations += 2;
        self.stepper.iterate().unwrap();
        let clock = Instant::now();
        self.stepper.iterate().unwrap();
        let duration = clock.elapsed();
        self.seconds.push(duration.as_secs_f64());
        duration
    }

    /// Milliseconds of an iteration, and the error a row after them all.
    fn columns(&mut self, data: &Dataset<'_, f32>) -> String {
        let error = error_a_row(self.stepper.model(), data);
        format!("{:.1} | {error:.3} ({})", 1e3 * median(&mut self.seconds), self.iterations)
    }
}

/// The contenders take turns, so that what else the machine does meets them all.
fn iteration_against_clusters(c: &mut Criterion) {
    let (rows, dim) = (200_000, 64);
    let x = overlapping(rows, dim);
    let data = Dataset::new(x.view()).unwrap();
    let mut table = vec![];
    let mut group = c.benchmark_group(format!("iteration, {rows} x {dim}"));
    group.throughput(Throughput::Elements(rows as u64)).sampling_mode(SamplingMode::Flat);
    for clusters in [1_000, 2_000, 4_000, 8_000, 16_000] {
        let mut contenders: Option<[Contender<'_>; 3]> = None;
        group.bench_function(BenchmarkId::new("D-GMM beside exhaustive search", clusters), |b| {
            let contenders = contenders.get_or_insert_with(|| {
                let random = start(&data, clusters);
                [
                    // Past the first iteration, before which S is not known.
                    Contender::new(dgmm(clusters), &data, None, 3),
                    // The paper's start: sets at random, which find near clusters only by and by.
                    Contender::new(dgmm(clusters), &data, Some(random.view()), 15),
                    Contender::new(KMeans::params(clusters), &data, Some(random.view()), 0),
                ]
            });
            b.iter_custom(|times| {
                let mut first = Duration::ZERO;
                for _ in 0..times {
                    let durations = contenders.each_mut().map(Contender::turn);
                    first += durations[0];
                }
                first
            })
        });
        if let Some(mut contenders) = contenders {
            let [a, b, c] = contenders.each_mut().map(|contender| contender.columns(&data));
            let [usual, random, exhaustive] = contenders.each_mut().map(|contender| median(&mut contender.seconds));
            let shares = format!("{:.3} | {:.3}", usual / exhaustive, random / exhaustive);
            table.push(format!("| {clusters} | {a} | {b} | {c} | {shares} |"));
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
