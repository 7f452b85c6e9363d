//! Warm-up: k-means before clusters have variances of their own, then an E-step that measures the variances.

use super::{Due, Progress, Trainer};
use crate::error::Result;
use crate::kernel::Real;
use crate::step::maximize::maximize;
use crate::step::round::Phase;
use crate::step::shape::{EMPTY_AT_START, maximize_shape};
use crate::step::statistics::Statistics;

/// The warm-up ends when F increases by at most this per column.
const WARM_UP_TOL: f64 = 5e-3;

impl<T: Real> Trainer<T> {
    /// Whether clusters will have variances of their own but do not have them yet.
    pub(super) fn is_warming_up(&self) -> bool {
        self.training.shape.is_some() && self.round.model.shape().is_none()
    }

    /// The M-step of k-means, before variances are estimated.
    pub(super) fn warm_up(&mut self, mut statistics: Statistics<T>, bound: f64, change: f64) -> Result<Progress> {
        self.renew_similarity(&mut statistics)?;
        let kept_digits = self.maximize(&statistics, bound)?;
        let evaluations = std::mem::take(&mut self.evaluations);
        self.report.evaluations.seeding = self.report.evaluations.seeding.saturating_add(evaluations);
        let most = self.training.shape.map_or(0, |rule| rule.warm_up);
        match () {
            () if change <= WARM_UP_TOL || self.round.iteration >= most => self.measure_shape(),
            () if !kept_digits => self.measure_variance(),
            () => self.go_on(),
        }
        Ok(Progress::Started)
    }

    /// The first variances and weights of clusters, from rows assigned to their nearest clusters.
    pub(super) fn begin_shape(&mut self, mut statistics: Statistics<T>) -> Result<Progress> {
        self.renew_similarity(&mut statistics)?;
        if let Some(rule) = &self.training.shape {
            if rule.moments().is_none() {
                maximize(&mut self.round.model, &statistics, self.training.variance_floor, 1.0)?;
            }
            maximize_shape(&mut self.round.model, &statistics, rule, self.training.variance_floor, EMPTY_AT_START)?;
        }
        self.previous = (self.round.model.copied()?, f64::NEG_INFINITY);
        self.convergence.last = None;
        let evaluations = std::mem::take(&mut self.evaluations);
        self.report.evaluations.seeding = self.report.evaluations.seeding.saturating_add(evaluations);
        self.go_on();
        Ok(Progress::Started)
    }

    /// Makes the next round estimate the first variances and weights.
    pub(super) fn measure_shape(&mut self) {
        (self.due, self.round.phase, self.round.learn) = (Due::Shape, Phase::Hard, true);
        self.round.moments = self.training.shape.and_then(|rule| rule.moments());
    }
}
