//! D-GMM as in the paper: each row is compared with its K(n) and R clusters that it draws for itself from a row of the
//! similarity S.
//!
//! The row is that of the cluster c that was nearest at the last E-step. The points are taken cluster by cluster, so that
//! their candidates, rows of S and sums are those of their neighbors and stay near; how the sums come together:
//! [`groups`](crate::step::groups). Inside a block of rows each row draws, then distances, the H nearest, posteriors and sums
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

use super::{Scratch, Task};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{append, reserve};
use crate::options::SimilarityKind;
use crate::step::by_cluster::ByCluster;
use crate::step::groups::{
    Partial, Segment, WAVE, by_member, count_from_origin, cut, merge, shared, together, unshared,
};
use crate::step::memberships::Memberships;
use crate::step::pairs::Pairs;
use crate::step::similarity::PairCounts;
use crate::step::statistics::Statistics;
use draws::Source;
use rayon::prelude::*;
use sequence::by_neighbors;
use worker::Frame;

pub(crate) use worker::Worker;

/// Points of a group that draw from each other's sets at most.
const SEGMENT_ROWS: usize = 4096;
/// Rows of a task at least, where there are enough of them: the more, the fewer partial sums.
const TASK_ROWS: usize = 4096;
/// Places (rows x H) from which rows of S are made at a time.
const PLACES: usize = 1 << 22;

/// What tasks leave: partial sums, and what S wants to know of their rows' members.
type Wave<T> = (Vec<Partial<T>>, Vec<Vec<T>>);

/// The step: sets of `h`, from these and `proposals` draws of each row.
pub(crate) fn step<T: Real>(
    task: &Task<'_, T>,
    h: usize,
    proposals: usize,
    similarity: SimilarityKind,
    memberships: &mut Memberships,
    scratch: &mut Scratch<T>,
) -> Result<Statistics<T>> {
    let (data, model, round) = (task.data, task.model(), task.round);
    let clusters = model.clusters();
    let proposals = proposals.min(clusters - h);
    // Rebuilt less and less often: neighbors settle, and it takes a single thread.
    if round.iteration.is_power_of_two() || memberships.sequence.clusters.is_empty() {
        memberships.sequence = by_neighbors(&memberships.members, h, clusters)?;
    }
    let groups = by_member(&memberships.members, h, 0, &memberships.sequence.ranks)?;
    let mut segments = Vec::new();
    for (rank, &c) in memberships.sequence.clusters.iter().enumerate() {
        cut(groups.places(rank), SEGMENT_ROWS, c, &mut segments)?;
    }
    let tasks = together(segments, data.rows(), TASK_ROWS);
    let members = shared(std::mem::take(&mut memberships.members));
    let pairs = Pairs::of(similarity).filter(|_| round.learn && proposals > 0);
    let frame = Frame {
        task,
        model,
        source: source(task, similarity),
        order: groups.entries(),
        truncation: h,
        proposals,
        learn: round.learn,
        pairs,
        members: &members,
    };
    let mut statistics = Statistics::new(clusters, data.dim(), round.extra())?;
    scratch.nearest.clear();
    scratch.order = Vec::new();
    let mut values = Vec::new();
    for tasks in tasks.chunks(WAVE) {
        let (partials, left) = wave(&frame, tasks, scratch)?;
        merge(&mut statistics, &partials);
        partials.iter().try_for_each(|partial| append(&mut scratch.nearest, &partial.nearest, "distances"))?;
        left.iter().try_for_each(|part| append(&mut values, part, "posteriors"))?;
        partials.into_iter().for_each(|partial| scratch.partials.put(partial));
    }
    memberships.members = unshared(members);
    if round.learn {
        count_from_origin(&mut statistics, model);
    }
    if let Some(pairs) = pairs {
        statistics.pairs = count_pairs(pairs, task, memberships, groups.entries(), &values)?;
        if task.observer.cancelled() {
            return Err(Error::Cancelled);
        }
    }
    scratch.order = groups.into_entries();
    Ok(statistics)
}

/// Where the draws of a step come from. Before the first one S is 0.
fn source<'a, T: Real>(task: &Task<'a, T>, similarity: SimilarityKind) -> Source<'a> {
    match (similarity, &task.round.similarity) {
        (SimilarityKind::Cooccurrence, _) if task.round.iteration > 0 => Source::Sets,
        (_, Some(rows)) => Source::Rows(rows),
        _ => Source::Uniform,
    }
}

/// Carries out some tasks; what they leave is in their order.
fn wave<T: Real>(frame: &Frame<'_, T>, tasks: &[Vec<Segment>], scratch: &Scratch<T>) -> Result<Wave<T>> {
    tasks
        .par_iter()
        .map(|segments| {
            let mut worker = scratch.pointwise.take(|| Worker::new(frame.model.clusters()))?;
            let mut partial = scratch.partials.take(|| Ok(Partial::default()))?;
            let values = worker.expectation(frame, segments, &mut partial)?;
            scratch.pointwise.put(worker);
            Ok((partial, values))
        })
        .collect()
}

/// S, from the sets of all rows and the `values` of their members, which are in the order of the groups.
fn count_pairs<T: Real>(
    pairs: Pairs,
    task: &Task<'_, T>,
    memberships: &Memberships,
    order: &[u32],
    values: &[T],
) -> Result<PairCounts> {
    let (h, sets) = (memberships.kept, &memberships.members);
    let rows = (PLACES / h).max(1);
    let mut all = PairCounts::none();
    for (order, values) in order.chunks(rows).zip(values.chunks(rows * h)) {
        let mut members: Vec<u32> = Vec::new();
        reserve(&mut members, order.len() * h, "clusters of rows")?;
        order.iter().for_each(|&n| members.extend_from_slice(&sets[n as usize * h..(n as usize + 1) * h]));
        let by_cluster = ByCluster::new(&members, task.model().clusters(), |_| true)?;
        let weight = |r: usize| task.data.weight(order[r] as usize);
        all = all.merge(pairs.count(h, &members, values, weight, &by_cluster, task.observer)?)?;
    }
    Ok(all)
}
