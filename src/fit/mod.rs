//! The driver: the paper's algorithm, from the data to a model and its labels. It alone knows the order of things.
//!
//! ```text
//! coreset (optional) -> seeding -> mu, s2, K(n)
//! many rows per cluster: first on samples of the rows, then on all:
//! repeat: E-step over each shard: search candidates, K(n), q(n), statistics; merged -> F, stop?
//!         M-step: mu, s2, rows of S; move clusters without mass
//! last E-step against the returned centers -> labels
//! sizes of clusters are bounded: labels within the bound, centers at the means of their rows
//! ```
//!
//! | symbol | here |
//! |---|---|
//! | y(n), w_n | [`Dataset`], cut into [`Shard`]s |
//! | mu_c, s2 | [`Model`] |
//! | K(n) | [`Memberships`] |
//! | S, H, R | [`Round`](crate::step::Round) |
//! | F | [`Progress`](crate::step::Progress) |

mod balance;
mod begin;
mod em;
mod of_labels;
mod stream;

pub use stream::{Batch, Stream};

use crate::data::coreset::draw_coreset;
use crate::data::{Dataset, DistinctRows, Moments};
use crate::error::{Error, Result, Spanning};
use crate::kernel::{Real, for_both};
use crate::memory::{check_room, reserve};
use crate::model::Model;
use crate::observer::{Event, Observer, Silent};
use crate::options::{Labels, Metric};
use crate::parallel::Run;
use crate::plan::{CANDIDATES, Fitted, Params, Plan};
use crate::report::Report;
use crate::rng::{Stage, stream};
use crate::step::{Bound, ByCluster, Memberships, Merger, Shard, Summary, Trainer};
use balance::{Lists, balance_of, near_lists};
use begin::{Ground, variance_floor};
use em::{Loop, expectation_maximization};
use ndarray::ArrayView2;
use of_labels::{count_empty, inertia_of};
use std::iter;
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

    /// A trainer of rows that are elsewhere, from a summary of all of them: it chooses the first centers among the rows of
    /// its sample, unless they are given, and begins the training there. See [`step`](crate::step).
    pub fn trainer_from<T: Real>(
        &self,
        summary: &Summary<T>,
        start: Option<ArrayView2<'_, T>>,
        run: &Run<'_>,
    ) -> Result<Trainer<T>> {
        trainer_from(self, summary, start, run)
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
        match &start {
            Some(start) => params.check_start(start, data.dim())?,
            None => params.check_no_start()?,
        }
        let run = Run { threads: params.run_threads(), observer };
        let sharded = params.resolve(data.rows(), data.dim()).is_sharded();
        let data = &run.install(|| data.for_metric(params.metric_of(), 0, observer))?;
        // Equal rows may have to go to different clusters.
        let whole = sharded || params.is_balanced();
        // Copies share their weight, which must not vanish.
        let unit = data.weight_unit();
        let scaled = (unit != 1.0).then(|| data.in_weights_of(unit)).transpose()?;
        let Some(distinct) = DistinctRows::of(scaled.as_ref().unwrap_or(data), params.clusters()).filter(|_| !whole) else {
            return run.install(|| fit(params, data, start, observer));
        };
        let mut fit = run.install(|| fit(params, &distinct.dataset()?, start, observer))?;
        fit.report.inertia *= unit;
        if !fit.labels.is_empty() {
            fit.labels = distinct.labels(&fit.labels, || fit.model.predict(data, &run))?;
            if distinct.has_copies() {
                // Copies of a row may have gone to other clusters than the one that it is labeled with.
                fit.report.inertia = inertia_of(&fit.labels, data, &fit.model)?;
            }
            fit.report.empty_clusters = count_empty(&fit.labels, &fit.model)?;
        }
        Ok(fit)
    }
}

for_both! {
    fn trainer_from(
        params: &Params,
        summary: &Summary<T>,
        start: Option<ArrayView2<'_, T>>,
        run: &Run<'_>,
    ) -> Result<Trainer<T>> {
        let (rows, dim) = (summary.rows as usize, summary.dim());
        if summary.positive_rows == 0 {
            return Err(Error::ZeroWeights);
        }
        params.check(rows, summary.positive_rows as usize)?;
        params.check_elsewhere()?;
        summary.check_metric(params.metric_of())?;
        let (plan, unit) = (params.resolve(rows, dim), summary.weight_unit());
        let moments = summary.moments.in_weights_of(unit);
        moments.check_range::<T>()?;
        moments.check_spread::<T>()?;
        if let Some(start) = &start {
            params.check_start(start, dim)?;
        } else {
            params.check_no_start()?;
            summary.check_sample(plan.sampling().size)?;
        }
        check_reach(&moments, start.as_ref(), &plan)?;
        let ground = Ground {
            params,
            plan: &plan,
            moments: &moments,
            data: None,
            sample: Some(&summary.sample),
            rows: summary.rows,
            weight: moments.weight,
            weight_unit: unit,
            given: start,
            observer: run.observer,
        };
        let (trainer, _) = run.install(|| ground.trainer(0, plan.seed, false))?;
        Ok(trainer.in_weights_of(unit))
    }
}

