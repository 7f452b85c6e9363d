//! Prices of clusters by an auction over the candidates of rows. See the [module above](super).
//!
//! Where a cluster is above its mass, its rows are sorted by what their next candidate costs them more,
//! gap = min_{j != c} (d_j + p_j) - (d_c + p_c). Those of the smallest gaps go there, and p_c rises by the last of these gaps and a
//! little more, so that an auction between equals ends. A cluster below its mass is cheapened the same way.

use super::{Lists, Sizes, taken};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::filled;
use crate::model::Model;
use crate::observer::Observer;
use crate::step::ByCluster;
use rayon::prelude::*;
use std::collections::VecDeque;

/// What a bid adds to a gap, in parts of the mean squared distance.
const BID: f64 = 5e-3;
/// A cluster that lets rows go keeps this part of what it may have, so that others can come.
const KEPT: f64 = 0.99;
/// Rows are looked at this many times each at most, on average.
const PASSES: usize = 6;
/// Clusters between two questions whether to go on.
const ASKED: usize = 1024;

/// What a move costs a row, which row, and the slot that it takes.
type Offer = (f64, u32, u32);

/// Rows that choose among their candidates by distance and price.
pub(super) struct Market<'a, T: Real> {
    data: &'a Dataset<'a, T>,
    model: &'a Model<T>,
    lists: &'a mut Lists<T>,
    /// The places of the lists that hold each cluster, where some are to be filled up.
    holders: Option<ByCluster>,
    /// The rows that have taken each cluster, and some that had.
    rows: Vec<Vec<u32>>,
    prices: Vec<f64>,
    /// Which candidate each row has taken.
    slots: Vec<u32>,
    masses: Vec<f64>,
    sizes: Sizes,
    /// The mass that a cluster which was too large keeps.
    kept: f64,
    bid: f64,
    offers: Vec<Offer>,
    local: Vec<T>,
}

impl<'a, T: Real> Market<'a, T> {
    /// Each row takes what is best for it at the prices as they are. `spread` is the mean squared distance.
    pub fn open(
        data: &'a Dataset<'a, T>,
        model: &'a Model<T>,
        lists: &'a mut Lists<T>,
        prices: Vec<f64>,
        sizes: Sizes,
        spread: f64,
    ) -> Result<Self> {
        let (width, clusters) = (lists.width, prices.len());
        let mut holders = None;
        if sizes.low > 0.0 {
            holders = Some(ByCluster::new(&lists.ids, clusters, |place| lists.distances[place] != T::INFINITY)?);
        }
        let mut slots = filled(0u32, lists.rows(), "labels")?;
        if lists.is_measured(0) {
            let lists = &*lists;
            slots.par_iter_mut().enumerate().with_min_len(1024).for_each(|(n, slot)| {
                *slot = best(lists, &prices, n, None).1;
            });
        }
        let mut masses = filled(0.0, clusters, "masses")?;
        let mut rows = vec![Vec::new(); clusters];
        for (n, &slot) in slots.iter().enumerate().filter(|&(n, _)| data.weight(n) > 0.0) {
            let c = lists.ids[n * width + slot as usize] as usize;
            masses[c] += data.weight(n);
            rows[c].push(n as u32);
        }
        let first = |n: usize, lists: &Lists<T>| lists.ids[n * width + slots[n] as usize];
        let new: Vec<bool> =
            (0..slots.len()).map(|n| masses[first(n, lists) as usize] > sizes.high && !lists.is_measured(n)).collect();
        lists.measure(data, model, |n| new[n]);
        let unit = data.total_weight() / data.positive_rows() as f64;
        let kept = if (1.0 - KEPT) * sizes.high > unit { KEPT * sizes.high } else { sizes.high };
        let (bid, offers, local) = (BID * spread, Vec::new(), Vec::new());
        Ok(Self { data, model, lists, holders, rows, prices, slots, masses, sizes, kept, bid, offers, local })
    }

    /// Changes prices until the masses are within bounds, or enough has been tried.
    pub fn trade(&mut self, observer: &dyn Observer) -> Result<()> {
        for c in 0..self.prices.len() {
            if self.prices[c] > 0.0 && self.masses[c] < self.sizes.high {
                self.discount(c);
            }
        }
        let mut queue: VecDeque<u32> = (0..self.prices.len() as u32).filter(|&c| self.is_out(c)).collect();
        let mut queued = vec![false; self.prices.len()];
        queue.iter().for_each(|&c| queued[c as usize] = true);
        let mut budget = PASSES * self.slots.len();
        let mut touched = Vec::new();
        for count in 0.. {
            let Some(c) = queue.pop_front() else { break };
            if count % ASKED == 0 && observer.cancelled() {
                return Err(Error::Cancelled);
            }
            queued[c as usize] = false;
            if !self.is_out(c) {
                continue;
            }
            let too_large = self.masses[c as usize] > self.sizes.high;
            let looked_at = if too_large { self.rows[c as usize].len() } else { self.known(c as usize).len() / 2 };
            let Some(left) = budget.checked_sub(looked_at + 1) else { break };
            budget = left;
            touched.clear();
            if too_large {
                self.shed(c as usize, &mut touched);
            } else {
                self.attract(c as usize, &mut touched);
            }
            for &other in &touched {
                if self.is_out(other) && !std::mem::replace(&mut queued[other as usize], true) {
                    queue.push_back(other);
                }
            }
        }
        Ok(())
    }

