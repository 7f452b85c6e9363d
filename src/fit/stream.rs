//! Learning from a stream: one step per batch, whose statistics are mixed with the decayed statistics of earlier
//! batches.
//!
//! Stepwise EM (O. Cappé and E. Moulines, "On-line expectation-maximization algorithm for latent data models", Journal
//! of the Royal Statistical Society B, 2009): with N_c and m_c the mass and the mean of the rows of cluster c in a
//! batch of weight w, after batches of total weight W,
//!
//! ```text
//! g = (w / (W + w))^0.9
//! n_c <- (1 - g) n_c + g N_c / w        mu_c <- mu_c + g N_c / (w n_c) (m_c - mu_c)        s2 <- (1 - g) s2 + g s2 of the batch
//! ```
//!
//! With [`Metric::Cosine`] a center turns by that fraction of the way to the direction of m_c, and the quantity mixed
//! is the mean of 1 - mu.y, which determines the concentration.
//!
//! A cluster whose mass n_c has decayed to nearly nothing is moved to a row that is far from its nearest cluster. The
//! state has the size of the model, however long the stream is.

use super::begin::variance_floor;
use crate::data::Dataset;
use crate::error::{Error, Result, Spanning};
use crate::kernel::{Real, for_both};
use crate::memory::{collected, filled};
use crate::model::Model;
use crate::options::Metric;
use crate::parallel::Run;
use crate::plan::Params;
use crate::rng::{Stage, stream};
use crate::seeding::hierarchical::look_at;
use crate::step::{
    Memberships, Phase, Round, Scratch, Search, Shard, Statistics, bound_at, distance_of, step_in, turn_center,
    variance_of,
};
use std::sync::Arc;

/// How fast the weight of earlier batches decays: 0.5 is the fastest that converges, 1 weighs all rows equally.
const DECAY: f64 = 0.9;
/// A cluster is moved if its mass is below this fraction of the mean mass ...
const DEAD: f64 = 0.02;
/// ... and starts again with this fraction of it, so that the next rows have a large influence on its center.
const BORN: f64 = 0.25;

/// A model that learns from batches of rows by stepwise EM (Cappé and Moulines, 2009).
///
/// ```
/// use dgmm::{Dataset, KMeans, Run, Stream};
/// let values: Vec<f32> = (0..6000).map(|i| ((i / 2) % 4 * 100) as f32 + ((i * 37) % 11) as f32).collect();
/// let params = KMeans::params(4).seed(1);
/// let mut batches = values.chunks(1000);
/// let first = Dataset::from_slice(batches.next().unwrap(), 2)?;
/// let mut stream = Stream::begin(&params, &first, &Run::default())?;
/// for batch in batches {
///     stream.learn(&params, &Dataset::from_slice(batch, 2)?, &Run::default())?;
/// }
/// assert_eq!((stream.rows(), stream.model().clusters()), (3000, 4));
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Stream<T: Real> {
    model: Model<T>,
    /// n_c: the decayed mass of each cluster; their sum is about 1.
    masses: Vec<f64>,
    weight: f64,
    rows: u64,
}

/// A batch as seen by the model before learning from it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Batch {
    /// The nearest cluster of each row, as far as the search finds it.
    pub labels: Vec<u32>,
    /// Weighted sum of squared distances to these clusters.
    pub inertia: f64,
    /// F, per unit of weight.
    pub lower_bound: f64,
    /// Distance evaluations.
    pub evaluations: u64,
    /// Number of clusters that were moved because they had nearly no mass.
    pub born: usize,
}

impl<T: Real> Stream<T> {
    /// Fits the first batch like any data set, as the start of a stream.
    pub fn begin(params: &Params, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Self> {
        params.check_stream()?;
        let fit = params.clone().threads(run.threads).fit_observed(data, None, run.observer)?;
        let mut masses = filled(0.0, fit.model.clusters(), "masses of clusters")?;
        let labels = if fit.labels.is_empty() { fit.model.predict(data, run)? } else { fit.labels };
        for (n, &c) in labels.iter().enumerate() {
            masses[c as usize] += data.weight(n) / data.total_weight();
        }
        Self::new(fit.model, masses, data.total_weight(), data.rows() as u64)
    }

    /// Continues a stream from a model, the masses of its clusters, and the weight and number of the rows so far.
    pub fn new(model: Model<T>, masses: Vec<f64>, weight: f64, rows: u64) -> Result<Self> {
        if masses.len() != model.clusters() {
            let allowed = format!("the number of clusters, {}", model.clusters());
            return Err(Error::bad("the number of masses", masses.len(), allowed));
        }
        if let Some(mass) = masses.iter().find(|mass| !(mass.is_finite() && **mass >= 0.0)) {
            return Err(Error::bad("a mass", mass, "finite and at least 0"));
        }
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(Error::bad("the weight of the stream", weight, "finite and at least 0"));
        }
        Ok(Self { model, masses, weight, rows })
    }

    /// The current model.
    pub fn model(&self) -> &Model<T> {
        &self.model
    }

    /// The decayed mass of each cluster; their sum is about 1.
    pub fn masses(&self) -> &[f64] {
        &self.masses
    }

