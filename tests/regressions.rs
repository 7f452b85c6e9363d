//! Defects of earlier versions, each prevented by the data that revealed it.

use crate::common::{Random, blobs, weights};
use crate::shards::assert_rises;
use dgmm::step::{Shard, Summary};
use dgmm::{
    Covariance, Dataset, Dgmm, Engine, Error, ExactGmm, Fit, GaussianMixture, Init, KMeans, Model, Params, Real, Run,
    Silent, SimilarityKind, VcGmm, Weights,
};
use ndarray::{Array1, Array2, Axis, array};

fn systems(clusters: usize) -> Vec<(&'static str, Params)> {
    let pointwise = |kind| Dgmm::params(clusters).engine(Engine::Pointwise).similarity(kind);
    vec![
        ("k-means", KMeans::params(clusters)),
        ("exact", ExactGmm::params(clusters)),
        ("vc-gmm", VcGmm::params(clusters)),
        ("auto", Dgmm::params(clusters)),
        ("grouped", Dgmm::params(clusters).engine(Engine::Grouped)),
        ("co-occurrence", pointwise(SimilarityKind::Cooccurrence)),
        ("posterior", pointwise(SimilarityKind::Posterior)),
        ("kernel", pointwise(SimilarityKind::Kernel)),
        ("uniform", pointwise(SimilarityKind::Uniform)),
    ]
}

fn wide_rows_are_fitted<T: Real>(rows: usize, dim: usize, clusters: usize) {
    let x: Array2<T> = blobs(rows, dim, clusters, 1);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in [
        ("d-gmm", Dgmm::params(clusters)),
        ("grouped", Dgmm::params(clusters).engine(Engine::Grouped)),
        ("d-gmm, cells", Dgmm::params(clusters).init(Init::Hierarchical)),
        ("vc-gmm", VcGmm::params(clusters).init(Init::Random)),
        ("vc-gmm, cells", VcGmm::params(clusters).init(Init::Hierarchical)),
        ("k-means", KMeans::params(clusters).init(Init::Random)),
    ] {
        let fit = params.max_iter(2).fit(&data).unwrap();
        assert!(fit.report.lower_bound.is_finite(), "{name}, {rows} x {dim}");
    }
}

#[test]
fn wide_data_are_fitted() {
    wide_rows_are_fitted::<f64>(250, 4097, 100);
    wide_rows_are_fitted::<f32>(150, 9000, 100);
    wide_rows_are_fitted::<f32>(24, 20_000, 8);
    wide_rows_are_fitted::<f64>(24, 20_000, 8);
}

#[test]
fn the_lower_bound_rises_with_fewer_distinct_rows_than_clusters() {
    let x = Array2::from_shape_fn((3000, 3), |(n, _)| (n % 2) as f32);
    let data = Dataset::new(x.view()).unwrap();
    let mut all = systems(60);
    all.extend([("d-gmm", Dgmm::params(1000)), ("random", Dgmm::params(1000).init(Init::Random))]);
    for (name, params) in all {
        let fit = params.seed(0).fit(&data).unwrap();
        assert_rises::<f32>(&fit.report, 3, name);
    }
}

#[test]
fn the_lower_bound_rises_over_tight_clusters_in_f32() {
    for seed in 0..40 {
        let mut rng = Random(seed);
        let (dim, clusters) = (1 + seed as usize % 4, 4 + seed as usize % 9);
        let centers = Array2::from_shape_fn((clusters, dim), |_| 2.0 * rng.normal());
        let x = Array2::from_shape_fn((500, dim), |(n, d)| (centers[[n % clusters, d]] + 1e-5 * rng.normal()) as f32);
        let data = Dataset::new(x.view()).unwrap();
        for (name, params) in systems(clusters) {
            let fit = params.seed(seed).tol(0.0).max_iter(30).fit(&data).unwrap();
            assert_rises::<f32>(&fit.report, dim, &format!("{name}, seed {seed}"));
        }
    }
}

#[test]
fn the_lower_bound_rises_with_weights_of_all_sizes_and_on_coresets() {
    let x: Array2<f32> = blobs(3000, 4, 50, 9);
    let mut rng = Random(4);
    let w = Array1::from_shape_fn(3000, |_| 10f64.powf(30.0 * rng.unit() - 15.0));
    let data = Dataset::new(x.view()).unwrap();
    let weighted = data.clone().weighted(w.view()).unwrap();
    for (name, params) in systems(50) {
        let params = params.tol(0.0).max_iter(25);
        assert_rises::<f32>(&params.fit(&weighted).unwrap().report, 4, &format!("{name}, weights"));
        let coreset = params.coreset_size(400);
        assert_rises::<f32>(&coreset.fit(&data).unwrap().report, 4, &format!("{name}, coreset"));
    }
}

