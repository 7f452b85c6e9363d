//! The driver: the paper's algorithm, from the data to a model and its labels. It alone knows the order of things.
//!
//! ```text
//! coreset (optional) -> seeding -> mu, s2, K(n)
//! repeat: E-step over each shard: search candidates, K(n), q(n), statistics; merged -> F, stop?
//!         M-step: mu, s2, rows of S; move clusters without mass
//! last E-step against the returned centers -> labels
//! ```
//!
//! | symbol | here |
//! |---|---|
//! | y(n), w_n | [`Dataset`], cut into [`Shard`]s |
//! | mu_c, s2 | [`Model`] |
//! | K(n) | [`Memberships`] |
//! | S, H, R | [`Round`](crate::step::Round) |
//! | F | [`Progress`] |

mod start;

use crate::data::coreset::draw_coreset;
use crate::data::{Dataset, DistinctRows, Moments};
use crate::error::{Error, Result, Spanning};
use crate::kernel::{Real, for_both};
use crate::memory::{check_room, reserve};
use crate::model::Model;
use crate::observer::{Event, Observer, Silent};
use crate::options::Labels;
use crate::parallel::Run;
use crate::plan::{Fitted, Params, Plan};
use crate::report::Report;
use crate::rng::{Stage, stream};
use crate::step::{ByCluster, Memberships, Merger, Progress, Scratch, Shard, Trainer, step_in};
use ndarray::ArrayView2;
use start::{start, variance_floor};
use std::time::Instant;

/// The share of rows whose [approximate](Labels::Approximate) labels are to be the nearest cluster, or one at most 1 % farther.
const LABEL_RECALL: f64 = 0.98;

/// What a fit gives.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Fit<T: Real> {
    /// The centers and the variance.
    pub model: Model<T>,
    /// The cluster of each row: the nearest, as far as the search that was asked for knows. Empty where
    /// [no labels](crate::Labels::None) were asked for.
    pub labels: Vec<u32>,
    /// How it went: iterations, F, evaluations, seconds.
    pub report: Report,
}

/// What a fit runs on.
struct Setting<'a, T: Real> {
    data: &'a Dataset<'a, T>,
    moments: &'a Moments,
    plan: &'a Plan,
    /// Centers to start from.
    given: Option<ArrayView2<'a, T>>,
    observer: &'a dyn Observer,
}

impl Params {
    /// Checks, then fits. See [`Fit`].
    pub fn fit<T: Real>(&self, data: &Dataset<'_, T>) -> Result<Fit<T>> {
        self.fit_observed(data, None, &Silent)
    }

    /// As [`fit`](Self::fit), from the given centers if there are any, telling `observer` what happens.
    pub fn fit_observed<T: Real>(
        &self,
        data: &Dataset<'_, T>,
        start: Option<ArrayView2<'_, T>>,
        observer: &dyn Observer,
    ) -> Result<Fit<T>> {
        fit_observed(self, data, start, observer)
    }

