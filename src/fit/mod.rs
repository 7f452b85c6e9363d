//! The driver: the paper's algorithm, from the data to a model and its labels. Only it knows the order of the steps.
//!
//! ```text
//! coreset (optional) -> seeding -> mu, s2, K(n)
//! many rows per cluster: first on samples of the rows, then on all rows
//! repeat: E-step over each shard: search candidates, K(n), q(n), statistics; merged -> F, stop?
//!         M-step: mu, s2, rows of S; move clusters without mass
//! last E-step against the returned centers -> labels
//! bounded sizes of clusters: labels within the bound, centers at the means of their rows
//! ```
//!
//! | symbol | here |
//! |---|---|
//! | y(n), w_n | [`Dataset`], cut into [`Shard`]s |
//! | mu_c, s2 | [`Model`] |
//! | K(n) | [`Memberships`](crate::step::Memberships) |
//! | S, H, R | [`Round`](crate::step::Round) |
//! | F | [`Progress`](crate::step::Progress) |

mod balance;
mod begin;
mod checks;
mod em;
mod labels;
mod stream;

pub use stream::{Batch, Stream};

use crate::data::Dataset;
use crate::data::coreset::draw_coreset;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::check_room;
use crate::model::Model;
use crate::observer::{Event, Observer, Silent};
use crate::parallel::Run;
use crate::plan::{Fitted, Params};
use crate::report::Report;
use crate::rng::{Stage, stream};
use crate::step::{Bound, Shard, Summary, Trainer};
use begin::{Setup, memberships_of};
use checks::{checked_summary, fit_observed, summary_of, trainer_from};
use em::{Loop, expectation_maximization};
use labels::{labeled, labels_of_run};
use ndarray::ArrayView2;
use std::time::Instant;

/// The result of a fit.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Fit<T: Real> {
    /// The centers and the variance.
    pub model: Model<T>,
    /// The cluster of each row: the nearest that the search has found. Empty with
    /// [`Labels::None`](crate::Labels::None).
    pub labels: Vec<u32>,
    /// Report on the fit: iterations, F, evaluations, seconds.
    pub report: Report,
}

impl Params {
    /// Checks the parameters and fits the data. See [`Fit`].
    pub fn fit<T: Real>(&self, data: &Dataset<'_, T>) -> Result<Fit<T>> {
        self.fit_observed(data, None, &Silent)
    }

    /// [`fit`](Self::fit) from the given initial centers, if any, reporting events to `observer`.
    pub fn fit_observed<T: Real>(
        &self,
        data: &Dataset<'_, T>,
        start: Option<ArrayView2<'_, T>>,
        observer: &dyn Observer,
    ) -> Result<Fit<T>> {
        fit_observed(self, data, start, observer)
    }

    /// A trainer for rows in shards, from a merged summary of all of them: chooses the initial centers among the rows
    /// of its sample, unless they are given, and starts the training there. See [`step`](crate::step).
    pub fn trainer_from<T: Real>(
        &self,
        summary: &Summary<T>,
        start: Option<ArrayView2<'_, T>>,
        run: &Run<'_>,
    ) -> Result<Trainer<T>> {
        trainer_from(self, summary, start, run)
    }
}

/// Fits all rows, or a coreset of them. Must run inside a pool.
fn fit<T: Real>(
    params: &Params,
    data: &Dataset<'_, T>,
    given: Option<ArrayView2<'_, T>>,
    observer: &dyn Observer,
) -> Result<Fit<T>> {
    let plan = params.resolve(data.rows(), data.dim());
    let summary = checked_summary(data, &plan, given.as_ref(), observer)?;
    check_room(plan.memory(size_of::<T>(), rayon::current_num_threads()), "the fit")?;
    let Fitted::Coreset(size) = plan.fitted else {
        let setup = Setup::new(params, &plan, data, &summary, &summary.moments, given, observer);
        return labeled(best_run(&setup, false)?, data, &setup);
    };
    let clock = Instant::now();
    let stop = observer.event(&Event::Coreset { size }).is_break();
    let coreset = draw_coreset(data, &summary.moments, size, plan.seed, observer)?;
    let seconds = clock.elapsed().as_secs_f64();
    let rows = coreset.dataset()?.already(plan.metric);
    let summary_of_coreset = summary_of(&rows, &plan, observer)?;
    let setup = Setup::new(params, &plan, &rows, &summary_of_coreset, &summary.moments, given, observer);
    let mut fit = best_run(&setup, stop)?;
    fit.report.seconds.coreset = seconds;
    fit.report.evaluations.coreset = coreset.evaluations;
    labeled(fit, data, &setup)
}

/// The best of `n_init` complete runs, by F; a run is one value, and nothing of the others is kept. If the observer
/// stops a run, it is the last one, and may be the best. With `stop` the fit was stopped before it had a model, and a
/// run of one iteration is returned.
fn best_run<T: Real>(setup: &Setup<'_, T>, stop: bool) -> Result<Fit<T>> {
    let (plan, observer) = (setup.plan, setup.observer);
    let runs = if setup.given.is_some() { 1 } else { plan.n_init };
    let stop = observer.event(&Event::Seeding { run: 0, clusters: plan.clusters }).is_break() || stop;
    let (mut best, mut highest) = one_run(setup, 0, stop)?;
    let mut seconds = best.report.seconds;
    let mut stopped = best.report.stopped || stop;
    for run in 1..runs {
        stopped = stopped || observer.event(&Event::Seeding { run, clusters: plan.clusters }).is_break();
        if stopped {
            break;
        }
        let (fit, bound) = one_run(setup, run, false)?;
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

/// Seeding, EM, labels, and F; with `once`, a single iteration.
fn one_run<T: Real>(setup: &Setup<'_, T>, run: usize, once: bool) -> Result<(Fit<T>, Bound)> {
    let Setup { plan, observer, .. } = *setup;
    let seed = if run == 0 { plan.seed } else { stream(plan.seed, Stage::Restart, run as u64, 0).bits() };
    let clock = Instant::now();
    let (mut trainer, cells) = setup.trainer(run, seed, once)?;
    let early = trainer.report().iterations.last().map_or(0.0, |last| last.seconds);
    let seeding = clock.elapsed().as_secs_f64() - early;
    let shards = Shard::cut(setup.rows_in_memory(), plan.shard_rows)?;
    let mut memberships = memberships_of(&shards, cells)?;
    let max_iter = if once { 1 } else { plan.max_iter };
    let em = Loop { run, max_iter, of: max_iter, labels: true, observer };
    expectation_maximization(&mut trainer, &shards, &mut memberships, &em)?;
    let bound = trainer.bound().expect("it has finished");
    let (mut model, mut report) = trainer.into_parts();
    report.run = run;
    let labels = labels_of_run(setup, &mut model, &memberships, &mut report)?;
    (report.seconds.seeding, report.seconds.em) = (seeding, clock.elapsed().as_secs_f64() - seeding);
    Ok((Fit { model, labels, report }, bound))
}
