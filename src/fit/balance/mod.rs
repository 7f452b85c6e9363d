//! Balancing: labels with which no cluster exceeds `max_size` times the mean mass, at nearly the same error.
//!
//! With a cap on masses, the labels of least error for given centers solve a transport problem. Its dual has a price
//! p_c for each cluster, and each row takes the candidate with the lowest d_c(n) + p_c:
//!
//! ```text
//! max_p  sum_n w_n min_{c in K(n)} (d_c(n) + p_c) - cap sum_c p_c        p_c >= 0, and 0 where a cluster has room
//! ```
//!
//! The [market] finds the prices with an auction (D. P. Bertsekas, "The auction algorithm", Annals of Operations
//! Research, 1988): the price of a cluster above the cap rises just enough for sufficiently many of its rows to move to
//! their next candidates. Rows consider only their candidates, whose distances are known, so this takes far less time
//! than a search.
//!
//! ```text
//! small max_size: dissolve clusters that are far too small, split those that are far too large
//! repeat: prices and labels over K(n); move each center to the mean of its rows; measure distances to K(n) again
//! rows of clusters still above the cap: move to the nearest cluster with room, those that lose least first
//! move each center to the mean of its rows
//! ```
//!
//! A max_size m near 1 requires more than a cap: masses should be between lo = (2 - m) (1 + m) / 2 and m times the
//! mean. Their coefficient of variation is then at most ((m - 1) (1 - lo))^(1/2), about 3/4 of m - 1. For m of 2 or
//! more, lo is 0.
//!
//! Everything is either sequential or computed per row and cluster, so the number of threads does not change the bits.

mod market;
mod repair;
mod split;

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{filled, par_collected, reserve};
use crate::model::Model;
use crate::model::score::log_normalizer;
use crate::observer::Observer;
use crate::plan::{CANDIDATES, Plan};
use crate::report::Report;
use crate::step::{ByCluster, Memberships};
use market::Market;
use rayon::prelude::*;

/// Rounds of labels and means: if small clusters are also filled up, which needs centers that follow; otherwise ...
const ROUNDS: (usize, usize) = (2, 1);
/// ... and the maximum if the tolerance is below the default for many clusters: until the error no longer falls.
const MOST_ROUNDS: usize = 20;
const COARSE_TOL: f64 = 5e-3;
/// Number of initial rounds in which clusters are split.
const SPLIT_ROUNDS: usize = 2;
/// Prices are computed for this fraction of the cap; the rest is room for rows that find none among their candidates.
const INSIDE: f64 = 0.985;
/// Relative rounding error of masses, which does not count as an excess.
const ROUNDING: f64 = 1e-9;
/// Name of this memory in messages.
const WHAT: &str = "candidates of the rows";

/// The candidates of the rows, and their squared distances.
pub(super) struct Lists<T> {
    pub width: usize,
    /// Rows x width. Empty places repeat the first cluster, infinitely far away.
    pub ids: Vec<u32>,
    pub distances: Vec<T>,
}

/// Bounds on the masses of clusters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// The hard cap ...
    pub cap: f64,
    /// ... and the target range, from `low` to `high`.
    pub low: f64,
    pub high: f64,
}

impl Sizes {
    /// The bounds for this many rows of positive weight, with this total weight.
    pub fn new(max_size: f64, rows: usize, weight: f64, clusters: usize) -> Self {
        let (mean, unit) = (weight / clusters as f64, weight / rows as f64);
        let cap = max_size * mean * (1.0 + ROUNDING);
        let low = ((2.0 - max_size) * (1.0 + max_size) / 2.0).max(0.0) * mean;
        // If clusters have few rows, the room would be less than one row.
        let whole = (cap / unit).floor() * unit;
        let high = if (1.0 - INSIDE) * cap < unit { whole } else { INSIDE * cap };
        Self { cap, low, high: high.max(mean) }
    }
}

impl<T: Real> Lists<T> {
    /// The members after the last step of a search, sorted by distance. [`Balance::run`] measures them.
    pub fn of_members(memberships: &[Memberships]) -> Result<Self> {
        let kept = memberships.first().map_or(1, |m| m.kept);
        let width = kept.min(CANDIDATES);
        let mut ids = Vec::new();
        for memberships in memberships {
            let nearest = memberships.members.chunks_exact(kept).flat_map(|set| &set[..width]);
            reserve(&mut ids, memberships.members.len() / kept * width, WHAT)?;
            ids.extend(nearest.copied());
        }
        let distances = filled(T::ZERO, ids.len(), WHAT)?;
        Ok(Self { width, ids, distances })
    }

