//! The grouped engine: D-GMM's E-step with the points of a cluster taken together.
//!
//! Point by point, a distance is a gather from memory, ten times below the speed of a dense block. Here the points whose
//! nearest cluster is c form group c (clusters with few points share a group with their neighbors) and share one list of
//! candidates: c itself, the clusters that the group's points hold in their sets K(n), the strongest of c's row of S, draws
//! from its neighbors' rows, and a few uniform ones. Their centers are packed once and the group's rows go through the
//! blocked kernel, which leaves the H nearest of each; posteriors, sums and F follow while the rows are in cache. Of a
//! large group only those clusters are listed that many points hold; the others are measured for these points alone. So
//! nothing near is ever dropped, and F never falls.
//!
//! In the first E-step the cells of the start are the groups, and the centers in them and around them the candidates.
//! Every other iteration groups the points by their second nearest cluster instead: they see another list, which finds
//! what the first one lacks.
//!
//! S is co-occurrence in the row of the group's cluster: S_cj = sum of w_n over the points n of group c with j in K(n),
//! counted on the way; a cluster that had no points keeps its row.
//!
//! Sums over a group are taken relative to its own center, then moved to that of their target, so that neither data far
//! from 0 nor clusters far from each other cost digits. How they come together: [`groups`](crate::em::groups).
//!
//! Cost: O(N G D + N H), G the length of a list; memory N (4 H + 8) bytes, what the groups saw of S (at most 8 N H bytes,
//! and far less where groups are large), and the partial sums of one wave of tasks.

mod candidates;
mod lists;
mod segment;
mod shares;

use crate::em::expectation::{Expectation, Task};
use crate::em::groups::{
    Partial, Resting, Segment, Sequence, WAVE, by_member, count_from_origin, cut, merge, shared, together, unshared,
};
use crate::em::members::ByCluster;
use crate::em::statistics::Statistics;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::real::Real;
use crate::search::State;
use crate::seeding::hierarchical::FirstLook;
use candidates::{NeighborRows, Seen};
use rayon::prelude::*;
use segment::{Frame, Worker};

/// Rows that a group has at least: clusters with fewer share one with those beside them, because a short block wastes lanes
/// and a list is made for few.
const GROUP_ROWS: usize = 64;
/// Rows of a group that one segment has at most.
const SEGMENT_ROWS: usize = 1024;
/// Rows of a task at least, where there are enough of them.
const TASK_ROWS: usize = 2048;
/// The first iterations are hard: a point belongs to its nearest cluster alone. That is cheaper, and F rises all the same
/// when the soft posterior takes over, which is the best one for given centers. The first always is (before it, s2 is that
/// of all the data, which would make neighbors equal), and one more for each of these numbers of rows a cluster that
/// there are: with few rows the soft posterior gets ahead sooner.
const WARM_UP_ROWS: [usize; 2] = [64, 256];
/// Groups are by the nearest member in one iteration, by the next nearest in another.
const RANKS: usize = 2;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Grouped<T> {
    truncation: usize,
    /// G, the length of a candidate list.
    candidates: usize,
    /// The order in which the clusters are taken.
    sequence: Sequence,
    /// What the points look at in the first E-step, in the place of groups and candidates.
    first: Option<FirstLook>,
    /// S, as the last E-step saw it.
    rows: Option<NeighborRows>,
    /// Workers at rest.
    workers: Resting<Worker<T>>,
}

impl<T: Real> Grouped<T> {
    /// Sets of `truncation` members from lists of `candidates`, after a first look.
    pub fn new(truncation: usize, candidates: usize, mut first: FirstLook) -> Self {
        let sequence = Sequence::of(std::mem::take(&mut first.sequence));
        Self { truncation, candidates, sequence, first: Some(first), rows: None, workers: Resting::default() }
    }

    /// The points by the cluster that their candidates come from, in the order of the sequence.
    fn groups(&self, state: &State<T>, iteration: u64) -> ByCluster {
        let nearness = (iteration as usize % RANKS).min(self.truncation - 1);
        by_member(&state.members, self.truncation, nearness, &self.sequence.ranks)
    }

