//! Prices of clusters by an auction over the candidates of the rows. See the [parent module](super).
//!
//! If row n of cluster c moves to its next candidate, it loses
//!
//! ```text
//! gap = min_{j != c} (d_j + p_j) - d_c - p_c
//! ```
//!
//! In a cluster above its bound, the rows with the smallest gaps leave, and p_c rises by the last of these gaps plus a
//! small increment, so that an auction between equals ends. As long as prices only rise, the loss of a row only grows,
//! so every computed loss remains a lower bound. The rows of a cluster therefore wait in a heap ordered by such bounds,
//! and only those at the top are evaluated again. Clusters below their bound are then made cheaper in the same way,
//! which leaves none above its bound.

use super::{Lists, Sizes, masses_by, rows_by, taken};
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{filled, par_collected, reserve};
use crate::observer::Observer;
use crate::step::ByCluster;
use rayon::prelude::*;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::collections::binary_heap::{BinaryHeap, PeekMut};

/// Increment of a cluster's first bid, relative to the mean squared distance. The second adds twice as much, and so on,
/// so that prices rise faster where many rows compete for too little room.
const BID: f64 = 2e-3;
/// A row pays at most the distance of its farthest candidate without a price, plus this fraction of the mean squared
/// distance: among all clusters there is something cheaper, which [repair](super::repair) finds.
const ELSEWHERE: f64 = 0.5;
/// A cluster above its bound keeps this fraction of it, so that other rows can come.
const KEPT: f64 = 0.99;
/// Maximum number of evaluations per row, on average.
const PASSES: usize = 6;
/// Number of clusters between checks for cancellation.
const ASKED: usize = 1024;
/// Name of this memory in messages.
const WHAT: &str = "rows that may change their cluster";

/// The cost of moving a row, the row, and its new slot. The order is reversed, so that the heap returns the cheapest.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Offer {
    cost: f64,
    row: u32,
    slot: u32,
}

impl Eq for Offer {}

impl PartialOrd for Offer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Offer {
    fn cmp(&self, other: &Self) -> Ordering {
        other.cost.total_cmp(&self.cost).then(other.row.cmp(&self.row))
    }
}

/// The rows of a cluster by a lower bound on what they lose when they leave, excluding the cluster's own price.
#[derive(Debug, Clone, Default)]
struct Leaving {
    offers: BinaryHeap<Offer>,
    /// Whether the cluster's initial rows are among them.
    complete: bool,
    /// How often the cluster has shed rows.
    bids: u32,
}

/// Rows that choose among their candidates by distance plus price.
pub(super) struct Market<'a, T: Real> {
    data: &'a Dataset<'a, T>,
    lists: &'a Lists<T>,
    /// The initial rows of each cluster.
    rows: ByCluster,
    leaving: Vec<Leaving>,
    prices: Vec<f64>,
    /// The candidate that each row has chosen.
    slots: Vec<u32>,
    masses: Vec<f64>,
    sizes: Sizes,
    /// The mass that a cluster above its bound keeps.
    kept: f64,
    bid: f64,
    elsewhere: f64,
    /// Number of evaluations left.
    budget: usize,
}

impl<'a, T: Real> Market<'a, T> {
    /// Each row chooses the best candidate at the current prices. `spread` is the mean squared distance.
    pub fn open(
        data: &'a Dataset<'a, T>,
        lists: &'a Lists<T>,
        prices: Vec<f64>,
        sizes: Sizes,
        spread: f64,
    ) -> Result<Self> {
        let clusters = prices.len();
        let each = (0..lists.rows()).into_par_iter().with_min_len(1024);
        let slots = par_collected(each.map(|n| best(lists, &prices, n)), WHAT)?;
        let rows = rows_by(data, lists, &slots, clusters)?;
        let masses = masses_by(data, &rows);
        let unit = data.total_weight() / data.positive_rows() as f64;
        let kept = if (1.0 - KEPT) * sizes.high > unit { KEPT * sizes.high } else { sizes.high };
        let (leaving, budget) = (filled(Leaving::default(), clusters, WHAT)?, PASSES * slots.len());
        let elsewhere = if lists.width < clusters { ELSEWHERE * spread } else { f64::INFINITY };
        let bid = BID * spread;
        Ok(Self { data, lists, rows, leaving, prices, slots, masses, sizes, kept, bid, elsewhere, budget })
    }

