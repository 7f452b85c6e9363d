//! The trainer: turns the merged statistics of each round into the next round. It alone decides on phases, steps and
//! the end.

use super::convergence::{Convergence, Verdict};
use super::maximize::{maximize, variance_of};
use super::objective::{Bound, bound_at};
use super::round::{Phase, Request, Round, Search};
use super::shape::{EMPTY_IN_EM, maximize_shape};
use super::similarity::{PairCounts, Similarity};
use super::statistics::Statistics;
use crate::error::{Error, Result};
use crate::kernel::{Real, for_both};
use crate::memory::reserve;
use crate::model::Model;
use crate::model::score::Scores;
use crate::report::{Iteration, Report};
use refine::Turn;
use std::sync::Arc;
use std::time::Instant;

/// The result of absorbing the statistics of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Progress {
    /// An iteration ended.
    Iterated {
        /// Its number, from 1.
        iteration: usize,
        /// Number of rows it processed.
        rows: u64,
        /// F after its E-step.
        lower_bound: f64,
        /// What the stopping rule compares with the tolerance; infinite in the first iteration.
        change: f64,
        /// s2 after its M-step.
        variance: f64,
        /// Seconds since training began.
        seconds: f64,
    },
    /// s2 was measured again, after it shrank so much that the M-step could not compute it.
    Measured,
    /// A step of the initialization ended: k-means, before clusters have variances of their own.
    Started,
    /// A round of refinement begins, or refinement ends.
    Refining {
        /// Number of moved clusters; 0 ends the refinement, because no move would pay off.
        moved: usize,
    },
    /// K(n) and F belong to the final centers.
    Finished,
}

/// What the next statistics are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Iteration,
    /// s2 at the new centers.
    Variance,
    /// The first variances and weights of clusters.
    Shape,
    /// The worth of the clusters.
    Probe,
    /// Labels and F of the final centers.
    Labels,
    Nothing,
}

/// Runs EM: broadcast its [`round`](Self::round), take a [`step`](super::step()) over each shard, merge the statistics,
/// and let it [`absorb`](Self::absorb) the sum, until it is [finished](Self::is_finished). See the [module](super).
#[derive(Debug, Clone)]
pub struct Trainer<T: Real> {
    pub(super) training: Training,
    pub(super) round: Round<T>,
    /// The model before the last M-step, and its F.
    pub(super) previous: (Model<T>, f64),
    pub(super) convergence: Convergence,
    pub(super) report: Report,
    /// State of the refinement, once it has begun.
    pub(super) refinement: Option<Refinement<T>>,
    pub(super) due: Due,
    /// Distance evaluations to be added to the next iteration.
    pub(super) evaluations: u64,
    /// Seconds of training before the clock started.
    pub(super) elapsed: f64,
    pub(super) clock: Instant,
}

impl<T: Real> Trainer<T> {
    /// A trainer for data with `rows` rows and total weight `weight`.
    pub(crate) fn new(training: Training, start: Start<T>, rows: u64, weight: f64, seed: u64) -> Result<Self> {
        let mut report = Report::default();
        report.evaluations.seeding = start.evaluations;
        let convergence = Convergence::new(training.stop, training.tol, T::EPSILON.to_f64());
        let unit = rows as f64 / weight;
        let cells = start.cells.map(Arc::new);
        let mut round =
            Round::once(start.model.copied()?, training.search, Phase::Hard, seed, unit, cells, start.sequence)?;
        round.relocate = training.relocate;
        let previous = (start.model, f64::NEG_INFINITY);
        let (due, clock) = (Due::Iteration, Instant::now());
        let (refinement, evaluations, elapsed) = (None, 0, 0.0);
        let mut new =
            Self { training, round, previous, convergence, report, refinement, due, evaluations, elapsed, clock };
        new.go_on();
        Ok(new)
    }

    /// Continues where a trainer of fewer rows ended: its iterations count for this one. If the training has a hard
    /// phase, the first E-step on all rows is hard, which is cheaper.
    pub(crate) fn after(mut self, earlier: Report, elapsed: f64) -> Self {
        if self.training.shape.is_some() {
            // Earlier work is part of the initialization.
            self.report.evaluations.seeding += earlier.evaluations.seeding + earlier.evaluations.em;
            self.elapsed = elapsed;
            return self;
        }
        self.round.iteration = earlier.iterations.len() as u64;
        if self.training.hard_iterations > 0 {
            self.training.hard_iterations = self.round.iteration + 1;
        }
        let evaluations = self.report.evaluations.seeding;
        self.report = earlier;
        (self.report.converged, self.evaluations, self.elapsed) = (false, evaluations, elapsed);
        self.round.phase = self.phase();
        self
    }

    /// Sets the unit of the rows' weights.
    pub(crate) fn in_weights_of(mut self, unit: f64) -> Self {
        self.round.weight_unit = unit;
        self
    }

