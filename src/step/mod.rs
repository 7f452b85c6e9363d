//! One step of EM over a part of the data, and the trainer that turns such steps into a fit.
//!
//! ```text
//!             Round { model, S, phase, seed, iteration }            broadcast
//!                │
//! each shard:  step(&Round, &Shard, &mut Memberships) -> Statistics    rows and K(n) stay where they are
//!                │
//! Merger, in the order of the shards -> Trainer::absorb -> the next Round, or the end
//! ```
//!
//! Nothing else is needed to run a fit anywhere: over the shards of an array in memory, as [`Params::fit`] does, over
//! the chunks of a file, or on the workers of a cluster, with [`Round::to_bytes`] and [`Statistics::to_bytes`] in
//! between. The same rows in the same shards give the same bits everywhere. A fit over shards begins with a [`Summary`]
//! of each, which holds a sample of its rows; [`Params::trainer_from`] chooses the initial centers from these.
//!
//! ```
//! use dgmm::step::{Memberships, Merger, Shard, Summary, step};
//! use dgmm::{Dataset, Dgmm, Run};
//! let values: Vec<f32> = (0..8000).map(|i| ((i * 37) % 101) as f32 + 1000.0 * ((i / 2) % 50) as f32).collect();
//! let data = Dataset::from_slice(&values, 2)?;
//! let run = Run::default();
//! let params = Dgmm::params(50).seed(7);
//!
//! let params = params.shard_rows(1500);
//! let plan = params.plan(data.rows(), data.dim())?;
//! let shards = Shard::cut(&data, plan.shard_rows)?;
//! let mut summaries = Merger::default();
//! for shard in &shards {
//!     summaries.add(Summary::of(shard, &plan.sampling(), &run)?)?;
//! }
//! let mut trainer = params.trainer_from(&summaries.finish()?.expect("there are shards"), None, &run)?;
//!
//! let mut memberships = vec![Memberships::new(); shards.len()];
//! while !trainer.is_finished() {
//!     let mut merger = Merger::default();
//!     for (shard, memberships) in shards.iter().zip(&mut memberships) {
//!         merger.add(step(trainer.round(), shard, memberships, &run)?)?;
//!     }
//!     trainer.absorb(merger.finish()?.expect("there are shards"))?;
//! }
//! assert!(trainer.report().converged);
//!
//! // The same bits as a fit in one place.
//! let fit = params.fit(&data)?;
//! assert_eq!(fit.model, trainer.into_model());
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! [`Params::fit`]: crate::Params::fit
//! [`Params::trainer_from`]: crate::Params::trainer_from

mod alias;
mod by_cluster;
mod bytes;
mod cells;
mod convergence;
mod groups;
mod maximize;
mod memberships;
mod objective;
mod pairs;
mod posterior;
mod probe;
mod refine;
mod round;
mod search;
mod shape;
mod shard;
mod similarity;
mod statistics;
mod summary;
mod trainer;

pub use memberships::Memberships;
pub use round::{Phase, Round, Search};
pub use shard::Shard;
pub use statistics::{Merge, Merger, Statistics};
pub use summary::{Sampling, Summary};
pub use trainer::{Progress, Trainer};

pub(crate) use by_cluster::ByCluster;
pub(crate) use cells::{Cells, Level};
pub(crate) use maximize::{distance_of, turn_center, variance_of};
pub(crate) use objective::{Bound, bound_at};
pub(crate) use pairs::needs_pairs;
pub(crate) use posterior::take_posterior;
pub(crate) use refine::iterations as iterations_of_round;
pub(crate) use search::lloyd::{segments as lloyd_segments, suits as lloyd_suits};
pub(crate) use search::score_check::ScoreCheck;
pub(crate) use search::soft::segments as soft_segments;
pub(crate) use search::{Scratch, keep_nearest};
pub(crate) use shape::ShapeRule;
pub(crate) use similarity::ROW_BOUND;
pub(crate) use trainer::{Start, Training};

