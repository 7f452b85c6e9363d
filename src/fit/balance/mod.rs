//! Balance: labels with which no cluster has more than `max_size` times the mean mass, at nearly the same error.
//!
//! With a cap on masses, the labels of least error for given centers are a transport problem. Its dual has a price p_c for each
//! cluster, and a row takes the candidate of the lowest d_c(n) + p_c:
//!
//! ```text
//! max_p  sum_n w_n min_{c in K(n)} (d_c(n) + p_c) - cap sum_c p_c        p_c >= 0, and 0 where a cluster has room
//! ```
//!
//! The [market] finds the prices as an auction does (D. P. Bertsekas, "The auction algorithm", Annals of Operations Research,
//! 1988): a cluster above the cap becomes dearer by just as much as lets enough of its rows go to their next candidates. Rows
//! look at their candidates only, whose distances are known, so that this takes far less time than a search.
//!
//! ```text
//! small max_size: dissolve clusters that are far too small, split those that are far too large
//! repeat: prices and labels over K(n); each center to the mean of its rows; distances to K(n) anew
//! rows of clusters that are still above the cap: to the nearest cluster with room, those that lose least first
//! each center to the mean of its rows
//! ```
//!
//! A max_size m near 1 asks for more than a cap: masses are to lie between lo = (2 - m) (1 + m) / 2 and m times the mean, so that
//! their coefficient of variation, which is at most ((m - 1) (1 - lo))^(1/2) then, is about 3/4 of m - 1. From m = 2 on lo is 0.
//!
//! All of it is sequential or per row and cluster: the number of threads changes no bit.

mod market;
mod repair;
mod split;

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{collected, filled};
use crate::model::Model;
use crate::model::score::log_normalizer;
use crate::observer::Observer;
use crate::plan::CANDIDATES;
use crate::report::Report;
use crate::step::{ByCluster, Memberships};
use market::Market;
use rayon::prelude::*;

/// Rounds of labels and means.
const ROUNDS: usize = 3;
/// The cap that prices are for is this part of the cap: the rest is room for rows that find none at their candidates.
const INSIDE: f64 = 0.985;
/// Masses are sums, whose rounding is no excess.
const ROUNDING: f64 = 1e-9;
/// What memory is asked for.
const WHAT: &str = "candidates of the rows";

/// The clusters that rows may belong to, and their squared distances.
pub(super) struct Lists<T> {
    pub width: usize,
    /// Rows x width. A place without a cluster has the first one once more, infinitely far away.
    pub ids: Vec<u32>,
    pub distances: Vec<T>,
}

/// Which masses clusters are to have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// The most that is allowed ...
    pub cap: f64,
    /// ... and what is aimed at: from `low` to `high`.
    pub low: f64,
    pub high: f64,
}

impl Sizes {
    /// Those of so many rows of positive weight and of this weight in all.
    pub fn new(max_size: f64, rows: usize, weight: f64, clusters: usize) -> Self {
        let (mean, unit) = (weight / clusters as f64, weight / rows as f64);
        let cap = max_size * mean * (1.0 + ROUNDING);
        let low = ((2.0 - max_size) * (1.0 + max_size) / 2.0).max(0.0) * mean;
        // Where clusters have few rows the room would be less than one.
        let whole = (cap / unit).floor() * unit;
        let high = if (1.0 - INSIDE) * cap < unit { whole } else { INSIDE * cap };
        Self { cap, low, high: high.max(mean) }
    }
}

impl<T: Real> Lists<T> {
    /// Those of the last step of a search, whose members are sorted by distance; the distances are measured anew.
    pub fn of_members(memberships: &[Memberships], data: &Dataset<'_, T>, model: &Model<T>) -> Result<Self> {
        let kept = memberships.first().map_or(1, |m| m.kept);
        let width = kept.min(CANDIDATES);
        let mut ids = Vec::new();
        for memberships in memberships {
            let nearest = memberships.members.chunks_exact(kept).flat_map(|set| &set[..width]);
            crate::memory::reserve(&mut ids, memberships.members.len() / kept * width, WHAT)?;
            ids.extend(nearest.copied());
        }
        let distances = filled(T::ZERO, ids.len(), WHAT)?;
        let mut lists = Self { width, ids, distances };
        lists.measure(data, model);
        Ok(lists)
    }

    /// Those that an exact or approximate search has found.
    pub fn new(width: usize, ids: Vec<u32>, distances: Vec<T>) -> Self {
        Self { width, ids, distances }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.ids.len() / self.width
    }

    /// Measures the distances to the centers as they are.
    fn measure(&mut self, data: &Dataset<'_, T>, model: &Model<T>) {
        let width = self.width;
        let rows = self.ids.par_chunks(width).zip(self.distances.par_chunks_mut(width)).enumerate();
        rows.with_min_len(256).for_each_init(Vec::new, |local, (n, (ids, out))| {
            let absent = out.iter().position(|d| !d.is_finite()).unwrap_or(width);
            let row = data.local(n, model.origin(), local);
            T::gathered_distances(row, model.local_centers(), &ids[..absent], &mut out[..absent]);
        });
    }
}