    /// The result of an exact or approximate search.
    pub fn new(width: usize, ids: Vec<u32>, distances: Vec<T>) -> Self {
        Self { width, ids, distances }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.ids.len() / self.width
    }

    /// The candidates of row `n`, and their distances.
    fn row(&self, n: usize) -> (&[u32], &[T]) {
        let places = n * self.width..(n + 1) * self.width;
        (&self.ids[places.clone()], &self.distances[places])
    }

    /// Measures all distances to the current centers.
    fn measure(&mut self, data: &Dataset<'_, T>, model: &Model<T>) {
        let width = self.width;
        let rows = self.ids.par_chunks(width).zip(self.distances.par_chunks_mut(width)).enumerate();
        rows.with_min_len(256).for_each_init(Vec::new, |local, (n, (ids, out))| {
            let absent = out.iter().position(|&d| d == T::INFINITY).unwrap_or(width);
            let row = data.local(n, model.origin(), local);
            T::gathered_distances(row, model.local_centers(), &ids[..absent], &mut out[..absent]);
        });
    }

    /// The places that hold each cluster, for the clusters for which `which` is true.
    fn holders(&self, clusters: usize, which: impl Fn(u32) -> bool + Sync) -> Result<ByCluster> {
        ByCluster::new(&self.ids, clusters, |place| which(self.ids[place]) && self.distances[place] != T::INFINITY)
    }
}

/// What balancing needs to know about a fit.
pub(super) struct Balance<'a> {
    /// Its tolerance is on half of the relative change of the error, as with [`Stop::PerDim`](crate::Stop::PerDim).
    pub plan: &'a Plan,
    /// The smallest s2 allowed.
    pub variance_floor: f64,
    pub observer: &'a dyn Observer,
}

impl Balance<'_> {
    /// Moves the centers of `model` (IN OUT) and returns a label for each row of `data`, within the cap if possible.
    /// Updates the fit's `report` (IN OUT). Must run inside a pool.
    pub fn run<T: Real>(
        &self,
        model: &mut Model<T>,
        data: &Dataset<'_, T>,
        mut lists: Lists<T>,
        report: &mut Report,
    ) -> Result<Vec<u32>> {
        let (clusters, weight, plan) = (model.clusters(), data.total_weight(), self.plan);
        let max_size = plan.max_size.unwrap_or(f64::INFINITY);
        let sizes = Sizes::new(max_size, data.positive_rows(), weight, clusters);
        let (mut prices, mut labels) = (filled(0.0, clusters, "prices")?, Vec::new());
        let (even, spread) = (sizes.low > 0.0, report.inertia / weight);
        let fine = plan.tol < COARSE_TOL;
        let most = if fine {
            MOST_ROUNDS
        } else if even {
            ROUNDS.0
        } else {
            ROUNDS.1
        };
        let mut error = f64::INFINITY;
        for round in 1..=most {
            if self.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            lists.measure(data, model);
            if even && round <= SPLIT_ROUNDS {
                split::split(data, model, &mut lists, (&mut prices, sizes), plan.seed, round as u64, self.observer)?;
            }
            let mut market = Market::open(data, &lists, prices, sizes, spread)?;
            market.trade(self.observer)?;
            let masses;
            (labels, masses, prices) = market.close()?;
            repair::repair(data, model, &lists, (&mut labels, masses), sizes.cap, self.observer)?;
            let before = std::mem::replace(&mut error, to_means(model, data, &labels)?);
            if (before / error).ln() <= plan.tol && !(even && round <= SPLIT_ROUNDS) {
                break;
            }
        }
        self.update_report(model, data, (&labels, error), sizes, report)?;
        Ok(labels)
    }

    /// Updates the report for the labels: F is that of the posterior that is 1 at the label.
    fn update_report<T: Real>(
        &self,
        model: &mut Model<T>,
        data: &Dataset<'_, T>,
        (labels, inertia): (&[u32], f64),
        sizes: Sizes,
        report: &mut Report,
    ) -> Result<()> {
        let (weight, dim) = (data.total_weight(), model.dim());
        let variance = (inertia / (weight * dim as f64)).max(self.variance_floor);
        model.set_variance(variance);
        report.inertia = inertia;
        let constant = -(model.clusters() as f64).ln() - log_normalizer(dim, variance);
        report.lower_bound = constant - inertia / (2.0 * variance * weight);
        let masses = masses_by(data, &ByCluster::new(labels, model.clusters(), |_| true)?);
        report.oversized_clusters = masses.iter().filter(|&&mass| mass > sizes.cap).count();
        report.empty_clusters = super::labels::count_empty(labels, model)?;
        Ok(())
    }
}

