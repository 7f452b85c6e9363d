//! The promises: threads, weights, units, origin, the lower bound, and the edges of the data.

use crate::common::{blobs, weights};
use dgmm::{
    Dataset, Dgmm, Engine, Error, ExactGmm, Fit, Init, KMeans, Params, Real, Run, Silent, SimilarityKind, Stop, VcGmm,
};
use ndarray::{Array1, Array2, Axis, concatenate, s};

pub(crate) fn systems(clusters: usize) -> Vec<(&'static str, Params)> {
    let mut all = vec![
        ("k-means", KMeans::params(clusters)),
        ("exact", ExactGmm::params(clusters)),
        ("vc-gmm", VcGmm::params(clusters)),
    ];
    for kind in
        [SimilarityKind::Cooccurrence, SimilarityKind::Posterior, SimilarityKind::Kernel, SimilarityKind::Uniform]
    {
        all.push((kind.name(), Dgmm::params(clusters).similarity(kind).engine(Engine::Pointwise)));
    }
    all
}

/// Centers, labels and history.
type Bits = (Vec<u64>, Vec<u32>, Vec<(u64, u64, u64)>);

fn bits<T: Real>(fit: &Fit<T>) -> Bits {
    let history = fit.report.iterations.iter();
    (
        fit.model.centers().iter().map(|x| x.to_f64().to_bits()).collect(),
        fit.labels.clone(),
        history.map(|i| (i.lower_bound.to_bits(), i.variance.to_bits(), i.distance_evals)).collect(),
    )
}

fn threads_do_not_change_bits<T: Real>() {
    let x: Array2<T> = blobs(9000, 6, 40, 3);
    let w = weights(9000);
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    for (name, params) in systems(40) {
        for params in [params.clone(), params.coreset_size(3000)] {
            let fit = |threads: usize| bits(&params.clone().max_iter(5).threads(threads).fit(&data).unwrap());
            let one = fit(1);
            assert!([2, 3, 7].iter().all(|&t| fit(t) == one), "{name}");
        }
    }
}

#[test]
fn threads_do_not_change_bits_in_f32() {
    threads_do_not_change_bits::<f32>();
}

#[test]
fn threads_do_not_change_bits_in_f64() {
    threads_do_not_change_bits::<f64>();
}

#[test]
fn the_lower_bound_never_falls() {
    let x: Array2<f32> = blobs(4000, 8, 60, 4);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in systems(60) {
        for length in [None, Some(0.4), Some(1.0), Some(1.9)] {
            let fit = params.clone().step_length(length).tol(0.0).max_iter(40).fit(&data).unwrap();
            let bounds: Vec<f64> = fit.report.iterations.iter().map(|i| i.lower_bound).collect();
            for pair in bounds.windows(2) {
                assert!(pair[1] >= pair[0] - 1e-5 * pair[0].abs(), "{name} {length:?}: {} after {}", pair[1], pair[0]);
            }
        }
    }
}

#[test]
fn tight_clusters_lose_no_digits_in_f32() {
    let truth: Array2<f32> = blobs(200, 16, 200, 1);
    for noise in [1e-3, 1e-4] {
        let shift: Array2<f32> = blobs(6000, 16, 1, 2);
        let x =
            Array2::from_shape_fn((6000, 16), |(n, d)| truth[[n % 200, d]] + noise * (shift[[n, d]] - shift[[0, d]]));
        let data = Dataset::new(x.view()).unwrap();
        let wide = x.mapv(f64::from);
        let (wide, run) = (Dataset::new(wide.view()).unwrap(), Run::default());
        let mut all = systems(200);
        all.push(("grouped", Dgmm::params(200).engine(Engine::Grouped)));
        for (name, params) in all {
            let fit = params.tol(0.0).max_iter(6).fit_observed(&data, Some(truth.view()), &Silent).unwrap();
            for pair in fit.report.iterations.windows(2) {
                let (before, after) = (pair[0].lower_bound, pair[1].lower_bound);
                assert!(after >= before - 1e-3 * before.abs(), "{name}, {noise}: {after} after {before}");
            }
            let centers = fit.model.centers().mapv(f64::from);
            let exact = dgmm::Model::new(centers.view(), fit.model.variance()).unwrap();
            let square = |(a, b): (&f64, &f64)| (a - b) * (a - b);
            let apart =
                |n: usize| wide.given_row(n).iter().zip(centers.row(fit.labels[n] as usize)).map(square).sum::<f64>();
            let inertia: f64 = (0..6000).map(apart).sum();
            approx::assert_relative_eq!(fit.report.inertia, inertia, max_relative = 1e-3);
            let (narrow, wide_log) =
                (fit.model.log_density(&data, &run).unwrap(), exact.log_density(&wide, &run).unwrap());
            let apart = narrow.iter().zip(&wide_log).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f64::max);
            assert!(apart < 1e-2, "{name}, {noise}: log p is off by {apart}");
        }
    }
}

