//! The E-step of k-means in one pass: a block of rows finds its nearest centers, by the blocked kernel, and is added to
//! their sums while it is still in cache.
//!
//! The rows are cut into [segments](super::segments). There is one parallel region per iteration, because waking the
//! threads dominates if an iteration takes a fraction of a millisecond. For few clusters (see [`suits`]); with many,
//! the sums of a segment would outgrow its rows.

use super::distance_check::DistanceCheck;
use super::score_check::ScoreCheck;
use super::segments::{Segments, clear, merge};
use super::{Scratch, Task};
use crate::error::{Error, Result};
use crate::kernel::{self, CenterSums, Centers, Join, NearestScratch, Real, RowBlock};
use crate::memory::resize;
use crate::model::score::ScoredCenters;
use crate::step::memberships::Memberships;
use crate::step::statistics::Statistics;

/// Minimum number of rows of a segment, in total and per cluster: creating and merging the sums then costs little.
const SEGMENT_ROWS: usize = 512;
const ROWS_A_CLUSTER: usize = 8;
/// Maximum number of segments, which still gives all threads work.
const SEGMENTS: usize = 32;
const ENOUGH_SEGMENTS: usize = 2;
/// Bytes of a segment's sums that fit in any second-level cache with room to spare, and are small in total.
const SUMS_BYTES: usize = 1 << 18;
/// Maximum number of rows of a block: they are read twice, so they should stay in or near the first-level cache.
const BLOCK_ROWS: usize = 256;

/// What is kept from step to step.
pub(crate) type Lloyd<T> = Segments<Part, Worker<T>>;

/// Sums of the rows of a segment.
#[derive(Debug, Default)]
pub(crate) struct Part {
    sums: CenterSums,
    inertia: f64,
    /// sum w of the offsets of their clusters.
    offsets: f64,
}

/// Buffers that a thread keeps from block to block.
#[derive(Debug, Default)]
pub(crate) struct Worker<T> {
    block: RowBlock<T>,
    scratch: NearestScratch<T>,
    directions: Vec<T>,
    local: Vec<T>,
}

/// Whether there are enough rows relative to the size of the sums.
pub(crate) fn suits(rows: usize, clusters: usize, dim: usize) -> bool {
    rows >= ENOUGH_SEGMENTS * ROWS_A_CLUSTER * clusters && clusters * dim * size_of::<f64>() <= SUMS_BYTES
}

/// Number of segments that the rows are cut into.
pub(crate) fn segments(rows: usize, clusters: usize) -> usize {
    rows.div_ceil(segment_rows(rows, clusters))
}

fn segment_rows(rows: usize, clusters: usize) -> usize {
    // Whole tiles of the kernel.
    (ROWS_A_CLUSTER * clusters).max(SEGMENT_ROWS).max(rows.div_ceil(SEGMENTS)).next_multiple_of(32)
}

/// One step, if it [suits]. Must run inside a pool.
pub(crate) fn step<T: Real>(
    task: &Task<'_, T>,
    memberships: &mut Memberships,
    scratch: &mut Scratch<T>,
) -> Result<Statistics<T>> {
    let (rows, model, dim) = (task.data.rows(), task.model(), task.data.dim());
    let (clusters, learn) = (model.clusters(), task.round.learn);
    let size = segment_rows(rows, clusters);
    let scored = ScoredCenters::new(model, task.scores)?;
    let centers = scored.centers();
    let distance_check = DistanceCheck::of(task.scores, &centers, task.observer);
    let score_check = ScoreCheck::of(model, task.scores)?;
    let Scratch { lloyd, nearest, order, .. } = scratch;
    order.clear();
    resize(nearest, rows, T::ZERO, "distances")?;
    let parts = lloyd.run(size, &mut memberships.members, nearest, |part, worker, first, labels, nearest| {
        part.step(worker, task, (&centers, distance_check.as_ref(), score_check.as_ref()), first, labels, nearest)
    })?;
    let mut statistics = Statistics::new(clusters, dim, 0)?;
    if learn {
        merge(&mut statistics, &parts.iter().map(|part| &part.sums).collect::<Vec<_>>());
    }
    statistics.inertia = parts.iter().map(|s| s.inertia).sum();
    statistics.weighted_distance = statistics.inertia;
    let offsets: f64 = parts.iter().map(|s| s.offsets).sum();
    statistics.log_sum = (statistics.inertia + offsets) * -0.5 / task.scores.variance;
    statistics.evaluations = rows as u64 * clusters as u64;
    Ok(statistics)
}

/// All centers, and the second measurements of rows that rounding may mislead.
type Checks<'a, T> = (&'a Centers<'a, T>, Option<&'a DistanceCheck<'a, T>>, Option<&'a ScoreCheck<'a, T>>);

