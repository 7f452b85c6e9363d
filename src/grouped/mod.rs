//! The grouped engine: D-GMM's E-step with the points of a cluster taken together.
//!
//! Point by point, a distance is a gather from memory, ten times below the speed of a dense block. Here the points whose
//! nearest cluster is c form group c (clusters with few points share a group with their neighbours) and share one list of
//! candidates: c itself, the clusters that the group's points hold in their sets K(n), the strongest of c's row of S, draws
//! from its neighbours' rows, and a few uniform ones. Their centres are packed once and the group's rows go through the
//! blocked kernel, which leaves the H nearest of each; posteriors, sums and F follow while the rows are in cache. Of a
//! large group only those clusters are listed that many points hold; the others are measured for these points alone. So
//! nothing near is ever dropped, and F never falls.
//!
//! In the first E-step the cells of the start are the groups, and the centres in them and around them the candidates.
//! Every other iteration groups the points by their second nearest cluster instead: they see another list, which finds
//! what the first one lacks.
//!
//! S is co-occurrence in the row of the group's cluster: S_cj = sum of w_n over the points n of group c with j in K(n),
//! counted on the way; a cluster that had no points keeps its row.
//!
//! Sums over a group are taken relative to its own centre, then moved to that of their target, so that neither data far
//! from 0 nor clusters far from each other cost digits. Groups are cut into segments and these put together to tasks, by
//! the sizes of the groups alone; each task leaves partial sums a target cluster, and each target adds them in the order
//! of the tasks: the same bits for any number of threads.
//!
//! Cost: O(N G D + N H), G the length of a list; memory N (4 H + 8) bytes, what the groups saw of S (at most 8 N H bytes,
//! and far less where groups are large), and the partial sums of one wave of tasks.

mod candidates;
mod lists;
mod segment;
mod shares;

use crate::em::expectation::{Expectation, Task};
use crate::em::members::ByCluster;
use crate::em::statistics::Statistics;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::real::Real;
use crate::search::State;
use crate::seeding::hierarchical::FirstLook;
use candidates::NeighbourRows;
use rayon::prelude::*;
use segment::{Frame, Partial, Segment, Worker};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Rows that a group has at least: clusters with fewer share one with those beside them, because a short block wastes lanes
/// and a list is made for few.
const GROUP_ROWS: usize = 64;
/// Rows of a group that one segment has at most.
const SEGMENT_ROWS: usize = 1024;
/// Rows of a task at least, where there are enough of them for [`TASKS`].
const TASK_ROWS: usize = 2048;
/// Tasks wanted, so that all threads have work.
const TASKS: usize = 64;
/// Tasks whose partial sums wait to be merged at most.
const WAVE: usize = 64;
/// The first iterations are hard: a point belongs to its nearest cluster alone. That is cheaper, and F rises all the same
/// when the soft posterior takes over, which is the best one for given centres. The first always is (before it, s2 is that
/// of all the data, which would make neighbours equal), and one more for each of these numbers of rows a cluster that
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
    /// The clusters in an order in which neighbours stand together, and the place of each.
    sequence: Vec<u32>,
    ranks: Vec<u32>,
    /// What the points look at in the first E-step, in the place of groups and candidates.
    first: Option<FirstLook>,
    /// S, as the last E-step saw it.
    rows: Option<NeighbourRows>,
    /// Workers at rest.
    workers: Mutex<Vec<Worker<T>>>,
}

impl<T: Real> Grouped<T> {
    /// Sets of `truncation` members from lists of `candidates`, after a first look.
    pub fn new(truncation: usize, candidates: usize, mut first: FirstLook) -> Self {
        let sequence = std::mem::take(&mut first.sequence);
        let mut ranks = vec![0; sequence.len()];
        sequence.iter().zip(0..).for_each(|(&c, rank)| ranks[c as usize] = rank);
        Self {
            truncation,
            candidates,
            sequence,
            ranks,
            first: Some(first),
            rows: None,
            workers: Mutex::new(Vec::new()),
        }
    }

    /// The points by the cluster that their candidates come from, in the order of the sequence.
    fn groups(&self, state: &State<T>, iteration: u64) -> ByCluster {
        let nearness = (iteration as usize % RANKS).min(self.truncation - 1);
        let members = state.members.iter().skip(nearness).step_by(self.truncation);
        let keys: Vec<u32> = members.map(|&c| self.ranks[c as usize]).collect();
        ByCluster::new(&keys, self.ranks.len(), |_| true)
    }

    /// The segments of all groups in order, put together to tasks, and the leader of each cluster. Clusters that follow one
    /// another share a group until it is large enough.
    fn tasks(&self, groups: &ByCluster, rows: usize) -> (Vec<Vec<Segment>>, Vec<u32>) {
        let mut leaders: Vec<u32> = (0..self.ranks.len() as u32).collect();
        let mut segments = Vec::new();
        let (mut open, mut start) = (0, 0);
        for rank in 0..groups.clusters() {
            let end = groups.places(rank).end;
            if end - start < GROUP_ROWS && rank + 1 < groups.clusters() {
                continue;
            }
            let leader = self.sequence[open];
            self.sequence[open..=rank].iter().for_each(|&c| leaders[c as usize] = leader);
            cut(start..end, leader, &mut segments);
            (open, start) = (rank + 1, end);
        }
        (together(segments, rows), leaders)
    }

