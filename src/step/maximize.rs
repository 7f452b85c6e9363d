//! The M-step: mu_c = sum w q y / sum w q, and the exact s2 for the new means without a second pass over the data:
//!
//! sum_n w q_c |y - m|^2 = sum_n w q_c |y - mu_old|^2 - N_c |mean_c - mu_old|^2 + N_c |m - mean_c|^2,
//!
//! where mean_c is the exact weighted mean and m the stored center. The sum is divided by D sum w (the paper's D N' is
//! wrong for weights that do not sum to N').
//!
//! EM sets m to mean_c. A step of length a goes to m = mu_old + a (mean_c - mu_old) instead. The sum then falls by
//! a (2 - a) N_c |mean_c - mu_old|^2, so F still increases for any a between 0 and 2, and directions in which EM
//! converges slowly converge about a times as fast (over-relaxation: Salakhutdinov and Roweis, "Adaptive overrelaxed
//! bound optimization methods", ICML 2003).
//!
//! With [`Metric::Cosine`] the best center is the direction of the sum, sum w q y / |sum w q y|, and a step of length a
//! goes on to the direction of mu = mean + (a - 1) (mean - mu_old), where mean and mu_old have length 1. For a below 2
//! it is no farther from the best center than mu_old was, so F does not fall. A cluster whose rows cancel out stays
//! where it is, because all directions are equally good. The formula above holds for any m, and s2 = 1 / k follows from
//! the mean of 1 - mu.y, half the mean squared distance, by [`von_mises_fisher`](crate::von_mises_fisher).
//!
//! If s2 shrinks by orders of magnitude in one step, the difference above has lost its digits, and s2 is measured
//! again. A cluster without mass keeps its center here; the trainer relocates it. s2 is kept above a floor, so that
//! constant data and clusters of one row have a finite F.

use super::statistics::Statistics;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::par_collected;
use crate::model::Model;
use crate::options::Metric;
use crate::von_mises_fisher::{self, concentration};
use rayon::prelude::*;

/// Updates the model (IN OUT) with a step of length `step`, which is 1 for EM and below 2. Returns whether s2 has kept
/// its digits.
pub(crate) fn maximize<T: Real>(
    model: &mut Model<T>,
    statistics: &Statistics<T>,
    floor: f64,
    step: f64,
) -> Result<bool> {
    let (dim, metric) = (statistics.dim, model.metric());
    let moved = |center: &mut [T], sum: &[f64], mass: f64| match metric {
        Metric::Euclidean => T::move_center(center, sum, mass, step),
        Metric::Cosine => turn_center(center, sum, mass, step),
    };
    let drops = model
        .local_centers_mut()
        .par_chunks_mut(dim)
        .zip(statistics.sums.par_chunks(statistics.width()))
        .zip(&statistics.mass)
        .with_min_len(64)
        .map(|((center, sum), &mass)| if mass > 0.0 { mass * moved(center, &sum[..dim], mass) } else { 0.0 });
    let drops = par_collected(drops, "distances of centers")?;
    let total = statistics.weighted_distance - drops.iter().sum::<f64>();
    let (old, new) = (model.variance(), variance_of(model, total, statistics.weight).max(floor));
    model.set_variance(new);
    let few = T::EPSILON.to_f64().sqrt();
    // The distances come from scores minus their offsets, which are about as large as the old s2.
    let above_offsets = model.shape().is_none() || new > few * old;
    Ok(above_offsets && (total > few * statistics.weighted_distance || statistics.weighted_distance == 0.0))
}

/// The optimal s2 for rows of total `weight`, given the weighted sum of squared distances to their clusters.
pub(crate) fn variance_of<T: Real>(model: &Model<T>, distances: f64, weight: f64) -> f64 {
    match model.metric() {
        Metric::Euclidean => distances / (weight * model.dim() as f64),
        Metric::Cosine => 1.0 / concentration(model.dim(), 0.5 * distances / weight),
    }
}

/// The mean squared distance for which the model's s2 is optimal.
pub(crate) fn distance_of<T: Real>(model: &Model<T>) -> f64 {
    match model.metric() {
        Metric::Euclidean => model.variance() * model.dim() as f64,
        Metric::Cosine => 2.0 * von_mises_fisher::apart(model.dim(), 1.0 / model.variance()),
    }
}

