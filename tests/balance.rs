//! Bounded sizes: no cluster exceeds `max_size` times the mean mass if the rows allow it, at nearly the same error.

use crate::common::{Random, weights};
use dgmm::{
    Dataset, Dgmm, Engine, Error, ExactGmm, Fit, GaussianMixture, KMeans, Labels, Params, Real, Run, Stream, VcGmm,
};
use ndarray::{Array1, Array2};

/// Rows around centers, each with half as many rows as the previous one; some rows are far out.
fn skewed<T: Real>(rows: usize, dim: usize, seed: u64) -> Array2<T> {
    let mut rng = Random(seed);
    let centers = Array2::from_shape_fn((12, dim), |_| 3.0 * rng.normal());
    let places: Vec<usize> = (0..rows).map(|_| (-rng.unit().log2()) as usize % 12).collect();
    let scales: Vec<f64> = (0..rows).map(|_| (0.35 * rng.normal()).exp()).collect();
    Array2::from_shape_fn((rows, dim), |(n, d)| T::from_f64(centers[[places[n], d]] + scales[n] * rng.normal()))
}

/// The masses of the clusters relative to their mean.
fn sizes<T: Real>(fit: &Fit<T>, w: Option<&Array1<f64>>) -> Vec<f64> {
    let mut masses = vec![0.0; fit.model.clusters()];
    let mut total = 0.0;
    for (n, &c) in fit.labels.iter().enumerate() {
        let weight = w.map_or(1.0, |w| w[n]);
        masses[c as usize] += weight;
        total += weight;
    }
    let mean = total / masses.len() as f64;
    masses.iter().map(|mass| mass / mean).collect()
}

fn largest(sizes: &[f64]) -> f64 {
    sizes.iter().copied().fold(0.0, f64::max)
}

fn variation(sizes: &[f64]) -> f64 {
    (sizes.iter().map(|s| (s - 1.0).powi(2)).sum::<f64>() / sizes.len() as f64).sqrt()
}

fn systems() -> Vec<(&'static str, Params)> {
    vec![
        ("k-means, few", KMeans::params(12)),
        ("k-means, many", KMeans::params(120)),
        ("d-gmm, few", Dgmm::params(30)),
        ("d-gmm, pointwise", Dgmm::params(60).engine(Engine::Pointwise)),
        ("d-gmm, grouped", Dgmm::params(120)),
        ("d-gmm, shards", Dgmm::params(100).shard_rows(1100)),
        ("d-gmm, exact labels", Dgmm::params(100).labels(Labels::Exact)),
        ("d-gmm, coreset", Dgmm::params(100).coreset_size(1500)),
        ("d-gmm, coreset, approximate labels", Dgmm::params(100).coreset_size(1500).labels(Labels::Approximate)),
    ]
}

fn the_cap_holds<T: Real>() {
    let x = skewed::<T>(4000, 5, 1);
    let w = weights(4000);
    for (name, params) in systems() {
        for weighted in [false, true] {
            let data = Dataset::new(x.view()).unwrap();
            let data = if weighted { data.weighted(w.view()).unwrap() } else { data };
            for max_size in [1.2, 1.5, 2.0, 3.0] {
                let fit = params.clone().seed(5).max_size(max_size).fit(&data).unwrap();
                let sizes = sizes(&fit, weighted.then_some(&w));
                assert!(largest(&sizes) <= max_size * (1.0 + 1e-8), "{name}, {max_size}: {}", largest(&sizes));
                assert_eq!(fit.report.oversized_clusters, 0, "{name}, {max_size}");
                assert!(max_size > 1.2 || variation(&sizes) <= 0.16, "{name}: {}", variation(&sizes));
                let centers = fit.model.centers();
                let error: f64 = (0..4000)
                    .map(|n| {
                        let own = centers.row(fit.labels[n] as usize);
                        let d: f64 = x.row(n).iter().zip(own).map(|(&a, &b)| (a.to_f64() - b.to_f64()).powi(2)).sum();
                        data.weight(n) * d
                    })
                    .sum();
                approx::assert_relative_eq!(fit.report.inertia, error, max_relative = 1e-4);
            }
        }
    }
}

#[test]
fn no_cluster_exceeds_max_size_in_f32() {
    the_cap_holds::<f32>();
}

#[test]
fn no_cluster_exceeds_max_size_in_f64() {
    the_cap_holds::<f64>();
}

#[test]
fn a_loose_bound_costs_little() {
    let x = skewed::<f32>(6000, 8, 2);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in [("k-means", KMeans::params(60)), ("d-gmm", Dgmm::params(150))] {
        let free = params.clone().seed(1).fit(&data).unwrap();
        let bound = params.seed(1).max_size(2.0).fit(&data).unwrap();
        assert!(largest(&sizes(&free, None)) > 2.0, "{name}: there is something to do");
        assert!(bound.report.inertia <= 1.01 * free.report.inertia, "{name}");
    }
}

