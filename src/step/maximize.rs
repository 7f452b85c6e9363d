//! The M-step: mu_c = sum w q y / sum w q, and the exact s2 for the new means without a second pass over the data:
//!
//! sum_n w q_c |y - m|^2 = sum_n w q_c |y - mu_old|^2 - N_c |mean_c - mu_old|^2 + N_c |m - mean_c|^2,
//!
//! where mean_c is the exact weighted mean and m what is stored. The sum is divided by D sum w (the paper's D N' is wrong
//! for weights that do not sum to N').
//!
//! EM puts m at mean_c. A step of length a goes on to m = mu_old + a (mean_c - mu_old): the sum then falls by
//! a (2 - a) N_c |mean_c - mu_old|^2, so F still rises for any a between 0 and 2. What EM mends slowly is mended about a
//! times as fast (over-relaxation: Salakhutdinov and Roweis, "Adaptive overrelaxed bound optimization methods", ICML 2003).
//!
//! Where s2 shrinks by orders of magnitude in one step, the difference above has lost its digits, and s2 is measured anew.
//! A cluster without mass keeps its mean here; the trainer moves it. s2 is kept above a floor, so that constant data and
//! clusters of one point have a finite F.

use super::statistics::Statistics;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::par_collected;
use crate::model::Model;
use rayon::prelude::*;

/// Moves the model (IN OUT) on by a step of length `step`, which is 1 for EM and below 2. Says whether s2 has kept its digits.
pub(crate) fn maximize<T: Real>(
    model: &mut Model<T>,
    statistics: &Statistics<T>,
    floor: f64,
    step: f64,
) -> Result<bool> {
    let dim = statistics.dim;
    let drops = model
        .local_centers_mut()
        .par_chunks_mut(dim)
        .zip(statistics.sums.par_chunks(dim))
        .zip(&statistics.mass)
        .with_min_len(64)
        .map(|((center, sum), &mass)| if mass > 0.0 { mass * T::move_center(center, sum, mass, step) } else { 0.0 });
    let drops = par_collected(drops, "distances of centers")?;
    let total = statistics.weighted_distance - drops.iter().sum::<f64>();
    model.set_variance((total / (statistics.weight * dim as f64)).max(floor));
    Ok(total > T::EPSILON.to_f64().sqrt() * statistics.weighted_distance || statistics.weighted_distance == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn a_longer_step_goes_further_and_knows_the_variance_there() {
        let model = Model::from_origin(array![[1.0_f64, 0.0], [9.0, 9.0]].view(), None, 1.0).unwrap();
        let mut statistics = Statistics::new(2, 2).unwrap();
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
    fn a_variance_that_is_lost_in_rounding_is_noticed() {
        let mut model = Model::from_origin(array![[0.0_f32]].view(), None, 1.0).unwrap();
        let mut statistics = Statistics::new(1, 1).unwrap();
        (statistics.mass[0], statistics.weight, statistics.sums[0]) = (2.0, 2.0, 2000.0);
        statistics.weighted_distance = 2e6 + 0.02;
        assert!(!maximize(&mut model, &statistics, 1e-9, 1.0).unwrap());
    }
}