/// Centers, F and the labels of all rows.
fn bits(fit: &Fit<f64>) -> (Vec<u64>, u64, u64) {
    let centers = fit.model.centers().iter().map(|x| x.to_bits()).collect();
    (centers, fit.report.lower_bound.to_bits(), fit.model.variance().to_bits())
}

/// The same rows one by one, in another order, and with weights.
fn same_in_any_writing(params: &Params, x: &Array2<f64>, rng: &mut Random, name: &str) {
    let clusters = params.plan(usize::MAX >> 12, 1).unwrap().clusters;
    let rows = x.nrows();
    let plain = params.fit(&Dataset::new(x.view()).unwrap()).unwrap();
    let mut order: Vec<usize> = (0..rows).collect();
    for i in (1..rows).rev() {
        order.swap(i, (rng.bits() % (i as u64 + 1)) as usize);
    }
    let shuffled = x.select(Axis(0), &order);
    let fit = params.fit(&Dataset::new(shuffled.view()).unwrap()).unwrap();
    assert_eq!(bits(&fit), bits(&plain), "{name}: order");
    assert!(
        order.iter().enumerate().all(|(i, &n)| fit.labels[i] == plain.labels[n]),
        "{name}: labels in another order"
    );
    // Some rows are merged into earlier equal ones, as long as there are more rows than clusters.
    let (mut written, mut left): (Vec<(usize, f64)>, usize) = (Vec::new(), rows);
    for &n in &order {
        match written.iter_mut().find(|(m, _)| x.row(*m) == x.row(n)) {
            Some((_, weight)) if left > clusters && rng.unit() < 0.7 => {
                *weight += 1.0;
                left -= 1;
            }
            _ => written.push((n, 1.0)),
        }
    }
    for n in 0..3 {
        written.insert((rng.bits() % written.len() as u64) as usize, (n % rows, 0.0));
    }
    let (places, weights): (Vec<usize>, Vec<f64>) = written.into_iter().unzip();
    let (merged, weights) = (x.select(Axis(0), &places), Array1::from(weights));
    let data = Dataset::new(merged.view()).unwrap().weighted(weights.view()).unwrap();
    let fit = params.fit(&data).unwrap();
    assert_eq!(bits(&fit), bits(&plain), "{name}: weights");
    let same = |(i, &n): (usize, &usize)| weights[i] == 0.0 || fit.labels[i] == plain.labels[n];
    assert!(places.iter().enumerate().all(same), "{name}: labels of weighted rows");
}

#[test]
fn small_data_give_the_same_bits_in_any_form_even_with_fewer_distinct_rows_than_clusters() {
    let few = array![[0.0], [1.0], [2.0], [0.0], [1.0], [2.0], [3.0], [3.0]];
    let mut rng = Random(1);
    for (name, params) in systems(6) {
        (0..5).for_each(|seed| same_in_any_writing(&params.clone().seed(seed), &few, &mut rng, name));
    }
    for case in 0..300 {
        let (rows, dim) = (3 + (rng.bits() % 40) as usize, 1 + (rng.bits() % 3) as usize);
        let values = 2 + rng.bits() % 5;
        let x = Array2::from_shape_fn((rows, dim), |_| (rng.bits() % values) as f64);
        let clusters = 1 + (rng.bits() % rows as u64) as usize;
        let all = systems(clusters);
        let (name, params) = &all[case % all.len()];
        let params = params.clone().seed(case as u64).max_iter(5);
        let params = if case % 5 == 4 { params.coreset_size(rows.max(clusters)) } else { params };
        same_in_any_writing(&params, &x, &mut rng, &format!("{name}, case {case}"));
    }
}