/// The rows of positive weight, by the clusters of their current slots.
fn rows_by<T: Real>(data: &Dataset<'_, T>, lists: &Lists<T>, slots: &[u32], clusters: usize) -> Result<ByCluster> {
    ByCluster::new(&taken(slots, lists)?, clusters, |n| data.weight(n) > 0.0)
}

/// The mass of each cluster, given its rows.
fn masses_by<T: Real>(data: &Dataset<'_, T>, rows: &ByCluster) -> Vec<f64> {
    let mass = |c: usize| rows.of(c).iter().map(|&n| data.weight(n as usize)).sum();
    (0..rows.clusters()).into_par_iter().map(mass).collect()
}

/// Moves each center to the mean of its rows, rounded as it is returned; a cluster without mass stays. Returns the
/// error.
fn to_means<T: Real>(model: &mut Model<T>, data: &Dataset<'_, T>, labels: &[u32]) -> Result<f64> {
    let (clusters, dim) = (model.clusters(), model.dim());
    let origin = model.origin().map(<[T]>::to_vec);
    let rows = ByCluster::new(labels, clusters, |n| data.weight(n) > 0.0)?;
    let centers = model.local_centers_mut().par_chunks_mut(dim).enumerate().with_min_len(8);
    let errors: Vec<f64> = centers
        .map_init(
            || (Vec::new(), Vec::new()),
            |(local, sum), (c, center)| {
                mean_of(data, origin.as_deref(), rows.of(c), center, (local, sum));
                if let Some(origin) = &origin {
                    center.iter_mut().zip(origin).for_each(|(x, &o)| *x = (*x + o) - o);
                }
                let mut distance = [T::ZERO];
                let mut error = 0.0;
                for &n in rows.of(c) {
                    let row = data.local(n as usize, origin.as_deref(), local);
                    T::gathered_distances(row, center, &[0], &mut distance);
                    error += data.weight(n as usize) * distance[0].to_f64();
                }
                error
            },
        )
        .collect();
    Ok(errors.iter().sum())
}

/// The weighted mean of some rows, relative to `origin` (OUT; unchanged if there are none).
fn mean_of<T: Real>(
    data: &Dataset<'_, T>,
    origin: Option<&[T]>,
    rows: &[u32],
    center: &mut [T],
    (local, sum): (&mut Vec<T>, &mut Vec<f64>),
) {
    sum.clear();
    sum.resize(center.len(), 0.0);
    let mut mass = 0.0;
    for &n in rows {
        let w = data.weight(n as usize);
        T::add_scaled(sum, w, data.local(n as usize, origin, local));
        mass += w;
    }
    if mass > 0.0 {
        center.iter_mut().zip(&*sum).for_each(|(x, s)| *x = T::from_f64(s / mass));
    }
}

/// Writes some of a row's clusters, nearest first, to a list of `width` (OUT).
fn keep<T: Real>(found: &mut [(T, u32)], ids: &mut [u32], distances: &mut [T]) {
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let first = found[0].1;
    let found = found.iter().copied().chain(std::iter::repeat((T::INFINITY, first)));
    for ((id, d), (distance, c)) in ids.iter_mut().zip(distances).zip(found) {
        (*id, *d) = (c, distance);
    }
}

/// The clusters of the rows' current slots.
fn taken<T: Real>(slots: &[u32], lists: &Lists<T>) -> Result<Vec<u32>> {
    let places = slots.par_iter().zip(lists.ids.par_chunks(lists.width)).with_min_len(1024);
    par_collected(places.map(|(&slot, ids)| ids[slot as usize]), "labels")
}
