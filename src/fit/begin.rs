//! How a run begins: the first centers, and iterations on samples of the rows before those on all of them.

use super::em::{Loop, expectation_maximization};
use crate::data::{Dataset, Moments, PrioritySample};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::model::Model;
use crate::model::score::{least_variance, most_variance};
use crate::observer::Observer;
use crate::options::{Metric, Stop};
use crate::plan::{Params, Plan, Seeding};
use crate::report::Report;
use crate::seeding::cells::Splitter;
use crate::seeding::hierarchical::{FirstLook, look_at, seed_hierarchical};
use crate::seeding::{Seeds, seed_afkmc2, seed_plus_plus, seed_random};
use crate::step::{ByCluster, Memberships, Search, Shard, Start, Trainer, iterations_of_round};
use crate::von_mises_fisher;
use ndarray::{ArrayView1, ArrayView2};

/// s2 may not fall below this share of the data's.
const VARIANCE_FLOOR: f64 = 1e-12;
/// Iterations on one sample at most, beside those of refinement: more would fit what only the sample has.
const ITERATIONS_ON_A_SAMPLE: usize = 20;
/// They are cheap, so they go on until F rises by a smaller part than the tolerance allows for all rows.
const SAMPLE_TOL: f64 = 0.1;

/// What a run begins with.
pub(super) struct Ground<'a, T: Real> {
    pub params: &'a Params,
    pub plan: &'a Plan,
    pub moments: &'a Moments,
    /// All rows, where they are at hand.
    pub data: Option<&'a Dataset<'a, T>>,
    /// A sample of them, where the plan has one or they are not at hand.
    pub sample: Option<&'a PrioritySample<T>>,
    /// Number of all rows.
    pub rows: u64,
    /// The sum of their weights, counted in units.
    pub weight: f64,
    pub weight_unit: f64,
    /// Centers to start from.
    pub given: Option<ArrayView2<'a, T>>,
    pub observer: &'a dyn Observer,
}

/// What a trainer begins with.
enum Source<'a, T: Real> {
    Rows(&'a Dataset<'a, T>),
    Centers(ArrayView2<'a, T>),
    Trained(Trained<T>),
}

/// What training on a sample has led to.
struct Trained<T: Real> {
    model: Model<T>,
    report: Report,
    seconds: f64,
}

