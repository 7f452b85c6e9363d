//! The E-step, block by block: search candidates, keep the H nearest, take their posterior
//!
//! q_c(n) = exp(-d_c(n) / 2 s2) / sum_{c' in K(n)} exp(-d_c'(n) / 2 s2),
//!
//! by log-sum-exp against the nearest (the paper's eq. for the truncated posterior). Blocks have fixed bounds and open
//! their own random streams, so nothing depends on who works on them.

use crate::data::Dataset;
use crate::em::members::{ByCluster, Sets};
use crate::em::statistics::{ShardRows, Statistics};
use crate::error::{Error, Result};
use crate::kernel::Centers;
use crate::model::Model;
use crate::observer::Observer;
use crate::real::Real;
use crate::search::{Block, Scratch, Search, State};
use rayon::prelude::*;
use std::ops::Range;

/// Places (rows x H) a shard has at most, so that what an E-step leaves behind is bounded.
const SHARD_PLACES: usize = 1 << 22;

/// What does not change during a fit.
pub(crate) struct Task<'a, T: Real> {
    pub data: &'a Dataset<'a, T>,
    pub hard: bool,
    pub seed: u64,
    pub observer: &'a dyn Observer,
}

/// Sums over one block of rows.
#[derive(Default)]
struct BlockSums {
    weighted_distance: f64,
    log_sum: f64,
    inertia: f64,
    evaluations: u64,
}

/// An E-step over all of the data and what it leaves. `learn` says whether an M-step follows: without one the sums over
/// the points are not needed.
pub(crate) trait Expectation<T: Real>: Send {
    fn step(
        &mut self,
        task: &Task<'_, T>,
        model: &Model<T>,
        state: &mut State<T>,
        iteration: u64,
        learn: bool,
    ) -> Result<Statistics>;
}

/// The E-step row after row: each looks at the clusters its search names.
pub(crate) struct RowByRow<T>(pub Box<dyn Search<T>>);

impl<T: Real> Expectation<T> for RowByRow<T> {
    fn step(
        &mut self,
        task: &Task<'_, T>,
        model: &Model<T>,
        state: &mut State<T>,
        iteration: u64,
        learn: bool,
    ) -> Result<Statistics> {
        all_shards(task, model, &mut *self.0, state, iteration, learn)
    }
}

/// Block by block in each shard, with the statistics of each shard merged in their order.
fn all_shards<T: Real>(
    task: &Task<'_, T>,
    model: &Model<T>,
    search: &mut dyn Search<T>,
    state: &mut State<T>,
    iteration: u64,
    learn: bool,
) -> Result<Statistics> {
    let (data, h) = (task.data, search.truncation());
    let block_rows = search.block_rows(data.dim());
    let shard_rows = (SHARD_PLACES / h).clamp(1, 1 << 20).next_multiple_of(block_rows);
    let mut statistics = Statistics::new(model.clusters(), data.dim(), data.total_weight());
    let mut sets = Sets::default();
    for start in (0..data.rows()).step_by(shard_rows) {
        let rows = start..(start + shard_rows).min(data.rows());
        sets.resize(rows.len(), h);
        for sums in shard_expectation(task, model, &*search, state, rows.clone(), block_rows, iteration, &mut sets)? {
            statistics.weighted_distance += sums.weighted_distance;
            statistics.log_sum += sums.log_sum;
            statistics.inertia += sums.inertia;
            statistics.evaluations += sums.evaluations;
        }
        if learn {
            let shard = ShardRows { data, origin: model.origin(), rows };
            statistics.accumulate(&shard, &sets, task.observer)?;
            if search.learns() {
                let nearest = ByCluster::nearest(&sets.members, h, model.clusters());
                search.learn(&shard, &sets, &nearest);
            }
        }
    }
    search.turn();
    Ok(statistics)
}

