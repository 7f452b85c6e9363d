//! The E-step of exact EM in one pass: a block of rows is shared among all clusters, O(N M D), and added to their sums
//! while it is still in cache. Both are matrix products (the kernel's `soft`).
//!
//! As in [`lloyd`](super::lloyd), the rows are cut into [segments](super::segments).
//!
//! If clusters differ, rows are [lifted](crate::model::score::Lift): their products with the lifted centers are scores,
//! and the sums of the extra columns are second moments, computed in `f64`.

use super::segments::{Segments, clear, merge};
use super::{Scratch, Task};
use crate::error::{Error, Result};
use crate::kernel::{self, CenterSums, Centers, Real, RowBlock, SoftBlock, SoftScratch, SoftTotals};
use crate::memory::{reserve, resize};
use crate::model::Model;
use crate::model::score::{Lift, ScoredCenters, Scores};
use crate::step::memberships::Memberships;
use crate::step::posterior::scale_of;
use crate::step::statistics::Statistics;
use rayon::prelude::*;
use std::ops::Range;

/// Minimum number of rows of a segment.
const SEGMENT_ROWS: usize = 512;
/// Maximum number of segments; fewer if their sums would take more bytes than this, but enough for many threads.
const SEGMENTS: usize = 32;
const SUMS_BYTES: usize = 64 << 20;
const ENOUGH_SEGMENTS: usize = 8;
/// Maximum number of rows of a block.
const BLOCK_ROWS: usize = 256;
/// Negligible error of a score, in units of the variance times the square root of the rounding error.
const LOST: f64 = 2.9;

/// What is kept from step to step.
pub(crate) type Soft<T> = Segments<Part, Worker<T>>;

/// Sums of the rows of a segment.
#[derive(Debug, Default)]
pub(crate) struct Part {
    sums: CenterSums,
    totals: SoftTotals,
    /// sum w of the offsets of their clusters.
    offsets: f64,
}

/// Buffers that a thread keeps from block to block.
#[derive(Debug, Default)]
pub(crate) struct Worker<T> {
    block: RowBlock<T>,
    scratch: SoftScratch<T>,
    /// The rows of a block relative to the model's origin, lifted.
    rows: Vec<T>,
    row: Vec<T>,
    lifted: Vec<T>,
}

/// Number of segments that the rows are cut into.
pub(crate) fn segments(rows: usize, clusters: usize, dim: usize) -> usize {
    rows.div_ceil(segment_rows(rows, clusters, dim))
}

fn segment_rows(rows: usize, clusters: usize, dim: usize) -> usize {
    let most = (SUMS_BYTES / (clusters * (dim + 1) * size_of::<f64>())).clamp(ENOUGH_SEGMENTS, SEGMENTS);
    // Whole tiles of the kernel.
    rows.div_ceil(most).max(SEGMENT_ROWS).next_multiple_of(32)
}

/// How rows are lifted; `None` if scores are plain distances.
fn lift_of<T: Real>(scores: &Scores<T>) -> Option<Lift> {
    scores.lift().or(scores.has_offsets().then_some(Lift::Norm))
}

/// Whether products are precise enough, because scores are not measured again by differences.
pub(crate) fn suits<T: Real>(task: &Task<'_, T>) -> bool {
    let (scores, model) = (task.scores, task.model());
    if lift_of(scores).is_none() {
        return true;
    }
    // The score of the farthest center at the origin, less its offset, is as large as the products that are summed.
    let (origin, mut score) = (vec![T::ZERO; model.dim()], [T::ZERO]);
    let mut largest = 0.0;
    for c in 0..model.clusters() as u32 {
        scores.measure(&origin, model.local_centers(), &[c], &mut score);
        largest = f64::max(largest, (score[0] - scores.offset(c)).to_f64());
    }
    largest * T::EPSILON.to_f64().sqrt() < LOST * scores.variance
}

