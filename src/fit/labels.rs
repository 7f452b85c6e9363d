//! The labels of a fit, and what follows from them: inertia and empty clusters.

use super::Fit;
use super::balance::{Balance, Lists};
use super::begin::Setup;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{collected, filled, reserve};
use crate::model::Model;
use crate::model::score::Scores;
use crate::options::Labels;
use crate::plan::{CANDIDATES, Fitted};
use crate::report::Report;
use crate::step::Memberships;
use std::time::Instant;

/// Desired fraction of rows whose [approximate](Labels::Approximate) label is the nearest cluster, or one at most 1 %
/// farther.
const LABEL_RECALL: f64 = 0.98;

/// The labels of the fitted rows after a run, by its own search; within the bound on sizes if there is one, unless all
/// rows are labeled later.
pub(super) fn labels_of_run<T: Real>(
    setup: &Setup<'_, T>,
    model: &mut Model<T>,
    memberships: &[Memberships],
    report: &mut Report,
) -> Result<Vec<u32>> {
    let plan = setup.plan;
    if plan.max_size.is_some() && (plan.fitted == Fitted::All || plan.labels == Labels::None) {
        return balanced_labels(setup, model, setup.rows_in_memory(), Some(memberships), report);
    }
    let mut labels = Vec::new();
    reserve(&mut labels, setup.rows as usize, "labels")?;
    memberships.iter().for_each(|memberships| labels.extend(memberships.nearest()));
    report.empty_clusters = count_empty(&labels, model)?;
    Ok(labels)
}

/// Gives all rows of `data` the requested labels. So far the fitted rows have those of the fit's own search.
pub(super) fn labeled<T: Real>(mut fit: Fit<T>, data: &Dataset<'_, T>, setup: &Setup<'_, T>) -> Result<Fit<T>> {
    let (plan, run) = (setup.plan, &setup.run());
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
        // The labels are balanced, by the search of the fit.
        (Labels::Exact, Fitted::All) if plan.max_size.is_some() => return Ok(fit),
        (_, Fitted::Coreset(_)) if plan.max_size.is_some() => {
            let Fit { model, report, .. } = &mut fit;
            fit.labels = balanced_labels(setup, model, data, None, report)?;
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

/// Labels of `data` within the bound on sizes: among the members of the last step, if there are several per row, otherwise
/// among the nearest clusters, by the kind of search that labels use.
fn balanced_labels<T: Real>(
    setup: &Setup<'_, T>,
    model: &mut Model<T>,
    data: &Dataset<'_, T>,
    memberships: Option<&[Memberships]>,
    report: &mut Report,
) -> Result<Vec<u32>> {
    let (plan, width) = (setup.plan, CANDIDATES.min(model.clusters()));
    let lists = match memberships {
        Some(memberships) if plan.search.kept() > 1 && plan.labels != Labels::Exact => Lists::of_members(memberships)?,
        None if plan.labels == Labels::Approximate => {
            let run = setup.run();
            let mut index = model.index(&run)?;
            index.tune(data, LABEL_RECALL, &run)?;
            let (ids, distances) = index.top_k(data, width, &run)?;
            Lists::new(width, ids.into_raw_vec_and_offset().0, distances.into_raw_vec_and_offset().0)
        }
        _ => {
            let (ids, distances) = model.nearest_k(data, width, setup.observer)?;
            Lists::new(width, ids, distances)
        }
    };
    Balance { plan, variance_floor: setup.variance_floor(), observer: setup.observer }.run(model, data, lists, report)
}

/// The weighted sum of the squared distances of rows to the clusters of their labels, in units of the variances if
/// clusters differ in them.
pub(super) fn inertia_of<T: Real>(labels: &[u32], data: &Dataset<'_, T>, model: &Model<T>) -> Result<f64> {
    let scores = Scores::of(model)?;
    let (mut local, mut score, mut inertia) = (Vec::new(), [T::ZERO], 0.0);
    for (n, &c) in labels.iter().enumerate() {
        scores.measure(data.local(n, model.origin(), &mut local), model.local_centers(), &[c], &mut score);
        inertia += data.weight(n) * (score[0] - scores.offset(c)).to_f64();
    }
    Ok(inertia)
}

/// Number of clusters that are not the label of any row, or share their center with one that is.
pub(super) fn count_empty<T: Real>(labels: &[u32], model: &Model<T>) -> Result<usize> {
    let mut used = filled(false, model.clusters(), "labels")?;
    labels.iter().for_each(|&c| used[c as usize] = true);
    let dim = model.dim();
    let bits = |c: u32| model.local_centers()[c as usize * dim..][..dim].iter().map(|x| x.to_f64().to_bits());
    let mut distinct = collected(0..model.clusters() as u32, "labels")?;
    distinct.retain(|&c| used[c as usize]);
    distinct.sort_unstable_by(|&a, &b| bits(a).cmp(bits(b)));
    distinct.dedup_by(|a, b| bits(*a).eq(bits(*b)));
    Ok(model.clusters() - distinct.len())
}