    /// Changes prices until the masses are within bounds or the budget is used up.
    pub fn trade(&mut self, observer: &dyn Observer) -> Result<()> {
        let clusters = self.prices.len();
        let cheaper: Vec<bool> = (0..clusters).map(|c| self.prices[c] > 0.0 && self.masses[c] < self.kept).collect();
        if cheaper.contains(&true) {
            let holders = self.lists.holders(clusters, |c| cheaper[c as usize])?;
            (0..clusters).filter(|&c| cheaper[c]).for_each(|c| self.discount(c, &holders));
            self.rows = rows_by(self.data, self.lists, &self.slots, clusters)?;
        }
        self.gather()?;
        self.each_in_turn(observer, |market, c| market.masses[c] > market.sizes.high, Self::shed)?;
        if self.masses.iter().any(|&mass| mass < self.sizes.low) {
            self.budget = PASSES * self.slots.len();
            let holders = self.lists.holders(clusters, |_| true)?;
            let attract = |market: &mut Self, c: usize, touched: &mut Vec<u32>| {
                market.attract(c, &holders, touched);
                Ok(())
            };
            self.each_in_turn(observer, |market, c| market.masses[c] < market.sizes.low, attract)?;
        }
        Ok(())
    }

    /// The labels, masses and prices.
    pub fn close(self) -> Result<(Vec<u32>, Vec<f64>, Vec<f64>)> {
        Ok((taken(&self.slots, self.lists)?, self.masses, self.prices))
    }