/// Fits from given centers with exhaustive searches, so that only the data differ.
fn exact_fits(x: &Array2<f64>, w: &Array1<f64>, start: &Array2<f64>) -> Vec<Fit<f64>> {
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    let m = start.nrows();
    let grouped = Dgmm::params(m).truncation(m).engine(Engine::Grouped);
    let all = [
        KMeans::params(m),
        grouped,
        ExactGmm::params(m),
        Dgmm::params(m).truncation(m).engine(Engine::Pointwise),
        VcGmm::params(m).truncation(m),
    ];
    all.iter().map(|p| p.clone().max_iter(6).fit_observed(&data, Some(start.view()), &Silent).unwrap()).collect()
}

fn assert_same(a: &[Fit<f64>], b: &[Fit<f64>], tolerance: f64) {
    for (a, b) in a.iter().zip(b) {
        approx::assert_relative_eq!(
            a.model.centers(),
            b.model.centers(),
            max_relative = tolerance,
            epsilon = tolerance
        );
        approx::assert_relative_eq!(a.model.variance(), b.model.variance(), max_relative = tolerance);
        approx::assert_relative_eq!(a.report.lower_bound, b.report.lower_bound, max_relative = tolerance);
    }
}

#[test]
fn weight_is_repetition_and_weight_zero_is_absence() {
    let x: Array2<f64> = blobs(600, 3, 9, 6);
    let start = x.slice(s![..9, ..]).to_owned();
    let ones = Array1::ones(600);
    let w = Array1::from_shape_fn(600, |n| (n % 3) as f64);
    let weighted = exact_fits(&x, &w, &start);
    let repeated: Vec<usize> = (0..600).flat_map(|n| std::iter::repeat_n(n, n % 3)).collect();
    let x_repeated = x.select(Axis(0), &repeated);
    assert_same(&weighted, &exact_fits(&x_repeated, &Array1::ones(repeated.len()), &start), 1e-9);
    assert_same(&exact_fits(&x, &ones, &start), &exact_fits(&x, &ones.mapv(|v| v * 1e-30), &start), 1e-9);
    assert_same(&exact_fits(&x, &w, &start), &exact_fits(&x, &w.mapv(|v| v * 7e20), &start), 1e-9);
}

#[test]
fn the_scale_of_weights_changes_no_bit_even_where_f32_could_not_hold_it() {
    let x: Array2<f32> = blobs(4000, 4, 120, 6);
    let w = weights(4000);
    let mut all = systems(120);
    all.push(("grouped", Dgmm::params(120).engine(Engine::Grouped)));
    for (name, params) in all {
        let fit = |scale: f64| {
            let w = w.mapv(|w| w * scale);
            let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
            params.clone().max_iter(4).fit(&data).unwrap()
        };
        let plain = fit(1.0);
        for exponent in [-1000, -170, 140, 1000] {
            let scaled = fit(f64::from(exponent).exp2());
            assert_eq!(bits(&scaled), bits(&plain), "{name}, weights times 2^{exponent}");
            assert_eq!(scaled.report.inertia, plain.report.inertia * f64::from(exponent).exp2(), "{name}");
        }
    }
}

#[test]
fn centers_and_rows_too_far_apart_for_their_type_are_refused() {
    let x: Array2<f32> = blobs(300, 2, 5, 1);
    let data = Dataset::new(x.view()).unwrap();
    let mut start = x.slice(s![..5, ..]).to_owned();
    start[[3, 1]] = 1e20;
    for (name, params) in systems(5) {
        let error = params.fit_observed(&data, Some(start.view()), &Silent).unwrap_err().to_string();
        assert!(
            error.starts_with("start and data together span 1.0000000200408773e20 in column 1; squared"),
            "{name}: {error}"
        );
    }
    let model = KMeans::params(5).fit(&data).unwrap().model;
    let far = Array2::from_elem((2, 2), -1e20f32);
    let error = model.predict(&Dataset::new(far.view()).unwrap(), &Run::default()).unwrap_err().to_string();
    assert!(error.starts_with("data and the centers together span 1.0000000200408773e20 in column"), "{error}");
}

