//! The probe: measures what clusters are worth, in a pass that [refinement](super::refine) takes instead of a step.
//!
//! K(n) is that of the current model, so nothing is searched: rows measure their two nearest members. If rows keep a
//! single member, their two nearest clusters are found among all.
//!
//! Choosing clusters to move needs no exact sums: a cluster with many rows is represented by [some of
//! them](PROBED_ROWS).
//!
//! | sum over the rows nearest to each cluster | field |
//! |---|---|
//! | sum w | `mass` |
//! | sum w d_nearest | `error` |
//! | sum w (d_second - d_nearest) | `removal` |
//! | sum w (y - mu) (y - mu).u, with random signs u | `sums` |
//!
//! The rows are processed cluster by cluster, in order within each cluster, so the bits do not depend on the number of
//! threads.

use super::by_cluster::ByCluster;
use super::memberships::Memberships;
use super::search::Task;
use super::statistics::Statistics;
use crate::error::{Error, Result};
use crate::kernel::{Real, RowBlock, block_rows};
use crate::memory::{filled, par_collected};
use crate::model::score::ScoredCenters;
use crate::rng::{Stage, stream};
use rayon::prelude::*;
use std::borrow::Cow;

/// A cluster with at least twice this many rows in a shard is represented by every second, third and so on of them, so
/// that about this many are measured.
const PROBED_ROWS: usize = 64;
/// Number of products added side by side.
const LANES: usize = 16;

/// Probes a shard. Its sets are saved so that they can be restored.
pub(super) fn probe<T: Real>(task: &Task<'_, T>, memberships: &mut Memberships) -> Result<Statistics<T>> {
    let (model, rows) = (task.model(), task.data.rows());
    let (clusters, dim) = (model.clusters(), model.dim());
    memberships.save()?;
    let mut statistics = Statistics::new(clusters, dim, 0)?;
    statistics.evaluations = 2 * rows as u64;
    let near = match memberships.kept {
        kept if kept > 1 && !memberships.members.is_empty() => Near { ids: Cow::Borrowed(&memberships.members), kept },
        _ => {
            statistics.evaluations = rows as u64 * clusters as u64;
            two_of_all(task)?
        }
    };
    let labels = par_collected(near.ids.par_chunks_exact(near.kept).map(|set| set[0]), "rows by cluster")?;
    let by_cluster = ByCluster::new(&labels, clusters, |_| true)?;
    let mut worth: Vec<Worth> = filled(Worth::default(), clusters, "sums")?;
    statistics.sums.par_chunks_mut(dim).zip(&mut worth).enumerate().try_for_each_init(
        Buffers::default,
        |buffers, (c, (sum, worth))| {
            *worth = measure(task, &near, c, by_cluster.of(c), sum, buffers)?;
            Ok(())
        },
    )?;
    statistics.error = filled(0.0, clusters, "sums")?;
    statistics.removal = filled(0.0, clusters, "sums")?;
    for (c, worth) in worth.iter().enumerate() {
        (statistics.mass[c], statistics.error[c], statistics.removal[c]) = (worth.mass, worth.error, worth.removal);
    }
    statistics.inertia = statistics.error.iter().sum();
    statistics.weighted_distance = statistics.inertia;
    Ok(statistics)
}

/// The clusters near each row, nearest first.
struct Near<'a> {
    ids: Cow<'a, [u32]>,
    kept: usize,
}

/// Sums over the rows of a cluster.
#[derive(Debug, Clone, Copy, Default)]
struct Worth {
    mass: f64,
    error: f64,
    removal: f64,
}

/// Memory reused from cluster to cluster.
#[derive(Debug)]
struct Buffers<T> {
    row: Vec<T>,
    apart: Vec<T>,
    signs: Vec<T>,
}

impl<T> Default for Buffers<T> {
    fn default() -> Self {
        Self { row: Vec::new(), apart: Vec::new(), signs: Vec::new() }
    }
}

