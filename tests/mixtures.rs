//! Mixtures whose clusters differ in weight and variance.

use crate::common::{Random, blobs, weights};
use dgmm::{Covariance, Dataset, Dgmm, Engine, Fit, GaussianMixture, Model, Params, Real, Run, Silent, Stop, Weights};
use ndarray::{Array1, Array2, s};

const KINDS: [Covariance; 4] = [Covariance::Diag, Covariance::Spherical, Covariance::TiedDiag, Covariance::Isotropic];

/// Clusters with different sizes, and different widths in each column.
fn uneven<T: Real>(rows: usize, dim: usize, clusters: usize, seed: u64) -> Array2<T> {
    let mut rng = Random(seed);
    let centers = Array2::from_shape_fn((clusters, dim), |_| 5.0 * rng.normal());
    let widths = Array2::from_shape_fn((clusters, dim), |_| 0.2 + 1.5 * rng.unit());
    let labels: Vec<usize> = (0..rows).map(|_| ((rng.unit() * rng.unit()) * clusters as f64) as usize).collect();
    Array2::from_shape_fn((rows, dim), |(n, d)| {
        T::from_f64(centers[[labels[n], d]] + widths[[labels[n], d]] * rng.normal())
    })
}

/// A textbook mixture: means, the variances of each cluster and column, and weights.
struct Dense {
    means: Array2<f64>,
    variances: Array2<f64>,
    weights: Vec<f64>,
}

impl Dense {
    fn start(means: Array2<f64>, variance: f64) -> Self {
        let (clusters, dim) = means.dim();
        Self {
            means,
            variances: Array2::from_elem((clusters, dim), variance),
            weights: vec![1.0 / clusters as f64; clusters],
        }
    }

    /// log p(y, c) for each c.
    fn joint(&self, y: ndarray::ArrayView1<'_, f64>) -> Vec<f64> {
        let term = |c: usize, d: usize| {
            let v = self.variances[[c, d]];
            -0.5 * ((2.0 * std::f64::consts::PI * v).ln() + (y[d] - self.means[[c, d]]).powi(2) / v)
        };
        (0..self.weights.len()).map(|c| self.weights[c].ln() + (0..y.len()).map(|d| term(c, d)).sum::<f64>()).collect()
    }

    fn log_density(&self, y: ndarray::ArrayView1<'_, f64>) -> f64 {
        let joint = self.joint(y);
        let top = joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        top + joint.iter().map(|l| (l - top).exp()).sum::<f64>().ln()
    }

    /// One iteration of EM.
    fn iterate(&mut self, x: &Array2<f64>, w: &Array1<f64>, kind: Covariance, learned: bool, reg: f64) {
        let ((rows, dim), clusters, total) = (x.dim(), self.weights.len(), w.sum());
        let mut q = Array2::<f64>::zeros((rows, clusters));
        for n in 0..rows {
            let log = self.log_density(x.row(n));
            self.joint(x.row(n)).iter().enumerate().for_each(|(c, l)| q[[n, c]] = w[n] * (l - log).exp());
        }
        let mass = q.sum_axis(ndarray::Axis(0));
        self.means = q.t().dot(x) / mass.view().insert_axis(ndarray::Axis(1));
        let spread = Array2::from_shape_fn((clusters, dim), |(c, d)| {
            (0..rows).map(|n| q[[n, c]] * (x[[n, d]] - self.means[[c, d]]).powi(2)).sum::<f64>()
        });
        self.variances = Array2::from_shape_fn((clusters, dim), |(c, d)| match kind {
            Covariance::Diag => spread[[c, d]] / mass[c] + reg,
            Covariance::Spherical => spread.row(c).sum() / (mass[c] * dim as f64) + reg,
            Covariance::TiedDiag => spread.column(d).sum() / total + reg,
            _ => spread.sum() / (total * dim as f64),
        });
        if learned {
            self.weights = mass.iter().map(|m| m / total).collect();
        }
    }
}

fn fit<T: Real>(params: &Params, x: &Array2<T>, w: Option<&Array1<f64>>, start: Option<&Array2<T>>) -> Fit<T> {
    let data = Dataset::new(x.view()).unwrap();
    let data = w.map_or(data.clone(), |w| data.weighted(w.view()).unwrap());
    params.fit_observed(&data, start.map(|s| s.view()), &Silent).unwrap()
}

fn full(model: &Model<f64>) -> Array2<f64> {
    let (clusters, dim) = (model.clusters(), model.dim());
    let shape = model.shape().unwrap();
    Array2::from_shape_fn((clusters, dim), |(c, d)| match shape.covariance() {
        Covariance::Diag => shape.variances()[c * dim + d],
        Covariance::Spherical => shape.variances()[c],
        Covariance::TiedDiag => shape.variances()[d],
        _ => model.variance(),
    })
}

