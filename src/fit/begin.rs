//! How a run begins: the initial centers, and iterations on samples of the rows before those on all rows.

use super::em::{Loop, expectation_maximization};
use crate::data::{Dataset, Moments, PrioritySample};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::model::Model;
use crate::model::score::{least_variance, most_variance};
use crate::observer::Observer;
use crate::options::{Metric, Stop};
use crate::parallel::Run;
use crate::plan::{Params, Plan, Seeding};
use crate::report::Report;
use crate::seeding::cells::Splitter;
use crate::seeding::hierarchical::{FirstLook, look_at, seed_hierarchical};
use crate::seeding::{Seeds, seed_afkmc2, seed_plus_plus, seed_random};
use crate::step::{ByCluster, Memberships, Search, Shard, Start, Summary, Trainer, iterations_of_round};
use crate::von_mises_fisher;
use ndarray::{ArrayView1, ArrayView2};

/// Lower bound on s2, relative to the variance of the data.
const VARIANCE_FLOOR: f64 = 1e-12;
/// Maximum number of iterations on one sample, besides refinement: more would fit peculiarities of the sample.
const ITERATIONS_ON_A_SAMPLE: usize = 20;
/// Iterations on a sample are cheap, so they use this fraction of the tolerance.
const SAMPLE_TOL: f64 = 0.1;

/// The input of a run.
pub(super) struct Setup<'a, T: Real> {
    pub params: &'a Params,
    pub plan: &'a Plan,
    pub moments: &'a Moments,
    /// All rows, if they are in memory.
    pub data: Option<&'a Dataset<'a, T>>,
    /// A sample of the rows, if the plan uses one or the rows are not in memory.
    pub sample: Option<&'a PrioritySample<T>>,
    /// Number of all rows.
    pub rows: u64,
    /// The sum of their weights, in units of `weight_unit`.
    pub weight: f64,
    pub weight_unit: f64,
    /// Initial centers.
    pub given: Option<ArrayView2<'a, T>>,
    pub observer: &'a dyn Observer,
}

/// What a trainer starts from.
enum Source<'a, T: Real> {
    Rows(&'a Dataset<'a, T>),
    Centers(ArrayView2<'a, T>),
    Trained(Trained<T>),
}

/// The result of training on a sample.
struct Trained<T: Real> {
    model: Model<T>,
    report: Report,
    seconds: f64,
}

impl<'a, T: Real> Setup<'a, T> {
    /// For rows in memory with this summary, which are all rows, or a coreset of rows with these `moments`.
    pub fn new(
        params: &'a Params,
        plan: &'a Plan,
        data: &'a Dataset<'a, T>,
        summary: &'a Summary<T>,
        moments: &'a Moments,
        given: Option<ArrayView2<'a, T>>,
        observer: &'a dyn Observer,
    ) -> Self {
        let sample = (!plan.samples.is_empty()).then_some(&summary.sample);
        let (rows, weight) = (data.rows() as u64, data.total_weight());
        Self { params, plan, moments, data: Some(data), sample, rows, weight, weight_unit: 1.0, given, observer }
    }

