//! The variational lower bound F, per unit of weight (the paper's free energy with the truncated posterior):
//!
//! F = -log M - D/2 log(2 pi s2) + (1 / sum w) sum_n w_n log sum_{c in K(n)} exp(-d_c(n) / (2 s2)).
//!
//! If clusters differ in weight or variance, their [scores](crate::model::score) replace the distances, and the terms
//! that they share replace the first terms. With the cosine metric, log C_D(k) + k of the von Mises-Fisher
//! distribution, k = 1 / s2, replaces -D/2 log(2 pi s2).
//!
//! With the hard posterior the inner sum has only the nearest cluster, and F is the error of k-means in other units.

use super::statistics::Statistics;
use crate::error::Result;
use crate::kernel::Real;
use crate::model::Model;
use crate::model::score::Scores;

/// F in a form from which increases can be computed independently of the units of the data: data scaled by a power of
/// two give the same bits. F itself contains the log of the unit, and so rounds differently.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    pub dim: usize,
    /// The mean of log sum exp(-d / 2 s2), which is free of units.
    pub mean: f64,
    /// The terms before it in F.
    pub constant: f64,
    /// s2, if all clusters are alike: the unit enters the constant only through it.
    pub variance: Option<f64>,
}

impl Bound {
    /// The bound of an E-step that used `scores`.
    pub fn of<T: Real>(statistics: &Statistics<T>, scores: &Scores<T>) -> Self {
        Self::at(scores, statistics.dim, statistics.log_sum / statistics.weight)
    }

    /// The bound of the hard posterior of clusters that are alike, whichever posterior the E-step used.
    pub fn hard<T: Real>(statistics: &Statistics<T>, scores: &Scores<T>) -> Self {
        let mean = -statistics.inertia / (2.0 * scores.variance * statistics.weight);
        Self::at(scores, statistics.dim, mean)
    }

    /// The bound for these scores with the given mean.
    pub fn at<T: Real>(scores: &Scores<T>, dim: usize, mean: f64) -> Self {
        Self { dim, mean, constant: scores.constant, variance: scores.shared_variance() }
    }

    /// F.
    pub fn value(&self) -> f64 {
        self.constant + self.mean
    }

    /// How much it is above `other`.
    pub fn above(&self, other: &Self) -> f64 {
        let (Some(own), Some(others)) = (self.variance, other.variance) else { return self.value() - other.value() };
        let ratio = own / others;
        let log_ratio = if ratio.is_normal() { ratio.ln() } else { own.ln() - others.ln() };
        self.mean - other.mean - 0.5 * self.dim as f64 * log_ratio
    }
}

/// F at `model`, from the statistics of an E-step.
pub(crate) fn bound_at<T: Real>(statistics: &Statistics<T>, model: &Model<T>) -> Result<Bound> {
    Ok(Bound::of(statistics, &Scores::of(model)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::score::log_normalizer;

    fn of(dim: usize, mean: f64, variance: f64) -> Bound {
        Bound { dim, mean, constant: -log_normalizer(dim, variance), variance: Some(variance) }
    }

    #[test]
    fn a_rise_is_the_difference_of_two_bounds_in_any_unit() {
        for n in 1..200 {
            let bound = |mean, variance| of(3, mean, variance);
            let (low, high) = (bound(-3.25, 1.0 / f64::from(n)), bound(-0.75, 0.01));
            let rise = high.above(&low);
            approx::assert_relative_eq!(rise, high.value() - low.value(), epsilon = 1e-12);
            for exponent in [-300, -21, 2, 31, 410] {
                let unit = f64::from(exponent).exp2();
                let scaled = |b: &Bound| of(3, b.mean, b.variance.unwrap() * unit);
                assert_eq!(scaled(&high).above(&scaled(&low)), rise);
            }
        }
    }

    #[test]
    fn variances_too_far_apart_for_their_ratio_still_compare() {
        let bound = |variance| of(2, 0.0, variance);
        let rise = bound(1e-300).above(&bound(1e300));
        approx::assert_relative_eq!(rise, 600.0 * std::f64::consts::LN_10, max_relative = 1e-12);
    }
}
