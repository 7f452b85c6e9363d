//! The E-step block by block: search the candidates, keep the H nearest, compute their posterior, sum.
//!
//! Blocks have fixed bounds and their own random streams, so nothing depends on which thread processes them. The blocks
//! of a portion of the rows leave their sets, from which the sums are computed; portions bound the memory for the sets.

use super::accumulate::{Portion, accumulate};
use super::distance_check::DistanceCheck;
use super::score_check::ScoreCheck;
use super::{Scratch, Task};
use crate::error::{Error, Result};
use crate::kernel::{Centers, Real, RowBlock};
use crate::memory::resize;
use crate::model::score::ScoredCenters;
use crate::rng::{Rng, Stage, stream};
use crate::step::memberships::Memberships;
use crate::step::posterior::{exponents, hard_posterior, normalize, scale_of};
use crate::step::similarity::PairCounts;
use crate::step::statistics::Statistics;
use rayon::prelude::*;
use std::ops::Range;

/// Maximum number of positions (rows x H) of a portion, which bounds its memory.
const PORTION_PLACES: usize = 1 << 22;

/// K(n), d(n) and q(n) for the rows of a portion: rows x H each.
#[derive(Debug)]
pub(crate) struct Sets<T> {
    pub h: usize,
    pub members: Vec<u32>,
    pub distances: Vec<T>,
    pub posterior: Vec<T>,
}

impl<T> Default for Sets<T> {
    fn default() -> Self {
        Self { h: 1, members: Vec::new(), distances: Vec::new(), posterior: Vec::new() }
    }
}

impl<T: Real> Sets<T> {
    pub fn resize(&mut self, rows: usize, h: usize) -> Result<()> {
        self.h = h;
        resize(&mut self.members, rows * h, 0, "clusters of the rows")?;
        resize(&mut self.distances, rows * h, T::ZERO, "distances")?;
        resize(&mut self.posterior, rows * h, T::ZERO, "posteriors")
    }
}

/// A block of rows and everything that a search may need.
pub(crate) struct Block<'a, T: Real> {
    pub task: &'a Task<'a, T>,
    pub rows: Range<usize>,
    /// Factors of rows, or of lifted rows.
    pub centers: &'a Centers<'a, T>,
    /// For rows that rounding may mislead, if there can be any.
    pub distance_check: Option<&'a DistanceCheck<'a, T>>,
    /// The same for rows that choose by score.
    pub score_check: Option<&'a ScoreCheck<'a, T>>,
    pub index: u64,
}

impl<T: Real> Block<'_, T> {
    /// The block's own random stream.
    pub fn rng(&self) -> Rng {
        stream(self.task.seed, Stage::Proposals, self.task.round.iteration, self.index)
    }

    /// Row `n` relative to the model's origin, if necessary in `buffer`.
    pub fn row<'s>(&'s self, n: usize, buffer: &'s mut Vec<T>) -> &'s [T] {
        self.task.data.local(n, self.task.model().origin(), buffer)
    }

    /// Measures clusters `ids` for a row by differences (OUT).
    pub fn measure(&self, row: &[T], ids: &[u32], out: &mut [T]) {
        self.task.scores.measure(row, self.task.model().local_centers(), ids, out);
    }
}

/// Buffers that a worker keeps from block to block.
#[derive(Debug, Default)]
pub(crate) struct BlockScratch<T> {
    pub block: RowBlock<T>,
    pub ids: Vec<u32>,
    pub distances: Vec<T>,
    pub row: Vec<T>,
    pub rows: Vec<T>,
}

/// Finds H near clusters for each row of a block.
pub(crate) trait BlockSearch<T: Real>: Sync {
    /// H.
    fn truncation(&self) -> usize;

    /// Number of rows per call of [`search`](Self::search).
    fn block_rows(&self, _dim: usize) -> usize {
        256
    }

    /// Writes H clusters for each row of the block to `members` and their scores to `distances` (OUT, rows x H; nearest
    /// first), given the sets of the last step in `old` (IN). Never drops an old member for a cluster that is farther.
    /// Returns the number of distance evaluations.
    fn search(
        &self,
        block: &Block<'_, T>,
        old: &[u32],
        members: &mut [u32],
        distances: &mut [T],
        scratch: &mut BlockScratch<T>,
    ) -> u64;

    /// The counts for S from the sets of a portion.
    fn count(&self, _portion: &Portion<'_, T>, _sets: &Sets<T>) -> Result<PairCounts> {
        Ok(PairCounts::none())
    }
}

/// Sums over one block of rows.
#[derive(Default)]
struct BlockSums {
    weighted_distance: f64,
    log_sum: f64,
    inertia: f64,
    evaluations: u64,
}