    /// Labels, masses and prices.
    pub fn close(self) -> Result<(Vec<u32>, Vec<f64>, Vec<f64>)> {
        Ok((taken(&self.slots, &self.lists.ids, self.lists.width)?, self.masses, self.prices))
    }

    /// The places that hold cluster `c`, where they are known.
    fn known(&self, c: usize) -> &[u32] {
        self.holders.as_ref().map_or(&[], |holders| holders.of(c))
    }

    fn is_out(&self, c: u32) -> bool {
        let mass = self.masses[c as usize];
        mass > self.sizes.high || mass < self.sizes.low
    }

    /// What row `n` pays at its slot.
    fn paid(&self, n: usize) -> f64 {
        let place = n * self.lists.width + self.slots[n] as usize;
        self.lists.distances[place].to_f64() + self.prices[self.lists.ids[place] as usize]
    }

    /// Lets rows of `c` go until it is no longer too large. `touched` are the clusters that they go to (OUT).
    fn shed(&mut self, c: usize, touched: &mut Vec<u32>) {
        let width = self.lists.width;
        let (mut rows, mut offers) = (std::mem::take(&mut self.rows[c]), std::mem::take(&mut self.offers));
        rows.retain(|&n| self.lists.ids[n as usize * width + self.slots[n as usize] as usize] == c as u32);
        rows.sort_unstable();
        rows.dedup();
        offers.clear();
        for &n in &rows {
            let n = n as usize;
            self.lists.need(self.data, self.model, n, &mut self.local);
            let (cost, next) = best(self.lists, &self.prices, n, Some(self.slots[n]));
            if cost.is_finite() {
                offers.push((cost - self.paid(n), n as u32, next));
            }
        }
        // Mostly few go.
        let share = (self.masses[c] - self.kept) / self.masses[c];
        let few = (2.0 * share * rows.len() as f64) as usize + 8;
        if few < offers.len() {
            offers.select_nth_unstable_by(few, order);
            sort(&mut offers[..few]);
        } else {
            sort(&mut offers);
        }
        let mut last = 0.0;
        for i in 0..offers.len() {
            if self.masses[c] <= self.kept {
                break;
            }
            if i == few {
                sort(&mut offers[few..]);
            }
            let (gap, n, slot) = offers[i];
            touched.push(self.take(n as usize, slot));
            last = gap;
        }
        self.prices[c] += f64::max(last, 0.0) + self.bid;
        rows.append(&mut self.rows[c]);
        (self.offers, self.rows[c]) = (offers, rows);
    }

    /// The rows that could come to `c`, the willing ones first.
    fn ask(&mut self, c: usize) -> Vec<Offer> {
        let width = self.lists.width;
        let mut offers = std::mem::take(&mut self.offers);
        offers.clear();
        for &place in self.known(c) {
            let (n, slot) = (place as usize / width, place % width as u32);
            if self.slots[n] != slot && self.data.weight(n) > 0.0 {
                let cost = self.lists.distances[place as usize].to_f64() + self.prices[c];
                offers.push((cost - self.paid(n), n as u32, slot));
            }
        }
        sort(&mut offers);
        offers
    }

    /// Makes `c` cheaper until it is no longer too small. `touched` are the clusters that its rows come from (OUT).
    fn attract(&mut self, c: usize, touched: &mut Vec<u32>) {
        let (offers, width) = (self.ask(c), self.lists.width);
        let mut last = 0.0;
        for &(gap, n, slot) in &offers {
            if self.masses[c] >= self.sizes.low {
                break;
            }
            if self.masses[c] + self.data.weight(n as usize) > self.sizes.high {
                continue;
            }
            touched.push(self.lists.ids[n as usize * width + self.slots[n as usize] as usize]);
            self.take(n as usize, slot);
            last = gap;
        }
        self.prices[c] -= f64::max(last, 0.0) + self.bid;
        self.offers = offers;
    }

    /// Lowers the price of `c`, which has room, as far as it may fall.
    fn discount(&mut self, c: usize) {
        let offers = self.ask(c);
        let mut lowered = self.prices[c];
        for &(gap, n, slot) in &offers {
            if gap >= self.prices[c] {
                break;
            }
            if self.masses[c] + self.data.weight(n as usize) > self.sizes.high {
                lowered = gap.max(0.0);
                break;
            }
            self.take(n as usize, slot);
        }
        self.prices[c] -= lowered;
        self.offers = offers;
    }

    /// Row `n` takes another slot. Returns the cluster there.
    fn take(&mut self, n: usize, slot: u32) -> u32 {
        let (first, weight) = (n * self.lists.width, self.data.weight(n));
        let (from, to) = (self.lists.ids[first + self.slots[n] as usize], self.lists.ids[first + slot as usize]);
        self.masses[from as usize] -= weight;
        self.masses[to as usize] += weight;
        self.slots[n] = slot;
        self.rows[to as usize].push(n as u32);
        to
    }
}

/// The smallest sum of distance and price of row `n`, and its slot, other than `except`.
fn best<T: Real>(lists: &Lists<T>, prices: &[f64], n: usize, except: Option<u32>) -> (f64, u32) {
    let range = n * lists.width..(n + 1) * lists.width;
    let mut found = (f64::INFINITY, 0);
    for (slot, (&c, d)) in (0u32..).zip(lists.ids[range.clone()].iter().zip(&lists.distances[range])) {
        let cost = d.to_f64() + prices[c as usize];
        if cost < found.0 && Some(slot) != except {
            found = (cost, slot);
        }
    }
    found
}

fn order(a: &Offer, b: &Offer) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

fn sort(offers: &mut [Offer]) {
    offers.sort_unstable_by(order);
}
