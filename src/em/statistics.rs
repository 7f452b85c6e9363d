//! What an E-step leaves for the M-step: sums over the points, which merge over shards in their order.
//!
//! | symbol | field |
//! |---|---|
//! | sum_n w q_c y | `sums` (M x D, counted from the model's origin) |
//! | N_c = sum_n w q_c | `mass` |
//! | sum_n w sum_c q_c d_c | `weighted_distance` |
//! | sum_n w log sum_c exp(-d_c / 2 s2) | `log_sum` |
//!
//! The sums are made a cluster at a time from the transposed truncated sets, so each is added up in the order of the rows
//! whatever the number of threads: O(N H D) and no array a thread.

use crate::data::Dataset;
use crate::em::members::{ByCluster, Sets};
use crate::error::{Error, Result};
use crate::kernel;
use crate::observer::Observer;
use crate::real::Real;
use rayon::prelude::*;
use std::ops::Range;

/// Places added up in `T` before the partial sum goes into `f64`.
const RUN: usize = 64;
/// How many places ahead rows are asked for.
const PREFETCH: usize = 6;
/// Places of one cluster that one task adds up; a fixed cut, so that a huge cluster is shared between threads.
const SEGMENT: usize = 8192;

/// Merged sums of an E-step. See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Statistics {
    pub dim: usize,
    pub sums: Vec<f64>,
    pub mass: Vec<f64>,
    pub weight: f64,
    pub weighted_distance: f64,
    pub log_sum: f64,
    /// sum_n w d of the nearest member.
    pub inertia: f64,
    /// Distance evaluations.
    pub evaluations: u64,
}

impl Statistics {
    pub fn new(clusters: usize, dim: usize, weight: f64) -> Self {
        Self {
            dim,
            sums: vec![0.0; clusters * dim],
            mass: vec![0.0; clusters],
            weight,
            weighted_distance: 0.0,
            log_sum: 0.0,
            inertia: 0.0,
            evaluations: 0,
        }
    }

    /// Adds the sums of the points of a shard, given its sets and their transpose.
    pub fn accumulate<T: Real>(
        &mut self,
        shard: &ShardRows<'_, T>,
        sets: &Sets<T>,
        by_cluster: &ByCluster,
        observer: &dyn Observer,
    ) -> Result<()> {
        let dim = self.dim;
        self.sums.par_chunks_mut(dim).zip(&mut self.mass).enumerate().with_min_len(16).try_for_each(
            |(c, (sum, mass))| {
                if observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                let segments = by_cluster.of(c).par_chunks(SEGMENT);
                let add = |places: &[u32]| {
                    let mut part = vec![0.0; dim + 1];
                    shard.add_places(places, sets, &mut part);
                    part
                };
                if segments.len() <= 1 {
                    by_cluster.of(c).chunks(SEGMENT).for_each(|s| merge(sum, mass, &add(s)));
                } else {
                    segments.map(add).collect::<Vec<_>>().iter().for_each(|p| merge(sum, mass, p));
                }
                Ok(())
            },
        )
    }
}

fn merge(sum: &mut [f64], mass: &mut f64, part: &[f64]) {
    let (last, values) = part.split_last().expect("a part ends with its mass");
    sum.iter_mut().zip(values).for_each(|(a, b)| *a += b);
    *mass += last;
}

/// The rows of a shard and how to read them.
#[derive(Debug, Clone)]
pub(crate) struct ShardRows<'a, T: Real> {
    pub data: &'a Dataset<'a, T>,
    pub origin: Option<&'a [T]>,
    pub rows: Range<usize>,
}

impl<T: Real> ShardRows<'_, T> {
    /// The weight of the shard's row `r`.
    pub fn weight(&self, r: usize) -> f64 {
        self.data.weight(self.rows.start + r)
    }

    /// Adds w q y over the places, then w q in the last element, to `part` (IN and OUT).
    fn add_places(&self, places: &[u32], sets: &Sets<T>, part: &mut [f64]) {
        let dim = part.len() - 1;
        let (mut run, mut local) = (vec![T::ZERO; dim], Vec::new());
        for places in places.chunks(RUN) {
            run.fill(T::ZERO);
            for (i, &place) in places.iter().enumerate() {
                // Rows of a cluster lie all over the data: ask for them ahead of time.
                if let Some(&ahead) = places.get(i + PREFETCH) {
                    kernel::prefetch(self.data.row(self.rows.start + ahead as usize / sets.h));
                }
                let q = sets.posterior[place as usize];
                if q == T::ZERO {
                    continue;
                }
                let n = self.rows.start + place as usize / sets.h;
                let wq = self.data.weight(n) * q.to_f64();
                T::axpy(&mut run, T::from_f64(wq), self.data.local(n, self.origin, &mut local));
                part[dim] += wq;
            }
            part.iter_mut().zip(&run).for_each(|(a, b)| *a += b.to_f64());
        }
    }
}