    /// How calls of the fit are run.
    pub fn run(&self) -> Run<'a> {
        Run { threads: self.params.run_threads(), observer: self.observer }
    }

    /// All rows. They must be in memory.
    pub fn rows_in_memory(&self) -> &'a Dataset<'a, T> {
        self.data.expect("the rows are in memory")
    }

    /// The smallest s2 allowed.
    pub fn variance_floor(&self) -> f64 {
        variance_floor(self.moments, self.plan.metric)
    }

    /// The trainer for all rows, after the iterations on samples; and the rows in each cell of its seeding, if known.
    /// With `once` there are no iterations on samples.
    pub fn trainer(&self, run: usize, seed: u64, once: bool) -> Result<(Trainer<T>, Option<ByCluster>)> {
        if let Some(given) = self.given {
            return self.begin(Source::Centers(given), self.rows, self.weight, seed);
        }
        let Some(sample) = self.sample else {
            return self.begin(Source::Rows(self.rows_in_memory()), self.rows, self.weight, seed);
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

    /// A sample of this size, with the weights that its rows represent.
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
        // At least half of the iterations are on all rows.
        let rounds = self.plan.refine.saturating_mul(iterations_of_round(self.plan.refine));
        let more = ITERATIONS_ON_A_SAMPLE.saturating_add(rounds);
        let most = iterations.saturating_add(more).min(self.plan.max_iter / 2);
        let from = earlier.map_or(Source::Rows(rows), Source::Trained);
        let (mut trainer, cells) = self.begin(from, rows.rows() as u64, rows.total_weight(), seed)?;
        if !once && iterations < most {
            let mut memberships = [cells.map_or_else(Memberships::new, Memberships::in_cells)];
            let em = Loop { run, max_iter: most, of: self.plan.max_iter, labels: false, observer: self.observer };
            expectation_maximization(&mut trainer, &[Shard::whole(rows)], &mut memberships, &em)?;
        }
        let seconds = trainer.seconds();
        let (model, report) = trainer.into_parts();
        Ok(Trained { model, report, seconds })
    }

    /// The origin of coordinates; directions have none.
    fn origin(&self) -> Option<Vec<T>> {
        if self.plan.metric == Metric::Cosine { None } else { self.moments.origin() }
    }

    /// The smallest and the largest s2 allowed in EM. If clusters share one s2 but differ in weight, scores contain
    /// offsets in units of s2, which must fit in `T` for data in any unit.
    fn variance_range(&self) -> (f64, f64) {
        let floor = self.variance_floor();
        match self.plan.shape_rule() {
            Some(rule) if rule.moments().is_none() => {
                let most = most_variance::<T>();
                (floor.clamp(least_variance::<T>(), most), most)
            }
            _ => (floor, f64::MAX),
        }
    }

    /// A trainer for `rows` rows, which need not be in memory.
    fn begin(&self, from: Source<'_, T>, rows: u64, weight: f64, seed: u64) -> Result<(Trainer<T>, Option<ByCluster>)> {
        let (floor, most) = self.variance_range();
        let mut training = self.plan.training(floor);
        training.refine = match from {
            Source::Rows(_) => training.refine,
            // Given centers are not moved by refinement unless it was requested.
            Source::Centers(_) => self.params.asked_to_refine(),
            // Refinement was done on a sample.
            Source::Trained(_) => 0,
        };
        if rows < self.rows {
            training.tol *= SAMPLE_TOL;
            if training.shape.take().is_some() {
                // Variances of clusters are learned on all rows.
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

    /// A start at given centers. Rows find near clusters by cells if the search depends on it or if `near` is true;
    /// otherwise their first K(n) is drawn at random.
    fn start_at(&self, model: Model<T>, near: bool, rows: u64, seed: u64) -> Result<Start<T>> {
        let search = self.plan.search;
        let near = match search {
            // All clusters are compared anyway.
            Search::Exhaustive { .. } => false,
            Search::Grouped { .. } => true,
            _ => near,
        };
        if !near {
            return Ok(Start { model, cells: None, sequence: Vec::new(), evaluations: 0 });
        }
        let (FirstLook { cells, sequence }, evaluations) =
            look_at(model.local_centers(), model.dim(), search.truncation(), seed, self.observer)?;
        // Each row is compared with the cells.
        let evaluations = evaluations.saturating_add(rows.saturating_mul(cells.lists.len() as u64));
        Ok(Start { model, cells: Some(cells), sequence, evaluations })
    }

    /// Chooses the initial centers among `data`, and the first candidates. Also returns the rows of each cell, if the
    /// seeding has assigned them all.
    fn choose(&self, data: &Dataset<'_, T>, seed: u64) -> Result<(Start<T>, Option<ByCluster>)> {
        let Setup { plan, moments, observer, .. } = *self;
        let origin = self.origin();
        let (clusters, h) = (plan.clusters, plan.search.truncation());
        let variance = moments.variance().max(self.variance_floor());
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

/// The memberships of each shard before the first step, with the cells of its rows if they are known.
pub(super) fn memberships_of<T: Real>(shards: &[Shard<'_, T>], cells: Option<ByCluster>) -> Result<Vec<Memberships>> {
    let Some(cells) = cells else { return Ok(vec![Memberships::new(); shards.len()]) };
    if shards.len() == 1 {
        return Ok(vec![Memberships::in_cells(cells)]);
    }
    let own = |shard: &Shard<'_, T>| {
        let first = shard.first_row() as usize;
        Ok(Memberships::in_cells(cells.slice(first..first + shard.rows())?))
    };
    shards.iter().map(own).collect()
}

/// Rows with their weights, unless these are all equal.
fn dataset<'a, T: Real>(values: &'a [T], dim: usize, weights: &'a [f64]) -> Result<Dataset<'a, T>> {
    let data = Dataset::from_slice(values, dim)?;
    if weights.iter().all(|w| *w == weights[0]) { Ok(data) } else { data.weighted(ArrayView1::from(weights)) }
}

/// The smallest s2 allowed. Constant data and clusters of single rows would otherwise have s2 = 0 and infinite F.
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
