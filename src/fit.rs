//! The driver: the paper's algorithm, from the data to a model and its labels. It alone knows the order of things.
//!
//! ```text
//! coreset (optional) -> seeding -> mu, s2, K(n)
//! repeat: E-step: search candidates, K(n), q(n), statistics -> F, stop?
//!         M-step: mu, s2, rows of S; move clusters without mass
//! last E-step against the returned centers -> labels
//! ```
//!
//! | symbol | here |
//! |---|---|
//! | y(n), w_n | [`Dataset`] |
//! | mu_c, s2 | [`Model`] |
//! | K(n) | [`State`] between iterations, [`Sets`](crate::em::members::Sets) inside one |
//! | S | [`Sampled`](crate::sampled::Sampled), [`Grouped`](crate::grouped::Grouped) |
//! | H, R, M | [`Plan`] |
//! | F | [`lower_bound`] |

use crate::begin::{Begin, begin, step_length, tolerance};
use crate::coreset;
use crate::data::{Dataset, Moments};
use crate::em::convergence::Convergence;
use crate::em::expectation::{Expectation, Task};
use crate::em::maximization::{maximize, relocate};
use crate::em::objective::{hard_lower_bound, lower_bound};
use crate::error::Result;
use crate::model::Model;
use crate::observer::{Event, Observer};
use crate::parallel::with_threads;
use crate::params::Plan;
use crate::real::Real;
use crate::report::{Evaluations, Iteration, Report};
use crate::rng::{Stage, stream};
use crate::search::State;
use ndarray::ArrayView2;
use std::collections::HashSet;
use std::time::Instant;

/// s2 is kept above this share of the data's variance.
const VARIANCE_FLOOR: f64 = 1e-12;

/// A fitted model, the label of every row of the data, and how it went.
#[derive(Debug, Clone)]
pub struct Fit<T: Real> {
    /// Centers and variance.
    pub model: Model<T>,
    /// For each row the nearest cluster of its last E-step, which was made against the model's centers.
    pub labels: Vec<u32>,
    /// Iterations, evaluations, seconds.
    pub report: Report,
}

/// Fits in a pool of threads of its own.
pub(crate) fn fit<T: Real>(
    data: &Dataset<'_, T>,
    plan: &Plan,
    start: Option<ArrayView2<'_, T>>,
    observer: &dyn Observer,
) -> Result<Fit<T>> {
    let unit = data.weight_unit();
    if unit != 1.0 {
        let mut fit = fit(&data.in_weights_of(unit), plan, start, observer)?;
        fit.report.inertia *= unit;
        return Ok(fit);
    }
    with_threads(plan.threads(), || {
        let moments = data.moments(observer)?;
        if let Some(start) = start {
            moments.check_reach("init and X together span", start.iter().copied())?;
        }
        let Some(size) = plan.coreset_size() else {
            return best_run(data, &moments, plan, start, observer, false);
        };
        let clock = Instant::now();
        let stop = observer.event(&Event::Coreset { size }).is_break();
        let coreset = coreset::draw_coreset(data, &moments, size, plan.seed(), observer)?;
        let seconds = clock.elapsed().as_secs_f64();
        let mut fit = best_run(&coreset.dataset()?, &moments, plan, start, observer, stop)?;
        fit.report.seconds.coreset = seconds;
        fit.report.evaluations.coreset = coreset.evaluations;
        label_all(&mut fit, data, observer)?;
        Ok(fit)
    })?
}

