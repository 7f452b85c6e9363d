//! The distance kernels on one core: the blocked one as a share of the machine's peak, and gathered distances.
//!
//! The blocked kernel is counted as 2 N M D floating-point operations, its products alone; packing the rows, the norms and
//! the selection of the nearest are overhead that lowers the share.

#[path = "common/peak.rs"]
pub mod peak;

use crate::common::overlapping;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group};
use dgmm::bench_api::{Dense, gathered_distances};
use dgmm::rng::{Stage, stream};
use std::time::{Duration, Instant};

fn blocked(c: &mut Criterion) {
    let mut roofline = vec![];
    let mut group = c.benchmark_group("blocked kernel");
    for (dim, clusters, nearest) in
        [(16, 1_000, 1), (64, 1_000, 1), (64, 1_000, 5), (64, 16_000, 1), (256, 1_000, 1), (784, 1_000, 1)]
    {
        let centers = overlapping(clusters, dim).into_raw_vec_and_offset().0;
        let mut dense = Dense::new(&centers, dim);
        let rows = dense.block_rows();
        let values = overlapping(rows, dim).into_raw_vec_and_offset().0;
        let (mut ids, mut distances) = (vec![0; rows * nearest], vec![0.0; rows * nearest]);
        let flops = (2 * rows * clusters * dim) as u64;
        let mut best = f64::INFINITY;
        group.throughput(Throughput::Elements(flops));
        let id = format!("D = {dim}, M = {clusters}, nearest {nearest}");
        group.bench_function(BenchmarkId::from_parameter(&id), |b| {
            b.iter(|| {
                let clock = Instant::now();
                dense.load(&values);
                dense.nearest(nearest, &mut ids, &mut distances);
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
        println!("| blocked kernel | GFLOP/s, best | share of the peak |\n|---|---|---|");
        for (id, gflops) in roofline {
            println!("| {id} | {gflops:.1} | {:.0} % |", 100.0 * gflops / peak);
        }
        println!();
    }
}

fn gathered(c: &mut Criterion) {
    const CANDIDATES: usize = 10;
    const ROWS: usize = 1000;
    let mut group = c.benchmark_group("gathered distances, 10 a row");
    group.throughput(Throughput::Elements((ROWS * CANDIDATES) as u64));
    for (dim, clusters) in [(16, 1_000), (64, 1_000), (64, 16_000), (256, 1_000)] {
        let rows = overlapping(ROWS, dim);
        let centers = overlapping(clusters, dim).into_raw_vec_and_offset().0;
        let mut rng = stream(1, Stage::Proposals, 0, 0);
        let ids: Vec<u32> = (0..ROWS * CANDIDATES).map(|_| rng.below(clusters) as u32).collect();
        let mut out = [0.0; CANDIDATES];
        group.bench_function(BenchmarkId::new(format!("D = {dim}"), clusters), |b| {
            b.iter(|| {
                for (row, ids) in rows.rows().into_iter().zip(ids.chunks_exact(CANDIDATES)) {
                    gathered_distances(row.to_slice().expect("rows are contiguous"), &centers, ids, &mut out);
                }
                out[0]
            })
        });
    }
    group.finish();
}

criterion_group! {
    name = kernels;
    config = Criterion::default().sample_size(20).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = blocked, gathered
}
