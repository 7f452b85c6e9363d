//! When to stop: the rise of F from one iteration to the next, by one of two measures, has come down to the tolerance.
//!
//! Where a hard posterior gives way to a soft one, F rises by what the soft one gains, however near the end is. There the two
//! iterations are compared by the F of the hard posterior. F never falls by more than rounding; if it does all the same, that
//! is no convergence.

use crate::options::Stop;

/// Follows F over the iterations.
#[derive(Debug, Clone)]
pub(crate) struct Convergence {
    stop: Stop,
    tol: f64,
    dim: usize,
    /// How much F may fall by rounding.
    slack: f64,
    /// F of the last iteration, and whether its posterior was harder than it will be.
    pub last: Option<(f64, bool)>,
}

/// What an iteration says of the fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// F rises by more than the tolerance.
    Rising,
    /// It does not any more.
    Converged,
    /// It has fallen: arithmetic has failed.
    Fallen,
}

impl Convergence {
    /// For data of `dim` columns of numbers that are `epsilon` apart near 1.
    pub fn new(stop: Stop, tol: f64, dim: usize, epsilon: f64) -> Self {
        Self { stop, tol, dim, slack: 64.0 * epsilon * dim as f64, last: None }
    }

    /// Takes in the F of an iteration, that of its hard posterior, and whether this is used for the time being. Returns
    /// the measured change (infinite in the first) and what follows from it.
    pub fn update(&mut self, lower_bound: f64, hard_bound: f64, provisional: bool) -> (f64, Verdict) {
        let Some((last, hard)) = self.last.replace((lower_bound, provisional)) else {
            return (f64::INFINITY, Verdict::Rising);
        };
        let rise = if hard { hard_bound } else { lower_bound } - last;
        let change = match self.stop {
            Stop::PerDim => rise / self.dim as f64,
            Stop::Relative if last == 0.0 => rise,
            Stop::Relative => rise / last.abs(),
            Stop::Absolute => rise,
        };
        let fallen = last - lower_bound > self.slack + 1e-9 * last.abs();
        let verdict = match () {
            // What is added to variances may cost F a little: a fall within the tolerance is the end, as a rise is.
            () if self.stop == Stop::Absolute && change.abs() <= self.tol && !provisional => Verdict::Converged,
            // A bound that is not a number has not risen either.
            () if fallen || lower_bound.is_nan() => Verdict::Fallen,
            () if change <= self.tol && !provisional => Verdict::Converged,
            () => Verdict::Rising,
        };
        (change, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Converged, Fallen, Rising};
    use super::*;

    fn rule(stop: Stop, tol: f64, dim: usize) -> Convergence {
        Convergence::new(stop, tol, dim, f64::EPSILON)
    }

    /// Takes in the F of a posterior that stays as it is.
    fn plain(convergence: &mut Convergence, lower_bound: f64) -> (f64, Verdict) {
        convergence.update(lower_bound, f64::NAN, false)
    }

    #[test]
    fn per_dim_divides_by_the_columns_and_relative_by_the_bound() {
        let mut per_dim = rule(Stop::PerDim, 0.01, 10);
        assert_eq!(plain(&mut per_dim, -5.0), (f64::INFINITY, Rising));
        assert_eq!(plain(&mut per_dim, -4.0), (0.1, Rising));
        assert_eq!(plain(&mut per_dim, -3.95).1, Converged);
        let mut relative = rule(Stop::Relative, 0.01, 10);
        plain(&mut relative, -100.0);
        assert_eq!(plain(&mut relative, -98.0), (0.02, Rising));
        assert_eq!(plain(&mut relative, -97.5).1, Converged);
    }

    #[test]
    fn a_tolerance_of_zero_stops_where_nothing_changes() {
        let mut c = rule(Stop::PerDim, 0.0, 2);
        plain(&mut c, 1.0);
        assert_eq!(plain(&mut c, 1.5).1, Rising);
        assert_eq!(plain(&mut c, 1.5).1, Converged);
    }

    #[test]
    fn a_fall_beyond_rounding_is_not_convergence() {
        let mut c = rule(Stop::PerDim, 0.1, 2);
        plain(&mut c, 35.5);
        assert_eq!(plain(&mut c, 35.5 - 1e-12).1, Converged);
        assert_eq!(plain(&mut c, -412.4).1, Fallen);
        assert_eq!(plain(&mut c, f64::NAN).1, Fallen);
    }

    #[test]
    fn a_hard_posterior_is_compared_with_a_hard_one_and_is_never_the_last() {
        let mut c = rule(Stop::PerDim, 0.1, 1);
        c.update(-9.0, -9.0, true);
        assert_eq!(c.update(-9.0, -9.0, true), (0.0, Rising));
        let mut still_rising = c.clone();
        assert_eq!(still_rising.update(-5.0, -8.5, false), (0.5, Rising));
        assert_eq!(c.update(-5.0, -8.95, false).1, Converged);
    }
}
