//! Rounds of [refinement](crate::step::refine): when they begin, and whether their result is kept.

use super::{Due, Progress, Trainer};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::model::Model;
use crate::step::convergence::{Verdict, rise};
use crate::step::groups::Sequence;
use crate::step::objective::Bound;
use crate::step::refine::{BEGIN, choose, iterations, place, reordered};
use crate::step::round::{Phase, Request};
use crate::step::similarity::Similarity;
use crate::step::statistics::Statistics;
use std::sync::Arc;

/// State of a training with refinement.
#[derive(Debug, Clone)]
pub(crate) struct Refinement<T: Real> {
    /// The round, from 1.
    pub round: usize,
    /// The total number of iterations after which the round ends.
    pub until: usize,
    /// What is restored unless F rises above it; `None` after the last round.
    pub before: Option<Before<T>>,
}

/// A model with everything that belongs to it.
#[derive(Debug, Clone)]
pub(crate) struct Before<T: Real> {
    pub model: Model<T>,
    pub similarity: Option<Arc<Similarity>>,
    pub sequence: Arc<Sequence>,
    /// Its F, and whether that belongs to a provisionally hard posterior.
    pub bound: (Bound, bool),
    /// Whether EM had converged.
    pub settled: bool,
}

/// What follows an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// EM continues, or ends.
    On,
    /// A round of refinement begins.
    Probe,
    /// The last round is kept, and EM continues.
    Kept,
    /// The last round is undone.
    Restore,
}

impl<T: Real> Trainer<T> {
    /// The current round of refinement, if any.
    fn in_round(&self) -> Option<(&Refinement<T>, &Before<T>)> {
        self.refinement.as_ref().and_then(|refinement| refinement.before.as_ref().map(|before| (refinement, before)))
    }

    /// F of the model that a fit returns if it ends after an iteration with this F, and F of its hard posterior: in
    /// a round, the better of its two models, which are compared by the same posterior.
    pub(super) fn bound_reached(&self, now: &Bound, hard_now: &Bound) -> f64 {
        let Some((_, before)) = self.in_round() else { return now.value() };
        let (before, hard) = &before.bound;
        let now = if *hard { hard_now } else { now };
        now.value().max(before.value())
    }

    /// Number of iterations after which EM, or the round of refinement, ends.
    pub(super) fn limit(&self) -> usize {
        self.in_round().map_or(self.training.max_iter, |(refinement, _)| refinement.until)
    }

    /// The current round of refinement, from 1; 0 before and after them.
    pub(super) fn refine_round(&self) -> usize {
        self.in_round().map_or(0, |(refinement, _)| refinement.round)
    }

    /// Whether another round may begin after this iteration, with room for all its iterations.
    fn may_begin_round(&self) -> bool {
        let begun = self.refinement.as_ref().map_or(0, |refinement| refinement.round);
        let room = (self.report.iterations.len() + 1).saturating_add(iterations(begun + 1)) <= self.training.max_iter;
        begun < self.training.refine && room && self.round.model.clusters() > 1
    }

    /// Moved clusters take some iterations to settle, whatever the tolerance of EM: a round ends early only if F does
    /// not increase at all.
    pub(super) fn verdict_in_round(&self, verdict: Verdict, change: f64) -> Verdict {
        let rising = self.in_round().is_some() && verdict == Verdict::Converged && change > 0.0;
        if rising { Verdict::Rising } else { verdict }
    }

    /// What follows an iteration with this F and hard F. The first round begins when F increases slowly.
    pub(super) fn turn(&self, verdict: Verdict, change: f64, now: &Bound, hard_now: &Bound) -> Turn {
        let last = self.report.iterations.len() + 1 >= self.limit();
        let ended = verdict != Verdict::Rising || last;
        let Some((_, before)) = self.in_round() else {
            let slow = self.refinement.is_none() && (ended || change <= BEGIN);
            let begins = slow && verdict != Verdict::Fallen && self.may_begin_round();
            return if begins { Turn::Probe } else { Turn::On };
        };
        match verdict {
            _ if !ended => Turn::On,
            Verdict::Rising | Verdict::Converged if rise(&before.bound, now, hard_now) > 0.0 => {
                if self.may_begin_round() { Turn::Probe } else { Turn::Kept }
            }
            _ => Turn::Restore,
        }
    }

