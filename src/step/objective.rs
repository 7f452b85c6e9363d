//! The variational lower bound F, per unit of weight (the paper's free energy with the truncated posterior):
//!
//! F = -log M - D/2 log(2 pi s2) + (1 / sum w) sum_n w_n log sum_{c in K(n)} exp(-d_c(n) / (2 s2)).
//!
//! With the hard posterior the inner sum has the nearest cluster only, which is k-means's error in other units.

use super::statistics::Statistics;

/// F, from which the rise over another one can be told without the unit of the data: scaled by a power of two, data give the
/// same bits. F itself has the log of the unit in it, and so rounds differently.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    pub clusters: usize,
    pub dim: usize,
    /// The mean of log sum exp(-d / 2 s2), which has no unit.
    pub mean: f64,
    /// s2.
    pub variance: f64,
}

impl Bound {
    /// That of an E-step that used `variance`.
    pub fn of<T>(statistics: &Statistics<T>, variance: f64) -> Self {
        let mean = statistics.log_sum / statistics.weight;
        Self { clusters: statistics.mass.len(), dim: statistics.dim, mean, variance }
    }

    /// That of the hard posterior, whatever that of the E-step was.
    pub fn hard<T>(statistics: &Statistics<T>, variance: f64) -> Self {
        let mean = -statistics.inertia / (2.0 * variance * statistics.weight);
        Self { mean, ..Self::of(statistics, variance) }
    }

    /// F.
    pub fn value(&self) -> f64 {
        -(self.clusters as f64).ln() - log_normalizer(self.dim, self.variance) + self.mean
    }

    /// By how much it is higher than `other`.
    pub fn above(&self, other: &Self) -> f64 {
        let ratio = self.variance / other.variance;
        let log_ratio = if ratio.is_normal() { ratio.ln() } else { self.variance.ln() - other.variance.ln() };
        self.mean - other.mean - 0.5 * self.dim as f64 * log_ratio
    }
}

/// D/2 log(2 pi s2): minus the log-density of an isotropic Gaussian at its mean.
pub(crate) fn log_normalizer(dim: usize, variance: f64) -> f64 {
    0.5 * dim as f64 * (2.0 * std::f64::consts::PI * variance).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_is_the_difference_of_two_bounds_and_knows_no_unit() {
        for n in 1..200 {
            let bound = |mean: f64, variance: f64| Bound { clusters: 7, dim: 3, mean, variance };
            let (low, high) = (bound(-3.25, 1.0 / f64::from(n)), bound(-0.75, 0.01));
            let rise = high.above(&low);
            approx::assert_relative_eq!(rise, high.value() - low.value(), epsilon = 1e-12);
            for exponent in [-300, -21, 2, 31, 410] {
                let unit = f64::from(exponent).exp2();
                let scaled = |b: &Bound| Bound { variance: b.variance * unit, ..*b };
                assert_eq!(scaled(&high).above(&scaled(&low)), rise);
            }
        }
    }

    #[test]
    fn variances_too_far_apart_for_their_ratio_still_compare() {
        let bound = |variance| Bound { clusters: 1, dim: 2, mean: 0.0, variance };
        let rise = bound(1e-300).above(&bound(1e300));
        approx::assert_relative_eq!(rise, 600.0 * std::f64::consts::LN_10, max_relative = 1e-12);
    }
}
