//! Alias tables and coresets: what is drawn, and what it costs to be able to draw it.

mod common;

use common::{THREADS, overlapping, run};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use dgmm::alias::{AliasRows, AliasTable};
use dgmm::parallel::with_threads;
use dgmm::rng::{Rng, Stage, stream};
use dgmm::{Dataset, lightweight_coreset};
use std::hint::black_box;
use std::time::Duration;

/// Entries a row of the similarity has at most.
const ROW: usize = 64;

fn rng() -> Rng {
    stream(1, Stage::Sample, 0, 0)
}

fn weights(n: usize) -> Vec<f64> {
    let mut rng = rng();
    (0..n).map(|_| rng.unit() + 1e-3).collect()
}

/// `rows` rows of 64 entries.
fn sparse(rows: usize) -> (Vec<usize>, Vec<u32>, Vec<f32>) {
    let mut rng = rng();
    let offsets = (0..=rows).map(|r| r * ROW).collect();
    let ids = (0..rows * ROW).map(|_| rng.below(rows) as u32).collect();
    (offsets, ids, weights(rows * ROW).into_iter().map(|w| w as f32).collect())
}

fn alias_build(c: &mut Criterion) {
    let mut group = c.benchmark_group("alias build");
    for n in [1_000, 100_000] {
        let weights = weights(n);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("table", n), |b| b.iter(|| AliasTable::new(&weights).unwrap()));
    }
    for rows in [1_000, 16_000] {
        let (offsets, ids, weights) = sparse(rows);
        group.throughput(Throughput::Elements((rows * ROW) as u64));
        group.bench_function(BenchmarkId::new("rows of 64", rows), |b| {
            with_threads(Some(THREADS), || b.iter(|| AliasRows::new(&offsets, &ids, &weights).unwrap())).unwrap();
        });
    }
    group.finish();
}

fn alias_draw(c: &mut Criterion) {
    const DRAWS: usize = 10_000;
    let mut group = c.benchmark_group("alias draw");
    group.throughput(Throughput::Elements(DRAWS as u64));
    for n in [1_000, 1_000_000] {
        let table = AliasTable::new(&weights(n)).unwrap();
        let mut rng = rng();
        group.bench_function(BenchmarkId::new("table", n), |b| {
            b.iter(|| (0..DRAWS).map(|_| table.draw(&mut rng)).fold(0, usize::wrapping_add))
        });
    }
    for rows in [1_000, 16_000] {
        let (offsets, ids, weights) = sparse(rows);
        let table = AliasRows::new(&offsets, &ids, &weights).unwrap();
        let mut rng = rng();
        group.bench_function(BenchmarkId::new("rows of 64", rows), |b| {
            b.iter(|| (0..DRAWS).filter_map(|i| table.draw(i * 7919 % rows, &mut rng)).fold(0, u32::wrapping_add))
        });
    }
    group.finish();
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
    name = sampling;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    targets = alias_build, alias_draw, coreset
}
criterion_main!(sampling);
