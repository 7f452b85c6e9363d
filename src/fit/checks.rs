//! Checks and conversions before a fit: what the [driver](super) gets is valid, in the form that the metric uses, and has
//! weights near 1.

use super::begin::Setup;
use super::labels::{count_empty, inertia_of};
use super::{Fit, fit};
use crate::data::{Dataset, DistinctRows, Moments};
use crate::error::{Error, Result, Spanning};
use crate::kernel::{Real, for_both};
use crate::observer::Observer;
use crate::options::Metric;
use crate::parallel::Run;
use crate::plan::{Params, Plan};
use crate::step::{Merger, Shard, Summary, Trainer};
use ndarray::ArrayView2;
use std::iter;

for_both! {
    pub(super) fn fit_observed(
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
        // Copies of a row share its weight, which must not become 0.
        let unit = data.weight_unit();
        let distinct = {
            let near_one = (unit != 1.0).then(|| data.in_weights_of(unit)).transpose()?;
            DistinctRows::of(near_one.as_ref().unwrap_or(data), params.clusters()).filter(|_| !whole)
        };
        let Some(distinct) = distinct else {
            return run.install(|| scaled(params, data, start, observer));
        };
        let mut fit = run.install(|| scaled(params, &distinct.dataset()?, start, observer))?;
        fit.report.inertia *= unit;
        if !fit.labels.is_empty() {
            fit.labels = distinct.labels(&fit.labels, || fit.model.predict(data, &run))?;
            if distinct.has_copies() {
                // Copies of a row may be in other clusters than the one that it is labeled with.
                fit.report.inertia = inertia_of(&fit.labels, data, &fit.model)?;
            }
            fit.report.empty_clusters = count_empty(&fit.labels, &fit.model)?;
        }
        Ok(fit)
    }
}

/// [`fit`] with weights in units near their mean. Must run inside a pool.
fn scaled<T: Real>(
    params: &Params,
    data: &Dataset<'_, T>,
    given: Option<ArrayView2<'_, T>>,
    observer: &dyn Observer,
) -> Result<Fit<T>> {
    let unit = data.weight_unit();
    if unit == 1.0 {
        return fit(params, data, given, observer);
    }
    let mut fit = scaled(params, &data.in_weights_of(unit)?, given, observer)?;
    fit.report.inertia *= unit;
    Ok(fit)
}

for_both! {
    pub(super) fn trainer_from(
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
        params.check_sharded()?;
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
        let setup = Setup {
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
        let (trainer, _) = run.install(|| setup.trainer(0, plan.seed, false))?;
        Ok(trainer.in_weights_of(unit))
    }
}

/// The summary of rows that can be fitted, from the initial centers if there are any.
pub(super) fn checked_summary<T: Real>(
    data: &Dataset<'_, T>,
    plan: &Plan,
    given: Option<&ArrayView2<'_, T>>,
    observer: &dyn Observer,
) -> Result<Summary<T>> {
    let summary = summary_of(data, plan, observer)?;
    summary.moments.check_range::<T>()?;
    summary.moments.check_spread::<T>()?;
    check_reach(&summary.moments, given, plan)?;
    Ok(summary)
}

/// Summarizes the rows of `data` before the fit, with a sample of them if the plan uses one.
pub(super) fn summary_of<T: Real>(data: &Dataset<'_, T>, plan: &Plan, observer: &dyn Observer) -> Result<Summary<T>> {
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

/// Refuses initial centers so far from the rows that squared distances would overflow, and rows whose second moments
/// would; directions never do.
fn check_reach<T: Real>(moments: &Moments, start: Option<&ArrayView2<'_, T>>, plan: &Plan) -> Result<()> {
    let sums = plan.shape_rule().is_some_and(|rule| rule.moments().is_some());
    match (plan.metric, start) {
        (Metric::Cosine, _) => Ok(()),
        (Metric::Euclidean, None) => moments.check_reach::<T>(Spanning::Data, iter::empty(), sums),
        (Metric::Euclidean, Some(start)) => moments.check_reach(Spanning::DataAndStart, start.iter().copied(), sums),
    }
}
