//! Exact search with the blocked kernel on one core, relative to the peak of the machine.
//!
//! Counted as 2 N M D floating-point operations, the products only; checking and packing the rows, the norms and the
//! selection of the nearest are overhead that lowers the share.

#[path = "common/peak.rs"]
pub mod peak;

use crate::common::overlapping;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use dgmm::{Dataset, Model, Run};
use std::time::{Duration, Instant};

fn blocked(c: &mut Criterion) {
    let run = Run { threads: Some(1), ..Run::default() };
    let mut roofline = vec![];
    let mut group = c.benchmark_group("blocked kernel");
    for (dim, clusters, nearest) in
        [(16, 1_000, 1), (64, 1_000, 1), (64, 1_000, 5), (64, 16_000, 1), (256, 1_000, 1), (784, 1_000, 1)]
    {
        let model = Model::new(overlapping(clusters, dim).view(), 1.0).unwrap();
        let rows = 2048;
        let x = overlapping(rows, dim);
        let data = Dataset::new(x.view()).unwrap();
        let (mut ids, mut distances) = (vec![0; rows * nearest], vec![0.0; rows * nearest]);
        let flops = (2 * rows * clusters * dim) as u64;
        let mut best = f64::INFINITY;
        group.throughput(Throughput::Elements(flops));
        let id = format!("D = {dim}, M = {clusters}, nearest {nearest}");
        group.bench_function(BenchmarkId::from_parameter(&id), |b| {
            b.iter(|| {
                let clock = Instant::now();
                model.top_k_into(&data, nearest, &mut ids, &mut distances, &run).unwrap();
                best = best.min(clock.elapsed().as_secs_f64());
            })
        });
        if best.is_finite() {
            roofline.push((id, flops as f64 / best / 1e9));
        }
    }
    group.finish();
    if !roofline.is_empty() {
        let (peak, set) = peak::gflops();
        println!("Roofline: {peak:.1} GFLOP/s is the peak of one core (f32, fused multiply-add, {set})\n");
        println!("| exact search | GFLOP/s, best | share of the peak |\n|---|---|---|");
        for (id, gflops) in roofline {
            println!("| {id} | {gflops:.1} | {:.0} % |", 100.0 * gflops / peak);
        }
        println!();
    }
}

criterion_group! {
    name = kernels;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = blocked
}
