//! The grouped engine: D-GMM's E-step with the rows that share a nearest cluster taken together.
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
//! from 0 nor clusters far from each other cost digits. How they come together: [`groups`](crate::step::groups).
//!
//! Cost: O(N G D + N H), G the length of a list; memory N (4 H + 8) bytes, what the groups saw of S (at most 8 N H bytes,
//! and far less where groups are large), and the partial sums of one wave of tasks.

mod candidates;
mod lists;
mod second_look;
mod segment;
mod shares;

use super::{Scratch, Task};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{append, collected};
use crate::step::by_cluster::ByCluster;
use crate::step::groups::{
    Partial, Segment, Sequence, WAVE, by_member, count_from_origin, cut, merge, shared, together, unshared,
};
use crate::step::memberships::Memberships;
use crate::step::statistics::Statistics;
use candidates::{Seen, counts};
use rayon::prelude::*;
use segment::Frame;

pub(crate) use segment::Worker;

/// Rows that a group has at least: clusters with fewer share one with those beside them, because a short block wastes lanes
/// and a list is made for few.
const GROUP_ROWS: usize = 64;
/// Rows of a group that one segment has at most.
const SEGMENT_ROWS: usize = 1024;
/// Rows of a task at least, where there are enough of them.
const TASK_ROWS: usize = 2048;
/// Groups are by the nearest member in one iteration, by the next nearest in another.
const RANKS: usize = 2;

/// How a step is taken.
pub(crate) struct Settings {
    /// H.
    pub truncation: usize,
    /// G, the length of a candidate list.
    pub candidates: usize,
    /// Whether a row belongs to its nearest cluster alone.
    pub hard: bool,
    /// Whether sums and S are wanted.
    pub learn: bool,
}

/// The step. `cells` has the rows by the cells of the start, where they have no sets yet.
pub(crate) fn step<T: Real>(
    task: &Task<'_, T>,
    settings: &Settings,
    cells: Option<ByCluster>,
    memberships: &mut Memberships,
    scratch: &mut Scratch<T>,
) -> Result<Statistics<T>> {
    let (data, model, h, round) = (task.data, task.model(), settings.truncation, task.round);
    let looks = cells.as_ref().and(round.cells.as_deref()).map(|cells| &cells.lists[..]);
    let nearness = (round.iteration as usize % RANKS).min(h - 1);
    let groups = match cells {
        Some(cells) => cells,
        None => by_member(&memberships.members, h, nearness, &round.sequence.ranks)?,
    };
    memberships.make_room(data.rows(), h)?;
    let (tasks, leaders) = match looks {
        Some(_) => (cell_tasks(&groups, data.rows())?, collected(0..model.clusters() as u32, "S")?),
        None => group_tasks(&round.sequence, &groups, data.rows())?,
    };
    let members = shared(std::mem::take(&mut memberships.members));
    let frame = Frame {
        task,
        model,
        looks,
        order: groups.entries(),
        truncation: h,
        candidates: settings.candidates,
        hard: settings.hard,
        learn: settings.learn,
        apart: task.scores.lift().is_some() || round.extra() > 0,
        members: &members,
    };
    let mut statistics = Statistics::new(model.clusters(), data.dim(), if settings.learn { round.extra() } else { 0 })?;
    scratch.nearest.clear();
    scratch.order = Vec::new();
    let mut seen = Vec::new();
    for tasks in tasks.chunks(WAVE) {
        let (partials, rows) = wave(&frame, tasks, scratch)?;
        merge(&mut statistics, &partials);
        partials.iter().try_for_each(|partial| append(&mut scratch.nearest, &partial.nearest, "distances"))?;
        seen.extend(rows);
    }
    if settings.learn {
        statistics.pairs = counts(&seen, leaders)?;
        count_from_origin(&mut statistics, model);
    }
    memberships.members = unshared(members);
    scratch.order = groups.into_entries();
    Ok(statistics)
}

/// The segments of all groups in order, put together to tasks, and the leader of each cluster. Clusters that follow one
/// another in the sequence share a group until it is large enough.
fn group_tasks(sequence: &Sequence, groups: &ByCluster, rows: usize) -> Result<(Vec<Vec<Segment>>, Vec<u32>)> {
    let sequence = &sequence.clusters;
    let mut leaders = collected(0..sequence.len() as u32, "S")?;
    let mut segments = Vec::new();
    let (mut open, mut start) = (0, 0);
    for rank in 0..groups.clusters() {
        let end = groups.places(rank).end;
        if end - start < GROUP_ROWS && rank + 1 < groups.clusters() {
            continue;
        }
        let leader = sequence[open];
        sequence[open..=rank].iter().for_each(|&c| leaders[c as usize] = leader);
        cut(start..end, SEGMENT_ROWS, leader, &mut segments)?;
        (open, start) = (rank + 1, end);
    }
    Ok((together(segments, rows, TASK_ROWS), leaders))
}

/// Tasks for a first look: each cell is a group.
fn cell_tasks(groups: &ByCluster, rows: usize) -> Result<Vec<Vec<Segment>>> {
    let mut segments = Vec::new();
    (0..groups.clusters()).try_for_each(|cell| cut(groups.places(cell), SEGMENT_ROWS, cell as u32, &mut segments))?;
    Ok(together(segments, rows, TASK_ROWS))
}

/// The partial sums of a wave of tasks, in order, and what they saw of S.
fn wave<T: Real>(
    frame: &Frame<'_, T>,
    tasks: &[Vec<Segment>],
    scratch: &Scratch<T>,
) -> Result<(Vec<Partial<T>>, Vec<Seen>)> {
    tasks
        .par_iter()
        .map(|segments| {
            if frame.task.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let mut worker = scratch.grouped.take(|| Worker::new(frame.model.clusters()))?;
            let left = worker.expectation(frame, segments)?;
            scratch.grouped.put(worker);
            Ok(left)
        })
        .collect()
}
