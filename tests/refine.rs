//! Refinement: clusters move from where they are of little use to where they are needed, and F never falls.

use crate::common::{Random, blobs, stop_at, weights};
use dgmm::{
    Dataset, Dgmm, Engine, ExactGmm, Fit, GaussianMixture, Init, KMeans, Metric, Params, Real, Silent, SimilarityKind,
    VcGmm,
};
use ndarray::{Array1, Array2, Axis, s};

/// Every system and engine, each with more clusters than groups of similar rows.
fn systems(clusters: usize) -> Vec<(&'static str, Params)> {
    let pointwise = |kind| Dgmm::params(clusters).engine(Engine::Pointwise).similarity(kind);
    let all = vec![
        ("k-means", KMeans::params(clusters)),
        ("exact", ExactGmm::params(clusters)),
        ("vc-gmm", VcGmm::params(clusters)),
        ("pointwise", pointwise(SimilarityKind::Cooccurrence)),
        ("kernel", pointwise(SimilarityKind::Kernel)),
        ("grouped", Dgmm::params(clusters).engine(Engine::Grouped)),
        ("auto", Dgmm::params(clusters)),
        ("cosine", Dgmm::params(clusters).engine(Engine::Grouped).metric(Metric::Cosine)),
    ];
    // Rows as centers: most of them in the large groups.
    all.into_iter().map(|(name, params)| (name, params.init(Init::Random).seed(5))).collect()
}

/// Groups of very different sizes, the small ones far apart.
fn unbalanced<T: Real>(rows: usize, dim: usize, seed: u64) -> Array2<T> {
    let mut rng = Random(seed);
    let groups = 60;
    let centers = Array2::from_shape_fn((groups, dim), |(g, _)| rng.normal() * if g < 3 { 2.0 } else { 40.0 });
    Array2::from_shape_fn((rows, dim), |(n, d)| {
        let g = if n % 4 > 0 { n % 3 } else { (n / 4) % groups };
        T::from_f64(centers[[g, d]] + rng.normal())
    })
}

/// F, the round and the distances of an iteration.
type Entry = (u64, usize, u64);

fn bits<T: Real>(fit: &Fit<T>) -> (Vec<u64>, u64, Vec<u32>, Vec<Entry>) {
    let history = fit.report.iterations.iter().map(|i| (i.lower_bound.to_bits(), i.refine, i.distance_evals));
    let centers = fit.model.centers().iter().map(|x| x.to_f64().to_bits()).collect();
    (centers, fit.report.lower_bound.to_bits(), fit.labels.clone(), history.collect())
}

#[test]
fn the_error_falls_where_groups_are_unbalanced() {
    let x: Array2<f32> = unbalanced(6000, 6, 1);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in systems(80) {
        let fit = |rounds: usize| params.clone().refine(rounds).fit(&data).unwrap().report;
        let (plain, once, often) = (fit(0), fit(1), fit(6));
        // For directions there is little to gain, because the groups lie around the origin.
        let most = if name == "cosine" { 0.99 } else { 0.8 };
        let found = (once.inertia / plain.inertia, often.inertia / plain.inertia);
        assert!(found.0 < 1.0 && found.1 < most, "{name}: {found:?}");
        let reached = often.iterations.last().unwrap().lower_bound;
        assert!(often.lower_bound >= reached - 1e-5 * reached.abs(), "{name}: {} {reached}", often.lower_bound);
        assert_eq!(plain.iterations.iter().map(|i| i.refine).max(), Some(0), "{name}");
        assert_eq!(once.iterations.iter().map(|i| i.refine).max(), Some(1), "{name}");
    }
}

/// The weighted sum of squared distances to the centers of the labels.
fn error_of<T: Real>(x: &Array2<T>, w: &Array1<f64>, fit: &Fit<T>) -> f64 {
    let centers = fit.model.centers();
    let apart = |n: usize| {
        let own = centers.row(fit.labels[n] as usize);
        x.row(n).iter().zip(own).map(|(a, b)| (a.to_f64() - b.to_f64()).powi(2)).sum::<f64>()
    };
    (0..x.nrows()).map(|n| w[n] * apart(n)).sum()
}

fn f_never_falls<T: Real>() {
    for (seed, make) in [(1, unbalanced as fn(usize, usize, u64) -> Array2<T>), (2, |n, d, seed| blobs(n, d, 1, seed))]
    {
        let x = make(2500, 5, seed);
        let w = weights(2500);
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        for (name, params) in systems(70) {
            for (tol, max_iter) in [(None, 100), (Some(1.0), 100), (Some(0.0), 1), (Some(0.0), 12)] {
                let params = params.clone().tol(tol).max_iter(max_iter);
                for rounds in [1, 3] {
                    let fit = params.clone().refine(rounds).fit(&data).unwrap();
                    let all = &fit.report.iterations;
                    let (now, before) = (fit.report.lower_bound, all.last().unwrap().lower_bound);
                    assert!(now >= before - 1e-5 * before.abs(), "{name} {max_iter} {rounds}: {now} below {before}");
                    assert!(all.len() <= max_iter, "{name}: {} iterations of {max_iter}", all.len());
                    for pair in all.windows(2) {
                        let (before, now) = (pair[0].lower_bound, pair[1].lower_bound);
                        assert!(now >= before - 1e-5 * before.abs(), "{name}: {now} after {before}");
                    }
                    // Labels and error are those of the model, regardless of what was tried and undone.
                    if name != "cosine" {
                        let found = error_of(&x, &w, &fit);
                        approx::assert_relative_eq!(fit.report.inertia, found, max_relative = 1e-4);
                    }
                }
            }
        }
    }
}