use crate::data::compare;
use crate::error::{Error, Result};
use crate::kernel::{Real, for_both};
use crate::memory::{collected, par_collected};
use crate::model::score::Scores;
use crate::observer::Observer;
use crate::parallel::Run;
use crate::rng::{Stage, stream};
use rayon::prelude::*;
use round::Request;
use search::{Exhaustive, Neighbors, Task, blocks, grouped, lloyd, pointwise, soft};
use statistics::FarRow;

/// One step of EM over the rows of a shard: each row is compared with some clusters, keeps the nearest as its new K(n),
/// and is added to their sums. See the [module](self).
pub fn step<T: Real>(
    round: &Round<T>,
    shard: &Shard<'_, T>,
    memberships: &mut Memberships,
    run: &Run<'_>,
) -> Result<Statistics<T>> {
    checked_step(round, shard, memberships, run)
}

for_both! {
    fn checked_step(
        round: &Round<T>,
        shard: &Shard<'_, T>,
        memberships: &mut Memberships,
        run: &Run<'_>,
    ) -> Result<Statistics<T>> {
        let (dim, columns) = (round.model.dim(), shard.data().dim());
        if dim != columns {
            return Err(Error::DimensionMismatch { columns, dim });
        }
        memberships.check(round, shard.rows())?;
        run.install(|| {
            let shard = shard.for_metric(round.model.metric(), run.observer)?;
            step_in(round, &shard, memberships, &mut Scratch::default(), run.observer)
        })
    }
}

/// [`step()`] in the caller's thread pool, with reused memory.
pub(crate) fn step_in<T: Real>(
    round: &Round<T>,
    shard: &Shard<'_, T>,
    memberships: &mut Memberships,
    scratch: &mut Scratch<T>,
    observer: &dyn Observer,
) -> Result<Statistics<T>> {
    let scaled = (round.weight_unit != 1.0).then(|| shard.data().in_weights_of(round.weight_unit)).transpose()?;
    let data = scaled.as_ref().unwrap_or(shard.data());
    // Different shards draw different numbers.
    let seed = match shard.first_row() {
        0 => round.seed,
        first => stream(round.seed, Stage::Shard, 0, first).bits(),
    };
    let scores = Scores::of(&round.model)?;
    let task = Task { round, data, scores: &scores, seed, observer };
    for &(row, c) in &round.adopted {
        if let Some(n) = row.checked_sub(shard.first_row()).filter(|&n| n < data.rows() as u64) {
            adopt(&task, memberships, n as usize, c);
        }
    }
    match &round.request {
        Request::Nothing | Request::Probe => (),
        Request::Moved(pairs) => memberships.follow(pairs, round.model.clusters())?,
        Request::Restore => memberships.restore(),
    }
    let mut statistics = match round.request {
        Request::Probe => probe::probe(&task, memberships)?,
        _ => search_all(&task, memberships, scratch)?,
    };
    statistics.rows = data.rows() as u64;
    statistics.weight = data.total_weight();
    if round.learn && round.relocate && round.request != Request::Probe {
        statistics.farthest = farthest_rows(&task, shard.first_row(), &statistics, scratch)?;
    }
    Ok(statistics)
}

/// Puts cluster `c`, which was relocated onto row `n`, into that row's set, unless the cluster is less likely there than
/// the member that it would replace: clusters may differ in weight and width.
fn adopt<T: Real>(task: &Task<'_, T>, memberships: &mut Memberships, n: usize, c: u32) {
    let (scores, model) = (task.scores, task.model());
    if scores.has_offsets() || scores.lift().is_some() {
        let Some(last) = memberships.last_of(n) else { return };
        let (mut row, mut score) = (Vec::new(), [T::ZERO; 2]);
        let row = task.data.local(n, model.origin(), &mut row);
        scores.measure(row, model.local_centers(), &[last, c], &mut score);
        if score[1] > score[0] {
            return;
        }
    }
    memberships.adopt(n, c);
}