fn scaled_data_give_scaled_results<T: Real>(exponents: &[i32]) {
    let x: Array2<T> = blobs(2400, 4, 45, 8);
    let w = weights(2400);
    let mut all = systems(45);
    // The paper's kernel, exp(-(d_i + d_j)), depends on the units of the data.
    all.retain(|(name, _)| *name != "kernel");
    all.push(("grouped, cells", Dgmm::params(110).init(Init::Hierarchical)));
    all.push(("coreset", Dgmm::params(45).coreset_size(500)));
    for (name, params) in all {
        let params = params.max_iter(8);
        let fit = |x: &Array2<T>| params.fit(&Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap()).unwrap();
        let plain = fit(&x);
        for &exponent in exponents {
            let scale = 2f64.powi(exponent);
            let scaled = fit(&x.mapv(|v| T::from_f64(v.to_f64() * scale)));
            let name = format!("{name}, 2^{exponent}");
            assert_eq!(scaled.labels, plain.labels, "{name}");
            assert_eq!(scaled.report.iterations.len(), plain.report.iterations.len(), "{name}");
            let expected = plain.model.centers().mapv(|v| T::from_f64(v.to_f64() * scale));
            assert_eq!(scaled.model.centers(), expected, "{name}");
            assert_eq!(scaled.model.variance(), plain.model.variance() * scale * scale, "{name}");
            assert_eq!(scaled.report.inertia, plain.report.inertia * scale * scale, "{name}");
        }
    }
}

#[test]
fn scaling_by_a_power_of_two_scales_the_result_exactly_in_f32() {
    scaled_data_give_scaled_results::<f32>(&[-45, -7, 50]);
}

#[test]
fn scaling_by_a_power_of_two_scales_the_result_exactly_in_f64() {
    scaled_data_give_scaled_results::<f64>(&[-400, -60, 400]);
}

/// Runs until F no longer increases, which its last digits decide.
fn the_end_does_not_depend_on_the_unit<T: Real>(exponents: &[i32]) {
    let mut rng = Random(7);
    for seed in 0..60 {
        let (rows, dim) = (20 + (rng.bits() % 200) as usize, 1 + (rng.bits() % 6) as usize);
        let x: Array2<T> = blobs(rows, dim, 12, seed);
        for (name, params) in [
            ("k-means", KMeans::params(9)),
            ("exact", ExactGmm::params(5)),
            ("vc-gmm", VcGmm::params(9).truncation(3)),
            ("pointwise", Dgmm::params(9).engine(Engine::Pointwise)),
            ("grouped, best of three", Dgmm::params(9).engine(Engine::Grouped).n_init(3)),
        ] {
            let params = params.seed(seed).tol(0.0).max_iter(300);
            let plain = params.fit(&Dataset::new(x.view()).unwrap()).unwrap();
            for &exponent in exponents {
                let scale = 2f64.powi(exponent);
                let by = |values: &Array2<T>| values.mapv(|v| T::from_f64(v.to_f64() * scale));
                let scaled = params.fit(&Dataset::new(by(&x).view()).unwrap()).unwrap();
                let name = format!("{name}, seed {seed}, 2^{exponent}");
                let end = |fit: &Fit<T>| (fit.report.iterations.len(), fit.report.run, fit.report.converged);
                assert_eq!(end(&scaled), end(&plain), "{name}");
                assert_eq!(scaled.model.centers(), by(&plain.model.centers()), "{name}");
                assert_eq!(scaled.model.variance(), plain.model.variance() * scale * scale, "{name}");
            }
        }
    }
}

#[test]
fn a_fit_to_the_last_digit_ends_in_the_same_iteration_in_any_unit_in_f32() {
    the_end_does_not_depend_on_the_unit::<f32>(&[-20, 3, 17]);
}

#[test]
fn a_fit_to_the_last_digit_ends_in_the_same_iteration_in_any_unit_in_f64() {
    the_end_does_not_depend_on_the_unit::<f64>(&[-201, 5, 90]);
}

#[test]
fn data_whose_squared_distances_underflow_are_refused_by_name() {
    for rows in [300, 3000] {
        let x: Array2<f64> = blobs(rows, 3, 10, 2);
        let tiny = x.mapv(|v| (v * 1e-20) as f32);
        for (name, params) in systems(10) {
            let error = params.fit(&Dataset::new(tiny.view()).unwrap()).unwrap_err();
            assert!(matches!(error, Error::Underflow { kind: "float32", .. }), "{name}: {error}");
            let tiny = x.mapv(|v| v * 1e-180);
            let data = Dataset::new(tiny.view()).unwrap();
            let sampling = params.plan(rows, 3).unwrap().sampling();
            let summary = Summary::of(&Shard::new(data, 0).unwrap(), &sampling, &Run::default()).unwrap();
            let error = params.trainer_from(&summary, None, &Run::default()).unwrap_err();
            assert!(matches!(error, Error::Underflow { kind: "float64", .. }), "{name}: {error}");
        }
    }
}