/// The step: each row is compared with the clusters that its search names.
pub(crate) fn step<T: Real>(
    search: &dyn BlockSearch<T>,
    task: &Task<'_, T>,
    memberships: &mut Memberships,
    scratch: &mut Scratch<T>,
) -> Result<Statistics<T>> {
    let (data, model, h) = (task.data, task.model(), search.truncation());
    let block_rows = search.block_rows(data.dim());
    let portion_rows = (PORTION_PLACES / h).clamp(1, 1 << 20).next_multiple_of(block_rows);
    let mut statistics = Statistics::new(model.clusters(), data.dim(), task.round.extra())?;
    let Scratch { sets, nearest, order, .. } = scratch;
    order.clear();
    resize(nearest, data.rows(), T::ZERO, "distances")?;
    for start in (0..data.rows()).step_by(portion_rows) {
        let rows = start..(start + portion_rows).min(data.rows());
        sets.resize(rows.len(), h)?;
        let kept = memberships.kept;
        let old = &mut memberships.members[start * kept..rows.end * kept];
        for sums in portion_step(search, task, rows.clone(), old, &mut nearest[rows.clone()], sets)? {
            statistics.weighted_distance += sums.weighted_distance;
            statistics.log_sum += sums.log_sum;
            statistics.inertia += sums.inertia;
            statistics.evaluations += sums.evaluations;
        }
        if task.round.learn {
            let portion = Portion { data, model, moments: task.round.moments, rows };
            accumulate(&mut statistics, &portion, sets, task.observer)?;
            statistics.pairs = statistics.pairs.merge(search.count(&portion, sets)?)?;
        }
    }
    Ok(statistics)
}

/// The sets of a portion's rows; `old` (IN OUT) has what each row keeps from step to step.
fn portion_step<T: Real>(
    search: &dyn BlockSearch<T>,
    task: &Task<'_, T>,
    rows: Range<usize>,
    old: &mut [u32],
    nearest: &mut [T],
    sets: &mut Sets<T>,
) -> Result<Vec<BlockSums>> {
    let (h, kept, model) = (sets.h, old.len() / rows.len(), task.model());
    let scored = ScoredCenters::new(model, task.scores)?;
    let centers = scored.centers();
    let distance_check = DistanceCheck::of(task.scores, &centers, task.observer);
    let score_check = ScoreCheck::of(model, task.scores)?;
    let block_rows = search.block_rows(task.data.dim());
    let first_block = rows.start / block_rows;
    (
        old.par_chunks_mut(block_rows * kept),
        nearest.par_chunks_mut(block_rows),
        sets.members.par_chunks_mut(block_rows * h),
        sets.distances.par_chunks_mut(block_rows * h),
        sets.posterior.par_chunks_mut(block_rows * h),
    )
        .into_par_iter()
        .enumerate()
        .map_init(BlockScratch::default, |scratch, (i, (old, nearest, members, distances, posterior))| {
            if task.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let start = rows.start + i * block_rows;
            let block = Block {
                task,
                rows: start..start + nearest.len(),
                centers: &centers,
                distance_check: distance_check.as_ref(),
                score_check: score_check.as_ref(),
                index: (first_block + i) as u64,
            };
            let evaluations = search.search(&block, old, members, distances, scratch);
            let sums = posteriors(task, block.rows, (members, distances, posterior), old, nearest);
            Ok(BlockSums { evaluations, ..sums })
        })
        .collect()
}

/// The posteriors of a block's rows (OUT), given their members and distances; and what each row keeps (OUT): the nearest
/// distance, and the set or its nearest member.
fn posteriors<T: Real>(
    task: &Task<'_, T>,
    rows: Range<usize>,
    (members, distances, posterior): (&[u32], &[T], &mut [T]),
    old: &mut [u32],
    nearest: &mut [T],
) -> BlockSums {
    let (scores, kept, h) = (task.scores, old.len() / nearest.len(), members.len() / nearest.len());
    let variance = scores.variance;
    let mut sums = BlockSums::default();
    let hard = task.hard() || h == 1;
    if !hard {
        let scale = scale_of(variance);
        distances.chunks_exact(h).zip(posterior.chunks_exact_mut(h)).for_each(|(d, q)| exponents(d, scale, q));
        T::exp_neg(posterior);
    }
    for (r, n) in rows.enumerate() {
        let (set, d) = (&members[r * h..(r + 1) * h], &distances[r * h..(r + 1) * h]);
        let q = &mut posterior[r * h..(r + 1) * h];
        let best = if hard { hard_posterior(d, variance, q) } else { normalize(d, variance, q) };
        let w = task.data.weight(n);
        let (mut mean, mut near) = (best.mean_distance, d[best.slot]);
        if scores.has_offsets() {
            mean -= set.iter().zip(&*q).map(|(&c, q)| scores.offset(c).to_f64() * q.to_f64()).sum::<f64>();
            near -= scores.offset(set[best.slot]);
        }
        sums.weighted_distance += w * mean;
        sums.log_sum += w * best.log_sum;
        sums.inertia += w * near.to_f64();
        nearest[r] = near;
        if kept == 1 {
            old[r] = set[best.slot];
        } else {
            old[r * kept..(r + 1) * kept].copy_from_slice(set);
        }
    }
    sums
}