#[test]
fn rows_of_weight_zero_attract_no_center_in_any_system() {
    let near: Array2<f32> = blobs(3000, 4, 30, 2);
    let far = Array2::from_elem((500, 4), 1e3f32);
    let x = concatenate![Axis(0), near, far];
    let w = Array1::from_shape_fn(3500, |n| if n < 3000 { 1.0 } else { 0.0 });
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    for (name, params) in systems(30) {
        for init in [Init::AfkMc2, Init::KMeansPlusPlus, Init::Random, Init::Auto] {
            let fit = params.clone().init(init).max_iter(5).fit(&data).unwrap();
            assert!(fit.model.centers().iter().all(|v| v.abs() < 100.0), "{name}, {}", init.name());
        }
    }
}

#[test]
fn scaling_and_shifting_the_data_scales_and_shifts_the_result() {
    let x: Array2<f64> = blobs(800, 4, 10, 8);
    let (start, ones) = (x.slice(s![..10, ..]).to_owned(), Array1::ones(800));
    let plain = exact_fits(&x, &ones, &start);
    let scaled = exact_fits(&x.mapv(|v| v * 1024.0), &ones, &start.mapv(|v| v * 1024.0));
    let shifted = exact_fits(&x.mapv(|v| v + 1e6), &ones, &start.mapv(|v| v + 1e6));
    for ((plain, scaled), shifted) in plain.iter().zip(&scaled).zip(&shifted) {
        assert_eq!(plain.labels, scaled.labels);
        assert_eq!(plain.labels, shifted.labels);
        approx::assert_relative_eq!(scaled.model.centers(), plain.model.centers() * 1024.0, max_relative = 1e-12);
        let back = shifted.model.centers() - 1e6;
        approx::assert_relative_eq!(back, plain.model.centers(), epsilon = 1e-7, max_relative = 1e-7);
        approx::assert_relative_eq!(shifted.model.variance(), plain.model.variance(), max_relative = 1e-7);
    }
}

#[test]
fn data_far_from_zero_are_clustered_as_well_as_near_it() {
    let near: Array2<f32> = blobs(5000, 6, 25, 9);
    let far = near.mapv(|v| v + 1e6);
    let back = far.mapv(|v| v - 1e6);
    for (name, params) in systems(25) {
        let error = |x: &Array2<f32>| params.clone().seed(3).n_init(3).fit(&Dataset::new(x.view()).unwrap());
        let (near, far) = (error(&back).unwrap(), error(&far).unwrap());
        assert!((far.report.inertia / near.report.inertia - 1.0).abs() < 0.25, "{name}");
        let data = Dataset::new(back.view()).unwrap();
        let exact = near.model.quantization_error(&data, &Run::default()).unwrap();
        assert!(near.report.inertia >= exact * (1.0 - 1e-5), "{name}: truncated below exact");
    }
}

#[test]
fn labels_belong_to_the_returned_centers() {
    for offset in [0.0, 1e5] {
        let x: Array2<f32> = blobs(3000, 5, 30, 11).mapv(|v: f32| v + offset);
        let data = Dataset::new(x.view()).unwrap();
        for params in [KMeans::params(30), ExactGmm::params(30)] {
            for max_iter in [1usize, 4, 100] {
                let fit = params.clone().max_iter(max_iter).fit(&data).unwrap();
                let model = dgmm::Model::new(fit.model.centers().view(), fit.model.variance()).unwrap();
                assert_eq!(fit.labels, model.predict(&data, &Run::default()).unwrap());
            }
        }
    }
}

#[test]
fn empty_clusters_are_moved_and_none_is_lost() {
    let x: Array2<f64> = blobs(500, 2, 5, 1);
    let mut start = x.slice(s![..20, ..]).to_owned();
    start.slice_mut(s![10.., ..]).fill(1e4);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in systems(20) {
        let fit = params.max_iter(30).tol(0.0).fit_observed(&data, Some(start.view()), &Silent).unwrap();
        assert!(fit.model.centers().iter().all(|v| v.abs() < 100.0), "{name}");
        if name == "k-means" {
            assert_eq!(fit.report.empty_clusters, 0);
        }
    }
}