/// What balancing needs to know of a fit.
pub(super) struct Balance<'a> {
    pub max_size: f64,
    pub seed: u64,
    /// The smallest s2 allowed.
    pub variance_floor: f64,
    pub observer: &'a dyn Observer,
}

impl Balance<'_> {
    /// Moves the centers of `model` (IN OUT) and gives each row of `data` a label, within the cap where that is possible.
    /// `report` (IN OUT) is that of the fit. Must run inside a pool.
    pub fn run<T: Real>(
        &self,
        model: &mut Model<T>,
        data: &Dataset<'_, T>,
        mut lists: Lists<T>,
        report: &mut Report,
    ) -> Result<Vec<u32>> {
        let (clusters, weight) = (model.clusters(), data.total_weight());
        let sizes = Sizes::new(self.max_size, data.positive_rows(), weight, clusters);
        let mut prices = filled(0.0, clusters, "prices")?;
        let mut labels = Vec::new();
        for round in 0..ROUNDS {
            if sizes.low > 0.0 && round + 1 < ROUNDS {
                split::split(data, model, &mut lists, (&mut prices, sizes), self.seed, round as u64, self.observer)?;
            }
            if self.observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let mut market = Market::open(data, &lists, prices, sizes)?;
            market.trade(self.observer)?;
            let masses;
            (labels, masses, prices) = market.close()?;
            if round + 1 == ROUNDS {
                repair::repair(data, model, &lists, (&mut labels, masses), sizes.cap, self.observer)?;
            }
            to_means(model, data, &labels)?;
            if round + 1 < ROUNDS {
                lists.measure(data, model);
            }
        }
        model.round_centers();
        self.say(model, data, &labels, sizes, report);
        Ok(labels)
    }

    /// What the report says of labels: F is that of the posterior that is all at the label.
    fn say<T: Real>(
        &self,
        model: &mut Model<T>,
        data: &Dataset<'_, T>,
        labels: &[u32],
        sizes: Sizes,
        report: &mut Report,
    ) {
        const ROWS: usize = 1 << 14;
        let parts: Vec<f64> = labels
            .par_chunks(ROWS)
            .enumerate()
            .map_init(Vec::new, |local, (i, labels)| {
                let mut error = 0.0;
                for (n, &c) in (i * ROWS..).zip(labels) {
                    let mut distance = [T::ZERO];
                    let row = data.local(n, model.origin(), local);
                    T::gathered_distances(row, model.local_centers(), &[c], &mut distance);
                    error += data.weight(n) * distance[0].to_f64();
                }
                error
            })
            .collect();
        let (inertia, weight, dim) = (parts.iter().sum::<f64>(), data.total_weight(), model.dim());
        let variance = (inertia / (weight * dim as f64)).max(self.variance_floor);
        model.set_variance(variance);
        report.inertia = inertia;
        let constant = -(model.clusters() as f64).ln() - log_normalizer(dim, variance);
        report.lower_bound = constant - inertia / (2.0 * variance * weight);
        report.oversized_clusters =
            masses_of(data, labels, model.clusters()).iter().filter(|m| **m > sizes.cap).count();
        report.empty_clusters = super::count_empty(labels, model);
    }
}

/// The mass of each cluster.
fn masses_of<T: Real>(data: &Dataset<'_, T>, labels: &[u32], clusters: usize) -> Vec<f64> {
    let mut masses = vec![0.0; clusters];
    labels.iter().enumerate().for_each(|(n, &c)| masses[c as usize] += data.weight(n));
    masses
}

/// Moves each center to the mean of its rows. One without mass stays.
fn to_means<T: Real>(model: &mut Model<T>, data: &Dataset<'_, T>, labels: &[u32]) -> Result<()> {
    let (clusters, dim) = (model.clusters(), model.dim());
    let origin = model.origin().map(<[T]>::to_vec);
    let rows = ByCluster::new(labels, clusters, |n| data.weight(n) > 0.0)?;
    model.local_centers_mut().par_chunks_mut(dim).enumerate().with_min_len(8).for_each_init(
        || (Vec::new(), Vec::new()),
        |(local, sum), (c, center)| mean_of(data, origin.as_deref(), rows.of(c), center, (local, sum)),
    );
    Ok(())
}

/// The weighted mean of some rows, counted from `origin` (OUT; as it is where there are none).
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

/// Some of a row's clusters in a list of `width` (OUT), the nearest first.
fn keep<T: Real>(found: &mut Vec<(T, u32)>, ids: &mut [u32], distances: &mut [T]) {
    found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let first = found[0].1;
    let found = found.iter().copied().chain(std::iter::repeat((T::INFINITY, first)));
    for ((id, d), (distance, c)) in ids.iter_mut().zip(distances).zip(found) {
        (*id, *d) = (c, distance);
    }
}

/// The clusters of the slots that rows have taken.
fn taken(slots: &[u32], ids: &[u32], width: usize) -> Result<Vec<u32>> {
    collected(slots.iter().enumerate().map(|(n, &slot)| ids[n * width + slot as usize]), "labels")
}
