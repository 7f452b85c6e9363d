//! Clusters so tight, in `f32`, that products cannot resolve which of them is nearest.

use crate::common::Random;
use crate::shards::assert_rises;
use dgmm::{Covariance, Dataset, Dgmm, Engine, Fit, GaussianMixture, Metric, Params, Real};
use ndarray::Array2;

/// Rows with spread `spread` around 20 points.
fn rows(count: usize, spread: f64, seed: u64) -> Array2<f32> {
    let mut rng = Random(seed);
    let places = Array2::from_shape_fn((20, 3), |_| rng.normal());
    Array2::from_shape_fn((count, 3), |(n, d)| (places[[n % 20, d]] + spread * rng.normal()) as f32)
}

fn fit<T: Real>(params: &Params, x: &Array2<f32>, name: &str) -> Fit<T> {
    let x = x.mapv(|v| T::from_f64(f64::from(v)));
    let fit = params.fit(&Dataset::new(x.view()).unwrap()).unwrap();
    assert_rises::<T>(&fit.report, x.ncols(), name);
    fit
}

/// F does not fall in `f32`, and the fit is about as good as in `f64`. With one row per cluster the error says nothing.
fn as_good_in_f32(params: &Params, x: &Array2<f32>, name: &str) {
    let (narrow, wide) = (fit::<f32>(params, x, name).report, fit::<f64>(params, x, name).report);
    let (error, expected) = (narrow.inertia, wide.inertia);
    let single = params.plan(x.nrows(), x.ncols()).unwrap().clusters == x.nrows();
    assert!(single || error <= 1.15 * expected, "{name}: an error of {error}, not {expected}");
}

#[test]
fn the_grouped_engine_fits_tight_clusters_in_f32_as_in_f64() {
    for spread in [1e-2, 1e-3, 1e-4, 1e-5] {
        for (count, clusters, seeds) in [(300, 300, 3), (300, 100, 3), (3000, 1000, 1)] {
            for seed in 0..seeds {
                let x = rows(count, spread, seed);
                for metric in [Metric::Euclidean, Metric::Cosine] {
                    let params = Dgmm::params(clusters).engine(Engine::Grouped).metric(metric).seed(seed);
                    let name = format!("{count} rows, {clusters} clusters, {spread}, {metric:?}, seed {seed}");
                    as_good_in_f32(&params, &x, &name);
                }
            }
        }
    }
}

#[test]
fn as_many_tight_clusters_as_rows_end_on_the_rows_in_f32() {
    for seed in 0..4 {
        let x = rows(300, 1e-4, seed);
        let fit = fit::<f32>(&Dgmm::params(300).seed(seed), &x, "as many clusters as rows");
        assert!(fit.report.inertia < 300.0 * 3.0 * 1e-12, "{}", fit.report.inertia);
    }
}

#[test]
fn mixtures_with_clusters_of_zero_width_fit_in_f32_as_in_f64() {
    for seed in 0..2 {
        let mut rng = Random(seed);
        let x = Array2::from_shape_fn((2500, 5), |_| rng.normal() as f32);
        for covariance in [Covariance::Diag, Covariance::Spherical, Covariance::TiedDiag, Covariance::Isotropic] {
            let params = GaussianMixture::params(300).covariance(covariance).reg_covar(0.0).engine(Engine::Grouped);
            let (params, name) = (params.seed(seed), format!("{covariance:?}, seed {seed}"));
            let bound = fit::<f32>(&params, &x, &name).report.lower_bound;
            let expected = fit::<f64>(&params, &x, &name).report.lower_bound;
            assert!((bound - expected).abs() < 0.05, "{name}: {bound}, not {expected}");
        }
    }
}

#[test]
fn mixtures_that_compare_rows_with_all_clusters_fit_tight_ones_in_f32_as_in_f64() {
    for spread in [1e-2, 1e-3, 1e-5] {
        for covariance in [Covariance::Diag, Covariance::Spherical, Covariance::TiedDiag, Covariance::Isotropic] {
            for truncation in [1, 3, 60] {
                let x = rows(300, spread, 1);
                let params = GaussianMixture::params(60).covariance(covariance).reg_covar(0.0).truncation(truncation);
                let (params, name) =
                    (params.seed(1).max_iter(12).tol(0.0), format!("{covariance:?}, {truncation}, {spread}"));
                let bound = fit::<f32>(&params, &x, &name).report.lower_bound;
                let expected = fit::<f64>(&params, &x, &name).report.lower_bound;
                assert!((bound - expected).abs() < 0.2, "{name}: {bound}, not {expected}");
            }
        }
    }
}
