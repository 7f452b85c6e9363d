//! Splitting: clusters that are far too small are dissolved and take over a part of the rows of clusters that are far
//! too large. Prices can balance neighbors, but cannot move clusters from sparse regions to dense ones.
//!
//! The smallest cluster goes to the one with the most mass per center, repeatedly, as long as the former has less than
//! half of what it should and the latter more than it may. The rows of a split cluster choose among its parts by a few
//! steps of k-means; rows with the cluster among their candidates get its parts as candidates.

use super::{Lists, Sizes, keep, mean_of};
use crate::data::{Dataset, nearest_centers};
use crate::error::Result;
use crate::kernel::Real;
use crate::model::Model;
use crate::observer::Observer;
use crate::rng::{Rng, Stage, stream};
use crate::step::ByCluster;
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Clusters below this fraction of the lowest mass are dissolved.
const DISSOLVED: f64 = 0.5;
/// k-means steps among the parts of a cluster ...
const STEPS: usize = 4;
/// ... which use at most this many rows per part.
const ROWS_A_PART: usize = 256;

/// A cluster and the mass that each of its parts would have.
#[derive(PartialEq)]
struct Share {
    mass: f64,
    cluster: u32,
}

impl Eq for Share {}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        self.mass.total_cmp(&other.mass).then(other.cluster.cmp(&self.cluster))
    }
}

/// Dissolves and splits clusters of `model` (IN OUT), whose rows have the candidates `lists` (IN OUT) at `prices` (IN
/// OUT).
pub(super) fn split<T: Real>(
    data: &Dataset<'_, T>,
    model: &mut Model<T>,
    lists: &mut Lists<T>,
    (prices, sizes): (&mut [f64], Sizes),
    seed: u64,
    round: u64,
    observer: &dyn Observer,
) -> Result<()> {
    let labels: Vec<u32> = lists
        .ids
        .par_chunks(lists.width)
        .zip(lists.distances.par_chunks(lists.width))
        .map(|(ids, distances)| {
            let cost = |&(&c, d): &(&u32, &T)| d.to_f64() + prices[c as usize];
            ids.iter().zip(distances).min_by(|a, b| cost(a).total_cmp(&cost(b))).map_or(ids[0], |(&c, _)| c)
        })
        .collect();
    let rows = ByCluster::new(&labels, model.clusters(), |n| data.weight(n) > 0.0)?;
    let families = families(data, &rows, sizes);
    if families.is_empty() {
        return Ok(());
    }
    let (dim, origin) = (model.dim(), model.origin().map(<[T]>::to_vec));
    let parts: Vec<Vec<T>> = families
        .par_iter()
        .map(|family| {
            let rng = stream(seed, Stage::Balance, round, u64::from(family[0]));
            cut(data, origin.as_deref(), rows.of(family[0] as usize), family.len(), rng)
        })
        .collect();
    // The family that a cluster has been split into, and whether it has been dissolved.
    let mut family_of: Vec<Option<usize>> = vec![None; model.clusters()];
    let mut dissolved = vec![false; model.clusters()];
    for (i, (family, centers)) in families.iter().zip(&parts).enumerate() {
        family_of[family[0] as usize] = Some(i);
        family[1..].iter().for_each(|&c| dissolved[c as usize] = true);
        for (&c, center) in family.iter().zip(centers.chunks_exact(dim)) {
            model.local_centers_mut()[c as usize * dim..][..dim].copy_from_slice(center);
            prices[c as usize] = 0.0;
        }
    }
    renew(
        data,
        model,
        lists,
        |c| (dissolved[c as usize], family_of[c as usize].map(|i| families[i].as_slice())),
        observer,
    )
}

/// The clusters to split, each with those that are dissolved for it.
fn families<T: Real>(data: &Dataset<'_, T>, rows: &ByCluster, sizes: Sizes) -> Vec<Vec<u32>> {
    let clusters = rows.clusters();
    let masses: Vec<f64> = (0..clusters).map(|c| rows.of(c).iter().map(|&n| data.weight(n as usize)).sum()).collect();
    let mut shares: BinaryHeap<Share> = (0u32..).zip(&masses).map(|(cluster, &mass)| Share { mass, cluster }).collect();
    let mut small: Vec<u32> = (0..clusters as u32).filter(|&c| masses[c as usize] < DISSOLVED * sizes.low).collect();
    small.sort_by(|&a, &b| masses[a as usize].total_cmp(&masses[b as usize]).then(a.cmp(&b)));
    let mut of: Vec<Vec<u32>> = vec![Vec::new(); clusters];
    let mut small = small.into_iter();
    while let Some(Share { mass, cluster }) = shares.pop().filter(|share| share.mass > sizes.high) {
        let (own, all) = (&mut of[cluster as usize], rows.of(cluster as usize).len());
        if own.is_empty() {
            own.push(cluster);
        }
        if own.len() + 1 > all {
            // At most one part per row.
            continue;
        }
        let Some(c) = small.next() else { break };
        let parts = own.len() as f64;
        own.push(c);
        shares.push(Share { mass: mass * parts / (parts + 1.0), cluster });
    }
    of.retain(|family| family.len() > 1);
    of
}