/// One step. Must run inside a pool.
pub(crate) fn step<T: Real>(
    task: &Task<'_, T>,
    memberships: &mut Memberships,
    scratch: &mut Scratch<T>,
) -> Result<Statistics<T>> {
    let (rows, model, dim) = (task.data.rows(), task.model(), task.data.dim());
    let (clusters, scores, lift) = (model.clusters(), task.scores, lift_of(task.scores));
    let size = segment_rows(rows, clusters, dim);
    let scored = ScoredCenters::lifted(model, scores, lift)?;
    let centers = scored.centers();
    let Scratch { soft, nearest, order, .. } = scratch;
    order.clear();
    resize(nearest, rows, T::ZERO, "distances")?;
    let parts = soft.run(size, &mut memberships.members, nearest, |part, worker, first, labels, nearest| {
        part.step(worker, task, &centers, first, labels, nearest)
    })?;
    let mut statistics =
        Statistics::new(clusters, dim, lift.filter(|_| task.round.learn).map_or(0, |lift| lift.columns(dim)))?;
    if task.round.learn {
        merge(&mut statistics, &parts.iter().map(|part| &part.sums).collect::<Vec<_>>());
    }
    let sum = |f: fn(&SoftTotals) -> f64| parts.iter().map(|s| f(&s.totals)).sum::<f64>();
    let offsets: f64 = parts.iter().map(|s| s.offsets).sum();
    let mean_offset = |(&mass, c): (&f64, u32)| mass * scores.offset(c).to_f64();
    statistics.inertia = sum(|t| t.nearest) - offsets;
    statistics.weighted_distance = sum(|t| t.mean);
    statistics.weighted_distance -= statistics.mass.iter().zip(0..).map(mean_offset).sum::<f64>();
    statistics.log_sum = sum(|t| t.nearest) * -0.5 / scores.variance + sum(|t| t.log);
    statistics.evaluations = rows as u64 * clusters as u64;
    if task.round.learn {
        count_from_centers(&mut statistics, model, task.round.extra());
    }
    Ok(statistics)
}

/// Converts second moments around the model's origin to those around each cluster's center, of which `wanted` are kept.
fn count_from_centers<T: Real>(statistics: &mut Statistics<T>, model: &Model<T>, wanted: usize) {
    let (dim, width, extra) = (statistics.dim, statistics.width(), statistics.extra);
    if extra == 0 {
        return;
    }
    let sums = statistics.sums.par_chunks_mut(width).zip(&statistics.mass).zip(model.local_centers().par_chunks(dim));
    sums.with_min_len(64).for_each(|((sum, &mass), center)| {
        let (first, second) = sum.split_at_mut(dim);
        for (d, (sum, mu)) in first.iter().zip(center).enumerate() {
            second[d % extra] += mu.to_f64() * (mass * mu.to_f64() - 2.0 * sum);
        }
    });
    if wanted != extra {
        let kept = statistics.sums.chunks_exact(width).flat_map(|sum| &sum[..dim + wanted]);
        statistics.sums = kept.copied().collect();
        statistics.extra = wanted;
    }
}

impl Part {
    /// Finds the nearest centers and distances (OUT, one per row) of the rows from `first` on, and adds the rows to the
    /// sums if requested.
    fn step<T: Real>(
        &mut self,
        worker: &mut Worker<T>,
        task: &Task<'_, T>,
        centers: &Centers<'_, T>,
        first: usize,
        labels: &mut [u32],
        nearest: &mut [T],
    ) -> Result<()> {
        let (data, width, learn) = (task.data, centers.dim, task.round.learn);
        let lifted = lift_of(task.scores).is_some();
        (self.totals, self.offsets) = (SoftTotals::default(), 0.0);
        if learn {
            clear(&mut self.sums, centers.len(), width)?;
        }
        let most = kernel::block_rows::<T>(width).min(BLOCK_ROWS);
        let size = kernel::soft_rows(&worker.block, centers.len(), most);
        let mut start = first;
        for (labels, nearest) in labels.chunks_mut(size).zip(nearest.chunks_mut(size)) {
            if task.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let range = start..start + labels.len();
            start = range.end;
            let (block, rows, scratch) = worker.load(task, range.clone())?;
            let totals = SoftBlock {
                block,
                rows,
                centers,
                squared: !lifted,
                wide: lifted,
                scale: scale_of(task.scores.variance),
                weights: data.weights().map(|w| &w[range.clone()]),
                labels: &mut *labels,
                nearest: &mut *nearest,
                sums: learn.then_some(&mut self.sums),
            }
            .share(scratch)?;
            self.totals.nearest += totals.nearest;
            self.totals.mean += totals.mean;
            self.totals.log += totals.log;
            if lifted {
                for ((&c, near), n) in labels.iter().zip(nearest).zip(range) {
                    *near -= task.scores.offset(c);
                    self.offsets += data.weight(n) * task.scores.offset(c).to_f64();
                }
            }
        }
        Ok(())
    }
}