/// Turns a center (IN OUT) toward the direction of its rows' sum by `step` times the way. Returns
/// sum_d (mean - old)^2 - (new - mean)^2, with mean = sum / mass.
pub(crate) fn turn_center<T: Real>(center: &mut [T], sum: &[f64], mass: f64, step: f64) -> f64 {
    let length = |square: f64| square.sqrt();
    let to = 1.0 / length(sum.iter().map(|s| s * s).sum());
    if !to.is_finite() {
        return 0.0;
    }
    let beyond = |s: f64, old: T| s * to + (step - 1.0) * (s * to - old.to_f64());
    let square = sum.iter().zip(&*center).map(|(&s, &old)| beyond(s, old).powi(2)).sum();
    let unit = 1.0 / length(square);
    let turned = |s: f64, old: T| T::from_f64(beyond(s, old) * unit);
    let gain: f64 = (sum.iter().zip(&*center))
        .map(|(&s, &old)| {
            let (mean, new) = (s / mass, turned(s, old).to_f64());
            (mean - old.to_f64()).powi(2) - (new - mean).powi(2)
        })
        .sum();
    // If there is nothing left to gain, rounding can lead away from the mean: then the center stays.
    if gain > 0.0 {
        center.iter_mut().zip(sum).for_each(|(mu, &s)| *mu = turned(s, *mu));
    }
    gain.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn a_longer_step_goes_farther_and_has_the_exact_variance() {
        let model = Model::from_origin(array![[1.0_f64, 0.0], [9.0, 9.0]].view(), None, 1.0).unwrap();
        let mut statistics = Statistics::new(2, 2, 0).unwrap();
        let points = [[0.0, 2.0], [4.0, 1.0], [2.0, 3.0], [6.0, 2.0]];
        let error = |c: &[f64]| points.iter().map(|p| (p[0] - c[0]).powi(2) + (p[1] - c[1]).powi(2)).sum::<f64>();
        (statistics.mass[0], statistics.weight) = (4.0, 4.0);
        statistics.sums[..2].copy_from_slice(&[12.0, 8.0]);
        statistics.weighted_distance = error(&[1.0, 0.0]);
        for (length, center) in [(1.0, [3.0, 2.0]), (1.5, [4.0, 3.0]), (0.5, [2.0, 1.0])] {
            let mut next = model.clone();
            assert!(maximize(&mut next, &statistics, 0.0, length).unwrap());
            assert_eq!((&next.local_centers()[..2], statistics.empty().collect()), (&center[..], vec![1]));
            approx::assert_relative_eq!(next.variance(), error(&center) / 8.0, max_relative = 1e-14);
        }
    }

    #[test]
    fn a_direction_turns_to_the_sum_and_no_step_leads_away_from_it() {
        let sum = [3.0, 4.0, 0.0];
        let along = |c: &[f64]| c.iter().zip(&sum).map(|(a, b)| a * b).sum::<f64>();
        for old in [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.6, 0.8, 0.0], [-0.6, 0.8, 0.0]] {
            let mut best = old;
            let gain = turn_center(&mut best, &sum, 8.0, 1.0);
            approx::assert_abs_diff_eq!(gain, 2.0 * (5.0 - along(&old)) / 8.0, epsilon = 1e-14);
            for step in [0.5, 1.3, 1.6, 1.99] {
                let mut center = old;
                turn_center(&mut center, &sum, 8.0, step);
                approx::assert_relative_eq!(center.iter().map(|x| x * x).sum::<f64>(), 1.0, max_relative = 1e-14);
                assert!(along(&center) >= along(&old) && along(&center) <= 5.0 + 1e-12, "{old:?} {step}");
            }
        }
        let mut lost = [0.0, 1.0, 0.0];
        assert_eq!((turn_center(&mut lost, &[0.0; 3], 8.0, 1.0), lost), (0.0, [0.0, 1.0, 0.0]));
    }

    #[test]
    fn a_variance_lost_to_rounding_is_detected() {
        let mut model = Model::from_origin(array![[0.0_f32]].view(), None, 1.0).unwrap();
        let mut statistics = Statistics::new(1, 1, 0).unwrap();
        (statistics.mass[0], statistics.weight, statistics.sums[0]) = (2.0, 2.0, 2000.0);
        statistics.weighted_distance = 2e6 + 0.02;
        assert!(!maximize(&mut model, &statistics, 1e-9, 1.0).unwrap());
    }
}