    /// The segments of all groups in order, put together to tasks, and the leader of each cluster. Clusters that follow one
    /// another share a group until it is large enough.
    fn tasks(&self, groups: &ByCluster, rows: usize) -> (Vec<Vec<Segment>>, Vec<u32>) {
        let sequence = &self.sequence.clusters;
        let mut leaders: Vec<u32> = (0..sequence.len() as u32).collect();
        let mut segments = Vec::new();
        let (mut open, mut start) = (0, 0);
        for rank in 0..groups.clusters() {
            let end = groups.places(rank).end;
            if end - start < GROUP_ROWS && rank + 1 < groups.clusters() {
                continue;
            }
            let leader = sequence[open];
            sequence[open..=rank].iter().for_each(|&c| leaders[c as usize] = leader);
            cut(start..end, SEGMENT_ROWS, leader, &mut segments);
            (open, start) = (rank + 1, end);
        }
        (together(segments, rows, TASK_ROWS), leaders)
    }

    /// The partial sums of a wave of tasks, in order, and what they saw of S.
    fn wave(&self, frame: &Frame<'_, T>, tasks: &[Vec<Segment>]) -> Result<(Vec<Partial<T>>, Vec<Seen>)> {
        tasks
            .par_iter()
            .map(|segments| {
                if frame.task.observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                let mut worker = self.workers.take(|| Worker::new(frame.model.clusters()));
                let left = worker.expectation(frame, segments);
                self.workers.put(worker);
                Ok(left)
            })
            .collect()
    }
}

impl<T: Real> Expectation<T> for Grouped<T> {
    fn step(
        &mut self,
        task: &Task<'_, T>,
        model: &Model<T>,
        state: &mut State<T>,
        iteration: u64,
        learn: bool,
    ) -> Result<Statistics> {
        let (data, clusters, h) = (task.data, model.clusters(), self.truncation);
        let (groups, looks) = match self.first.take() {
            Some(FirstLook { rows, lists, .. }) => {
                state.members = vec![0; data.rows() * h];
                (rows, Some(lists))
            }
            None => (self.groups(state, iteration), None),
        };
        let members = shared(std::mem::take(&mut state.members));
        let warm_up = iteration as usize <= WARM_UP_ROWS.iter().filter(|&&rows| data.rows() >= rows * clusters).count();
        let unit = data.rows() as f64 / data.total_weight();
        let rows = self.rows.take().unwrap_or_else(|| NeighborRows::empty(clusters));
        let frame = Frame {
            task,
            model,
            rows: &rows,
            looks: looks.as_deref(),
            order: groups.entries(),
            truncation: h,
            candidates: self.candidates,
            iteration,
            hard: task.hard || warm_up,
            learn,
            members: &members,
            unit,
        };
        let (tasks, leaders) = match &looks {
            Some(_) => (cells(&groups, data.rows()), (0..clusters as u32).collect()),
            None => self.tasks(&groups, data.rows()),
        };
        let mut statistics = Statistics::new(clusters, data.dim(), data.total_weight());
        statistics.provisional = warm_up && !task.hard;
        let mut nearest = std::mem::take(&mut state.nearest);
        nearest.clear();
        let mut seen = Vec::new();
        for wave in tasks.chunks(WAVE) {
            let (partials, rows) = self.wave(&frame, wave)?;
            merge(&mut statistics, &partials);
            partials.iter().for_each(|partial| nearest.extend_from_slice(&partial.nearest));
            seen.extend(rows);
        }
        self.rows = Some(if learn { rows.renewed(&seen, leaders) } else { rows });
        if learn {
            count_from_origin(&mut statistics, model);
        }
        state.members = unshared(members);
        (state.nearest, state.order) = (nearest, Some(groups.into_entries()));
        Ok(statistics)
    }
}

/// Tasks for a first look: each cell is a group.
fn cells(groups: &ByCluster, rows: usize) -> Vec<Vec<Segment>> {
    let mut segments = Vec::new();
    (0..groups.clusters()).for_each(|cell| cut(groups.places(cell), SEGMENT_ROWS, cell as u32, &mut segments));
    together(segments, rows, TASK_ROWS)
}