/// Measures the rows of cluster `c`; `sum` (OUT) receives their direction.
fn measure<T: Real>(
    task: &Task<'_, T>,
    near: &Near<'_>,
    c: usize,
    rows: &[u32],
    sum: &mut [f64],
    buffers: &mut Buffers<T>,
) -> Result<Worth> {
    let (data, model) = (task.data, task.model());
    let center = |c: usize| &model.local_centers()[c * model.dim()..(c + 1) * model.dim()];
    let (own, mut worth) = (center(c), Worth::default());
    let Buffers { row, apart, signs } = buffers;
    // The same signs in all shards.
    draw_signs(signs, model.dim(), task.round.seed, task.round.iteration, c);
    if task.observer.cancelled() {
        return Err(Error::Cancelled);
    }
    let mut probed = 0.0;
    for &n in rows.iter().step_by((rows.len() / PROBED_ROWS).max(1)) {
        let (n, w) = (n as usize, data.weight(n as usize));
        let y = data.local(n, model.origin(), row);
        let nearest = T::squared_distance(y, own).to_f64();
        // A single cluster has no second.
        let second = near.ids[n * near.kept..(n + 1) * near.kept].get(1);
        let second = second.map_or(nearest, |&c| T::squared_distance(y, center(c as usize)).to_f64());
        probed += w;
        worth.error += w * nearest;
        worth.removal += w * (second - nearest).max(0.0);
        apart.clear();
        apart.extend(y.iter().zip(own).map(|(&y, &mu)| y - mu));
        T::add_scaled(sum, w * dot(apart, signs), apart);
    }
    if probed > 0.0 {
        worth.mass = rows.iter().map(|&n| data.weight(n as usize)).sum();
        let factor = worth.mass / probed;
        (worth.error, worth.removal) = (worth.error * factor, worth.removal * factor);
        sum.iter_mut().for_each(|x| *x *= factor);
    }
    Ok(worth)
}

/// Random signs for cluster `c`, one per column (OUT), which depend on the seed.
fn draw_signs<T: Real>(signs: &mut Vec<T>, dim: usize, seed: u64, iteration: u64, c: usize) {
    let mut rng = stream(seed, Stage::Refine, iteration, c as u64);
    signs.clear();
    while signs.len() < dim {
        let bits = rng.bits();
        let more = (dim - signs.len()).min(64);
        signs.extend((0..more).map(|k| if bits >> k & 1 == 1 { T::ONE } else { T::ZERO - T::ONE }));
    }
}

/// a.b, as partial sums in lanes.
fn dot<T: Real>(a: &[T], b: &[T]) -> f64 {
    let (a, b) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [T::ZERO; LANES];
    for (a, b) in a.0.iter().zip(b.0) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (&a, &b))| *lane += a * b);
    }
    let rest: f64 = a.1.iter().zip(b.1).map(|(&a, &b)| (a * b).to_f64()).sum();
    lanes.iter().map(|lane| lane.to_f64()).sum::<f64>() + rest
}

/// The two nearest of all clusters for each row.
fn two_of_all<T: Real>(task: &Task<'_, T>) -> Result<Near<'static>> {
    let (data, model) = (task.data, task.model());
    let (dim, kept) = (model.dim(), model.clusters().min(2));
    let scored = ScoredCenters::new(model, task.scores)?;
    let (centers, size) = (scored.centers(), block_rows::<T>(dim));
    let mut ids = filled(0, data.rows() * kept, "clusters of the rows")?;
    ids.par_chunks_mut(size * kept).enumerate().try_for_each_init(
        || (RowBlock::default(), Vec::new(), Vec::new()),
        |(block, values, distances), (i, ids)| {
            if task.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let rows = i * size..i * size + ids.len() / kept;
            block.load(data.range(rows, values), dim, model.origin());
            distances.resize(ids.len(), T::ZERO);
            block.nearest(&centers, kept, ids, distances);
            Ok(())
        },
    )?;
    Ok(Near { ids: Cow::Owned(ids), kept })
}