impl Part {
    /// Finds the nearest centers and distances (OUT, one per row) of the rows from `first` on, and adds the rows to the
    /// sums if requested.
    fn step<T: Real>(
        &mut self,
        worker: &mut Worker<T>,
        task: &Task<'_, T>,
        (centers, distance_check, score_check): Checks<'_, T>,
        first: usize,
        labels: &mut [u32],
        nearest: &mut [T],
    ) -> Result<()> {
        let (data, dim, learn) = (task.data, task.data.dim(), task.round.learn);
        (self.inertia, self.offsets) = (0.0, 0.0);
        if learn {
            clear(&mut self.sums, centers.len(), dim)?;
        }
        let size = kernel::block_rows::<T>(dim).min(BLOCK_ROWS);
        let mut start = first;
        for (labels, nearest) in labels.chunks_mut(size).zip(nearest.chunks_mut(size)) {
            if task.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let range = start..start + labels.len();
            let first = start;
            start = range.end;
            let mut rows = data.range(range.clone(), &mut worker.directions);
            if let Some(origin) = task.model().origin() {
                worker.local.clear();
                for row in rows.chunks_exact(dim) {
                    worker.local.extend(row.iter().zip(origin).map(|(&x, &o)| x - o));
                }
                rows = &worker.local;
            }
            worker.block.load(rows, dim, None);
            worker.block.nearest_in(&mut worker.scratch, centers, 1, labels, nearest);
            let found = labels.chunks_exact_mut(1).zip(nearest.chunks_exact_mut(1));
            let found = rows.chunks_exact(dim).zip(found).enumerate();
            if let Some(check) = distance_check {
                found.for_each(|(i, (row, (label, near)))| check.remeasure(&worker.block, i, row, label, near));
            } else if let Some(check) = score_check {
                found.for_each(|(i, (row, (label, near)))| check.remeasure(&worker.block, i, row, label, near));
            }
            // The kernel's |y|^2 - 2 y.mu + |mu|^2 may cancel; kept distances are measured again, by differences.
            self.inertia += T::join(Join {
                rows,
                dim,
                centers: centers.values,
                labels,
                weights: data.weights().map(|w| &w[range]),
                distances: nearest,
                sums: learn.then_some(&mut self.sums),
            });
            if task.scores.has_offsets() {
                let offset = |(&c, n): (&u32, usize)| data.weight(n) * task.scores.offset(c).to_f64();
                self.offsets += labels.iter().zip(first..).map(offset).sum::<f64>();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;
    use crate::model::Model;
    use crate::model::score::Scores;
    use crate::observer::Silent;
    use crate::step::round::{Round, Search};
    use crate::step::search::{Exhaustive, blocks};
    use ndarray::{Array1, Array2};

    #[test]
    fn it_is_the_step_of_exhaustive_search_in_one_pass() {
        for (far, weighted) in [(0.0, false), (1e4, false), (0.0, true)] {
            let x = Array2::from_shape_fn((3000, 5), |(n, d)| far + ((n * 31 + d * 17) % 101) as f64 / 7.0);
            let mut data = Dataset::new(x.view()).unwrap();
            if weighted {
                data = data.weighted(Array1::from_shape_fn(3000, |n| (n % 4) as f64).view()).unwrap();
            }
            let origin = data.moments(&Silent).unwrap().origin();
            assert_eq!(origin.is_some(), far > 0.0);
            let model = Model::from_origin(x.slice(ndarray::s![..9, ..]), origin, 2.0).unwrap();
            let round = Round::plain(model, Search::Exhaustive { truncation: 1 });
            let scores = Scores::of(&round.model).unwrap();
            let task = Task { round: &round, data: &data, scores: &scores, seed: 0, observer: &Silent };
            let (mut memberships, mut scratch) = (Memberships::new(), Scratch::default());
            memberships.make_room(3000, 1).unwrap();
            let one = step(&task, &mut memberships, &mut scratch).unwrap();
            let (labels, nearest) = (memberships.labels(), scratch.nearest.clone());
            let other = blocks::step(&Exhaustive { truncation: 1 }, &task, &mut memberships, &mut scratch).unwrap();
            assert_eq!((labels, nearest, &one.mass), (memberships.labels(), scratch.nearest, &other.mass));
            assert_eq!(one.evaluations, other.evaluations);
            let close = |a: f64, b: f64| approx::assert_relative_eq!(a, b, max_relative = 1e-12, epsilon = 1e-9);
            one.sums.iter().zip(&other.sums).for_each(|(&a, &b)| close(a, b));
            close(one.inertia, other.inertia);
            close(one.weighted_distance, other.weighted_distance);
            close(one.log_sum, other.log_sum);
        }
    }

    #[test]
    fn segments_depend_on_the_sizes_alone_and_are_not_too_many() {
        for (rows, clusters) in [(1, 1), (10_000, 8), (10_000, 100), (1 << 30, 8), (64_000, 1_000)] {
            let size = segment_rows(rows, clusters);
            assert!(size.is_multiple_of(32) && rows.div_ceil(size) <= SEGMENTS && size >= ROWS_A_CLUSTER * clusters);
        }
        assert!(suits(10_000, 100, 50) && !suits(3_000, 200, 50));
        assert!(!suits(1 << 20, 1_000, 784));
    }
}
