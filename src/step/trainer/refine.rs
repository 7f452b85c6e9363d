//! Rounds of [refinement](crate::step::refine): when they begin, and whether what they led to is kept.

use super::{Due, Progress, Trainer};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::model::Model;
use crate::step::convergence::{Verdict, rise};
use crate::step::groups::Sequence;
use crate::step::objective::Bound;
use crate::step::refine::{BEGIN, choose, iterations, place, reordered};
use crate::step::round::{Errand, Phase};
use crate::step::similarity::Similarity;
use crate::step::statistics::Statistics;
use std::sync::Arc;

/// Where a training that refines stands.
#[derive(Debug, Clone)]
pub(crate) struct Refinement<T: Real> {
    /// Which round, from 1.
    pub round: usize,
    /// The iterations, of all, after which it ends.
    pub until: usize,
    /// What is taken back unless F rises above it; `None` after the last round.
    pub before: Option<Before<T>>,
}

/// A model with all that goes with it.
#[derive(Debug, Clone)]
pub(crate) struct Before<T: Real> {
    pub model: Model<T>,
    pub similarity: Option<Arc<Similarity>>,
    pub sequence: Arc<Sequence>,
    /// Its F, and whether that is of a posterior that was harder than it will be.
    pub bound: (Bound, bool),
    /// Whether EM had converged.
    pub settled: bool,
}

/// What follows an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// EM goes on, or ends.
    On,
    /// A round of refinement begins.
    Probe,
    /// The last round is kept, and EM goes on.
    Kept,
    /// That round was in vain.
    Restore,
}

impl<T: Real> Trainer<T> {
    /// The round of refinement that is under way, if one is.
    fn in_round(&self) -> Option<(&Refinement<T>, &Before<T>)> {
        self.refinement.as_ref().and_then(|refinement| refinement.before.as_ref().map(|before| (refinement, before)))
    }

    /// F of what a fit gives that ends after an iteration with this F, and that of its hard posterior: in a round, of the better
    /// of its two models, by the posterior by which they are compared.
    pub(super) fn bound_reached(&self, now: &Bound, hard_now: &Bound) -> f64 {
        let Some((_, before)) = self.in_round() else { return now.value() };
        let (before, hard) = &before.bound;
        let now = if *hard { hard_now } else { now };
        now.value().max(before.value())
    }

    /// Iterations after which EM, or the round of refinement, ends.
    pub(super) fn limit(&self) -> usize {
        self.in_round().map_or(self.training.max_iter, |(refinement, _)| refinement.until)
    }

    /// Which round of refinement this is, from 1; 0 before and after them.
    pub(super) fn refine_round(&self) -> usize {
        self.in_round().map_or(0, |(refinement, _)| refinement.round)
    }

    /// Whether there is a round left to begin after this iteration, and room for all its iterations.
    fn may_begin_round(&self) -> bool {
        let begun = self.refinement.as_ref().map_or(0, |refinement| refinement.round);
        let room = (self.report.iterations.len() + 1).saturating_add(iterations(begun + 1)) <= self.training.max_iter;
        begun < self.training.refine && room && self.round.model.clusters() > 1
    }

    /// Moved clusters take some iterations to settle, whatever the tolerance of EM is: a round ends before its time only where F
    /// does not rise at all.
    pub(super) fn verdict_in_round(&self, verdict: Verdict, change: f64) -> Verdict {
        let rising = self.in_round().is_some() && verdict == Verdict::Converged && change > 0.0;
        if rising { Verdict::Rising } else { verdict }
    }

    /// What follows an iteration with this F, and that of its hard posterior. The first round begins where F rises slowly.
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

    /// The next round is a probe: of the model as it is, whose F and K(n) are known.
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
        self.round.errand = Errand::Probe;
        Ok(())
    }

    /// Moves clusters, if the probe says that it pays.
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
        self.round.errand = Errand::Moved(pairs);
        // What F was does not bind what is new.
        self.convergence.last = None;
        let until = self.report.iterations.len().saturating_add(iterations(self.refine_round()));
        self.refinement.iter_mut().for_each(|refinement| refinement.until = until);
        self.go_on();
        Ok(Progress::Refining { moved })
    }

    /// Takes back the model from before the round, if there is one.
    pub(super) fn take_back(&mut self) -> bool {
        let before = self.refinement.as_mut().and_then(|refinement| refinement.before.take());
        let Some(before) = before else { return true };
        self.round.model.copy_from(&before.model);
        self.previous.0.copy_from(&before.model);
        (self.round.similarity, self.round.sequence) = (before.similarity, before.sequence);
        self.round.errand = Errand::Restore;
        self.convergence.last = Some(before.bound);
        self.report.lower_bound = before.bound.0.value();
        before.settled
    }

    /// There will be no further round.
    pub(super) fn close_refinement(&mut self) {
        self.refinement = Some(Refinement { round: self.training.refine, until: 0, before: None });
    }

    /// The same, with the model of before the round. Where EM had not converged, it goes on.
    pub(super) fn end_refinement(&mut self, settled: bool) {
        self.close_refinement();
        if settled {
            return self.last_look(true);
        }
        self.convergence.last = None;
        self.go_on();
    }

    /// Whoever stops gets the better model: that from before the round, unless F is known to be above its F.
    pub(super) fn leave_refinement(&mut self) {
        let before = self.refinement.as_ref().and_then(|refinement| refinement.before.as_ref());
        let Some(before) = before else { return };
        let risen = self.convergence.last.is_some_and(|(now, _)| now.above(&before.bound.0) > 0.0);
        if self.due == Due::Probe {
            self.round.errand = Errand::Nothing;
        } else if !risen {
            self.take_back();
        }
        self.refinement.iter_mut().for_each(|refinement| refinement.before = None);
    }
}
