//! The variational lower bound F, per unit of weight (the paper's free energy with the truncated posterior):
//!
//! F = -log M - D/2 log(2 pi s2) + (1 / sum w) sum_n w_n log sum_{c in K(n)} exp(-d_c(n) / (2 s2)).
//!
//! With the hard posterior the inner sum has the nearest cluster only, which is k-means's error in other units.

use super::statistics::Statistics;

/// F from the statistics of an E-step that used `variance`.
pub(crate) fn lower_bound<T>(statistics: &Statistics<T>, variance: f64) -> f64 {
    bound(statistics, statistics.log_sum / statistics.weight, variance)
}

/// F of the hard posterior, whatever that of the E-step was.
pub(crate) fn hard_lower_bound<T>(statistics: &Statistics<T>, variance: f64) -> f64 {
    bound(statistics, -statistics.inertia / (2.0 * variance * statistics.weight), variance)
}

/// F from the mean of log sum exp(-d / 2 s2).
fn bound<T>(statistics: &Statistics<T>, mean: f64, variance: f64) -> f64 {
    -(statistics.mass.len() as f64).ln() - log_normalizer(statistics.dim, variance) + mean
}

/// D/2 log(2 pi s2): minus the log-density of an isotropic Gaussian at its mean.
pub(crate) fn log_normalizer(dim: usize, variance: f64) -> f64 {
    0.5 * dim as f64 * (2.0 * std::f64::consts::PI * variance).ln()
}
