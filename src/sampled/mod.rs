//! D-GMM as in the paper: a point looks at its K(n) and at R clusters that it draws for itself from a row of the similarity S.
//!
//! The row is that of the cluster c that was nearest at the last E-step. The points are taken cluster by cluster, so that
//! their candidates, rows of S and sums are those of their neighbors and stay near; how the sums come together:
//! [`groups`](crate::em::groups). Inside a block of rows each row draws, then distances, the H nearest, posteriors and sums
//! follow for the whole block at once.
//!
//! Co-occurrence is counted in the row of the nearest cluster only (S_cj: points of cluster c with j in K(n)), which
//! proposes as well as all pairs do. So row c is what the points of group c hold, and a draw from it is a member of a point
//! of the group, both drawn: constant time, without a table and without S in memory. Of a group of more than
//! [`SEGMENT_ROWS`] points only those around the point count. The other weightings need all pairs: S is made after the
//! E-step, and its rows are drawn from by alias tables.
//!
//! p(c) is S's row without the members of K(n) (the paper's denominator sums over K(n) where it must sum over the rest):
//! draws from the whole row, members and repeats rejected. Rejections are bounded, then uniform draws fill up: a row may
//! have fewer than R usable entries. Those of a task come from a few clusters that the task has drawn uniformly, so that
//! their centers are near too. With H + R >= M every cluster is looked at. Cost: O(N (H + R) D), whatever M is.

mod draws;
mod sequence;
mod worker;

use crate::alias::AliasRows;
use crate::em::expectation::{Expectation, Task};
use crate::em::groups::{
    Partial, Resting, Segment, Sequence, WAVE, by_member, count_from_origin, cut, merge, shared, together, unshared,
};
use crate::em::members::ByCluster;
use crate::em::statistics::Statistics;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::params::SimilarityKind;
use crate::real::Real;
use crate::search::State;
use crate::similarity::{Pairs, ROW_BOUND, SparseRows};
use draws::Source;
use rayon::prelude::*;
use sequence::by_neighbors;
use worker::{Frame, Worker};

/// Points of a group that draw from each other's sets at most.
const SEGMENT_ROWS: usize = 4096;
/// Rows of a task at least, where there are enough of them: the more, the fewer partial sums.
const TASK_ROWS: usize = 4096;
/// Places (rows x H) from which rows of S are made at a time.
const PLACES: usize = 1 << 22;

/// What tasks leave: partial sums, and what S wants to know of their rows' members.
type Wave<T> = (Vec<Partial<T>>, Vec<Vec<T>>);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Sampled<T> {
    truncation: usize,
    /// R, or what is left of the clusters beside K(n).
    proposals: usize,
    kind: SimilarityKind,
    /// Whether an E-step has been: before, S is 0.
    begun: bool,
    /// The order in which the clusters are taken.
    sequence: Sequence,
    /// S, where it is not read off the points' sets.
    tables: Option<AliasRows>,
    /// Workers at rest, and partial sums that have been merged: their memory serves again.
    workers: Resting<Worker<T>>,
    merged: Resting<Partial<T>>,
}

impl<T: Real> Sampled<T> {
    pub fn new(clusters: usize, truncation: usize, proposals: usize, kind: SimilarityKind) -> Self {
        Self {
            truncation,
            proposals: proposals.min(clusters - truncation),
            kind,
            begun: false,
            sequence: Sequence::default(),
            tables: None,
            workers: Resting::default(),
            merged: Resting::default(),
        }
    }

