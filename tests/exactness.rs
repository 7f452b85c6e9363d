//! Without truncation, every system is the exact algorithm: dense EM, or Lloyd's k-means.

use crate::common::{blobs, dense_em, weights};
use dgmm::{Dataset, Dgmm, Engine, ExactGmm, KMeans, Params, Real, Silent, VcGmm};
use ndarray::{Array2, s};

/// The systems that are exact when the truncation is M.
fn exact_systems(clusters: usize) -> [(&'static str, Params); 6] {
    [
        ("exact", ExactGmm::params(clusters)),
        ("vc-gmm", VcGmm::params(clusters).truncation(clusters)),
        ("d-gmm", Dgmm::params(clusters).truncation(clusters).engine(Engine::Pointwise)),
        ("d-gmm, all looked at", Dgmm::params(clusters).truncation(clusters).engine(Engine::Auto)),
        ("d-gmm, in groups", Dgmm::params(clusters).truncation(clusters).engine(Engine::Grouped)),
        ("d-gmm, h + r = m", Dgmm::params(clusters).truncation(clusters).proposals(50).engine(Engine::Pointwise)),
    ]
}

fn close_to_dense_em<T: Real>(tolerance: f64) {
    let (clusters, iterations) = (12, 8);
    let x: Array2<f64> = blobs(700, 5, clusters, 1).mapv(|v: f32| f64::from(v));
    let (w, start) = (weights(700), x.slice(s![..clusters, ..]).to_owned());
    let dense = dense_em(&x, &w, &start, iterations);
    let narrow = x.mapv(T::from_f64);
    let data = Dataset::new(narrow.view()).unwrap().weighted(w.view()).unwrap();
    for (name, params) in exact_systems(clusters) {
        // Distances to a group's candidates are products, with larger rounding errors.
        let tolerance = if name == "d-gmm, in groups" { 10.0 * tolerance } else { tolerance };
        let params = params.max_iter(iterations).tol(0.0);
        let fit = params.fit_observed(&data, Some(start.mapv(T::from_f64).view()), &Silent).unwrap();
        for (a, b) in fit.model.centers().iter().zip(&dense.centers) {
            assert!((a.to_f64() - b).abs() <= tolerance * (1.0 + b.abs()), "{name}: center {a} against {b}");
        }
        assert!((fit.model.variance() / dense.variance - 1.0).abs() <= tolerance, "{name}: variance");
        for (a, b) in fit.report.iterations.iter().zip(&dense.bounds) {
            assert!((a.lower_bound - b).abs() <= tolerance * b.abs(), "{name}: {} against {b}", a.lower_bound);
        }
    }
}

#[test]
fn truncation_m_is_dense_em_in_f32() {
    close_to_dense_em::<f32>(1e-5);
}

#[test]
fn truncation_m_is_dense_em_in_f64() {
    close_to_dense_em::<f64>(1e-10);
}

#[test]
fn every_engine_is_exact_em_with_many_clusters_too() {
    let m = 130;
    let x: Array2<f64> = blobs(3000, 4, m, 7);
    let (w, start) = (weights(3000), x.slice(s![..m, ..]).to_owned());
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    let fits = exact_systems(m).map(|(name, params)| {
        let fit = params.max_iter(4).tol(0.0).fit_observed(&data, Some(start.view()), &Silent).unwrap();
        (name, fit)
    });
    for (name, fit) in &fits[1..] {
        let exact = &fits[0].1;
        assert_eq!(fit.labels, exact.labels, "{name}");
        approx::assert_relative_eq!(fit.model.centers(), exact.model.centers(), max_relative = 1e-10, epsilon = 1e-10);
        for (a, b) in fit.report.iterations.iter().zip(&exact.report.iterations) {
            assert!((a.lower_bound - b.lower_bound).abs() <= 1e-11 * b.lower_bound.abs(), "{name}");
            assert!((a.variance / b.variance - 1.0).abs() <= 1e-11, "{name}");
        }
    }
}

#[test]
fn k_means_is_lloyds_algorithm() {
    let x: Array2<f64> = blobs(2000, 3, 20, 5);
    let start = x.slice(s![..20, ..]).to_owned();
    let mut centers = start.clone();
    let nearest = |centers: &Array2<f64>, n: usize| {
        let d = |c: usize| (0..3).map(|k| (x[[n, k]] - centers[[c, k]]).powi(2)).sum::<f64>();
        (0..20).min_by(|&a, &b| d(a).total_cmp(&d(b))).unwrap()
    };
    for _ in 0..7 {
        let labels: Vec<usize> = (0..2000).map(|n| nearest(&centers, n)).collect();
        for c in 0..20 {
            let own: Vec<usize> = (0..2000).filter(|&n| labels[n] == c).collect();
            (0..3).for_each(|k| centers[[c, k]] = own.iter().map(|&n| x[[n, k]]).sum::<f64>() / own.len() as f64);
        }
    }
    let data = Dataset::new(x.view()).unwrap();
    let fit = KMeans::params(20).max_iter(7).tol(0.0).fit_observed(&data, Some(start.view()), &Silent).unwrap();
    assert!(fit.labels.iter().enumerate().all(|(n, &c)| c as usize == nearest(&centers, n)));
    approx::assert_relative_eq!(fit.model.centers(), centers, max_relative = 1e-10);
}