/// Centers of `parts` parts of some rows, by k-means from random rows.
fn cut<T: Real>(data: &Dataset<'_, T>, origin: Option<&[T]>, rows: &[u32], parts: usize, mut rng: Rng) -> Vec<T> {
    let (dim, most) = (data.dim(), parts.saturating_mul(ROWS_A_PART));
    let mut seen = rows.to_vec();
    // The first rows of a random order.
    let enough = most.min(seen.len());
    for i in 0..enough {
        let j = i + rng.below(seen.len() - i);
        seen.swap(i, j);
    }
    seen.truncate(enough);
    let mut local = Vec::new();
    let mut centers = Vec::with_capacity(parts * dim);
    seen[..parts].iter().for_each(|&n| centers.extend_from_slice(data.local(n as usize, origin, &mut local)));
    let all: Vec<u32> = (0..parts as u32).collect();
    let mut distances = vec![T::ZERO; parts];
    let (mut nearest, mut sum) = (vec![Vec::new(); parts], Vec::new());
    for _ in 0..STEPS {
        nearest.iter_mut().for_each(Vec::clear);
        for &n in &seen {
            T::gathered_distances(data.local(n as usize, origin, &mut local), &centers, &all, &mut distances);
            let first = (0..parts).min_by(|&a, &b| distances[a].total_cmp(&distances[b])).unwrap_or(0);
            nearest[first].push(n);
        }
        for (center, rows) in centers.chunks_exact_mut(dim).zip(&nearest) {
            mean_of(data, origin, rows, center, (&mut local, &mut sum));
        }
    }
    centers
}

/// New candidates for rows whose candidates include a dissolved or split cluster, as `fate` says for each.
fn renew<'f, T: Real>(
    data: &Dataset<'_, T>,
    model: &Model<T>,
    lists: &mut Lists<T>,
    fate: impl Fn(u32) -> (bool, Option<&'f [u32]>) + Sync,
    observer: &dyn Observer,
) -> Result<()> {
    let width = lists.width;
    let rows = lists.ids.par_chunks_mut(width).zip(lists.distances.par_chunks_mut(width)).enumerate();
    let lost: Vec<Option<u32>> = rows
        .with_min_len(256)
        .map_init(
            || (Vec::new(), Vec::new(), Vec::new(), Vec::new()),
            |(local, known, measured, found), (n, (ids, distances))| {
                if !ids.iter().any(|&c| fate(c).0 || fate(c).1.is_some()) {
                    return None;
                }
                known.clear();
                for (&c, _) in ids.iter().zip(&*distances).filter(|(_, d)| **d != T::INFINITY) {
                    match fate(c) {
                        (true, _) => (),
                        (false, Some(family)) => known.extend_from_slice(family),
                        (false, None) => known.push(c),
                    }
                }
                if known.is_empty() {
                    return Some(n as u32);
                }
                measured.resize(known.len(), T::ZERO);
                let row = data.local(n, model.origin(), local);
                T::gathered_distances(row, model.local_centers(), known, measured);
                found.clear();
                found.extend(measured.iter().copied().zip(known.iter().copied()));
                keep(found, ids, distances);
                None
            },
        )
        .collect();
    let lost: Vec<u32> = lost.into_iter().flatten().collect();
    if lost.is_empty() {
        return Ok(());
    }
    let (nearest, distances) = nearest_centers(data, &lost, model.local_centers(), model.origin(), 1, observer)?;
    for ((&n, &c), &d) in lost.iter().zip(&nearest).zip(&distances) {
        let place = n as usize * width..(n as usize + 1) * width;
        keep(&mut [(d, c)], &mut lists.ids[place.clone()], &mut lists.distances[place]);
    }
    Ok(())
}