#[test]
fn mixtures_of_data_in_tiny_units_stay_finite_without_reg_covar() {
    let mut rng = Random(3);
    let near = Array2::from_shape_fn((120, 16), |_| (1e-11 + 1e-15 * rng.normal()) as f32);
    let around_zero = Array2::from_shape_fn((400, 8), |_| (1e-14 * rng.normal()) as f32);
    let of = |clusters| GaussianMixture::params(clusters).reg_covar(0.0).max_iter(3).seed(0);
    let pointwise = of(97).weights(Weights::Equal).engine(Engine::Pointwise).truncation(Some(50)).init(Init::AfkMc2);
    for (name, x, params) in [
        ("pointwise", &near, pointwise),
        ("diag", &around_zero, of(100)),
        ("spherical", &around_zero, of(100).covariance(Covariance::Spherical)),
        ("tied_diag", &around_zero, of(100).covariance(Covariance::TiedDiag)),
    ] {
        let data = Dataset::new(x.view()).unwrap();
        let fit = params.fit(&data).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(fit.report.lower_bound.is_finite() && fit.report.inertia.is_finite(), "{name}");
        let logs = fit.model.log_density(&data, &Run::default()).unwrap();
        assert!(logs.iter().all(|x| x.is_finite()), "{name}");
        let (_, q) =
            fit.model.posteriors(&data, params.plan(x.nrows(), x.ncols()).unwrap().clusters, &Run::default()).unwrap();
        assert!(q.rows().into_iter().all(|q| (q.sum() - 1.0).abs() < 1e-5), "{name}");
    }
}

#[test]
fn a_mixture_in_f32_refuses_variances_whose_inverse_overflows() {
    let centers = array![[0.0f32], [1.0]];
    let error = Model::mixture(centers.view(), Covariance::Spherical, &[1.0, 1e-40], None).unwrap_err().to_string();
    assert!(
        error.starts_with("variance is 1e-40; it must be at least 4.7") && error.ends_with("e-38 for float32"),
        "{error}"
    );
    let wide = centers.mapv(f64::from);
    assert!(Model::mixture(wide.view(), Covariance::Spherical, &[1.0, 1e-40], None).is_ok());
    let start = Array2::from_shape_fn((3, 2), |(c, d)| (c * 7 + d) as f32);
    let x = Array2::from_shape_fn((300, 2), |(n, d)| start[[n % 3, d]] + ((n * (d + 3)) % 11) as f32);
    let params = GaussianMixture::params(3).start_variances(vec![1e-42; 6]);
    let fit = params.fit_observed(&Dataset::new(x.view()).unwrap(), Some(start.view()), &Silent).unwrap();
    assert!(fit.report.lower_bound.is_finite());
}

/// The weighted sum of squared distances between rows and the centers of their labels.
fn inertia_by_labels(x: &Array2<f64>, w: Option<&Array1<f64>>, fit: &Fit<f64>) -> f64 {
    let centers = fit.model.centers();
    let apart = |n: usize| (&x.row(n) - &centers.row(fit.labels[n] as usize)).mapv(|v| v * v).sum();
    (0..x.nrows()).map(|n| w.map_or(1.0, |w| w[n]) * apart(n)).sum()
}

#[test]
fn inertia_and_empty_clusters_are_those_of_the_labels_with_fewer_distinct_rows_than_clusters() {
    let mut rng = Random(11);
    for case in 0..60 {
        let (rows, values) = (10 + (rng.bits() % 30) as usize, 2 + rng.bits() % 6);
        let x = Array2::from_shape_fn((rows, 1 + case % 2), |_| (rng.bits() % values) as f64);
        let w = Array1::from_shape_fn(rows, |_| 0.5 + rng.unit());
        for (name, params) in systems(rows) {
            let params = params.seed(case as u64).max_iter(1 + case % 3);
            for w in [None, Some(&w)] {
                let data = Dataset::new(x.view()).unwrap();
                let data = w.map_or(Ok(data.clone()), |w| data.weighted(w.view())).unwrap();
                let fit = params.fit(&data).unwrap();
                let expected = inertia_by_labels(&x, w, &fit);
                let error = (fit.report.inertia - expected).abs();
                assert!(error < 1e-9 * (1.0 + expected), "{name}, case {case}: {} not {expected}", fit.report.inertia);
                let centers = fit.model.centers();
                let mut used: Vec<Vec<u64>> =
                    fit.labels.iter().map(|&c| centers.row(c as usize).iter().map(|x| x.to_bits()).collect()).collect();
                used.sort_unstable();
                used.dedup();
                assert_eq!(fit.report.empty_clusters, rows - used.len(), "{name}, case {case}");
            }
        }
    }
}