#[test]
fn fewer_distinct_rows_than_clusters_end_with_a_finite_model_and_say_so() {
    let x = Array2::from_shape_fn((90, 2), |(n, d)| ((n % 3) * (d + 1)) as f32);
    let constant = Array2::from_elem((50, 3), 7.5f32);
    for (name, params) in systems(8) {
        let fit = params.fit(&Dataset::new(x.view()).unwrap()).unwrap();
        assert_eq!(fit.report.empty_clusters, 5, "{name}");
        assert!(fit.report.inertia < 1e-9, "{name}");
        let fit = params.fit(&Dataset::new(constant.view()).unwrap()).unwrap();
        assert_eq!(fit.report.empty_clusters, 7, "{name}");
        assert!(fit.report.lower_bound.is_finite() && fit.model.variance() > 0.0, "{name}");
        assert!(fit.model.centers().iter().all(|&v| v == 7.5), "{name}");
    }
}

#[test]
fn one_cluster_one_row_and_one_column_work() {
    let x: Array2<f64> = blobs(50, 1, 2, 1);
    for m in [1, 2, 50] {
        for (name, params) in systems(m) {
            let fit = params.fit(&Dataset::new(x.view()).unwrap()).unwrap();
            assert_eq!(fit.model.centers().dim(), (m, 1), "{name}");
        }
    }
    let one = x.slice(s![..1, ..]);
    for (_, params) in systems(1) {
        assert_eq!(params.fit(&Dataset::new(one).unwrap()).unwrap().labels, [0]);
    }
}

#[test]
fn bad_parameters_are_named_before_any_work() {
    let x: Array2<f32> = blobs(20, 2, 2, 1);
    let data = Dataset::new(x.view()).unwrap();
    let message = |p: Params| p.fit(&data).unwrap_err().to_string();
    assert_eq!(message(KMeans::params(21)), "clusters is 21 but data has only 20 rows of positive weight");
    assert_eq!(message(KMeans::params(0)), "clusters is 0; it must be at least 1");
    let too_large = "truncation is 9 but clusters is 8; truncation must be from 1 to clusters";
    assert_eq!(message(Dgmm::params(8).truncation(9)), too_large);
    assert_eq!(message(Dgmm::params(8).tol(-0.5)), "tol is -0.5; it must be finite and at least 0");
    assert!(message(Dgmm::params(8).coreset_size(7)).contains("at least clusters = 8"));
    let start = Array2::<f32>::zeros((3, 2));
    let e = KMeans::params(4).fit_observed(&data, Some(start.view()), &Silent).unwrap_err();
    assert_eq!(e, Error::BadInitShape { rows: 3, columns: 2, clusters: 4, dim: 2 });
    let grouped = Dgmm::params(8).engine(Engine::Grouped).similarity(SimilarityKind::Kernel);
    assert_eq!(message(grouped), "engine is 'grouped'; it must be 'auto' or 'pointwise' if similarity is 'kernel'");
    for (params, words) in [
        (
            KMeans::params(4).truncation(3),
            "truncation is 3; it must be unset: only Dgmm, GaussianMixture and VcGmm have it",
        ),
        (ExactGmm::params(4).proposals(7), "proposals is 7; it must be unset: only Dgmm and GaussianMixture have it"),
        (
            VcGmm::params(4).engine(Engine::Grouped),
            "engine is 'grouped'; it must be unset: only Dgmm and GaussianMixture have it",
        ),
        (
            VcGmm::params(4).similarity(SimilarityKind::Uniform),
            "similarity is 'uniform'; it must be unset: only Dgmm and GaussianMixture have it",
        ),
        (Dgmm::params(4).neighbors(3), "neighbors is 3; it must be unset: only VcGmm has it"),
        (Dgmm::params(4).random_neighbor(false), "random_neighbor is false; it must be unset: only VcGmm has it"),
    ] {
        assert_eq!(message(params), words);
    }
    let e = "kernle".parse::<SimilarityKind>().unwrap_err().to_string();
    assert_eq!(e, "similarity is \"kernle\"; it must be one of 'cooccurrence' 'posterior' 'kernel' 'uniform'");
}

#[test]
fn both_stopping_rules_stop() {
    let x: Array2<f64> = blobs(3000, 4, 30, 3);
    let data = Dataset::new(x.view()).unwrap();
    for stop in [Stop::PerDim, Stop::Relative] {
        let fit = Dgmm::params(30).stop(stop).tol(1e-3).fit(&data).unwrap();
        assert!(fit.report.converged && fit.report.iterations.len() < 100, "{}", stop.name());
    }
}