/// What is known of the rows of `data` before they are fitted, and a sample of them where the plan has one.
fn summary_of<T: Real>(data: &Dataset<'_, T>, plan: &Plan, observer: &dyn Observer) -> Result<Summary<T>> {
    let mut sampling = plan.sampling();
    if plan.samples.is_empty() {
        sampling.size = 0;
    }
    let mut merger = Merger::default();
    for shard in &Shard::cut(data, plan.shard_rows)? {
        merger.add(Summary::new(shard, &sampling, true, observer)?)?;
    }
    Ok(merger.finish()?.expect("there is a shard"))
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
    let summary = summary_of(data, &plan, observer)?;
    summary.moments.check_range::<T>()?;
    summary.moments.check_spread::<T>()?;
    check_reach(&summary.moments, given.as_ref(), &plan)?;
    let run = Run { threads: params.run_threads(), observer };
    check_room(plan.memory(size_of::<T>(), rayon::current_num_threads()), "the fit")?;
    let Fitted::Coreset(size) = plan.fitted else {
        let fit = best_run(&ground(params, data, &summary, &summary.moments, &plan, given, observer), false)?;
        return labeled(fit, data, &plan, variance_floor(&summary.moments, plan.metric), &run);
    };
    let clock = Instant::now();
    let stop = observer.event(&Event::Coreset { size }).is_break();
    let coreset = draw_coreset(data, &summary.moments, size, plan.seed, observer)?;
    let seconds = clock.elapsed().as_secs_f64();
    let weighted = coreset.dataset()?.already(plan.metric);
    let of_coreset = summary_of(&weighted, &plan, observer)?;
    let mut fit = best_run(&ground(params, &weighted, &of_coreset, &summary.moments, &plan, given, observer), stop)?;
    fit.report.seconds.coreset = seconds;
    fit.report.evaluations.coreset = coreset.evaluations;
    labeled(fit, data, &plan, variance_floor(&summary.moments, plan.metric), &run)
}

/// Refuses a start so far from the rows that squared distances would overflow, which directions never are, and rows of which
/// second moments would.
fn check_reach<T: Real>(moments: &Moments, start: Option<&ArrayView2<'_, T>>, plan: &Plan) -> Result<()> {
    let sums = plan.shape_rule().is_some_and(|rule| rule.moments().is_some());
    match (plan.metric, start) {
        (Metric::Cosine, _) => Ok(()),
        (Metric::Euclidean, None) => moments.check_reach::<T>(Spanning::Data, iter::empty(), sums),
        (Metric::Euclidean, Some(start)) => moments.check_reach(Spanning::DataAndStart, start.iter().copied(), sums),
    }
}

/// What the runs over `data` begin with.
fn ground<'a, T: Real>(
    params: &'a Params,
    data: &'a Dataset<'a, T>,
    summary: &'a Summary<T>,
    moments: &'a Moments,
    plan: &'a Plan,
    given: Option<ArrayView2<'a, T>>,
    observer: &'a dyn Observer,
) -> Ground<'a, T> {
    let sample = (!plan.samples.is_empty()).then_some(&summary.sample);
    let (rows, weight) = (data.rows() as u64, data.total_weight());
    Ground { params, plan, moments, data: Some(data), sample, rows, weight, weight_unit: 1.0, given, observer }
}

/// Gives all rows of `data` the labels that were asked for. So far they are those of the fitted rows, by the fit's own search.
fn labeled<T: Real>(
    mut fit: Fit<T>,
    data: &Dataset<'_, T>,
    plan: &Plan,
    variance_floor: f64,
    run: &Run<'_>,
) -> Result<Fit<T>> {
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
        // They are balanced, by the search that was asked for.
        (Labels::Exact, Fitted::All) if plan.max_size.is_some() => return Ok(fit),
        (_, Fitted::Coreset(_)) if plan.max_size.is_some() => {
            let lists = near_lists(&fit.model, data, plan, run)?;
            let Fit { model, report, .. } = &mut fit;
            fit.labels = balance_of(plan, variance_floor, run.observer).run(model, data, lists, report)?;
            fit.report.seconds.labels = clock.elapsed().as_secs_f64();
            return Ok(fit);
        }
        (Labels::Exact, _) | (Labels::Auto, Fitted::Coreset(_)) => fit.model.likeliest(data, run.observer)?,
        (Labels::Approximate, Fitted::Coreset(_)) if fit.model.shape().is_some() => {
            fit.model.likeliest(data, run.observer)?
        }
        (Labels::Approximate, Fitted::Coreset(_)) => {
            let mut index = fit.model.index(run)?;
            index.tune(data, LABEL_RECALL, run)?;
            index.nearest(data, run)?
        }
    };
    fit.report.inertia = distances.iter().enumerate().map(|(n, d)| data.weight(n) * d.to_f64()).sum();
    fit.report.empty_clusters = count_empty(&labels, &fit.model)?;
    fit.labels = labels;
    fit.report.seconds.labels = clock.elapsed().as_secs_f64();
    Ok(fit)
}