#[test]
fn tight_blobs_are_predicted_in_f32_as_in_f64() {
    for (seed, distance) in [(1, 1.0), (2, 10.0), (3, 100.0)] {
        let mut rng = Random(seed);
        let (clusters, dim) = (40, 6);
        let far: Vec<f64> = (0..dim).map(|_| distance * rng.normal()).collect();
        // Two locations, so that the mean is in neither; within each, the clusters are 1e-4 apart.
        let place = |c: usize, d: usize| if c.is_multiple_of(2) { far[d] } else { -0.5 * far[(d + 1) % dim] };
        let centers = Array2::from_shape_fn((clusters, dim), |(c, d)| (place(c, d) + 1e-4 * rng.normal()) as f32);
        let x = Array2::from_shape_fn((4000, dim), |(n, d)| {
            (f64::from(centers[[n % clusters, d]]) + 1e-4 * rng.normal()) as f32
        });
        let model = Model::new(centers.view(), 1e-8).unwrap();
        let data = Dataset::new(x.view()).unwrap();
        let labels = model.predict(&data, &Run::default()).unwrap();
        let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
        let apart = |n: usize, c: usize| x.row(n).iter().zip(centers.row(c)).map(square).sum::<f64>();
        let nearest = |n: usize| (0..clusters).min_by(|&a, &b| apart(n, a).total_cmp(&apart(n, b))).unwrap();
        let right = (0..4000).filter(|&n| labels[n] as usize == nearest(n)).count();
        assert!(right >= 3996, "{right} of 4000 at {distance}");
        let (ids, distances) = model.top_k(&data, 5, &Run::default()).unwrap();
        for (n, &label) in labels.iter().enumerate() {
            let chosen = ids.row(n);
            assert_eq!(chosen[0], label);
            assert!(distances.row(n).iter().is_sorted());
            assert!((0..5).all(|k| (0..k).all(|j| chosen[j] != chosen[k])));
            for (c, d) in chosen.iter().zip(distances.row(n)) {
                assert!((f64::from(*d) / apart(n, *c as usize) - 1.0).abs() < 0.3, "{d}, {}", apart(n, *c as usize));
            }
        }
    }
}

#[test]
fn exhaustive_fits_find_tight_blobs_in_f32_and_label_them_as_predict_does() {
    let mut rng = Random(5);
    let (clusters, dim, rows) = (50, 8, 5000);
    let places = Array2::from_shape_fn((3, dim), |_| rng.normal());
    let blobs = Array2::from_shape_fn((clusters, dim), |(c, d)| places[[c % 3, d]] + 1e-4 * rng.normal());
    let x = Array2::from_shape_fn((rows, dim), |(n, d)| (blobs[[n % clusters, d]] + 3e-5 * rng.normal()) as f32);
    let wide = x.mapv(f64::from);
    let (narrow, wide) = (Dataset::new(x.view()).unwrap(), Dataset::new(wide.view()).unwrap());
    // Few clusters, in one pass over the rows; few rows, block by block; and sets of several clusters.
    for (name, params) in [
        ("k-means", KMeans::params(clusters)),
        ("k-means, blocks", KMeans::params(1000)),
        ("d-gmm", Dgmm::params(clusters)),
    ] {
        let params = params.seed(3).init(Init::Random);
        let fit = params.fit(&narrow).unwrap();
        let error = params.fit(&wide).unwrap().report.inertia;
        assert!(fit.report.inertia < 1.1 * error, "{name}: {} where f64 has {error}", fit.report.inertia);
        let labels = fit.model.predict(&narrow, &Run::default()).unwrap();
        let same = labels.iter().zip(&fit.labels).filter(|(a, b)| a == b).count();
        assert!(same >= rows - rows / 500, "{name}: {same} of {rows} labels");
    }
}