    /// Whether the model is final; labels may still be missing.
    pub(crate) fn is_trained(&self) -> bool {
        matches!(self.due, Due::Labels | Due::Nothing)
    }

    /// Seconds since training began.
    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed + self.clock.elapsed().as_secs_f64()
    }

    /// The round to broadcast.
    pub fn round(&self) -> &Round<T> {
        &self.round
    }

    /// Whether training is finished.
    pub fn is_finished(&self) -> bool {
        self.due == Due::Nothing
    }

    /// The report so far.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The current model.
    pub fn into_model(self) -> Model<T> {
        self.round.model
    }

    /// F of the model, once training has finished.
    pub(crate) fn bound(&self) -> Option<Bound> {
        self.convergence.last.map(|(bound, _)| bound)
    }

    /// The current model and the report.
    pub(crate) fn into_parts(self) -> (Model<T>, Report) {
        (self.round.model, self.report)
    }

    /// Ends the training after one last round, which only assigns the rows.
    pub fn stop(&mut self) {
        self.report.stopped = true;
        self.end();
    }

    /// [`stop`](Self::stop) without recording it in the report.
    pub(crate) fn end(&mut self) {
        if self.is_warming_up() {
            // Clusters must still get variances.
            self.training.max_iter = 0;
            self.measure_shape();
        } else if matches!(self.due, Due::Iteration | Due::Variance | Due::Probe) {
            self.leave_refinement();
            self.prepare_labels(false);
        }
    }

    /// Absorbs the statistics of all shards, [merged](super::Merger) in order.
    pub fn absorb(&mut self, statistics: Statistics<T>) -> Result<Progress> {
        absorb(self, statistics)
    }

    /// The M-step, and whether it was the last.
    fn iterate(&mut self, mut statistics: Statistics<T>) -> Result<Progress> {
        let scores = Scores::of(&self.round.model)?;
        let bound = Bound::of(&statistics, &scores);
        let provisional = self.round.phase == Phase::Hard && !self.training.hard;
        let hard_bound = Bound::hard(&statistics, &scores);
        let (change, verdict) = self.convergence.update(bound, &hard_bound, provisional);
        let verdict = self.verdict_in_round(verdict, change);
        let turn = self.turn(verdict, change, &bound, &hard_bound);
        let lower_bound = self.bound_reached(&bound, &hard_bound);
        let bound = bound.value();
        self.round.iteration += 1;
        if self.is_warming_up() {
            return self.warm_up(statistics, bound, change);
        }
        self.report.inertia = statistics.inertia * self.round.weight_unit;
        self.report.lower_bound = lower_bound;
        if turn == Turn::Kept || self.refine_round() == 0 {
            self.report.converged = verdict == Verdict::Converged;
        }
        self.renew_similarity(&mut statistics)?;
        let mut kept_digits = true;
        match verdict {
            // F and K(n) must belong to the model that is probed, and a restored model replaces this one.
            _ if matches!(turn, Turn::Probe | Turn::Restore) || verdict == Verdict::Converged => (),
            Verdict::Fallen => {
                // The best model is the previous one.
                self.round.model.copy_from(&self.previous.0);
                self.report.lower_bound = self.previous.1;
            }
            _ => kept_digits = self.maximize(&statistics, bound)?,
        }
        let (distance_evals, refine) = (std::mem::take(&mut self.evaluations), self.refine_round());
        self.report.evaluations.em = self.report.evaluations.em.saturating_add(distance_evals);
        let (variance, seconds, rows) = (self.round.model.variance(), self.seconds(), statistics.rows);
        self.report.iterations.push(Iteration { lower_bound, variance, seconds, distance_evals, rows, refine });
        if turn == Turn::Kept {
            self.close_refinement();
        }
        match (turn, verdict) {
            (Turn::Probe, _) => self.begin_probe(verdict == Verdict::Converged)?,
            (Turn::Restore, _) => {
                let settled = self.restore();
                self.end_refinement(settled);
            }
            (_, Verdict::Rising) if !kept_digits => self.measure_variance(),
            (_, Verdict::Rising) => self.go_on(),
            (_, Verdict::Converged | Verdict::Fallen) => self.prepare_labels(verdict == Verdict::Converged),
        }
        let iteration = self.report.iterations.len();
        Ok(Progress::Iterated { iteration, rows, lower_bound, change, variance, seconds })
    }

    /// Updates the model and relocates the clusters without mass. Returns whether s2 has kept its digits.
    fn maximize(&mut self, statistics: &Statistics<T>, bound: f64) -> Result<bool> {
        let Self { training, round, previous, .. } = self;
        previous.0.copy_from(&round.model);
        previous.1 = bound;
        let (floor, step) = (training.variance_floor, training.step_length);
        let shape = training.shape.filter(|_| round.model.shape().is_some());
        let mut kept_digits = true;
        if shape.is_none_or(|rule| rule.moments().is_none()) {
            kept_digits = maximize(&mut round.model, statistics, floor, step)?;
        }
        if let Some(rule) = shape {
            maximize_shape(&mut round.model, statistics, &rule, floor, EMPTY_IN_EM)?;
        }
        if training.relocate {
            reserve(&mut round.adopted, statistics.farthest.len(), "moved clusters")?;
            let dim = statistics.dim;
            for (c, far) in statistics.empty().zip(&statistics.farthest) {
                round.model.local_centers_mut()[c as usize * dim..][..dim].copy_from_slice(&far.values);
                round.adopted.push((far.row, c));
            }
        }
        Ok(kept_digits)
    }

    /// Updates S with the counts of the step.
    fn renew_similarity(&mut self, statistics: &mut Statistics<T>) -> Result<()> {
        let seen = std::mem::replace(&mut statistics.pairs, PairCounts::none());
        if seen.rows() > 0 {
            let old = self.round.similarity.take();
            self.round.similarity = Some(Arc::new(match self.round.search {
                Search::Neighbors { neighbors, .. } => Similarity::nearest(&seen, neighbors)?,
                Search::Grouped { .. } => Similarity::renewed(old.as_deref(), seen)?,
                Search::Pointwise { .. } | Search::Exhaustive { .. } => Similarity::new(seen)?,
            }));
        }
        Ok(())
    }

    /// The phase of the next iteration.
    fn phase(&self) -> Phase {
        let early = match self.training.shape {
            Some(_) => self.is_warming_up(),
            None => self.round.iteration < self.training.hard_iterations,
        };
        if self.training.hard || early { Phase::Hard } else { Phase::Soft }
    }

    /// Prepares the next iteration, if there may be one.
    fn go_on(&mut self) {
        let warming_up = self.is_warming_up();
        if self.report.iterations.len() >= self.limit() && !warming_up {
            return self.prepare_labels(false);
        }
        (self.due, self.round.phase, self.round.learn) = (Due::Iteration, self.phase(), true);
        self.round.moments = self.training.shape.filter(|_| !warming_up).and_then(|rule| rule.moments());
    }

    fn measure_variance(&mut self) {
        (self.due, self.round.phase, self.round.learn) = (Due::Variance, Phase::Hard, false);
    }

    /// Prepares the last E-step, because the labels must belong to the centers as returned, after the last move and
    /// rounding. If the labels are `settled`, they already do.
    fn prepare_labels(&mut self, settled: bool) {
        let rounded = self.round.model.round_centers();
        (self.round.phase, self.round.learn) = (self.phase(), false);
        let known = settled && !rounded && self.round.request == Request::Nothing;
        self.due = if known { Due::Nothing } else { Due::Labels };
    }
}