#[test]
fn f_never_falls_in_f32() {
    f_never_falls::<f32>();
}

#[test]
fn f_never_falls_in_f64() {
    f_never_falls::<f64>();
}

#[test]
fn threads_do_not_change_bits() {
    let x: Array2<f32> = unbalanced(5000, 6, 3);
    let w = weights(5000);
    let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
    let mut refined = 0;
    for (name, params) in systems(80) {
        for params in [params.clone(), params.coreset_size(2000)] {
            let fit =
                |threads: usize| bits(&params.clone().refine(2).max_iter(20).threads(threads).fit(&data).unwrap());
            let one = fit(1);
            refined += usize::from(one.3.iter().any(|entry| entry.1 > 0));
            assert!([2, 5].iter().all(|&t| fit(t) == one), "{name}");
        }
    }
    assert!(refined > 8, "only {refined} of 16 fits were refined");
}

#[test]
fn weight_is_repetition_and_weight_zero_is_absence() {
    let x: Array2<f64> = unbalanced(900, 3, 4);
    let start = x.slice(s![..40, ..]).to_owned();
    let w = Array1::from_shape_fn(900, |n| (n % 3) as f64);
    let repeated: Vec<usize> = (0..900).flat_map(|n| std::iter::repeat_n(n, n % 3)).collect();
    let x_repeated = x.select(Axis(0), &repeated);
    for (name, params) in [("k-means", KMeans::params(40)), ("exact", ExactGmm::params(40))] {
        let fit = |x: &Array2<f64>, w: Option<&Array1<f64>>| {
            let data = Dataset::new(x.view()).unwrap();
            let data = w.map_or(data.clone(), |w| data.weighted(w.view()).unwrap());
            params.clone().max_iter(40).refine(2).fit_observed(&data, Some(start.view()), &Silent).unwrap()
        };
        let (weighted, twice) = (fit(&x, Some(&w)), fit(&x_repeated, None));
        let rounds = |fit: &Fit<f64>| fit.report.iterations.iter().map(|i| i.refine).collect::<Vec<_>>();
        assert_eq!(rounds(&weighted), rounds(&twice), "{name}");
        assert_eq!(rounds(&weighted).iter().max(), Some(&2), "{name}");
        approx::assert_relative_eq!(
            weighted.model.centers(),
            twice.model.centers(),
            max_relative = 1e-8,
            epsilon = 1e-8
        );
        approx::assert_relative_eq!(weighted.report.inertia, twice.report.inertia, max_relative = 1e-9);
        let (unit, scaled) = (fit(&x, Some(&w)), fit(&x, Some(&w.mapv(|w| w * 1024.0))));
        assert_eq!(unit.model.centers(), scaled.model.centers(), "{name}");
    }
}

#[test]
fn powers_of_two_as_units_change_nothing() {
    let x: Array2<f32> = unbalanced(3000, 4, 6);
    let larger = x.mapv(|v| v * 64.0);
    for (name, params) in systems(70).into_iter().filter(|(name, _)| *name != "kernel") {
        let fit =
            |x: &Array2<f32>| params.clone().refine(2).max_iter(20).fit(&Dataset::new(x.view()).unwrap()).unwrap();
        let (plain, scaled) = (fit(&x), fit(&larger));
        assert_eq!(plain.labels, scaled.labels, "{name}");
        let factor = if name == "cosine" { 1.0 } else { 64.0 };
        assert_eq!(plain.model.centers().mapv(|v| v * factor), scaled.model.centers(), "{name}");
    }
}