    /// Repairs each cluster that is out of bounds, and those that this pushes out of bounds.
    fn each_in_turn(
        &mut self,
        observer: &dyn Observer,
        is_out: impl Fn(&Self, usize) -> bool,
        mut mend: impl FnMut(&mut Self, usize, &mut Vec<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut queue: VecDeque<u32> = (0..self.prices.len() as u32).filter(|&c| is_out(self, c as usize)).collect();
        let mut queued = vec![false; self.prices.len()];
        queue.iter().for_each(|&c| queued[c as usize] = true);
        let mut touched = Vec::new();
        for count in 0.. {
            let Some(c) = queue.pop_front().filter(|_| self.budget > 0) else { break };
            if count % ASKED == 0 && observer.cancelled() {
                return Err(Error::Cancelled);
            }
            queued[c as usize] = false;
            if !is_out(self, c as usize) {
                continue;
            }
            touched.clear();
            mend(self, c as usize, &mut touched)?;
            for &other in &touched {
                if is_out(self, other as usize) && !std::mem::replace(&mut queued[other as usize], true) {
                    queue.push_back(other);
                }
            }
        }
        Ok(())
    }

    /// What row `n` pays at its current slot.
    fn paid(&self, n: usize) -> f64 {
        let place = n * self.lists.width + self.slots[n] as usize;
        self.lists.distances[place].to_f64() + self.prices[self.lists.ids[place] as usize]
    }

    /// The loss of row `n` when it moves to its next candidate, excluding the price of its current cluster.
    fn offer(&self, n: u32) -> Offer {
        let (slot, (ids, distances)) = (self.slots[n as usize], self.lists.row(n as usize));
        let (mut cost, mut next, mut own, mut farthest) = (f64::INFINITY, 0, 0.0, 0.0);
        for (i, (&c, d)) in (0..).zip(ids.iter().zip(distances)) {
            let (d, price) = (d.to_f64(), self.prices[c as usize]);
            if i == slot {
                own = d;
            } else if d + price < cost {
                (cost, next) = (d + price, i);
            }
            farthest = if d < f64::INFINITY { f64::max(farthest, d) } else { farthest };
        }
        let cost = if cost > farthest + self.elsewhere { f64::INFINITY } else { cost - own };
        Offer { cost, row: n, slot: next }
    }

    /// Collects the offers of the rows of clusters above their bound.
    fn gather(&mut self) -> Result<()> {
        let mut leaving = std::mem::take(&mut self.leaving);
        let large = leaving.par_iter_mut().enumerate().filter(|&(c, _)| self.masses[c] > self.sizes.high);
        large.try_for_each(|(c, leaving)| self.complete(c, leaving))?;
        self.leaving = leaving;
        Ok(())
    }

    /// Adds the offers of the initial rows of `c`, none of which has left yet.
    fn complete(&self, c: usize, leaving: &mut Leaving) -> Result<()> {
        let mut offers = std::mem::take(&mut leaving.offers).into_vec();
        reserve(&mut offers, self.rows.of(c).len(), WHAT)?;
        offers.extend(self.rows.of(c).iter().map(|&n| self.offer(n)));
        (leaving.offers, leaving.complete) = (BinaryHeap::from(offers), true);
        Ok(())
    }

    /// The current cluster of row `n`.
    fn label(&self, n: u32) -> u32 {
        self.lists.ids[n as usize * self.lists.width + self.slots[n as usize] as usize]
    }

    /// Sheds rows of `c` until it is within its bound. `touched` (OUT) are the clusters that they move to.
    fn shed(&mut self, c: usize, touched: &mut Vec<u32>) -> Result<()> {
        let mut leaving = std::mem::take(&mut self.leaving[c]);
        if !leaving.complete {
            self.budget = self.budget.saturating_sub(self.rows.of(c).len());
            self.complete(c, &mut leaving)?;
        }
        let mut last = self.prices[c];
        while self.masses[c] > self.kept {
            let Some(mut first) = leaving.offers.peek_mut() else { break };
            let now = self.offer(first.row);
            self.budget = self.budget.saturating_sub(1);
            if now.cost > first.cost {
                *first = now;
                continue;
            }
            if now.cost == f64::INFINITY {
                break;
            }
            PeekMut::pop(first);
            last = f64::max(last, now.cost);
            let to = self.take(now.row, now.slot);
            let arrived = &mut self.leaving[to as usize].offers;
            arrived.try_reserve(1).map_err(|_| Error::OutOfMemory { what: WHAT, bytes: size_of::<Offer>() })?;
            // Its loss there is computed when it is due.
            arrived.push(Offer { cost: f64::NEG_INFINITY, ..now });
            touched.push(to);
        }
        leaving.bids += 1;
        self.prices[c] = last + self.bid * f64::from(leaving.bids);
        self.leaving[c] = leaving;
        Ok(())
    }

    /// The rows that could come to `c` and would lose less than `most`.
    fn ask(&mut self, c: usize, holders: &ByCluster, most: f64) -> BinaryHeap<Offer> {
        let (width, mut offers) = (self.lists.width, Vec::new());
        for &place in holders.of(c) {
            let (n, slot) = (place as usize / width, place % width as u32);
            let cost = self.lists.distances[place as usize].to_f64() + self.prices[c] - self.paid(n);
            if cost < most && self.slots[n] != slot && self.data.weight(n) > 0.0 {
                offers.push(Offer { cost, row: n as u32, slot });
            }
        }
        self.budget = self.budget.saturating_sub(holders.of(c).len() / 2 + 1);
        BinaryHeap::from(offers)
    }

    /// Makes `c` cheaper until it has enough mass. `touched` (OUT) are the clusters that its rows come from.
    fn attract(&mut self, c: usize, holders: &ByCluster, touched: &mut Vec<u32>) {
        let mut last = 0.0;
        let mut offers = self.ask(c, holders, f64::INFINITY);
        while self.masses[c] < self.sizes.low {
            let Some(Offer { cost, row, slot }) = offers.pop() else { break };
            if self.masses[c] + self.data.weight(row as usize) <= self.sizes.high {
                touched.push(self.label(row));
                self.take(row, slot);
                last = cost;
            }
        }
        self.prices[c] -= f64::max(last, 0.0) + self.bid;
    }

    /// Lowers the price of `c`, which has room, as far as possible.
    fn discount(&mut self, c: usize, holders: &ByCluster) {
        let mut lowered = self.prices[c];
        let mut offers = self.ask(c, holders, self.prices[c]);
        while let Some(Offer { cost, row, slot }) = offers.pop() {
            if self.masses[c] + self.data.weight(row as usize) > self.kept {
                lowered = cost.max(0.0);
                break;
            }
            self.take(row, slot);
        }
        self.prices[c] -= lowered;
    }

    /// Moves row `n` to another slot. Returns the cluster there.
    fn take(&mut self, n: u32, slot: u32) -> u32 {
        let (from, weight) = (self.label(n), self.data.weight(n as usize));
        self.slots[n as usize] = slot;
        let to = self.label(n);
        self.masses[from as usize] -= weight;
        self.masses[to as usize] += weight;
        to
    }
}

/// The slot of row `n` with the smallest sum of distance and price.
fn best<T: Real>(lists: &Lists<T>, prices: &[f64], n: usize) -> u32 {
    let (ids, distances) = lists.row(n);
    let mut found = (f64::INFINITY, 0);
    for (slot, (&c, d)) in (0..).zip(ids.iter().zip(distances)) {
        let cost = d.to_f64() + prices[c as usize];
        if cost < found.0 {
            found = (cost, slot);
        }
    }
    found.1
}