#[allow(clippy::too_many_arguments)]
fn shard_expectation<T: Real>(
    task: &Task<'_, T>,
    model: &Model<T>,
    search: &dyn Search<T>,
    state: &mut State<T>,
    rows: Range<usize>,
    block_rows: usize,
    iteration: u64,
    sets: &mut Sets<T>,
) -> Result<Vec<BlockSums>> {
    let (h, kept) = (sets.h, state.kept);
    let centers = Centers::new(model.local_centers(), task.data.dim());
    let first_block = rows.start / block_rows;
    let scale = -0.5 / model.variance();
    let old = &mut state.members[rows.start * kept..rows.end * kept];
    let nearest = &mut state.nearest[rows.clone()];
    (
        old.par_chunks_mut(block_rows * kept),
        nearest.par_chunks_mut(block_rows),
        sets.members.par_chunks_mut(block_rows * h),
        sets.distances.par_chunks_mut(block_rows * h),
        sets.posterior.par_chunks_mut(block_rows * h),
    )
        .into_par_iter()
        .enumerate()
        .map_init(Scratch::default, |scratch, (i, (old, nearest, members, distances, posterior))| {
            if task.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let start = rows.start + i * block_rows;
            let block = Block {
                data: task.data,
                rows: start..start + nearest.len(),
                origin: model.origin(),
                centers: &centers,
                seed: task.seed,
                iteration,
                index: (first_block + i) as u64,
            };
            let evaluations = search.search(&block, old, members, distances, scratch);
            let mut sums = BlockSums { evaluations, ..BlockSums::default() };
            let hard = task.hard || h == 1;
            if !hard {
                distances.chunks_exact(h).zip(posterior.chunks_exact_mut(h)).for_each(|(d, q)| exponents(d, scale, q));
                T::exp_neg(posterior);
            }
            for (r, n) in block.rows.enumerate() {
                let (set, d) = (&members[r * h..(r + 1) * h], &distances[r * h..(r + 1) * h]);
                let q = &mut posterior[r * h..(r + 1) * h];
                let best = if hard { hard_posterior(d, scale, q) } else { normalize(d, scale, q) };
                let w = task.data.weight(n);
                sums.weighted_distance += w * best.mean_distance;
                sums.log_sum += w * best.log_sum;
                sums.inertia += w * d[best.slot].to_f64();
                nearest[r] = d[best.slot];
                if kept == 1 {
                    old[r] = set[best.slot];
                } else {
                    old[r * kept..(r + 1) * kept].copy_from_slice(set);
                }
            }
            Ok(sums)
        })
        .collect()
}

/// What a point's posterior comes to.
pub(crate) struct PointPosterior {
    /// Slot of the nearest member, the first of equals.
    pub slot: usize,
    /// sum_c q_c d_c.
    pub mean_distance: f64,
    /// log sum_c exp(-d_c / 2 s2).
    pub log_sum: f64,
}

/// The posterior of one point over its members, into `q` (OUT).
pub(crate) fn take_posterior<T: Real>(d: &[T], variance: f64, q: &mut [T]) -> PointPosterior {
    let scale = -0.5 / variance;
    exponents(d, scale, q);
    T::exp_neg(q);
    normalize(d, scale, q)
}

/// Slot of the smallest, the first of equals.
#[inline]
fn smallest<T: Real>(d: &[T]) -> usize {
    let mut slot = 0;
    for (k, x) in d.iter().enumerate() {
        if *x < d[slot] {
            slot = k;
        }
    }
    slot
}

/// q = `scale` (d - the smallest d), none of them positive.
#[inline]
fn exponents<T: Real>(d: &[T], scale: f64, q: &mut [T]) {
    let (near, scale) = (d[smallest(d)], T::from_f64(scale));
    q.iter_mut().zip(d).for_each(|(q, &x)| *q = (x - near) * scale);
}

/// Makes the exponentials in `q` (IN and OUT) sum to 1. What is negligible counts as 0 everywhere, so that F, s2 and the
/// sums speak of the same posterior.
#[inline]
fn normalize<T: Real>(d: &[T], scale: f64, q: &mut [T]) -> PointPosterior {
    let slot = smallest(d);
    let mut total = 0.0;
    for q in q.iter_mut() {
        *q = if *q < T::NEGLIGIBLE { T::ZERO } else { *q };
        total += q.to_f64();
    }
    let share = T::from_f64(1.0 / total);
    let mut mean_distance = 0.0;
    for (q, &x) in q.iter_mut().zip(d) {
        *q = *q * share;
        mean_distance += q.to_f64() * x.to_f64();
    }
    PointPosterior { slot, mean_distance, log_sum: d[slot].to_f64() * scale + total.ln() }
}

/// All of the posterior at the nearest member.
fn hard_posterior<T: Real>(d: &[T], scale: f64, q: &mut [T]) -> PointPosterior {
    let slot = smallest(d);
    q.fill(T::ZERO);
    q[slot] = T::ONE;
    let near = d[slot].to_f64();
    PointPosterior { slot, mean_distance: near, log_sum: near * scale }
}