    /// Where the draws of this E-step come from.
    fn source(&self) -> Source<'_> {
        match (self.kind, &self.tables) {
            (SimilarityKind::Cooccurrence, _) if self.begun => Source::Sets,
            (_, Some(tables)) => Source::Rows(tables),
            _ => Source::Uniform,
        }
    }

    /// Carries out some tasks; what they leave is in their order.
    fn wave(&self, frame: &Frame<'_, T>, tasks: &[Vec<Segment>]) -> Result<Wave<T>> {
        tasks
            .par_iter()
            .map(|segments| {
                let mut worker = self.workers.take(|| Worker::new(frame.model.clusters()));
                let mut partial = self.merged.take(Partial::default);
                let values = worker.expectation(frame, segments, &mut partial)?;
                self.workers.put(worker);
                Ok((partial, values))
            })
            .collect()
    }
}

impl<T: Real> Expectation<T> for Sampled<T> {
    fn step(
        &mut self,
        task: &Task<'_, T>,
        model: &Model<T>,
        state: &mut State<T>,
        iteration: u64,
        learn: bool,
    ) -> Result<Statistics> {
        let (data, clusters, h) = (task.data, model.clusters(), self.truncation);
        // Made anew less and less often: neighbors settle, and it takes a single thread.
        if iteration.is_power_of_two() || self.sequence.clusters.is_empty() {
            self.sequence = by_neighbors(&state.members, h, clusters);
        }
        let groups = by_member(&state.members, h, 0, &self.sequence.ranks);
        let mut segments = Vec::with_capacity(clusters);
        for (rank, &c) in self.sequence.clusters.iter().enumerate() {
            cut(groups.places(rank), SEGMENT_ROWS, c, &mut segments);
        }
        let tasks = together(segments, data.rows(), TASK_ROWS);
        let members = shared(std::mem::take(&mut state.members));
        let pairs = Pairs::of(self.kind).filter(|_| learn && self.proposals > 0);
        let frame = Frame {
            task,
            model,
            source: self.source(),
            order: groups.entries(),
            truncation: h,
            proposals: self.proposals,
            iteration,
            learn,
            pairs,
            members: &members,
        };
        let mut statistics = Statistics::new(clusters, data.dim(), data.total_weight());
        let mut nearest = std::mem::take(&mut state.nearest);
        nearest.clear();
        let mut values = Vec::new();
        for wave in tasks.chunks(WAVE) {
            let (partials, left) = self.wave(&frame, wave)?;
            merge(&mut statistics, &partials);
            partials.iter().for_each(|partial| nearest.extend_from_slice(&partial.nearest));
            left.iter().for_each(|part| values.extend_from_slice(part));
            partials.into_iter().for_each(|partial| self.merged.put(partial));
        }
        state.members = unshared(members);
        if learn {
            count_from_origin(&mut statistics, model);
            self.begun = true;
        }
        if let Some(pairs) = pairs {
            let rows = rows_of_s(pairs, task, state, groups.entries(), &values, clusters);
            if task.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            self.tables = Some(rows.alias_rows());
        }
        (state.nearest, state.order) = (nearest, Some(groups.into_entries()));
        Ok(statistics)
    }
}

/// S, from the sets of all points and the `values` of their members, which are in the order of the groups.
fn rows_of_s<T: Real>(
    pairs: Pairs,
    task: &Task<'_, T>,
    state: &State<T>,
    order: &[u32],
    values: &[T],
    clusters: usize,
) -> SparseRows<[f64; 1]> {
    let h = state.kept;
    let rows = (PLACES / h).max(1);
    let mut all: Option<SparseRows<[f64; 1]>> = None;
    for (order, values) in order.chunks(rows).zip(values.chunks(rows * h)) {
        let members: Vec<u32> =
            order.iter().flat_map(|&n| &state.members[n as usize * h..(n as usize + 1) * h]).copied().collect();
        let by_cluster = ByCluster::new(&members, clusters, |_| true);
        let weight = |r: usize| task.data.weight(order[r] as usize);
        let part = pairs.similarity(h, &members, values, weight, &by_cluster, task.observer);
        all = Some(match all {
            Some(all) => all.merge(&part, ROW_BOUND),
            None => part,
        });
    }
    all.expect("there are rows")
}