/// Of `n_init` whole runs the one with the highest F; a run is one value, and nothing of the others is kept. Where the
/// observer stops a run, it is the last, and may be the best. Whoever stops a fit that has no model yet, as `stop` says, gets
/// that of one iteration.
fn best_run<T: Real>(ground: &Ground<'_, T>, stop: bool) -> Result<Fit<T>> {
    let (plan, observer) = (ground.plan, ground.observer);
    let runs = if ground.given.is_some() { 1 } else { plan.n_init };
    let stop = observer.event(&Event::Seeding { run: 0, clusters: plan.clusters }).is_break() || stop;
    let (mut best, mut highest) = one_run(ground, 0, stop)?;
    let mut seconds = best.report.seconds;
    let mut stopped = best.report.stopped || stop;
    for run in 1..runs {
        stopped = stopped || observer.event(&Event::Seeding { run, clusters: plan.clusters }).is_break();
        if stopped {
            break;
        }
        let (fit, bound) = one_run(ground, run, false)?;
        stopped = fit.report.stopped;
        seconds.seeding += fit.report.seconds.seeding;
        seconds.em += fit.report.seconds.em;
        if bound.above(&highest) > 0.0 {
            (best, highest) = (fit, bound);
        }
    }
    best.report.stopped = stopped;
    best.report.seconds = seconds;
    Ok(best)
}

/// Seeding, EM, labels, and F; with `once` of one iteration.
fn one_run<T: Real>(ground: &Ground<'_, T>, run: usize, once: bool) -> Result<(Fit<T>, Bound)> {
    let Ground { plan, observer, .. } = *ground;
    let seed = if run == 0 { plan.seed } else { stream(plan.seed, Stage::Restart, run as u64, 0).bits() };
    let clock = Instant::now();
    let (mut trainer, cells) = ground.trainer(run, seed, once)?;
    let early = trainer.report().iterations.last().map_or(0.0, |last| last.seconds);
    let seeding = clock.elapsed().as_secs_f64() - early;
    let shards = Shard::cut(ground.data.expect("rows are at hand"), plan.shard_rows)?;
    let mut memberships = vec![Memberships::new(); shards.len()];
    if let Some(cells) = cells {
        place_in_cells(&mut memberships, &shards, cells)?;
    }
    let max_iter = if once { 1 } else { plan.max_iter };
    let em = Loop { run, max_iter, of: max_iter, last_look: true, observer };
    expectation_maximization(&mut trainer, &shards, &mut memberships, &em)?;
    let bound = trainer.bound().expect("it has finished");
    let (mut model, mut report) = trainer.into_parts();
    report.run = run;
    let labels = match plan.max_size {
        Some(_) if plan.fitted == Fitted::All || plan.labels == Labels::None => {
            balanced_labels(ground, &mut model, &memberships, &mut report)?
        }
        _ => {
            let mut labels = Vec::new();
            reserve(&mut labels, ground.rows as usize, "labels")?;
            memberships.iter().for_each(|memberships| labels.extend(memberships.nearest()));
            report.empty_clusters = count_empty(&labels, &model)?;
            labels
        }
    };
    (report.seconds.seeding, report.seconds.em) = (seeding, clock.elapsed().as_secs_f64() - seeding);
    Ok((Fit { model, labels, report }, bound))
}

/// Labels within the bound on sizes, among the candidates of the last step where a row has several, else among the nearest clusters.
fn balanced_labels<T: Real>(
    ground: &Ground<'_, T>,
    model: &mut Model<T>,
    memberships: &[Memberships],
    report: &mut Report,
) -> Result<Vec<u32>> {
    let (plan, data) = (ground.plan, ground.data.expect("rows are at hand"));
    let lists = if plan.search.kept() == 1 || plan.labels == Labels::Exact {
        let (width, observer) = (CANDIDATES.min(model.clusters()), ground.observer);
        let (ids, distances) = model.nearest_k(data, width, observer)?;
        Lists::new(width, ids, distances)
    } else {
        Lists::of_members(memberships)?
    };
    balance_of(plan, variance_floor(ground.moments, plan.metric), ground.observer).run(model, data, lists, report)
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
