//! The M-step for variances and weights: with N_c = sum w q_c and the new means m_c,
//!
//! pi_c = N_c / sum w,    v_cd = sum_n w q_c (y_d - m_cd)^2 / N_c + reg_covar,
//!
//! or, if clusters or columns share a variance, its mean over them. The step leaves second moments around the old
//! centers, from which those around the new means follow without a second pass and without a difference of large sums:
//!
//! sum_n w q_c (y - m)^2 = sum_n w q_c (y - mu)^2 - N_c (mean - mu)^2 + N_c (m - mean)^2.
//!
//! A cluster without mass keeps its center and gets the mean variance of the others and almost no weight, because F falls
//! by what it takes from the others. The trainer moves it onto a row far from the others, which it gains if it explains
//! the row far better. At the start, when there is no F yet, it gets a hundredth of the mean weight. `reg_covar` keeps the
//! variances of small clusters away from 0, as in scikit-learn's `GaussianMixture`.

use super::statistics::Statistics;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::filled;
use crate::model::score::{Lift, least_variance};
use crate::model::{Model, Shape};
use crate::options::Covariance;
use rayon::prelude::*;

/// The weight of a cluster without mass, relative to the mean weight, at the start.
pub(crate) const EMPTY_AT_START: f64 = 0.01;
/// The same in EM, where it must not lower F.
pub(crate) const EMPTY_IN_EM: f64 = 1e-10;

/// How variances and weights are learned.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ShapeRule {
    pub covariance: Covariance,
    /// Whether weights are learned; otherwise all are equal.
    pub weighted: bool,
    /// Added to each variance.
    pub reg_covar: f64,
    /// Maximum number of k-means iterations before variances are first estimated.
    pub warm_up: u64,
}

impl ShapeRule {
    /// The second moments that the rule needs.
    pub fn moments(&self) -> Option<Lift> {
        Lift::of(self.covariance)
    }
}

/// Moves the centers (IN OUT) to the means of their rows, and sets the model's new variances and weights. No variance
/// is below `floor`, or below the smallest that `T` supports. Clusters without mass get `empty` times the mean weight.
pub(crate) fn maximize_shape<T: Real>(
    model: &mut Model<T>,
    statistics: &Statistics<T>,
    rule: &ShapeRule,
    floor: f64,
    empty: f64,
) -> Result<()> {
    let (clusters, dim) = (statistics.clusters(), statistics.dim);
    let variances = match rule.covariance {
        Covariance::Isotropic => vec![model.variance()],
        _ => {
            let mut spread = filled(0.0, clusters * statistics.extra, "variances")?;
            move_centers(model, statistics, &mut spread);
            variances(spread, statistics, rule, floor.max(least_variance::<T>()))
        }
    };
    let weights = rule.weighted.then(|| {
        let share = |&mass: &f64| if mass > 0.0 { mass / statistics.weight } else { empty / clusters as f64 };
        let weights: Vec<f64> = statistics.mass.iter().map(share).collect();
        let sum: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / sum).collect::<Vec<f64>>()
    });
    if !variances.iter().chain(weights.iter().flatten()).all(|x| x.is_finite()) {
        return Err(Error::NotFiniteModel);
    }
    model.set_shape(Shape::new(rule.covariance, &variances, weights.as_deref(), (clusters, dim))?);
    Ok(())
}

/// Moves centers to their means and writes second moments around these to `spread` (OUT), as many as the statistics
/// have.
fn move_centers<T: Real>(model: &mut Model<T>, statistics: &Statistics<T>, spread: &mut [f64]) {
    let (dim, width, extra) = (statistics.dim, statistics.width(), statistics.extra);
    let sums = statistics.sums.par_chunks(width).zip(&statistics.mass);
    let centers = model.local_centers_mut().par_chunks_mut(dim).zip(spread.par_chunks_mut(extra));
    centers.zip(sums).with_min_len(64).for_each(|((center, spread), (sum, &mass))| {
        if mass <= 0.0 {
            return;
        }
        let (sum, squares) = sum.split_at(dim);
        spread.copy_from_slice(squares);
        for (d, (mu, sum)) in center.iter_mut().zip(sum).enumerate() {
            let (mean, old) = (sum / mass, mu.to_f64());
            *mu = T::from_f64(mean);
            spread[d % extra] += mass * ((mu.to_f64() - mean).powi(2) - (mean - old).powi(2));
        }
    });
}