impl<T: Real> Worker<T> {
    /// Loads rows relative to the model's origin. Returns the block, the rows and the scratch memory.
    fn load<'a>(&'a mut self, task: &Task<'a, T>, range: Range<usize>) -> Result<Loaded<'a, T>> {
        let (data, dim) = (task.data, task.data.dim());
        let in_place = data.given().get(range.start * dim..range.end * dim + kernel::ROOM);
        let as_given = task.model().origin().is_none() && data.factors().is_none() && lift_of(task.scores).is_none();
        if let Some(more) = in_place.filter(|_| as_given) {
            self.block.load(data.given_rows(range), dim, None);
            return Ok((&self.block, more, &mut self.scratch));
        }
        self.rows.clear();
        reserve(&mut self.rows, range.len() * dim + kernel::ROOM, "rows")?;
        for n in range {
            self.rows.extend_from_slice(data.local(n, task.model().origin(), &mut self.row));
        }
        if let Some(lift) = lift_of(task.scores) {
            self.lifted.clear();
            lift.rows(&self.rows, dim, &mut self.lifted);
            self.block.load_lifted(&self.rows, dim, lift.columns(dim));
            self.lifted.extend([T::ZERO; kernel::ROOM]);
            return Ok((&self.block, &self.lifted, &mut self.scratch));
        }
        self.block.load(&self.rows, dim, None);
        self.rows.extend([T::ZERO; kernel::ROOM]);
        Ok((&self.block, &self.rows, &mut self.scratch))
    }
}

/// A block in lanes, its rows followed by padding, and scratch memory.
type Loaded<'a, T> = (&'a RowBlock<T>, &'a [T], &'a mut SoftScratch<T>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;
    use crate::kernel::reference;
    use crate::observer::Silent;
    use crate::step::round::{Phase, Round, Search};
    use ndarray::{Array1, Array2};

    #[test]
    fn it_is_a_step_of_exact_em() {
        for (far, weighted) in [(0.0, false), (1e4, false), (0.0, true)] {
            let x = Array2::from_shape_fn((1700, 5), |(n, d)| far + 6.0 * ((n * (31 + d)) as f64).sin());
            let weights = Array1::from_shape_fn(1700, |n| (n % 4) as f64);
            let mut data = Dataset::new(x.view()).unwrap();
            if weighted {
                data = data.weighted(weights.view()).unwrap();
            }
            let origin = data.moments(&Silent).unwrap().origin();
            let model = Model::from_origin(x.slice(ndarray::s![..9, ..]), origin, 2.0).unwrap();
            let round =
                Round { phase: Phase::Soft, ..Round::plain(model.clone(), Search::Exhaustive { truncation: 9 }) };
            let scores = Scores::of(&round.model).unwrap();
            let task = Task { round: &round, data: &data, scores: &scores, seed: 0, observer: &Silent };
            let (mut memberships, mut scratch) = (Memberships::new(), Scratch::default());
            memberships.make_room(1700, 1).unwrap();
            let found = step(&task, &mut memberships, &mut scratch).unwrap();
            assert!(scratch.soft.segments.len() > 1);

            let mut local = Vec::new();
            let rows: Vec<f64> = (0..1700).flat_map(|n| data.local(n, model.origin(), &mut local).to_vec()).collect();
            let centers = Centers::new(model.local_centers(), 5);
            let mut sums = CenterSums { sums: vec![0.0; 45], mass: vec![0.0; 9] };
            let (nearest, totals) = reference::share(&rows, &centers, true, -0.25, data.weights(), &mut sums);
            let close = |a: f64, b: f64| approx::assert_relative_eq!(a, b, max_relative = 1e-9, epsilon = 1e-6);
            found.sums.iter().zip(&sums.sums).for_each(|(&a, &b)| close(a, b));
            found.mass.iter().zip(&sums.mass).for_each(|(&a, &b)| close(a, b));
            close(found.inertia, totals.nearest);
            close(found.weighted_distance, totals.mean);
            close(found.log_sum, totals.nearest * -0.25 + totals.log);
            assert_eq!(found.evaluations, 1700 * 9);
            for ((&(c, d), label), &own) in nearest.iter().zip(memberships.nearest()).zip(&scratch.nearest) {
                assert_eq!(c, label);
                close(d, own);
            }
        }
    }

    #[test]
    fn segments_depend_on_the_sizes_alone_and_their_sums_are_bounded() {
        for (rows, clusters, dim) in [(1, 2, 1), (10_000, 8, 3), (1 << 30, 200, 16), (1 << 20, 50_000, 100)] {
            let (size, count) = (segment_rows(rows, clusters, dim), segments(rows, clusters, dim));
            assert!(size.is_multiple_of(32) && size >= SEGMENT_ROWS && (1..=SEGMENTS).contains(&count));
            assert!(count <= ENOUGH_SEGMENTS || count * clusters * (dim + 1) * 8 <= SUMS_BYTES);
        }
        assert_eq!(segments(1 << 20, 200, 16), SEGMENTS);
    }
}