    /// Makes the next round a probe of the current model, whose F and K(n) are known.
    pub(super) fn begin_probe(&mut self, settled: bool) -> Result<()> {
        let before = Before {
            model: self.round.model.copied()?,
            similarity: self.round.similarity.clone(),
            sequence: Arc::clone(&self.round.sequence),
            bound: self.convergence.last.expect("an iteration has ended"),
            settled,
        };
        let round = self.refinement.as_ref().map_or(0, |refinement| refinement.round) + 1;
        self.refinement = Some(Refinement { round, until: self.report.iterations.len(), before: Some(before) });
        (self.due, self.round.phase, self.round.learn) = (Due::Probe, Phase::Hard, false);
        self.round.request = Request::Probe;
        Ok(())
    }

    /// Moves clusters, if the probe says that it pays off.
    pub(super) fn absorb_probe(&mut self, statistics: &Statistics<T>) -> Result<Progress> {
        let (clusters, dim) = (statistics.clusters(), statistics.dim);
        if [statistics.error.len(), statistics.removal.len()] != [clusters; 2] {
            return Err(Error::StatisticsMismatch { clusters, dim, expected: (clusters, dim) });
        }
        let pairs = choose(statistics)?;
        let settled = self.refinement.as_ref().and_then(|r| r.before.as_ref()).is_some_and(|before| before.settled);
        if pairs.is_empty() {
            self.end_refinement(settled);
            return Ok(Progress::Refining { moved: 0 });
        }
        place(&mut self.round.model, statistics, &pairs)?;
        self.round.sequence = Arc::new(reordered(&self.round.sequence, &pairs)?);
        let moved = pairs.len();
        self.round.request = Request::Moved(pairs);
        // The old F is no reference for the new model.
        self.convergence.last = None;
        let until = self.report.iterations.len().saturating_add(iterations(self.refine_round()));
        self.refinement.iter_mut().for_each(|refinement| refinement.until = until);
        self.go_on();
        Ok(Progress::Refining { moved })
    }

    /// Restores the model from before the round, if there is one.
    pub(super) fn restore(&mut self) -> bool {
        let before = self.refinement.as_mut().and_then(|refinement| refinement.before.take());
        let Some(before) = before else { return true };
        self.round.model.copy_from(&before.model);
        self.previous.0.copy_from(&before.model);
        (self.round.similarity, self.round.sequence) = (before.similarity, before.sequence);
        self.round.request = Request::Restore;
        self.convergence.last = Some(before.bound);
        self.report.lower_bound = before.bound.0.value();
        before.settled
    }

    /// Ends the refinement.
    pub(super) fn close_refinement(&mut self) {
        self.refinement = Some(Refinement { round: self.training.refine, until: 0, before: None });
    }

    /// Ends the refinement and restores the model from before the round. EM continues unless it had converged.
    pub(super) fn end_refinement(&mut self, settled: bool) {
        self.close_refinement();
        if settled {
            return self.prepare_labels(true);
        }
        self.convergence.last = None;
        self.go_on();
    }

    /// Called on a stop: keeps the better model, which is the one from before the round unless F is known to have risen
    /// above its F.
    pub(super) fn leave_refinement(&mut self) {
        let before = self.refinement.as_ref().and_then(|refinement| refinement.before.as_ref());
        let Some(before) = before else { return };
        let risen = self.convergence.last.is_some_and(|(now, _)| now.above(&before.bound.0) > 0.0);
        if self.due == Due::Probe {
            self.round.request = Request::Nothing;
        } else if !risen {
            self.restore();
        }
        self.refinement.iter_mut().for_each(|refinement| refinement.before = None);
    }
}