impl<T: Real> Ground<'_, T> {
    /// The trainer of all rows, after the iterations on samples of them; and which rows are in the cells of its start, where
    /// that is known. With `once` there are no such iterations.
    pub fn trainer(&self, run: usize, seed: u64, once: bool) -> Result<(Trainer<T>, Option<ByCluster>)> {
        if let Some(given) = self.given {
            return self.begin(Source::Centers(given), self.rows, self.weight, seed);
        }
        let Some(sample) = self.sample else {
            let data = self.data.expect("rows are at hand where there is no sample");
            return self.begin(Source::Rows(data), self.rows, self.weight, seed);
        };
        let mut trained = None;
        for &size in &self.plan.samples {
            let (values, weights) = self.take(sample, size)?;
            let rows = dataset(&values, sample.dim, &weights)?.already(self.plan.metric);
            trained = Some(self.train_on(&rows, trained, run, seed, once)?);
        }
        match trained {
            Some(trained) => {
                let stopped = trained.report.stopped;
                let (mut trainer, cells) = self.begin(Source::Trained(trained), self.rows, self.weight, seed)?;
                if stopped {
                    trainer.stop();
                }
                Ok((trainer, cells))
            }
            None => {
                let (values, weights) = self.take(sample, sample.size)?;
                let rows = dataset(&values, sample.dim, &weights)?.already(self.plan.metric);
                self.begin(Source::Rows(&rows), self.rows, self.weight, seed)
            }
        }
    }

    /// A sample of this size, with the weights that its rows stand for.
    fn take(&self, sample: &PrioritySample<T>, size: usize) -> Result<(Vec<T>, Vec<f64>)> {
        let (values, mut weights) = sample.take(size, self.data)?;
        let (clusters, rows) = (self.plan.clusters, weights.len());
        if rows < clusters {
            return Err(Error::TooManyClusters { clusters, rows });
        }
        weights.iter_mut().for_each(|w| *w /= self.weight_unit);
        Ok((values, weights))
    }

    /// EM on the rows of a sample.
    fn train_on(
        &self,
        rows: &Dataset<'_, T>,
        earlier: Option<Trained<T>>,
        run: usize,
        seed: u64,
        once: bool,
    ) -> Result<Trained<T>> {
        let iterations = earlier.as_ref().map_or(0, |t| t.report.iterations.len());
        // At least half of the iterations are for all rows.
        let rounds = self.plan.refine.saturating_mul(iterations_of_round(self.plan.refine));
        let more = ITERATIONS_ON_A_SAMPLE.saturating_add(rounds);
        let most = iterations.saturating_add(more).min(self.plan.max_iter / 2);
        let from = earlier.map_or(Source::Rows(rows), Source::Trained);
        let (mut trainer, cells) = self.begin(from, rows.rows() as u64, rows.total_weight(), seed)?;
        if !once && iterations < most {
            let mut memberships = [cells.map_or_else(Memberships::new, Memberships::in_cells)];
            let em = Loop { run, max_iter: most, of: self.plan.max_iter, last_look: false, observer: self.observer };
            expectation_maximization(&mut trainer, &[Shard::whole(rows)], &mut memberships, &em)?;
        }
        let seconds = trainer.seconds();
        let (model, report) = trainer.into_parts();
        Ok(Trained { model, report, seconds })
    }

    /// Where coordinates are counted from: directions have none.
    fn origin(&self) -> Option<Vec<T>> {
        if self.plan.metric == Metric::Cosine { None } else { self.moments.origin() }
    }

    /// The smallest s2 and the largest. One s2 beside weights must suit their offsets, however large or small the data.
    fn variances(&self) -> (f64, f64) {
        let floor = variance_floor(self.moments, self.plan.metric);
        match self.plan.shape_rule() {
            Some(rule) if rule.moments().is_none() => {
                let most = most_variance::<T>();
                (floor.clamp(least_variance::<T>(), most), most)
            }
            _ => (floor, f64::MAX),
        }
    }

    /// A trainer of this many rows, which may be elsewhere.
    fn begin(&self, from: Source<'_, T>, rows: u64, weight: f64, seed: u64) -> Result<(Trainer<T>, Option<ByCluster>)> {
        let (floor, most) = self.variances();
        let mut training = self.plan.training(floor);
        training.refine = match from {
            Source::Rows(_) => training.refine,
            // Who says where clusters are does not expect that they are moved, unless that is asked for.
            Source::Centers(_) => self.params.asked_to_refine(),
            // It is done: on a sample.
            Source::Trained(_) => 0,
        };
        if rows < self.rows {
            training.tol *= SAMPLE_TOL;
            if training.shape.take().is_some() {
                // Variances of clusters are left to all rows.
                (training.hard, training.stop) = (true, Stop::PerDim);
            }
        }
        let new = |start| Trainer::new(training, start, rows, weight, seed);
        Ok(match from {
            Source::Trained(Trained { model, report, seconds }) => {
                (new(self.start_at(model, true, rows, seed)?)?.after(report, seconds), None)
            }
            Source::Centers(centers) => {
                let variance = self.moments.variance().max(floor);
                let mut model = Model::from_origin(centers, self.origin(), variance)?.for_metric(self.plan.metric)?;
                let shape =
                    self.params.start_shape(centers.ncols(), variance, (floor.max(least_variance::<T>()), most))?;
                shape.into_iter().for_each(|shape| model.set_shape(shape));
                (new(self.start_at(model, false, rows, seed)?)?, None)
            }
            Source::Rows(data) => {
                let (start, cells) = self.choose(data, seed)?;
                (new(start)?, cells)
            }
        })
    }

    /// A start at given centers. Rows look for those near them where the search depends on it, or where `look` says so; else
    /// their first K(n) is drawn at random.
    fn start_at(&self, model: Model<T>, look: bool, rows: u64, seed: u64) -> Result<Start<T>> {
        let search = self.plan.search;
        let looks = match search {
            // All clusters are looked at anyway.
            Search::Exhaustive { .. } => false,
            Search::Grouped { .. } => true,
            _ => look,
        };
        if !looks {
            return Ok(Start { model, cells: None, sequence: Vec::new(), evaluations: 0 });
        }
        let (FirstLook { cells, sequence }, evaluations) =
            look_at(model.local_centers(), model.dim(), search.truncation(), seed, self.observer)?;
        // Each row looks for its cell.
        let evaluations = evaluations.saturating_add(rows.saturating_mul(cells.lists.len() as u64));
        Ok(Start { model, cells: Some(cells), sequence, evaluations })
    }

    /// Chooses the first centers among `data`, and where to look for them. The rows of each cell are known where the start
    /// has looked at all of them.
    fn choose(&self, data: &Dataset<'_, T>, seed: u64) -> Result<(Start<T>, Option<ByCluster>)> {
        let Ground { plan, moments, observer, .. } = *self;
        let origin = self.origin();
        let (clusters, h) = (plan.clusters, plan.search.truncation());
        let variance = moments.variance().max(variance_floor(moments, plan.metric));
        let model = |seeds: &Seeds<T>| {
            Model::from_origin(seeds.centers.view(), origin.clone(), variance)?.for_metric(plan.metric)
        };
        let seeds = match plan.seeding {
            Seeding::Hierarchical { chain_length } => {
                let splitter = Splitter { data, origin: origin.as_deref(), seed, observer };
                let (seeds, look, rows) = seed_hierarchical(&splitter, clusters, chain_length, h)?;
                let (model, evaluations) = (model(&seeds)?, seeds.evaluations);
                if matches!(plan.search, Search::Exhaustive { .. }) {
                    return Ok((Start { model, cells: None, sequence: Vec::new(), evaluations }, None));
                }
                let FirstLook { cells, sequence } = look;
                return Ok((Start { model, cells: Some(cells), sequence, evaluations }, Some(rows)));
            }
            Seeding::Random => seed_random(data, clusters, seed, observer)?,
            Seeding::PlusPlus { trials } => seed_plus_plus(data, clusters, trials, seed, observer)?,
            Seeding::AfkMc2 { chain_length } => seed_afkmc2(data, moments, clusters, chain_length, seed, observer)?,
        };
        let mut start = self.start_at(model(&seeds)?, false, data.rows() as u64, seed)?;
        start.evaluations += seeds.evaluations;
        Ok((start, None))
    }
}

/// Rows with their weights, where these differ.
fn dataset<'a, T: Real>(values: &'a [T], dim: usize, weights: &'a [f64]) -> Result<Dataset<'a, T>> {
    let data = Dataset::from_slice(values, dim)?;
    if weights.iter().all(|w| *w == weights[0]) { Ok(data) } else { data.weighted(ArrayView1::from(weights)) }
}

/// The smallest s2 allowed: constant data and clusters of single points would have none, and an infinite F.
pub(super) fn variance_floor(moments: &Moments, metric: Metric) -> f64 {
    if metric == Metric::Cosine {
        return 1.0 / von_mises_fisher::MOST;
    }
    let scale = match moments.variance() {
        0.0 => moments.mean.iter().map(|m| m * m).sum::<f64>() / moments.mean.len() as f64,
        variance => variance,
    };
    (VARIANCE_FLOOR * scale).max(f64::MIN_POSITIVE)
}