    /// The partial sums of a wave of tasks, in order.
    fn wave(&self, frame: &Frame<'_, T>, tasks: &[Vec<Segment>]) -> Result<Vec<Partial<T>>> {
        let resting = || self.workers.lock().expect("no worker panics while it is put to rest");
        tasks
            .par_iter()
            .map(|segments| {
                if frame.task.observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                let mut worker = resting().pop().unwrap_or_else(|| Worker::new(frame.model.clusters()));
                let partial = worker.expectation(frame, segments);
                resting().push(worker);
                Ok(partial)
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
        // Relaxed stores to places of different points: plain moves, without unsafe code.
        let members: Vec<AtomicU32> = std::mem::take(&mut state.members).into_iter().map(AtomicU32::new).collect();
        let warm_up = iteration as usize <= WARM_UP_ROWS.iter().filter(|&&rows| data.rows() >= rows * clusters).count();
        let unit = data.rows() as f64 / data.total_weight();
        let rows = self.rows.take().unwrap_or_else(|| NeighbourRows::empty(clusters));
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
        let mut nearest = Vec::with_capacity(data.rows());
        let mut seen = Vec::new();
        for wave in tasks.chunks(WAVE) {
            let partials = self.wave(&frame, wave)?;
            merge(&mut statistics, &partials);
            for partial in partials {
                nearest.extend_from_slice(&partial.nearest);
                seen.push(partial.seen);
            }
        }
        self.rows = Some(if learn { rows.renewed(&seen, leaders) } else { rows });
        if learn {
            count_from_origin(&mut statistics, model);
        }
        state.members = members.into_iter().map(AtomicU32::into_inner).collect();
        (state.nearest, state.order) = (nearest, Some(groups.into_entries()));
        Ok(statistics)
    }
}

/// Tasks for a first look: each cell is a group.
fn cells(groups: &ByCluster, rows: usize) -> Vec<Vec<Segment>> {
    let mut segments = Vec::new();
    (0..groups.clusters()).for_each(|cell| cut(groups.places(cell), cell as u32, &mut segments));
    together(segments, rows)
}

/// Cuts a group into segments.
fn cut(group: Range<usize>, leader: u32, segments: &mut Vec<Segment>) {
    for start in group.clone().step_by(SEGMENT_ROWS) {
        segments.push(Segment { leader, start, end: (start + SEGMENT_ROWS).min(group.end) });
    }
}

/// Puts segments together to tasks.
fn together(segments: Vec<Segment>, rows: usize) -> Vec<Vec<Segment>> {
    let enough = (rows / TASKS).clamp(1, TASK_ROWS);
    let (mut tasks, mut task, mut held) = (Vec::new(), Vec::new(), 0);
    for segment in segments {
        held += segment.end - segment.start;
        task.push(segment);
        if held >= enough {
            tasks.push(std::mem::take(&mut task));
            held = 0;
        }
    }
    tasks.push(task);
    tasks
}

/// Adds the partial sums to the statistics: scalars in order, each target's sums in the order of the tasks.
fn merge<T: Real>(statistics: &mut Statistics, partials: &[Partial<T>]) {
    for p in partials {
        statistics.weighted_distance += p.weighted_distance;
        statistics.log_sum += p.log_sum;
        statistics.inertia += p.inertia;
        statistics.evaluations += p.evaluations;
    }
    let dim = statistics.dim;
    let share = statistics.mass.len().div_ceil(8 * rayon::current_num_threads());
    let parts = statistics.sums.par_chunks_mut(share * dim).zip(statistics.mass.par_chunks_mut(share)).enumerate();
    parts.for_each(|(i, (sums, mass))| {
        let mine = (i * share) as u32..(i * share + mass.len()) as u32;
        for p in partials {
            for (k, &target) in p.targets.iter().enumerate() {
                if mine.contains(&target) {
                    let j = (target - mine.start) as usize;
                    mass[j] += p.mass[k];
                    T::add_scaled(&mut sums[j * dim..(j + 1) * dim], 1.0, &p.sums[k * dim..(k + 1) * dim]);
                }
            }
        }
    });
}

/// From sums that are counted from each cluster's centre to sums counted from the model's origin.
fn count_from_origin<T: Real>(statistics: &mut Statistics, model: &Model<T>) {
    let dim = statistics.dim;
    let sums = statistics.sums.par_chunks_mut(dim).zip(&statistics.mass).zip(model.local_centres().par_chunks(dim));
    sums.with_min_len(256).for_each(|((sum, &mass), centre)| T::add_scaled(sum, mass, centre));
}

#[inline]
fn load(members: &[AtomicU32], place: usize) -> u32 {
    members[place].load(Ordering::Relaxed)
}
