//! When to stop: the rise of F from one iteration to the next, by one of two measures, has fallen to the tolerance.

use crate::params::Stop;

/// Follows F over the iterations.
#[derive(Debug)]
pub(crate) struct Convergence {
    stop: Stop,
    tol: f64,
    dim: usize,
    last: Option<f64>,
}

impl Convergence {
    pub fn new(stop: Stop, tol: f64, dim: usize) -> Self {
        Self { stop, tol, dim, last: None }
    }

    /// Takes in the F of an iteration; returns the measured change (infinite in the first) and whether it is the last.
    pub fn update(&mut self, lower_bound: f64) -> (f64, bool) {
        let Some(last) = self.last.replace(lower_bound) else { return (f64::INFINITY, false) };
        let rise = lower_bound - last;
        let change = match self.stop {
            Stop::PerDim => rise / self.dim as f64,
            Stop::Relative if last == 0.0 => rise,
            Stop::Relative => rise / last.abs(),
        };
        (change, change <= self.tol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn per_dim_divides_by_the_columns_and_relative_by_the_bound() {
        let mut per_dim = Convergence::new(Stop::PerDim, 0.01, 10);
        assert_eq!(per_dim.update(-5.0), (f64::INFINITY, false));
        assert_eq!(per_dim.update(-4.0), (0.1, false));
        assert!(per_dim.update(-3.95).1);
        let mut relative = Convergence::new(Stop::Relative, 0.01, 10);
        relative.update(-100.0);
        assert_eq!(relative.update(-98.0), (0.02, false));
        assert!(relative.update(-97.5).1);
    }

    #[test]
    fn a_tolerance_of_zero_stops_where_nothing_changes() {
        let mut c = Convergence::new(Stop::PerDim, 0.0, 2);
        c.update(1.0);
        assert!(!c.update(1.5).1);
        assert!(c.update(1.5).1);
    }
}
