//! The variational lower bound F, per unit of weight (the paper's free energy with the truncated posterior):
//!
//! F = -log M - D/2 log(2 pi s2) + (1 / sum w) sum_n w_n log sum_{c in K(n)} exp(-d_c(n) / (2 s2)).
//!
//! With [`Metric::Cosine`] log C_D(k) + k of the von Mises-Fisher distribution, k = 1 / s2, takes the place of -D/2 log(2 pi s2).
//! With the hard posterior the inner sum has the nearest cluster only, which is k-means's error in other units.

use super::statistics::Statistics;
use crate::kernel::Real;
use crate::model::Model;
use crate::options::Metric;
use crate::von_mises_fisher::log_peak;

/// F from the statistics of an E-step with `model`.
pub(crate) fn lower_bound<T: Real>(statistics: &Statistics<T>, model: &Model<T>) -> f64 {
    bound(statistics, statistics.log_sum / statistics.weight, model)
}

/// F of the hard posterior, whatever that of the E-step was.
pub(crate) fn hard_lower_bound<T: Real>(statistics: &Statistics<T>, model: &Model<T>) -> f64 {
    bound(statistics, -statistics.inertia / (2.0 * model.variance() * statistics.weight), model)
}

/// F from the mean of log sum exp(-d / 2 s2).
fn bound<T: Real>(statistics: &Statistics<T>, mean: f64, model: &Model<T>) -> f64 {
    -(statistics.mass.len() as f64).ln() - log_normalizer(model) + mean
}

/// Minus the log-density of a cluster at its mean: D/2 log(2 pi s2) of an isotropic Gaussian.
pub(crate) fn log_normalizer<T: Real>(model: &Model<T>) -> f64 {
    match model.metric() {
        Metric::Euclidean => 0.5 * model.dim() as f64 * (2.0 * std::f64::consts::PI * model.variance()).ln(),
        Metric::Cosine => -log_peak(model.dim(), 1.0 / model.variance()),
    }
}