#[test]
fn with_a_truncation_of_all_clusters_every_engine_is_textbook_em() {
    let (x, w): (Array2<f64>, _) = (uneven(2300, 3, 7, 5), weights(2300));
    let means = x.slice(s![..7, ..]).to_owned();
    for kind in KINDS {
        for learned in [Weights::Learned, Weights::Equal] {
            if kind == Covariance::Isotropic && learned == Weights::Equal {
                continue;
            }
            let mut dense = Dense::start(means.clone(), 2.0);
            (0..6).for_each(|_| dense.iterate(&x, &w, kind, learned == Weights::Learned, 1e-3));
            for engine in [Engine::Auto, Engine::Grouped, Engine::Pointwise] {
                let count = match kind {
                    Covariance::Diag => 21,
                    Covariance::Spherical => 7,
                    Covariance::TiedDiag => 3,
                    _ => 1,
                };
                let params = GaussianMixture::params(7).covariance(kind).weights(learned).truncation(7).engine(engine);
                let params = params.reg_covar(1e-3).max_iter(6).tol(0.0).start_variances(vec![2.0; count]);
                let Fit { model, report, .. } = fit(&params, &x, Some(&w), Some(&means));
                let close = |a: f64, b: f64| approx::assert_relative_eq!(a, b, max_relative = 1e-8, epsilon = 1e-9);
                model.centers().iter().zip(&dense.means).for_each(|(&a, &b)| close(a, b));
                full(&model).iter().zip(&dense.variances).for_each(|(&a, &b)| close(a, b));
                let equal = vec![1.0 / 7.0; 7];
                let own = model.shape().unwrap().weights().unwrap_or(&equal).to_vec();
                own.iter().zip(&dense.weights).for_each(|(&a, &b)| close(a, b));
                let logs = model.log_density(&Dataset::new(x.view()).unwrap(), &Run::default()).unwrap();
                logs.iter().zip(x.rows()).for_each(|(&log, row)| close(log, dense.log_density(row)));
                close(report.lower_bound, logs.iter().zip(&w).map(|(l, w)| l * w).sum::<f64>() / w.sum());
            }
        }
    }
}

#[test]
fn queries_use_the_posterior() {
    let x: Array2<f64> = uneven(600, 4, 9, 8);
    let data = Dataset::new(x.view()).unwrap();
    for kind in KINDS {
        let model = fit(&GaussianMixture::params(9).covariance(kind).seed(2), &x, None, None).model;
        let equal = vec![1.0 / 9.0; 9];
        let weights = model.shape().unwrap().weights().unwrap_or(&equal).to_vec();
        let dense = Dense { means: model.centers(), variances: full(&model), weights };
        let labels = model.predict(&data, &Run::default()).unwrap();
        let (ids, q) = model.posteriors(&data, 9, &Run::default()).unwrap();
        for (n, row) in x.rows().into_iter().enumerate() {
            let (joint, log) = (dense.joint(row), dense.log_density(row));
            let best = joint.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            assert!(joint[labels[n] as usize] > best - 1e-9);
            for k in 0..9 {
                let expected = (joint[ids[[n, k]] as usize] - log).exp();
                assert!((q[[n, k]] - expected).abs() < 1e-9, "{kind:?}");
            }
        }
    }
}

fn bound_rises<T: Real>(kind: Covariance, engine: Engine, clusters: usize) {
    let x: Array2<T> = uneven(6000, 5, 60, 4);
    let params = GaussianMixture::params(clusters).covariance(kind).engine(engine).truncation(4).seed(1);
    let report = fit(&params.reg_covar(0.0).max_iter(12).tol(0.0), &x, None, None).report;
    let bounds: Vec<f64> = report.iterations.iter().map(|i| i.lower_bound).collect();
    // In float32 a mean log-density is the sum of the rounded terms of 5 columns.
    let slack = 64.0 * 5.0 * T::EPSILON.to_f64();
    for pair in bounds.windows(2) {
        assert!(pair[1] >= pair[0] - slack * pair[0].abs().max(1.0), "{kind:?} {engine:?}: {bounds:?}");
    }
}

#[test]
fn the_bound_does_not_fall_without_reg_covar() {
    for kind in KINDS {
        bound_rises::<f64>(kind, Engine::Grouped, 120);
        bound_rises::<f32>(kind, Engine::Grouped, 120);
        bound_rises::<f64>(kind, Engine::Pointwise, 60);
        bound_rises::<f64>(kind, Engine::Auto, 30);
    }
}

