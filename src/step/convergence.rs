//! The stopping rule: the increase of F from one iteration to the next, by one of two measures, is at most the
//! tolerance.
//!
//! When a hard posterior gives way to a soft one, F increases by what the soft posterior gains, however close the fit
//! is to convergence. These two iterations are compared by the F of the hard posterior. F never falls by more than
//! rounding; if it does anyway, that is not convergence. Neither the increase nor what counts as rounding depends on
//! the units of the data.

use super::objective::Bound;
use crate::options::Stop;

/// Tracks F over the iterations.
#[derive(Debug, Clone)]
pub(crate) struct Convergence {
    stop: Stop,
    tol: f64,
    /// How much F may fall due to rounding, in nats per column.
    slack: f64,
    /// F of the last iteration, and whether its posterior was provisionally hard.
    pub last: Option<(Bound, bool)>,
}

/// What an iteration says about convergence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// F increased by more than the tolerance.
    Rising,
    /// F increased by at most the tolerance.
    Converged,
    /// F fell: a numerical failure.
    Fallen,
}

impl Convergence {
    /// For numbers with machine precision `epsilon`.
    pub fn new(stop: Stop, tol: f64, epsilon: f64) -> Self {
        Self { stop, tol, slack: 64.0 * epsilon + 1e-9, last: None }
    }

    /// Adds the F of an iteration, the F of its hard posterior, and whether that posterior is used provisionally.
    /// Returns the measured change (infinite in the first iteration) and the verdict.
    pub fn update(&mut self, now: Bound, hard_now: &Bound, provisional: bool) -> (f64, Verdict) {
        let Some((last, hard)) = self.last.replace((now, provisional)) else {
            return (f64::INFINITY, Verdict::Rising);
        };
        let rise = rise(&(last, hard), &now, hard_now);
        let dim = now.dim as f64;
        let change = match self.stop {
            Stop::PerDim => rise / dim,
            Stop::Relative if last.value() == 0.0 => rise,
            Stop::Relative => rise / last.value().abs(),
            Stop::Absolute => rise,
        };
        let fallen = -now.above(&last) > self.slack * dim + 1e-9 * last.mean.abs();
        let verdict = match () {
            // The regularization of variances may cost F a little: a fall within the tolerance also ends the fit.
            () if self.stop == Stop::Absolute && change.abs() <= self.tol && !provisional => Verdict::Converged,
            // A bound that is NaN has not increased either.
            () if fallen || now.mean.is_nan() => Verdict::Fallen,
            () if change <= self.tol && !provisional => Verdict::Converged,
            () => Verdict::Rising,
        };
        (change, verdict)
    }
}

/// The increase of F since an earlier iteration, whose posterior may have been provisionally hard.
pub(crate) fn rise(last: &(Bound, bool), now: &Bound, hard_now: &Bound) -> f64 {
    if last.1 { hard_now } else { now }.above(&last.0)
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Converged, Fallen, Rising};
    use super::*;

    fn rule(stop: Stop, tol: f64) -> Convergence {
        Convergence::new(stop, tol, f64::EPSILON)
    }

    /// An F of `mean` with `dim` columns.
    fn bound(mean: f64, dim: usize) -> Bound {
        Bound { dim, mean, constant: 0.0, variance: Some(0.5 / std::f64::consts::PI) }
    }

    /// Adds the F of a posterior that is not provisional.
    fn plain(convergence: &mut Convergence, mean: f64, dim: usize) -> (f64, Verdict) {
        convergence.update(bound(mean, dim), &bound(f64::NAN, dim), false)
    }

    #[test]
    fn per_dim_divides_by_the_columns_and_relative_by_the_bound() {
        let mut per_dim = rule(Stop::PerDim, 0.01);
        assert_eq!(plain(&mut per_dim, -5.0, 10), (f64::INFINITY, Rising));
        assert_eq!(plain(&mut per_dim, -4.0, 10), (0.1, Rising));
        assert_eq!(plain(&mut per_dim, -3.95, 10).1, Converged);
        let mut relative = rule(Stop::Relative, 0.01);
        plain(&mut relative, -100.0, 10);
        assert_eq!(plain(&mut relative, -98.0, 10), (0.02, Rising));
        assert_eq!(plain(&mut relative, -97.5, 10).1, Converged);
    }

    #[test]
    fn a_tolerance_of_zero_stops_where_nothing_changes() {
        let mut c = rule(Stop::PerDim, 0.0);
        plain(&mut c, 1.0, 2);
        assert_eq!(plain(&mut c, 1.5, 2).1, Rising);
        assert_eq!(plain(&mut c, 1.5, 2).1, Converged);
    }

    #[test]
    fn a_fall_beyond_rounding_is_not_convergence() {
        let mut c = rule(Stop::PerDim, 0.1);
        plain(&mut c, 35.5, 2);
        assert_eq!(plain(&mut c, 35.5 - 1e-12, 2).1, Converged);
        assert_eq!(plain(&mut c, -412.4, 2).1, Fallen);
        assert_eq!(plain(&mut c, f64::NAN, 2).1, Fallen);
    }

    #[test]
    fn a_hard_posterior_is_compared_with_a_hard_one_and_is_never_the_last() {
        let mut c = rule(Stop::PerDim, 0.1);
        c.update(bound(-9.0, 1), &bound(-9.0, 1), true);
        assert_eq!(c.update(bound(-9.0, 1), &bound(-9.0, 1), true), (0.0, Rising));
        let mut still_rising = c.clone();
        assert_eq!(still_rising.update(bound(-5.0, 1), &bound(-8.5, 1), false), (0.5, Rising));
        assert_eq!(c.update(bound(-5.0, 1), &bound(-8.95, 1), false).1, Converged);
    }
}
