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
use crate::observer::Observer;
use crate::step::ByCluster;
use rayon::prelude::*;
use std::collections::VecDeque;

/// What a bid adds to a gap, in parts of the mean squared distance.
const BID: f64 = 1e-3;
/// All candidates are looked at so many times at most.
const PASSES: usize = 12;
/// Clusters between two questions whether to go on.
const ASKED: usize = 1024;

/// Rows that choose among their candidates by distance and price.
pub(super) struct Market<'a, T: Real> {
    data: &'a Dataset<'a, T>,
    lists: &'a Lists<T>,
    /// The places of the lists that hold each cluster.
    holders: ByCluster,
    prices: Vec<f64>,
    /// Which candidate each row has taken.
    slots: Vec<u32>,
    masses: Vec<f64>,
    sizes: Sizes,
    bid: f64,
    /// Rows that may come or go: what it costs, which, and the slot they take.
    offers: Vec<(f64, u32, u32)>,
}

impl<'a, T: Real> Market<'a, T> {
    /// Each row takes what is best for it at the prices as they are.
    pub fn open(data: &'a Dataset<'a, T>, lists: &'a Lists<T>, prices: Vec<f64>, sizes: Sizes) -> Result<Self> {
        let (width, clusters) = (lists.width, prices.len());
        let holders = ByCluster::new(&lists.ids, clusters, |place| lists.distances[place].is_finite())?;
        let mut slots = filled(0u32, lists.rows(), "labels")?;
        slots.par_iter_mut().enumerate().with_min_len(1024).for_each(|(n, slot)| {
            *slot = best(lists, &prices, n, None).1;
        });
        let mut masses = filled(0.0, clusters, "masses")?;
        let mut error = 0.0;
        for (n, &slot) in slots.iter().enumerate() {
            let place = n * width + slot as usize;
            masses[lists.ids[place] as usize] += data.weight(n);
            error += data.weight(n) * lists.distances[place].to_f64();
        }
        let bid = BID * error / data.total_weight();
        Ok(Self { data, lists, holders, prices, slots, masses, sizes, bid, offers: Vec::new() })
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
        let mut budget = PASSES * self.lists.ids.len();
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
            let looked_at = self.holders.of(c as usize).len();
            let Some(left) = budget.checked_sub(looked_at + 1) else { break };
            budget = left;
            touched.clear();
            if self.masses[c as usize] > self.sizes.high {
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
        let mut offers = std::mem::take(&mut self.offers);
        offers.clear();
        for &place in self.holders.of(c) {
            let (n, slot) = (place as usize / width, place % width as u32);
            if self.slots[n] == slot && self.data.weight(n) > 0.0 {
                let (cost, next) = best(self.lists, &self.prices, n, Some(slot));
                if cost.is_finite() {
                    offers.push((cost - self.paid(n), n as u32, next));
                }
            }
        }
        sort(&mut offers);
        let mut last = 0.0;
        for &(gap, n, slot) in &offers {
            if self.masses[c] <= self.sizes.high {
                break;
            }
            touched.push(self.take(n as usize, slot));
            last = gap;
        }
        self.prices[c] += f64::max(last, 0.0) + self.bid;
        self.offers = offers;
    }

    /// The rows that could come to `c`, the willing ones first.
    fn ask(&mut self, c: usize) -> Vec<(f64, u32, u32)> {
        let width = self.lists.width;
        let mut offers = std::mem::take(&mut self.offers);
        offers.clear();
        for &place in self.holders.of(c) {
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

fn sort(offers: &mut [(f64, u32, u32)]) {
    offers.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
}
