//! When to stop: the rise of F from one iteration to the next, by one of two measures, has fallen to the tolerance.
//!
//! Where a hard posterior gives way to a soft one, F rises by what the soft one gains, however near the end is. There the two
//! iterations are compared by the F of the hard posterior.

use crate::params::Stop;

/// Follows F over the iterations.
#[derive(Debug)]
pub(crate) struct Convergence {
    stop: Stop,
    tol: f64,
    dim: usize,
    /// F of the last iteration, and whether its posterior was harder than it will be.
    last: Option<(f64, bool)>,
}

impl Convergence {
    pub fn new(stop: Stop, tol: f64, dim: usize) -> Self {
        Self { stop, tol, dim, last: None }
    }

    /// Takes in the F of an iteration, that of its hard posterior, and whether this is used for the time being. Returns
    /// the measured change (infinite in the first) and whether it is the last.
    pub fn update(&mut self, lower_bound: f64, hard_bound: f64, provisional: bool) -> (f64, bool) {
        let Some((last, hard)) = self.last.replace((lower_bound, provisional)) else { return (f64::INFINITY, false) };
        let rise = if hard { hard_bound } else { lower_bound } - last;
        let change = match self.stop {
            Stop::PerDim => rise / self.dim as f64,
            Stop::Relative if last == 0.0 => rise,
            Stop::Relative => rise / last.abs(),
        };
        (change, change <= self.tol && !provisional)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes in the F of a posterior that stays as it is.
    fn plain(convergence: &mut Convergence, lower_bound: f64) -> (f64, bool) {
        convergence.update(lower_bound, f64::NAN, false)
    }

    #[test]
    fn per_dim_divides_by_the_columns_and_relative_by_the_bound() {
        let mut per_dim = Convergence::new(Stop::PerDim, 0.01, 10);
        assert_eq!(plain(&mut per_dim, -5.0), (f64::INFINITY, false));
        assert_eq!(plain(&mut per_dim, -4.0), (0.1, false));
        assert!(plain(&mut per_dim, -3.95).1);
        let mut relative = Convergence::new(Stop::Relative, 0.01, 10);
        plain(&mut relative, -100.0);
        assert_eq!(plain(&mut relative, -98.0), (0.02, false));
        assert!(plain(&mut relative, -97.5).1);
    }

    #[test]
    fn a_tolerance_of_zero_stops_where_nothing_changes() {
        let mut c = Convergence::new(Stop::PerDim, 0.0, 2);
        plain(&mut c, 1.0);
        assert!(!plain(&mut c, 1.5).1);
        assert!(plain(&mut c, 1.5).1);
    }

    #[test]
    fn a_hard_posterior_is_compared_with_a_hard_one_and_is_never_the_last() {
        let mut c = Convergence::new(Stop::PerDim, 0.1, 1);
        c.update(-9.0, -9.0, true);
        assert_eq!(c.update(-9.0, -9.0, true), (0.0, false));
        let mut still_rising = Convergence { last: c.last, ..c };
        assert_eq!(still_rising.update(-5.0, -8.5, false), (0.5, false));
        assert_eq!(still_rising.update(-5.0, -8.4, false), (0.0, true));
    }
}
