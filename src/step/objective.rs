//! The variational lower bound F, per unit of weight (the paper's free energy with the truncated posterior):
//!
//! F = -log M - D/2 log(2 pi s2) + (1 / sum w) sum_n w_n log sum_{c in K(n)} exp(-d_c(n) / (2 s2)).
//!
//! Where clusters differ in weight or variance, their [scores](crate::model::score) take the place of distances, and what they
//! have in common that of the first terms. With the cosine metric log C_D(k) + k of the von Mises-Fisher distribution, k = 1 / s2,
//! takes the place of -D/2 log(2 pi s2).
//!
//! With the hard posterior the inner sum has the nearest cluster only, which is k-means's error in other units.

use super::statistics::Statistics;
use crate::kernel::Real;
use crate::model::Model;
use crate::model::score::Scores;

/// F from the statistics of an E-step that used `scores`.
pub(crate) fn lower_bound<T: Real>(statistics: &Statistics<T>, scores: &Scores<T>) -> f64 {
    scores.constant + statistics.log_sum / statistics.weight
}

/// F of the hard posterior of a model of equal clusters, whatever that of the E-step was.
pub(crate) fn hard_lower_bound<T: Real>(statistics: &Statistics<T>, scores: &Scores<T>) -> f64 {
    scores.constant + -statistics.inertia / (2.0 * scores.variance * statistics.weight)
}

/// F from the statistics of an E-step at `model`.
pub(crate) fn bound_at<T: Real>(statistics: &Statistics<T>, model: &Model<T>) -> crate::error::Result<f64> {
    Ok(lower_bound(statistics, &Scores::of(model, None)?))
}