#[test]
fn a_useless_round_is_undone_to_the_bit() {
    let mut taken_back = 0;
    for seed in 0..40 {
        // One group of few rows, in which the clusters are already optimal.
        let x: Array2<f64> = blobs(300, 1 + seed as usize % 2, 1, seed);
        let data = Dataset::new(x.view()).unwrap();
        for (name, params) in systems(40).into_iter().filter(|(name, _)| *name != "cosine") {
            let params = params.init(Init::KMeansPlusPlus).seed(seed).tol(1e-6).max_iter(500).refine(0);
            let start = params.fit(&data).unwrap().model.centers();
            // A tolerance above the one at which rounds begin, so EM ends first.
            let again = |rounds: usize| {
                let params = params.clone().tol(1e-2).refine(rounds);
                params.fit_observed(&data, Some(start.view()), &Silent).unwrap()
            };
            let (plain, refined) = (again(0), again(1));
            assert!(plain.report.converged && refined.report.converged, "{name}");
            let before = plain.report.iterations.len();
            let tried = &refined.report.iterations[before..];
            if tried.last().is_some_and(|last| last.lower_bound > refined.report.iterations[before - 1].lower_bound) {
                continue;
            }
            taken_back += usize::from(!tried.is_empty());
            assert_eq!(refined.model, plain.model, "{name} {seed}");
            assert_eq!(refined.labels, plain.labels, "{name} {seed}");
            approx::assert_relative_eq!(refined.report.inertia, plain.report.inertia, max_relative = 1e-12);
        }
    }
    assert!(taken_back > 3, "only {taken_back} rounds were in vain");
}

#[test]
fn stopping_during_refinement_gives_no_worse_model_than_before_it() {
    let x: Array2<f32> = unbalanced(2500, 5, 9);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in systems(70) {
        let params = params.tol(1e-2).refine(2);
        let whole = params.fit(&data).unwrap().report.iterations;
        let begin = whole.iter().take_while(|i| i.refine == 0).count();
        assert!(whole.len() >= begin + 3, "{name}: no round was tried");
        for k in begin..begin + 4 {
            let fit = params.fit_observed(&data, None, &stop_at(k)).unwrap();
            let all = &fit.report.iterations;
            assert_eq!(fit.report.stopped, all.len() == k, "{name}: {} of {k}", all.len());
            let (before, reached) = (all[begin - 1].lower_bound, all.last().unwrap().lower_bound);
            assert!(reached >= before, "{name} at {k}: {reached} below {before}");
            let now = fit.report.lower_bound;
            assert!(now >= reached - 1e-5 * reached.abs(), "{name} at {k}: {now} below {reached}");
        }
    }
}

#[test]
fn systems_without_refinement_refuse_it_by_name() {
    let x: Array2<f64> = blobs(300, 2, 5, 1);
    let data = Dataset::new(x.view()).unwrap();
    let said = |params: Params| params.fit(&data).unwrap_err().to_string();
    let mixture = said(GaussianMixture::params(5).refine(2));
    assert_eq!(mixture, "refine is 2; it must be unset: only Dgmm, VcGmm, ExactGmm and KMeans have it");
    let alone = said(Dgmm::params(5).engine(Engine::Grouped).truncation(1).refine(3));
    assert_eq!(alone, "refine is 3; it must be 0 if truncation is 1");
    // If rows are compared with all clusters, the second nearest is known.
    assert!(Dgmm::params(5).truncation(1).refine(1).fit(&data).is_ok());
    // A single cluster cannot be moved.
    assert_eq!(KMeans::params(1).refine(3).fit(&data).unwrap().report.iterations.last().unwrap().refine, 0);
}

#[test]
fn equal_rows_and_empty_clusters_do_no_harm() {
    let few = Array2::from_shape_fn((400, 2), |(n, d)| ((n % 7) * (d + 1)) as f32);
    let data = Dataset::new(few.view()).unwrap();
    for (name, params) in systems(20) {
        if name == "cosine" {
            continue;
        }
        let report = params.refine(3).fit(&data).unwrap().report;
        assert!(report.inertia.abs() < 1e-3 && report.lower_bound.is_finite(), "{name}: {}", report.inertia);
    }
}

#[test]
fn the_plan_includes_the_memory_of_refinement() {
    let plan = Dgmm::params(500).max_iter(30).refine(4).plan(100_000, 20).unwrap();
    let plain = Dgmm::params(500).max_iter(30).refine(0).plan(100_000, 20).unwrap();
    assert_eq!((plan.refine, plain.refine, plan.max_iter), (4, 0, 30));
    // The sets of all rows and a model are saved.
    assert!(plan.memory(4, 2) > plain.memory(4, 2) + 100_000 * 4 * 3 + 500 * 20 * 4);
    assert_eq!(Dgmm::params(2).refine(usize::MAX).plan(100, 2).unwrap().refine, usize::MAX);
}

#[test]
fn f_never_falls_if_a_round_begins_before_the_posterior_is_soft() {
    let x: Array2<f64> = Array2::from_shape_fn((2500, 33), {
        let mut rng = Random(7);
        move |_| rng.normal()
    });
    for metric in [Metric::Cosine, Metric::Euclidean] {
        for seed in 0..12 {
            let params = Dgmm::params(5).engine(Engine::Grouped).metric(metric).refine(2).tol(0.0).max_iter(30);
            let report = params.seed(seed).fit(&Dataset::new(x.view()).unwrap()).unwrap().report;
            let bounds: Vec<f64> = report.iterations.iter().map(|i| i.lower_bound).collect();
            for pair in bounds.windows(2) {
                assert!(pair[1] >= pair[0] - 1e-9 * pair[0].abs(), "{metric:?} {seed}: {bounds:?}");
            }
        }
    }
}