/// Labels all rows of `data`, of which the fit has seen a coreset only, by exact search.
fn label_all<T: Real>(fit: &mut Fit<T>, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<()> {
    let clock = Instant::now();
    let (labels, distances) = fit.model.nearest(data, observer)?;
    fit.report.inertia = distances.iter().enumerate().map(|(n, d)| data.weight(n) * d.to_f64()).sum();
    fit.report.empty_clusters = count_empty(&labels, &fit.model);
    fit.labels = labels;
    fit.report.seconds.labels = clock.elapsed().as_secs_f64();
    Ok(())
}

/// Of `n_init` whole runs the one with the highest F; a run is one value, and nothing of the others is kept. Where the
/// observer stops a run, it is the last, and may be the best. Whoever stops a fit that has no model yet, as `stop` says, gets
/// that of one iteration.
fn best_run<T: Real>(
    data: &Dataset<'_, T>,
    moments: &Moments,
    plan: &Plan,
    start: Option<ArrayView2<'_, T>>,
    observer: &dyn Observer,
    stop: bool,
) -> Result<Fit<T>> {
    let runs = if start.is_some() { 1 } else { plan.n_init() };
    let stop = observer.event(&Event::Seeding { run: 0, clusters: plan.clusters }).is_break() || stop;
    let short = plan.with_max_iter(1);
    let mut best = one_run(data, moments, if stop { &short } else { plan }, start, 0, observer)?;
    let mut seconds = best.report.seconds;
    let mut stopped = best.report.stopped || stop;
    for run in 1..runs {
        stopped = stopped || observer.event(&Event::Seeding { run, clusters: plan.clusters }).is_break();
        if stopped {
            break;
        }
        let fit = one_run(data, moments, plan, None, run, observer)?;
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

/// Seeding, EM, labels.
fn one_run<T: Real>(
    data: &Dataset<'_, T>,
    moments: &Moments,
    plan: &Plan,
    start: Option<ArrayView2<'_, T>>,
    run: usize,
    observer: &dyn Observer,
) -> Result<Fit<T>> {
    let seed = if run == 0 { plan.seed() } else { stream(plan.seed(), Stage::Restart, run as u64, 0).bits() };
    let clock = Instant::now();
    let floor = variance_floor::<T>(moments);
    let variance = moments.variance().max(floor);
    let Begin { centers, step, state, evaluations } = begin(data, moments, plan, start, seed, observer)?;
    let model = Model::from_origin(centers.view(), moments.origin(), variance);
    drop(centers);
    let seeding_seconds = clock.elapsed().as_secs_f64();
    let task = Task { data, hard: plan.hard(), seed, observer };
    let mut fit = expectation_maximization(&task, plan, model, step, state, floor, run)?;
    fit.report.run = run;
    fit.report.evaluations.seeding = evaluations;
    fit.report.seconds.seeding = seeding_seconds;
    Ok(fit)
}

/// The smallest s2 allowed: constant data and clusters of single points would have none, and an infinite F.
fn variance_floor<T: Real>(moments: &Moments) -> f64 {
    let scale = match moments.variance() {
        0.0 => moments.mean.iter().map(|m| m * m).sum::<f64>() / moments.mean.len() as f64,
        variance => variance,
    };
    (VARIANCE_FLOOR * scale).max(T::LEAST_VARIANCE)
}

/// The EM loop, and the last E-step that the labels come from.
fn expectation_maximization<T: Real>(
    task: &Task<'_, T>,
    plan: &Plan,
    mut model: Model<T>,
    mut step: Box<dyn Expectation<T>>,
    mut state: State<T>,
    floor: f64,
    run: usize,
) -> Result<Fit<T>> {
    let clock = Instant::now();
    let (data, dim) = (task.data, task.data.dim());
    let mut convergence = Convergence::new(plan.stop(), tolerance(plan), dim);
    let mut report = Report::default();
    let mut iteration = 0;
    loop {
        let statistics = step.step(task, &model, &mut state, iteration as u64, true)?;
        report.evaluations.em += statistics.evaluations;
        report.lower_bound = lower_bound(&statistics, plan.clusters, dim, model.variance());
        let hard_bound = hard_lower_bound(&statistics, plan.clusters, dim, model.variance());
        let (change, converged) = convergence.update(report.lower_bound, hard_bound, statistics.provisional);
        iteration += 1;
        if !converged {
            let empty = maximize(&mut model, &statistics, floor, step_length(plan));
            relocate(&mut model, &mut state, data, &empty);
        }
        let seconds = clock.elapsed().as_secs_f64();
        report.iterations.push(Iteration {
            lower_bound: report.lower_bound,
            variance: model.variance(),
            seconds,
            distance_evals: statistics.evaluations,
        });
        let event = Event::Iteration {
            run,
            iteration,
            max_iter: plan.max_iter(),
            lower_bound: report.lower_bound,
            change,
            variance: model.variance(),
            seconds,
        };
        report.stopped = task.observer.event(&event).is_break();
        report.inertia = statistics.inertia;
        report.converged = converged;
        if converged || report.stopped || iteration == plan.max_iter() {
            break;
        }
    }
    // The labels must belong to the centers as they are returned, moved and rounded.
    let (settled, rounded) = model.settled();
    model = settled;
    if !report.converged || rounded {
        let statistics = step.step(task, &model, &mut state, iteration as u64, false)?;
        report.evaluations.em += statistics.evaluations;
        report.lower_bound = lower_bound(&statistics, plan.clusters, dim, model.variance());
        report.inertia = statistics.inertia;
    }
    let labels = state.labels();
    report.empty_clusters = count_empty(&labels, &model);
    report.evaluations = Evaluations { em: report.evaluations.em, ..Evaluations::default() };
    report.seconds.em = clock.elapsed().as_secs_f64();
    Ok(Fit { model, labels, report })
}

/// Clusters that are no row's label, or share their center with one that is.
fn count_empty<T: Real>(labels: &[u32], model: &Model<T>) -> usize {
    let mut used = vec![false; model.clusters()];
    labels.iter().for_each(|&c| used[c as usize] = true);
    let centers = model.local_centers().chunks_exact(model.dim()).zip(&used).filter(|(_, used)| **used);
    let bits = |center: &[T]| center.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<u64>>();
    let distinct: HashSet<Vec<u64>> = centers.map(|(center, _)| bits(center)).collect();
    model.clusters() - distinct.len()
}