/// Runs the search that the round specifies, after finding the initial K(n) if the rows have none.
fn search_all<T: Real>(
    task: &Task<'_, T>,
    memberships: &mut Memberships,
    scratch: &mut Scratch<T>,
) -> Result<Statistics<T>> {
    let (round, data, clusters) = (task.round, task.data, task.model().clusters());
    let (h, rows) = (round.search.truncation(), data.rows());
    if let Search::Exhaustive { .. } = round.search {
        memberships.make_room(rows, 1)?;
        // A hard posterior needs only the nearest cluster.
        let h = if task.hard() { 1 } else { h };
        let plain = round.extra() == 0 && task.scores.lift().is_none();
        return match h {
            1 if plain && lloyd::suits(rows, clusters, data.dim()) => lloyd::step(task, memberships, scratch),
            all if all == clusters && all > 1 && soft::suits(task) => soft::step(task, memberships, scratch),
            truncation => blocks::step(&Exhaustive { truncation }, task, memberships, scratch),
        };
    }
    let mut cells = None;
    if memberships.members.is_empty() {
        match (&round.cells, memberships.cells.take()) {
            (Some(_), Some(known)) => cells = Some(known),
            (Some(all), None) => cells = Some(all.assign(data, task.model().origin(), task.observer)?),
            (None, _) => memberships.draw_uniform(rows, h, clusters, task.seed)?,
        }
    }
    if let Search::Grouped { candidates, .. } = round.search {
        let settings = grouped::Settings { truncation: h, candidates, hard: task.hard(), learn: round.learn };
        return grouped::step(task, &settings, cells, memberships, scratch);
    }
    let mut evaluations = 0;
    if cells.is_some() {
        let look = grouped::Settings { truncation: h, candidates: h, hard: true, learn: false };
        evaluations = grouped::step(task, &look, cells, memberships, scratch)?.evaluations;
    }
    let mut statistics = match round.search {
        Search::Neighbors { random, .. } => {
            let similarity = round.similarity.as_deref();
            blocks::step(&Neighbors { clusters, truncation: h, random, similarity }, task, memberships, scratch)
        }
        Search::Pointwise { proposals, similarity, .. } => {
            pointwise::step(task, h, proposals, similarity, memberships, scratch)
        }
        Search::Exhaustive { .. } | Search::Grouped { .. } => unreachable!("handled above"),
    }?;
    statistics.evaluations += evaluations;
    Ok(statistics)
}

/// As many different rows as there are empty clusters: those of positive weight that are farthest from their nearest
/// cluster. Rows that coincide with a center (d = 0) are left out, so with fewer distinct rows than clusters some
/// clusters stay empty.
fn farthest_rows<T: Real>(
    task: &Task<'_, T>,
    first_row: u64,
    statistics: &Statistics<T>,
    scratch: &Scratch<T>,
) -> Result<Vec<FarRow<T>>> {
    let (data, nearest, empty) = (task.data, &scratch.nearest, statistics.empty().count());
    if empty == 0 {
        return Ok(Vec::new());
    }
    let row_of = |i: usize| scratch.order.get(i).map_or(i, |&n| n as usize);
    let far = |(n, d): &(usize, T)| data.weight(*n) > 0.0 && *d > T::ZERO;
    let mut rows = par_collected((0..data.rows()).into_par_iter().map(|i| (row_of(i), nearest[i])), "distances")?;
    rows.retain(far);
    // Equal rows must be consecutive.
    let row = |n: usize| data.row(n, &mut Vec::new()).to_vec();
    let farthest_first = |a: &(usize, T), b: &(usize, T)| {
        b.1.total_cmp(&a.1).then_with(|| compare(&row(a.0), &row(b.0))).then(a.0.cmp(&b.0))
    };
    // Some more than needed, because equal rows count once.
    let enough = 4 * empty + 64;
    if rows.len() > enough {
        rows.select_nth_unstable_by(enough, farthest_first);
        rows.truncate(enough);
    }
    rows.sort_unstable_by(farthest_first);
    rows.dedup_by(|a, b| row(a.0) == row(b.0));
    rows.truncate(empty);
    let mut local = Vec::new();
    let far_row = |(n, distance): (usize, T)| {
        let values = data.local(n, task.model().origin(), &mut local).to_vec();
        FarRow { distance, row: first_row + n as u64, values }
    };
    collected(rows.into_iter().map(far_row), "farthest rows")
}