    /// Total weight of the rows so far.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Number of rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Learns from the next batch. On an error the model is unchanged.
    pub fn learn(&mut self, params: &Params, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Batch> {
        learn(self, params, data, run)
    }
}

for_both! {
    fn learn(of: &mut Stream<T>, params: &Params, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Batch> {
        let (dim, columns) = (of.model.dim(), data.dim());
        if dim != columns {
            return Err(Error::DimensionMismatch { columns, dim });
        }
        if params.clusters() != of.model.clusters() {
            let allowed = format!("{}, as in the stream", of.model.clusters());
            return Err(Error::bad("clusters", params.clusters(), allowed));
        }
        params.check(usize::MAX >> 8, usize::MAX >> 8)?;
        if params.metric_of() != of.model.metric() {
            let allowed = format!("'{}', as in the stream", of.model.metric().name());
            return Err(Error::bad("metric", format!("'{}'", params.metric_of().name()), allowed));
        }
        params.check_stream()?;
        run.install(|| {
            let data = &data.for_metric(of.model.metric(), 0, run.observer)?;
            let moments = data.moments(run.observer)?;
            moments.check_reach(Spanning::DataAndStart, of.model.centers().iter().copied(), false)?;
            let unit = data.weight_unit();
            let scaled = data.in_weights_of(unit)?;
            let (round, evaluations) = of.round(params, &scaled, run)?;
            let mut memberships = Memberships::new();
            let shard = Shard::new(scaled.clone(), of.rows)?;
            let statistics = step_in(&round, &shard, &mut memberships, &mut Scratch::default(), run.observer)?;
            let born = of.mix(&statistics, unit, variance_floor(&moments, of.model.metric()))?;
            of.rows = of.rows.saturating_add(data.rows() as u64);
            Ok(Batch {
                labels: memberships.labels(),
                inertia: statistics.inertia() * unit,
                lower_bound: bound_at(&statistics, &round.model)?.value(),
                evaluations: evaluations + statistics.evaluations(),
                born,
            })
        })
    }
}

impl<T: Real> Stream<T> {
    /// The round for a batch, and the distance evaluations spent on it.
    fn round(&self, params: &Params, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<(Round<T>, u64)> {
        let plan = params.resolve(data.rows(), data.dim());
        let seed = stream(plan.seed, Stage::Shard, 1, self.rows).bits();
        let (mut cells, mut sequence, mut evaluations) = (None, Vec::new(), 0);
        if !matches!(plan.search, Search::Exhaustive { .. }) {
            let h = plan.search.truncation();
            let (look, count) = look_at(self.model.local_centers(), data.dim(), h, seed, run.observer)?;
            evaluations = count + (data.rows() * look.cells.lists.len()) as u64;
            (cells, sequence) = (Some(Arc::new(look.cells)), look.sequence);
        }
        let phase = if plan.hard { Phase::Hard } else { Phase::Soft };
        let unit = data.rows() as f64 / data.total_weight();
        let round = Round::once(self.model.copied()?, plan.search, phase, seed, unit, cells, sequence)?;
        Ok((round, evaluations))
    }

    /// Mixes in the statistics of a batch, whose weights are in units of `unit`. Returns how many clusters were moved.
    fn mix(&mut self, statistics: &Statistics<T>, unit: f64, floor: f64) -> Result<usize> {
        // Allocated before anything is changed.
        let mut dead = collected(0..self.masses.len() as u32, "masses of clusters")?;
        let (dim, weight, metric) = (self.model.dim(), statistics.weight(), self.model.metric());
        let all = self.weight + weight * unit;
        let gain = (weight * unit / all).powf(DECAY);
        let sums = statistics.sums.chunks_exact(dim).zip(&statistics.mass);
        let centers = self.model.local_centers_mut().chunks_exact_mut(dim).zip(&mut self.masses);
        for ((center, n), (sum, &mass)) in centers.zip(sums) {
            *n = (1.0 - gain) * *n + gain * mass / weight;
            if mass > 0.0 {
                let share = gain * mass / (weight * *n);
                if metric == Metric::Cosine {
                    turn_center(center, sum, mass, share);
                    continue;
                }
                center.iter_mut().zip(sum).for_each(|(x, s)| {
                    let mean = s / mass;
                    *x = T::from_f64(x.to_f64() + share * (mean - x.to_f64()));
                });
            }
        }
        let mean = self.masses.iter().sum::<f64>() / self.masses.len() as f64;
        dead.retain(|&c| statistics.mass[c as usize] <= 0.0 && self.masses[c as usize] < DEAD * mean);
        let mut born = 0;
        for (c, far) in dead.into_iter().zip(&statistics.farthest) {
            self.model.local_centers_mut()[c as usize * dim..][..dim].copy_from_slice(&far.values);
            self.masses[c as usize] = BORN * mean;
            born += 1;
        }
        let variance = match metric {
            Metric::Euclidean => {
                (1.0 - gain) * self.model.variance() + gain * (statistics.weighted_distance / (weight * dim as f64))
            }
            // Mixes the mean of 1 - mu.y.
            Metric::Cosine => {
                let mixed = (1.0 - gain) * distance_of(&self.model) + gain * statistics.weighted_distance / weight;
                variance_of(&self.model, mixed, 1.0)
            }
        };
        self.model.set_variance(variance.max(floor));
        self.weight = all;
        Ok(born)
    }
}