    /// A trainer that starts where a fit of `data` would: for fits that run elsewhere. See [`step`](crate::step).
    pub fn trainer<T: Real>(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Trainer<T>> {
        trainer_of(self, data, run)
    }
}

for_both! {
    fn fit_observed(
        params: &Params,
        data: &Dataset<'_, T>,
        start: Option<ArrayView2<'_, T>>,
        observer: &dyn Observer,
    ) -> Result<Fit<T>> {
        params.check(data.rows(), data.positive_rows())?;
        if let Some(start) = &start {
            params.check_start(start, data.dim())?;
        }
        let run = Run { threads: params.run_threads(), observer };
        let Some(distinct) = DistinctRows::of(data, params.clusters()) else {
            return run.install(|| fit(params, data, start, observer));
        };
        let mut fit = run.install(|| fit(params, &distinct.dataset()?, start, observer))?;
        if !fit.labels.is_empty() {
            fit.labels = distinct.labels(&fit.labels, || fit.model.predict(data, &run))?;
        }
        Ok(fit)
    }
}

for_both! {
    fn trainer_of(params: &Params, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Trainer<T>> {
        params.check(data.rows(), data.positive_rows())?;
        run.install(|| {
            let (moments, plan) = (data.moments(run.observer)?, params.resolve(data.rows(), data.dim()));
            data.check_spread(&moments)?;
            let setting = Setting { data, moments: &moments, plan: &plan, given: None, observer: run.observer };
            Ok(trainer(&setting, plan.seed)?.0)
        })
    }
}

/// Fits all rows, or a coreset of them. Must run inside a pool.
fn fit<T: Real>(
    params: &Params,
    data: &Dataset<'_, T>,
    given: Option<ArrayView2<'_, T>>,
    observer: &dyn Observer,
) -> Result<Fit<T>> {
    let unit = data.weight_unit();
    if unit != 1.0 {
        let mut fit = fit(params, &data.in_weights_of(unit)?, given, observer)?;
        fit.report.inertia *= unit;
        return Ok(fit);
    }
    let plan = params.resolve(data.rows(), data.dim());
    let moments = data.moments(observer)?;
    data.check_spread(&moments)?;
    if let Some(given) = given {
        moments.check_reach(Spanning::DataAndStart, given.iter().copied())?;
    }
    let run = Run { threads: params.run_threads(), observer };
    check_room(plan.memory(size_of::<T>(), rayon::current_num_threads()), "the fit")?;
    let Fitted::Coreset(size) = plan.fitted else {
        let fit = best_run(&Setting { data, moments: &moments, plan: &plan, given, observer }, false)?;
        return labeled(fit, data, &plan, &run);
    };
    let clock = Instant::now();
    let stop = observer.event(&Event::Coreset { size }).is_break();
    let coreset = draw_coreset(data, &moments, size, plan.seed, observer)?;
    let seconds = clock.elapsed().as_secs_f64();
    let weighted = coreset.dataset()?;
    let mut fit = best_run(&Setting { data: &weighted, moments: &moments, plan: &plan, given, observer }, stop)?;
    fit.report.seconds.coreset = seconds;
    fit.report.evaluations.coreset = coreset.evaluations;
    labeled(fit, data, &plan, &run)
}

/// Gives all rows of `data` the labels that were asked for. So far they are those of the fitted rows, by the fit's own search.
fn labeled<T: Real>(mut fit: Fit<T>, data: &Dataset<'_, T>, plan: &Plan, run: &Run<'_>) -> Result<Fit<T>> {
    let Report { iterations, lower_bound, inertia, .. } = &fit.report;
    let mut bounds = iterations.iter().map(|i| i.lower_bound).chain([*lower_bound, *inertia]);
    let finite = fit.model.local_centers().iter().all(|x| x.is_finite()) && fit.model.variance().is_finite();
    if !finite || bounds.any(f64::is_nan) {
        return Err(Error::NotFiniteModel);
    }
    let clock = Instant::now();
    let (labels, distances) = match (plan.labels, plan.fitted) {
        (Labels::None, _) => {
            fit.labels = Vec::new();
            return Ok(fit);
        }
        (Labels::Auto | Labels::Approximate, Fitted::All) => return Ok(fit),
        (Labels::Exact, _) | (Labels::Auto, Fitted::Coreset(_)) => fit.model.nearest(data, run.observer)?,
        (Labels::Approximate, Fitted::Coreset(_)) => {
            let mut index = fit.model.index(run)?;
            index.tune(data, LABEL_RECALL, run)?;
            index.nearest(data, run)?
        }
    };
    fit.report.inertia = distances.iter().enumerate().map(|(n, d)| data.weight(n) * d.to_f64()).sum();
    fit.report.empty_clusters = count_empty(&labels, &fit.model);
    fit.labels = labels;
    fit.report.seconds.labels = clock.elapsed().as_secs_f64();
    Ok(fit)
}

/// Of `n_init` whole runs the one with the highest F; a run is one value, and nothing of the others is kept. Where the
/// observer stops a run, it is the last, and may be the best. Whoever stops a fit that has no model yet, as `stop` says, gets
/// that of one iteration.
fn best_run<T: Real>(setting: &Setting<'_, T>, stop: bool) -> Result<Fit<T>> {
    let (plan, observer) = (setting.plan, setting.observer);
    let runs = if setting.given.is_some() { 1 } else { plan.n_init };
    let stop = observer.event(&Event::Seeding { run: 0, clusters: plan.clusters }).is_break() || stop;
    let mut best = one_run(setting, 0, stop)?;
    let mut seconds = best.report.seconds;
    let mut stopped = best.report.stopped || stop;
    for run in 1..runs {
        stopped = stopped || observer.event(&Event::Seeding { run, clusters: plan.clusters }).is_break();
        if stopped {
            break;
        }
        let fit = one_run(setting, run, false)?;
        stopped = fit.report.stopped;
        seconds.seeding += fit.report.seconds.seeding;
        seconds.em += fit.report.seconds.em;
        if fit.report.lower_bound > best.report.lower_bound {
            best = fit;
        }
    }
    best.report.stopped = stopped;
    best.report.seconds = seconds;
    Ok(best)
}

/// Seeding, EM, labels; with `once` of one iteration.
fn one_run<T: Real>(setting: &Setting<'_, T>, run: usize, once: bool) -> Result<Fit<T>> {
    let seed = setting.plan.seed;
    let seed = if run == 0 { seed } else { stream(seed, Stage::Restart, run as u64, 0).bits() };
    let clock = Instant::now();
    let (mut trainer, cells) = trainer(setting, seed)?;
    let seeding = clock.elapsed().as_secs_f64();
    let shards = Shard::cut(setting.data, setting.plan.shard_rows)?;
    let mut memberships = vec![Memberships::new(); shards.len()];
    if let Some(cells) = cells {
        place_in_cells(&mut memberships, &shards, cells)?;
    }
    expectation_maximization(&mut trainer, &shards, &mut memberships, setting, run, once)?;
    let (model, mut report) = trainer.into_parts();
    let mut labels = Vec::new();
    reserve(&mut labels, setting.data.rows(), "labels")?;
    memberships.iter().for_each(|memberships| labels.extend(memberships.nearest()));
    report.run = run;
    report.empty_clusters = count_empty(&labels, &model);
    (report.seconds.seeding, report.seconds.em) = (seeding, clock.elapsed().as_secs_f64() - seeding);
    Ok(Fit { model, labels, report })
}

/// The trainer of a run, and which rows are in the cells of its start, where that is known.
fn trainer<T: Real>(setting: &Setting<'_, T>, seed: u64) -> Result<(Trainer<T>, Option<ByCluster>)> {
    let Setting { data, moments, plan, given, observer } = *setting;
    let (start, cells) = start(data, moments, plan, given, seed, observer)?;
    let training = plan.training(variance_floor(moments));
    Ok((Trainer::new(training, start, data.rows() as u64, data.total_weight(), seed)?, cells))
}

/// Lets each shard know the cells of its own rows.
fn place_in_cells<T: Real>(memberships: &mut [Memberships], shards: &[Shard<'_, T>], cells: ByCluster) -> Result<()> {
    if let [one] = memberships {
        *one = Memberships::in_cells(cells);
        return Ok(());
    }
    for (memberships, shard) in memberships.iter_mut().zip(shards) {
        let first = shard.first_row() as usize;
        *memberships = Memberships::in_cells(cells.slice(first..first + shard.rows())?);
    }
    Ok(())
}

/// The EM loop.
fn expectation_maximization<T: Real>(
    trainer: &mut Trainer<T>,
    shards: &[Shard<'_, T>],
    memberships: &mut [Memberships],
    setting: &Setting<'_, T>,
    run: usize,
    once: bool,
) -> Result<()> {
    let mut scratch = Scratch::default();
    while !trainer.is_finished() {
        let mut merger = Merger::default();
        for (shard, memberships) in shards.iter().zip(&mut *memberships) {
            merger.add(step_in(trainer.round(), shard, memberships, &mut scratch, setting.observer)?)?;
        }
        let merged = merger.finish()?.expect("there is a shard");
        let Progress::Iterated { iteration, lower_bound, change, variance, seconds } = trainer.absorb(merged)? else {
            continue;
        };
        let max_iter = if once { 1 } else { setting.plan.max_iter };
        let event = Event::Iteration { run, iteration, max_iter, lower_bound, change, variance, seconds };
        if setting.observer.event(&event).is_break() {
            trainer.stop();
        } else if once {
            trainer.end();
        }
    }
    Ok(())
}

/// Clusters that are no row's label, or share their center with one that is.
fn count_empty<T: Real>(labels: &[u32], model: &Model<T>) -> usize {
    let mut used = vec![false; model.clusters()];
    labels.iter().for_each(|&c| used[c as usize] = true);
    let dim = model.dim();
    let bits = |c: u32| model.local_centers()[c as usize * dim..][..dim].iter().map(|x| x.to_f64().to_bits());
    let mut distinct: Vec<u32> = (0..model.clusters() as u32).filter(|&c| used[c as usize]).collect();
    distinct.sort_unstable_by(|&a, &b| bits(a).cmp(bits(b)));
    distinct.dedup_by(|a, b| bits(*a).eq(bits(*b)));
    model.clusters() - distinct.len()
}