for_both! {
    fn absorb(trainer: &mut Trainer<T>, statistics: Statistics<T>) -> Result<Progress> {
        let expected = (trainer.round.model.clusters(), trainer.round.model.dim());
        let wanted = trainer.round.extra();
        if (statistics.clusters(), statistics.dim) != expected || statistics.extra != wanted {
            return Err(Error::StatisticsMismatch { clusters: statistics.clusters(), dim: statistics.dim, expected });
        }
        trainer.round.adopted.clear();
        trainer.round.cells = None;
        trainer.round.request = Request::Nothing;
        trainer.evaluations = trainer.evaluations.saturating_add(statistics.evaluations);
        match trainer.due {
            Due::Iteration => trainer.iterate(statistics),
            Due::Variance => {
                let measured = variance_of(&trainer.round.model, statistics.inertia, statistics.weight);
                trainer.round.model.set_variance(measured.max(trainer.training.variance_floor));
                trainer.go_on();
                Ok(Progress::Measured)
            }
            Due::Shape => trainer.begin_shape(statistics),
            Due::Probe => trainer.absorb_probe(&statistics),
            Due::Labels => {
                let bound = bound_at(&statistics, &trainer.round.model)?;
                trainer.convergence.last = Some((bound, false));
                trainer.report.lower_bound = bound.value();
                trainer.report.inertia = statistics.inertia * trainer.round.weight_unit;
                let evaluations = std::mem::take(&mut trainer.evaluations);
                trainer.report.evaluations.em = trainer.report.evaluations.em.saturating_add(evaluations);
                trainer.due = Due::Nothing;
                Ok(Progress::Finished)
            }
            Due::Nothing => Ok(Progress::Finished),
        }
    }
}

mod input;
mod refine;
mod warm_up;

pub(crate) use input::{Start, Training};
pub(crate) use refine::{Before, Refinement};

#[cfg(test)]
mod tests;
