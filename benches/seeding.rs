//! The seeding methods, with the error of the initial centers; and coresets.

use crate::common::{THREADS, error_per_row, overlapping, run};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use dgmm::{Dataset, Model, Result, Run, Seeds, afkmc2, kmeans_plus_plus, lightweight_coreset, random_rows};
use std::hint::black_box;
use std::time::Duration;

type Method = fn(&Dataset<'_, f32>, usize, u64, &Run<'_>) -> Result<Seeds<f32>>;

const METHODS: [(&str, Method, usize); 4] = [
    // The last number is the largest M that is still feasible in a bench.
    ("random", random_rows, 10_000),
    ("afk-mc2, m = 5", |data, m, seed, run| afkmc2(data, m, 5, seed, run), 10_000),
    ("afk-mc2, m = 50", |data, m, seed, run| afkmc2(data, m, 50, seed, run), 1_000),
    ("k-means++", kmeans_plus_plus, 1_000),
];

fn seeding(c: &mut Criterion) {
    let mut table = vec![];
    for (rows, dim, clusters) in [(20_000, 64, 100), (100_000, 16, 1_000), (100_000, 64, 1_000), (100_000, 64, 4_000)] {
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        let mut group = c.benchmark_group(format!("seeding, {rows} x {dim}"));
        group.throughput(Throughput::Elements(clusters as u64));
        for (name, method, most) in METHODS {
            if clusters > most {
                continue;
            }
            let mut seeds = None;
            group.bench_function(BenchmarkId::new(name, clusters), |b| {
                b.iter(|| seeds = Some(method(&data, clusters, 1, &run()).unwrap()))
            });
            if let Some(seeds) = seeds {
                let model = Model::new(seeds.centers.view(), 1.0).unwrap();
                let error = error_per_row(&model, &data);
                table.push(format!("| {rows} x {dim} | {clusters} | {name} | {} | {error:.2} |", seeds.evaluations));
            }
        }
        group.finish();
    }
    if !table.is_empty() {
        println!(
            "{THREADS} threads\n\n| data | M | method | distance evaluations | error per row |\n|---|---|---|---|---|"
        );
        println!("{}\n", table.join("\n"));
    }
}

fn coreset(c: &mut Criterion) {
    const SIZE: usize = 4096;
    let mut group = c.benchmark_group("coreset of 4096");
    for (rows, dim) in [(50_000, 64), (200_000, 64), (50_000, 256)] {
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        group.throughput(Throughput::Elements(rows as u64));
        group.bench_function(BenchmarkId::from_parameter(format!("{rows} x {dim}")), |b| {
            b.iter(|| lightweight_coreset(&data, SIZE, black_box(1), &run()).unwrap())
        });
    }
    group.finish();
}

criterion_group! {
    name = seedings;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(2));
    targets = seeding, coreset
}
