//! Repair: the last rows above the cap move to the nearest cluster with room, those that lose least first.
//!
//! First among the candidates of the rows; then, for clusters still above the cap, by exact search among all clusters
//! with room. The remaining rows fit nowhere, for example because a row is heavier than the room of any cluster. Such a
//! row goes to a place where it reduces the largest mass, if there is one.

use super::Lists;
use crate::data::{Dataset, nearest_centers};
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::{filled, reserve};
use crate::model::Model;
use crate::observer::Observer;
use crate::step::ByCluster;
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Number of clusters with room that an exact search keeps per row.
const KEPT: usize = 64;

/// Name of this memory in messages.
const WHAT: &str = "rows that may change their cluster";

/// A possible move: its change of the error, the row, and the target.
type Offer = (f64, u32, u32);

/// Changes `labels` (IN OUT) until no mass is above the cap, if possible.
pub(super) fn repair<T: Real>(
    data: &Dataset<'_, T>,
    model: &Model<T>,
    lists: &Lists<T>,
    (labels, mut masses): (&mut [u32], Vec<f64>),
    cap: f64,
    observer: &dyn Observer,
) -> Result<()> {
    if masses.iter().all(|mass| *mass <= cap) {
        return Ok(());
    }
    // Masses updated incrementally are summed again.
    masses = super::masses_by(data, &ByCluster::new(labels, masses.len(), |_| true)?);
    let mut offers = Vec::new();
    for (n, (ids, distances)) in lists.ids.chunks(lists.width).zip(lists.distances.chunks(lists.width)).enumerate() {
        if masses[labels[n] as usize] > cap {
            let own = ids.iter().position(|&c| c == labels[n]).map_or(0.0, |slot| distances[slot].to_f64());
            let others = ids.iter().zip(distances).filter(|&(&c, d)| c != labels[n] && d.is_finite());
            offers.extend(others.map(|(&c, d)| (d.to_f64() - own, n as u32, c)));
        }
    }
    settle(data, &mut offers, labels, &mut masses, cap);
    while search(data, model, labels, &mut masses, cap, observer)? {}
    even_out(data, labels, &mut masses, cap)
}

/// Accepts offers, best first, as long as they are needed and there is room. Returns whether any was accepted.
fn settle<T: Real>(
    data: &Dataset<'_, T>,
    offers: &mut [Offer],
    labels: &mut [u32],
    masses: &mut [f64],
    cap: f64,
) -> bool {
    offers.par_sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut moved = false;
    for &(_, n, to) in &*offers {
        let (weight, from, to) = (data.weight(n as usize), labels[n as usize] as usize, to as usize);
        if weight > 0.0 && masses[from] > cap && masses[to] + weight <= cap {
            masses[from] -= weight;
            masses[to] += weight;
            labels[n as usize] = to as u32;
            moved = true;
        }
    }
    moved
}

/// Moves rows of clusters above the cap to clusters with room, found by exact search. Returns whether any was moved.
fn search<T: Real>(
    data: &Dataset<'_, T>,
    model: &Model<T>,
    labels: &mut [u32],
    masses: &mut [f64],
    cap: f64,
    observer: &dyn Observer,
) -> Result<bool> {
    let dim = model.dim();
    let rows = outer_rows(data, model, labels, masses, cap)?;
    let Some(lightest) = rows.iter().map(|&n| data.weight(n as usize)).min_by(f64::total_cmp) else { return Ok(false) };
    let open: Vec<u32> = (0..masses.len() as u32).filter(|&c| masses[c as usize] + lightest <= cap).collect();
    let center = |c: u32| &model.local_centers()[c as usize * dim..][..dim];
    let centers: Vec<T> = open.iter().flat_map(|&c| center(c).iter().copied()).collect();
    let kept = KEPT.min(open.len());
    let (found, distances) = nearest_centers(data, &rows, &centers, model.origin(), kept, observer)?;
    let mut own = filled(T::ZERO, rows.len(), WHAT)?;
    rows.par_iter().zip(&mut own).with_min_len(64).for_each_init(Vec::new, |local, (&n, own)| {
        let row = data.local(n as usize, model.origin(), local);
        T::gathered_distances(row, model.local_centers(), &[labels[n as usize]], std::slice::from_mut(own));
    });
    let mut offers: Vec<Offer> = Vec::new();
    reserve(&mut offers, found.len(), WHAT)?;
    for (place, (&c, d)) in found.iter().zip(&distances).enumerate() {
        let i = place / kept;
        offers.push((d.to_f64() - own[i].to_f64(), rows[i], open[c as usize]));
    }
    Ok(settle(data, &mut offers, labels, masses, cap))
}

/// For each cluster above the cap, its farthest rows that could move elsewhere: twice as many as must leave.
fn outer_rows<T: Real>(
    data: &Dataset<'_, T>,
    model: &Model<T>,
    labels: &[u32],
    masses: &[f64],
    cap: f64,
) -> Result<Vec<u32>> {
    let smallest = masses.iter().copied().fold(f64::INFINITY, f64::min);
    let fits = |n: usize| data.weight(n) > 0.0 && data.weight(n) + smallest <= cap;
    let own = ByCluster::new(labels, masses.len(), |n| masses[labels[n] as usize] > cap && fits(n))?;
    let (mut local, mut distance) = (Vec::new(), [T::ZERO]);
    let mut rows = Vec::new();
    for c in (0..masses.len()).filter(|&c| masses[c] > cap) {
        let mut far = Vec::new();
        for &n in own.of(c) {
            let row = data.local(n as usize, model.origin(), &mut local);
            T::gathered_distances(row, model.local_centers(), &[c as u32], &mut distance);
            far.push((distance[0], n));
        }
        far.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut left = 2.0 * (masses[c] - cap);
        for (_, n) in far {
            if left <= 0.0 {
                break;
            }
            left -= data.weight(n as usize);
            rows.push(n);
        }
    }
    Ok(rows)
}

/// Moves rows, light ones first, from clusters above the cap to the smallest clusters, as long as the larger of the two
/// masses shrinks.
fn even_out<T: Real>(data: &Dataset<'_, T>, labels: &mut [u32], masses: &mut [f64], cap: f64) -> Result<()> {
    if masses.iter().all(|mass| *mass <= cap) {
        return Ok(());
    }
    let rows = ByCluster::new(labels, masses.len(), |n| data.weight(n) > 0.0)?;
    // Masses are nonnegative up to rounding, so their bits sort like their values.
    let key = |mass: f64, c: usize| (mass.max(0.0).to_bits(), c);
    let mut smallest: BTreeSet<(u64, usize)> = masses.iter().enumerate().map(|(c, &mass)| key(mass, c)).collect();
    let mut over: Vec<usize> = (0..masses.len()).filter(|&c| masses[c] > cap).collect();
    over.sort_by_key(|&c| Reverse(key(masses[c], c)));
    for from in over {
        let mut own = rows.of(from).to_vec();
        own.sort_by(|&a, &b| data.weight(a as usize).total_cmp(&data.weight(b as usize)).then(a.cmp(&b)));
        for n in own {
            let (weight, Some(&(_, to))) = (data.weight(n as usize), smallest.first()) else { break };
            if masses[from] <= cap || masses[to] + weight >= masses[from] {
                break;
            }
            for c in [from, to] {
                smallest.remove(&key(masses[c], c));
            }
            masses[from] -= weight;
            masses[to] += weight;
            labels[n as usize] = to as u32;
            for c in [from, to] {
                smallest.insert(key(masses[c], c));
            }
        }
    }
    Ok(())
}