#[test]
fn threads_do_not_change_bits() {
    let x = skewed::<f32>(5000, 4, 3);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in systems() {
        let fit = |threads| params.clone().seed(2).max_size(1.3).threads(threads).fit(&data).unwrap();
        let one = fit(1);
        for threads in [2, 5] {
            let many = fit(threads);
            assert_eq!((&many.labels, &many.model), (&one.labels, &one.model), "{name}");
            assert_eq!(many.report.inertia.to_bits(), one.report.inertia.to_bits(), "{name}");
        }
    }
}

#[test]
fn equal_rows_are_divided() {
    for rows in [240, 3000] {
        let x = Array2::<f64>::from_shape_fn((rows, 2), |(n, _)| if n < rows / 2 { 1.0 } else { (n % 7) as f64 });
        let fit = KMeans::params(6).max_size(1.5).fit(&Dataset::new(x.view()).unwrap()).unwrap();
        assert!(largest(&sizes(&fit, None)) <= 1.5 && fit.report.oversized_clusters == 0, "{rows}");
    }
    let same = Array2::<f32>::ones((500, 3));
    let fit = Dgmm::params(100).max_size(1.0).fit(&Dataset::new(same.view()).unwrap()).unwrap();
    assert!(sizes(&fit, None).iter().all(|&size| size == 1.0));
}

#[test]
fn oversized_clusters_are_counted_and_kept_as_even_as_possible() {
    let x = skewed::<f64>(300, 2, 4);
    let mut w = Array1::<f64>::ones(300);
    w[17] = 100.0;
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    let fit = KMeans::params(10).max_size(1.5).fit(&data).unwrap();
    assert_eq!(fit.report.oversized_clusters, 1);
    let mean = w.sum() / 10.0;
    approx::assert_relative_eq!(largest(&sizes(&fit, Some(&w))), 100.0 / mean, max_relative = 1e-12);
    // Ten rows cannot be divided evenly among three clusters.
    let fit = KMeans::params(3).max_size(1.0).fit(&Dataset::new(x.slice(ndarray::s![..10, ..])).unwrap()).unwrap();
    assert_eq!(fit.report.oversized_clusters, 1);
    approx::assert_relative_eq!(largest(&sizes(&fit, None)), 1.2, max_relative = 1e-12);
}

#[test]
fn rows_without_weight_have_labels_and_no_mass() {
    let x = skewed::<f32>(2500, 3, 6);
    let w = Array1::from_shape_fn(2500, |n| f64::from(u8::from(n % 3 != 0)));
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    let fit = Dgmm::params(120).max_size(1.5).fit(&data).unwrap();
    assert_eq!(fit.labels.len(), 2500);
    assert!(largest(&sizes(&fit, Some(&w))) <= 1.5);
}

#[test]
fn the_scale_of_weights_and_a_distant_origin_do_not_matter() {
    let x = skewed::<f64>(2600, 3, 7);
    let data = Dataset::new(x.view()).unwrap();
    let fit = |data: &Dataset<'_, f64>| Dgmm::params(100).max_size(1.4).fit(data).unwrap();
    let weighing = |w: f64| fit(&data.clone().weighted(Array1::from_elem(2600, w).view()).unwrap());
    assert!(fit(&data).labels == weighing(2.0_f64.powi(40)).labels, "a power of two changes no bit");
    let heavy = weighing(1e12);
    assert!(largest(&sizes(&heavy, None)) <= 1.4);
    // Other factors and shifts change the rounding of sums, which may decide between two solutions that are about
    // equally good.
    approx::assert_relative_eq!(heavy.report.inertia, 1e12 * fit(&data).report.inertia, max_relative = 0.02);
    let far = x.mapv(|v| v + 1e6);
    let far = fit(&Dataset::new(far.view()).unwrap());
    assert!(largest(&sizes(&far, None)) <= 1.4);
    approx::assert_relative_eq!(far.report.inertia, fit(&data).report.inertia, max_relative = 0.02);
}

#[test]
fn bad_bounds_and_systems_without_bounds_are_refused_by_name() {
    let x = skewed::<f32>(300, 2, 8);
    let data = Dataset::new(x.view()).unwrap();
    for bad in [0.99, 0.0, -2.0, f64::NAN, f64::INFINITY] {
        let error = KMeans::params(4).max_size(bad).fit(&data).unwrap_err().to_string();
        assert_eq!(error, format!("max_size is {bad}; it must be finite and at least 1"));
    }
    for params in [VcGmm::params(4), ExactGmm::params(4), GaussianMixture::params(4)] {
        let error = params.max_size(2.0).fit(&data).unwrap_err();
        assert!(matches!(error, Error::BadParameter { name: "max_size", .. }), "{error}");
    }
    let bounded = KMeans::params(4).max_size(2.0);
    let error = Stream::begin(&bounded, &data, &Run::default()).unwrap_err().to_string();
    assert!(error.starts_with("max_size is 2; it must be unset if a model learns from batches"), "{error}");
    let plan = bounded.plan(300, 2).unwrap();
    let shard = dgmm::step::Shard::new(data.clone(), 0).unwrap();
    let summary = dgmm::step::Summary::of(&shard, &plan.sampling(), &Run::default()).unwrap();
    let error = bounded.trainer_from(&summary, None, &Run::default()).unwrap_err().to_string();
    assert!(error.starts_with("max_size is 2; it must be unset if rows are read shard by shard"), "{error}");
}