#[test]
fn an_isotropic_mixture_of_equal_weights_is_d_gmm_to_the_bit() {
    let x: Array2<f32> = blobs(5000, 6, 150, 3);
    for clusters in [20, 200] {
        let mixture = GaussianMixture::params(clusters).covariance(Covariance::Isotropic).weights(Weights::Equal);
        let (a, b) = (fit(&mixture.seed(5), &x, None, None), fit(&Dgmm::params(clusters).seed(5), &x, None, None));
        assert_eq!((a.model, a.labels, a.report.lower_bound), (b.model, b.labels, b.report.lower_bound));
    }
}

#[test]
fn threads_do_not_change_bits_and_a_row_of_weight_two_is_the_row_twice() {
    let x: Array2<f32> = uneven(5000, 4, 50, 2);
    for kind in KINDS {
        let params = GaussianMixture::params(110).covariance(kind).seed(3).max_iter(6).tol(0.0);
        let one = fit(&params.clone().threads(1), &x, None, None);
        for threads in [2, 5] {
            let more = fit(&params.clone().threads(threads), &x, None, None);
            assert_eq!((&more.model, &more.labels), (&one.model, &one.labels), "{kind:?}");
        }
        let few: Array2<f64> = uneven(300, 2, 5, 7);
        let twice = ndarray::concatenate![ndarray::Axis(0), few, few.slice(s![..100, ..])];
        let heavy = Array1::from_shape_fn(300, |n| if n < 100 { 2.0 } else { 1.0 });
        let params = GaussianMixture::params(5).covariance(kind).seed(1);
        let (a, b) = (fit(&params, &few, Some(&heavy), None), fit(&params, &twice, None, None));
        assert_eq!((&a.model, &a.labels[..]), (&b.model, &b.labels[..300]), "{kind:?}");
    }
}

#[test]
fn bad_parameters_of_mixtures_are_named() {
    let x: Array2<f64> = blobs(50, 2, 3, 1);
    let (data, start) = (Dataset::new(x.view()).unwrap(), x.slice(s![..3, ..]).to_owned());
    let said = |params: Params, start: Option<&Array2<f64>>| {
        params.fit_observed(&data, start.map(|s| s.view()), &Silent).unwrap_err().to_string()
    };
    let mixture = || GaussianMixture::params(3);
    assert_eq!(said(mixture().reg_covar(-1.0), None), "reg_covar is -1; it must be finite and at least 0");
    let left_out = "start_weights is 3 numbers; it must be unset without initial centers";
    assert_eq!(said(mixture().start_weights(vec![0.2, 0.3, 0.5]), None), left_out);
    let sum = said(mixture().start_weights(vec![0.2, 0.3, 0.4]), Some(&start));
    assert_eq!(sum, "the sum of the weights is 0.9; it must be 1");
    let few = said(mixture().start_variances(vec![1.0; 4]), Some(&start));
    assert_eq!(few, "the number of variances is 4; it must be 6 for 3 clusters of 2 columns");
    let foreign = said(Dgmm::params(3).reg_covar(1.0), None);
    assert_eq!(foreign, "reg_covar is 1; it must be unset: only GaussianMixture has it");
}

#[test]
fn a_collapsed_cluster_keeps_reg_covar_as_variance() {
    let mut x: Array2<f64> = uneven(400, 2, 3, 1);
    x.slice_mut(s![..40, ..]).fill(77.0);
    let model = fit(&GaussianMixture::params(4).seed(0).tol(0.0).max_iter(40), &x, None, None).model;
    let least = model.shape().unwrap().variances().iter().copied().fold(f64::INFINITY, f64::min);
    assert!((1e-6..1e-5).contains(&least), "{least}");
    assert!(
        model.log_density(&Dataset::new(x.view()).unwrap(), &Run::default()).unwrap().iter().all(|l| l.is_finite())
    );
}

#[test]
fn the_stopping_rule_is_that_of_scikit_learn() {
    let plan = GaussianMixture::params(10).plan(1000, 3).unwrap();
    assert_eq!((plan.stop, plan.tol), (Stop::Absolute, 1e-3));
    let plan =
        GaussianMixture::params(10).covariance(Covariance::Isotropic).weights(Weights::Equal).plan(1000, 3).unwrap();
    assert_eq!((plan.stop, plan.tol), (Stop::PerDim, 3e-5));
}

#[cfg(feature = "files")]
#[test]
fn a_file_keeps_variances_and_weights() {
    let x: Array2<f32> = uneven(500, 3, 6, 9);
    let folder = std::env::temp_dir();
    for kind in KINDS {
        for learned in [Weights::Learned, Weights::Equal] {
            let model = fit(&GaussianMixture::params(6).covariance(kind).weights(learned), &x, None, None).model;
            let path = folder.join(format!(
                "dgmm-mixture-{}-{}-{}.safetensors",
                kind.name(),
                learned.name(),
                std::process::id()
            ));
            model.save(&path).unwrap();
            assert_eq!(Model::load(&path).unwrap(), model);
            std::fs::remove_file(path).unwrap();
        }
    }
}