/// Variances from the second moments around the new centers.
fn variances<T>(mut spread: Vec<f64>, statistics: &Statistics<T>, rule: &ShapeRule, floor: f64) -> Vec<f64> {
    let (dim, extra, mass) = (statistics.dim, statistics.extra, &statistics.mass);
    let regular = |v: f64| (v.max(0.0) + rule.reg_covar).max(floor);
    let of_all = |column: usize| {
        let sum: f64 = spread.iter().skip(column).step_by(extra).sum();
        sum / statistics.weight
    };
    let columns = if extra == dim { 1.0 } else { dim as f64 };
    let pooled: Vec<f64> = (0..extra).map(|d| regular(of_all(d) / columns)).collect();
    if rule.covariance == Covariance::TiedDiag {
        return pooled;
    }
    for (spread, &mass) in spread.chunks_exact_mut(extra).zip(mass) {
        for (v, &pooled) in spread.iter_mut().zip(&pooled) {
            *v = if mass > 0.0 { regular(*v / (mass * columns)) } else { pooled };
        }
    }
    spread
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    fn rule(covariance: Covariance) -> ShapeRule {
        ShapeRule { covariance, weighted: true, reg_covar: 0.5, warm_up: 0 }
    }

    /// Two clusters with rows of weight 1 and one without rows, with centers that are not the means.
    fn statistics(extra: usize) -> (Model<f64>, Statistics<f64>) {
        let centers = array![[1.0, 0.0], [9.0, 9.0], [50.0, 50.0]];
        let model = Model::from_origin(centers.view(), None, 1.0).unwrap();
        let rows = [(0, [0.0, 2.0]), (0, [4.0, 1.0]), (0, [2.0, 3.0]), (1, [9.0, 10.0]), (1, [7.0, 8.0])];
        let mut statistics = Statistics::new(3, 2, extra).unwrap();
        (statistics.weight, statistics.rows) = (5.0, 5);
        for (c, row) in rows {
            statistics.mass[c] += 1.0;
            for d in 0..2 {
                statistics.sums[c * (2 + extra) + d] += row[d];
                statistics.sums[c * (2 + extra) + 2 + d % extra] += (row[d] - centers[[c, d]]).powi(2);
            }
        }
        (model, statistics)
    }

    #[test]
    fn variances_are_those_around_the_means_plus_reg_covar() {
        let (of_first, of_second) = ([8.0 / 3.0, 2.0 / 3.0], [1.0, 1.0]);
        let tied = [0, 1].map(|d| (3.0 * of_first[d] + 2.0 * of_second[d]) / 5.0 + 0.5);
        let spherical = [5.0 / 3.0 + 0.5, 1.5, (3.0 * 5.0 / 3.0 + 2.0) / 5.0 + 0.5];
        let diag = [of_first[0] + 0.5, of_first[1] + 0.5, 1.5, 1.5, tied[0], tied[1]];
        for (covariance, expected) in
            [(Covariance::TiedDiag, &tied[..]), (Covariance::Spherical, &spherical[..]), (Covariance::Diag, &diag[..])]
        {
            let (mut model, statistics) = statistics(if covariance == Covariance::Spherical { 1 } else { 2 });
            maximize_shape(&mut model, &statistics, &rule(covariance), 0.0, 0.01).unwrap();
            assert_eq!(model.centers(), array![[2.0, 2.0], [8.0, 9.0], [50.0, 50.0]]);
            let shape = model.shape().unwrap();
            shape
                .variances()
                .iter()
                .zip(expected)
                .for_each(|(&a, &b)| approx::assert_relative_eq!(a, b, epsilon = 1e-12));
            let weights = shape.weights().unwrap();
            approx::assert_relative_eq!(weights.iter().sum::<f64>(), 1.0, epsilon = 1e-12);
            approx::assert_relative_eq!(weights[0] / weights[2], 0.6 * 300.0, epsilon = 1e-9);
        }
    }
}
