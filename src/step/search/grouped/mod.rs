//! The grouped engine: D-GMM's E-step over groups of rows that share a nearest cluster.
//!
//! Row by row, each distance is a gather from memory, ten times slower than in a dense block. Here the rows whose
//! nearest cluster is c form group c (clusters with few rows share a group with their neighbors) and share one list of
//! candidates: c itself, the clusters in the sets K(n) of the group's rows, the strongest entries of c's row of S,
//! draws from its neighbors' rows, and a few uniform draws. Their centers are packed once, and the group's rows go
//! through the blocked kernel, which keeps the H nearest of each row; posteriors, sums and F follow while the rows are
//! in cache. In a large group, only members that many rows hold are listed; the others are measured for those rows
//! alone. No near member is ever dropped, so F never falls.
//!
//! In the first E-step the cells of the seeding are the groups, and the centers in and around them are the candidates.
//! Every other iteration groups the rows by their second-nearest cluster instead: a different list finds what the first
//! one misses.
//!
//! S is co-occurrence in the row of the group's cluster: S_cj = sum of w_n over the rows n of group c with j in K(n),
//! counted along the way. A cluster without rows keeps its row of S.
//!
//! Sums over a group are taken relative to the group's own center, then moved to the center of their target, so that
//! neither data far from 0 nor clusters far from each other cost digits. How they are merged:
//! [`groups`](crate::step::groups).
//!
//! Cost: O(N G D + N H), where G is the length of a list. Memory: N (4 H + 8) bytes, the co-occurrence counts (at most
//! 8 N H bytes, far less if groups are large), and the partial sums of one wave of tasks.

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

/// Minimum number of rows of a group. Smaller clusters share a group with their neighbors, because a short block wastes
/// lanes and a list would be built for few rows.
const GROUP_ROWS: usize = 64;
/// Maximum number of rows of a segment.
const SEGMENT_ROWS: usize = 1024;
/// Minimum number of rows of a task, if there are that many.
const TASK_ROWS: usize = 2048;
/// Groups are by the nearest member in one iteration, by the second nearest in the next.
const RANKS: usize = 2;

/// Settings of a step.
pub(crate) struct Settings {
    /// H, the number of clusters per row.
    pub truncation: usize,
    /// G, the length of a candidate list.
    pub candidates: usize,
    /// Whether a row belongs to its nearest cluster only.
    pub hard: bool,
    /// Whether to collect sums and S.
    pub learn: bool,
}

/// One step. `cells` has the rows by the cells of the seeding, if the rows have no sets yet.
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

/// The segments of all groups in order, combined into tasks, and the leader of each cluster. Consecutive clusters of
/// the sequence share a group until it is large enough.
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

/// Tasks of the first E-step: each cell is a group.
fn cell_tasks(groups: &ByCluster, rows: usize) -> Result<Vec<Vec<Segment>>> {
    let mut segments = Vec::new();
    (0..groups.clusters()).try_for_each(|cell| cut(groups.places(cell), SEGMENT_ROWS, cell as u32, &mut segments))?;
    Ok(together(segments, rows, TASK_ROWS))
}

/// The partial sums of a wave of tasks, in order, and their co-occurrence counts.
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
