//! What an E-step leaves for the M-step: sums over the points, which merge over shards in their order.
//!
//! | symbol | field |
//! |---|---|
//! | sum_n w q_c y | `sums` (M x D, counted from the model's origin) |
//! | N_c = sum_n w q_c | `mass` |
//! | sum_n w sum_c q_c d_c | `weighted_distance` |
//! | sum_n w log sum_c exp(-d_c / 2 s2) | `log_sum` |
//!
//! The rows of a shard are cut into segments and, where these are few, their columns into slices, by the sizes of the
//! problem alone. A task adds up one slice of one segment in the order of the rows; segments merge in their order. So the
//! sums do not depend on the number of threads. O(N H D), and never more memory for it than an eighth of N H D numbers.

use crate::data::Dataset;
use crate::em::members::Sets;
use crate::error::{Error, Result};
use crate::kernel::prefetch;
use crate::observer::Observer;
use crate::real::Real;
use rayon::prelude::*;
use std::ops::Range;

/// Places a cluster has in a segment, on average, at least.
const PLACES_A_CLUSTER: usize = 64;
/// Segments of a shard at most, and tasks wanted.
const TASKS: usize = 16;
/// Bytes of sums up to which a second-level cache is taken to hold them ...
const NEAR: usize = 1 << 20;
/// ... and rows ahead that they are asked for otherwise.
const AHEAD: usize = 2;
/// Columns of a slice, of which it has a multiple.
const SLICE: usize = 16;

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
    /// Whether the posterior was harder than it will be: F has not settled, however little it changes.
    pub provisional: bool,
}

impl Statistics {
    pub fn new(clusters: usize, dim: usize, weight: f64) -> Self {
        Self {
            dim,
            // In parallel, because there are many: fresh memory costs more than the zeros in it.
            sums: (0..clusters * dim).into_par_iter().map(|_| 0.0).collect(),
            mass: vec![0.0; clusters],
            weight,
            weighted_distance: 0.0,
            log_sum: 0.0,
            inertia: 0.0,
            evaluations: 0,
            provisional: false,
        }
    }

    /// Adds the sums of the points of a shard, given its sets.
    pub fn accumulate<T: Real>(
        &mut self,
        shard: &ShardRows<'_, T>,
        sets: &Sets<T>,
        observer: &dyn Observer,
    ) -> Result<()> {
        let (dim, clusters) = (self.dim, self.mass.len());
        let rows = shard.rows.len();
        let segments = (rows * sets.h / (PLACES_A_CLUSTER * clusters)).clamp(1, TASKS);
        let size = rows.div_ceil(segments).max(1);
        let width = dim.div_ceil(TASKS / segments).next_multiple_of(SLICE).min(dim);
        let slices = dim.div_ceil(width);
        // Slice after slice in blocks of TASKS, so that few partial sums wait at a time.
        let tasks: Vec<(usize, usize)> =
            (0..slices).flat_map(|slice| (0..rows.div_ceil(size)).map(move |segment| (slice, segment))).collect();
        for tasks in tasks.chunks(TASKS) {
            let parts: Vec<(Vec<f64>, Vec<f64>)> = tasks
                .par_iter()
                .map(|&(slice, segment)| {
                    let columns = slice * width..((slice + 1) * width).min(dim);
                    let rows = segment * size..((segment + 1) * size).min(rows);
                    shard.add_up(rows, columns, sets, clusters, observer)
                })
                .collect::<Result<_>>()?;
            for (&(slice, _), (sums, mass)) in tasks.iter().zip(&parts) {
                let start = slice * width;
                let own = self.sums.par_chunks_mut(dim).zip(sums.par_chunks(width.min(dim - start)));
                own.with_min_len(256).for_each(|(sum, part)| {
                    sum[start..start + part.len()].iter_mut().zip(part).for_each(|(a, b)| *a += b);
                });
                if slice == 0 {
                    self.mass.iter_mut().zip(mass).for_each(|(a, b)| *a += b);
                }
            }
        }
        Ok(())
    }
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

    /// sum w q y over some of the rows, in some of the columns (M x columns), and sum w q (M).
    fn add_up(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        sets: &Sets<T>,
        clusters: usize,
        observer: &dyn Observer,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let width = columns.len();
        let (mut sums, mut mass) = (vec![0.0; clusters * width], vec![0.0; clusters]);
        let mut local = Vec::new();
        let far = size_of_val(sums.as_slice()) > NEAR;
        for (i, r) in rows.enumerate() {
            if i % 256 == 0 && observer.cancelled() {
                return Err(Error::Cancelled);
            }
            if far && let Some(ahead) = sets.members.get((r + AHEAD) * sets.h..(r + AHEAD + 1) * sets.h) {
                ahead.iter().for_each(|&c| prefetch(&sums[c as usize * width..(c as usize + 1) * width]));
            }
            let places = r * sets.h..(r + 1) * sets.h;
            let row = &self.data.local(self.rows.start + r, self.origin, &mut local)[columns.clone()];
            let w = self.weight(r);
            for (&c, &q) in sets.members[places.clone()].iter().zip(&sets.posterior[places]) {
                if q > T::ZERO {
                    let (c, wq) = (c as usize, w * q.to_f64());
                    mass[c] += wq;
                    T::add_scaled(&mut sums[c * width..(c + 1) * width], wq, row);
                }
            }
        }
        Ok((sums, mass))
    }
}
