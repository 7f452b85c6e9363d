//! D-GMM as in the paper: each row is compared with its K(n) and with R clusters that it draws from a row of the
//! similarity S.
//!
//! That row of S belongs to the cluster c that was nearest in the last E-step. The rows are processed cluster by
//! cluster, so that neighbors share candidates, rows of S and sums, which stay in cache; how the sums are merged:
//! [`groups`](crate::step::groups). Within a block, each row draws; distances, the H nearest, posteriors and sums then
//! follow for the whole block at once.
//!
//! Co-occurrence is counted in the row of the nearest cluster only (S_cj: rows of cluster c with j in K(n)), which
//! proposes as well as counting all pairs does. Row c of S is then what the rows of group c hold, and a draw from it is
//! a random member of a random row of the group: constant time, without a table and without S in memory. In a group of
//! more than [`SEGMENT_ROWS`] rows, only nearby rows of the group count. The other weightings need all pairs: S is
//! built after the E-step, and its rows are sampled with alias tables.
//!
//! p(c) is the row of S without the members of K(n) (the paper's denominator sums over K(n), but must sum over the
//! rest): draws come from the whole row, and members and repeats are rejected. Rejections are bounded; then uniform
//! draws fill up, because a row may have fewer than R usable entries. The uniform draws of a task come from a few
//! clusters that the task has drawn uniformly, so that their centers stay in cache, too. With H + R >= M each row is
//! compared with every cluster. Cost: O(N (H + R) D), independent of M.

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

/// Maximum number of rows of a group that draw from each other's sets.
const SEGMENT_ROWS: usize = 4096;
/// Minimum number of rows of a task, if there are that many: larger tasks leave fewer partial sums.
const TASK_ROWS: usize = 4096;
/// Number of positions (rows x H) from which rows of S are built at a time.
const PLACES: usize = 1 << 22;

/// What tasks leave: partial sums, and the values of their rows' members for S.
type Wave<T> = (Vec<Partial<T>>, Vec<Vec<T>>);

/// The step: each row keeps the `h` nearest of its set and `proposals` draws.
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
    // Rebuilt less and less often, because neighbors settle and it runs on a single thread.
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

/// The source of a step's draws. Before the first step S is 0.
fn source<'a, T: Real>(task: &Task<'a, T>, similarity: SimilarityKind) -> Source<'a> {
    match (similarity, &task.round.similarity) {
        (SimilarityKind::Cooccurrence, _) if task.round.iteration > 0 => Source::Sets,
        (_, Some(rows)) => Source::Rows(rows),
        _ => Source::Uniform,
    }
}

/// Runs some tasks; their results are in order.
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

/// S from the sets of all rows and the `values` of their members, which are in the order of the groups.
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
        reserve(&mut members, order.len() * h, "clusters of the rows")?;
        order.iter().for_each(|&n| members.extend_from_slice(&sets[n as usize * h..(n as usize + 1) * h]));
        let by_cluster = ByCluster::new(&members, task.model().clusters(), |_| true)?;
        let weight = |r: usize| task.data.weight(order[r] as usize);
        all = all.merge(pairs.count(h, &members, values, weight, &by_cluster, task.observer)?)?;
    }
    Ok(all)
}
