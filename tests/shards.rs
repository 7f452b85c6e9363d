//! Fits over shards: the same rows in the same shards give the same bits, wherever the steps are taken.

use crate::common::{blobs, weights};
use dgmm::step::{Memberships, Merge, Merger, Sampling, Shard, Statistics, Summary, Trainer, step};
use dgmm::{
    Covariance, Dataset, Dgmm, Engine, Error, ExactGmm, GaussianMixture, Init, KMeans, Params, Real, Report, Run,
    Silent, SimilarityKind, VcGmm,
};
use ndarray::{Array1, Array2, s};

const ROWS: usize = 2600;
const DIM: usize = 5;

/// Every system and engine, through every path of its step.
fn systems() -> Vec<(&'static str, Params)> {
    let pointwise = |kind| Dgmm::params(60).engine(Engine::Pointwise).similarity(kind);
    let grouped = |clusters| Dgmm::params(clusters).engine(Engine::Grouped);
    vec![
        ("k-means, few", KMeans::params(3)),
        ("k-means, many", KMeans::params(70)),
        ("exact", ExactGmm::params(30)),
        ("vc-gmm", VcGmm::params(60)),
        ("vc-gmm, cells", VcGmm::params(120).init(Init::Hierarchical)),
        ("pointwise, co-occurrence", pointwise(SimilarityKind::Cooccurrence)),
        ("pointwise, posterior", pointwise(SimilarityKind::Posterior)),
        ("pointwise, kernel", pointwise(SimilarityKind::Kernel)),
        ("pointwise, uniform", pointwise(SimilarityKind::Uniform)),
        ("pointwise, cells", Dgmm::params(130).engine(Engine::Pointwise).init(Init::Hierarchical)),
        ("grouped, cells", grouped(150).init(Init::Hierarchical)),
        ("grouped, rows", grouped(100).init(Init::AfkMc2)),
        ("auto, few", Dgmm::params(20)),
        ("k-means, refined", KMeans::params(70).refine(2)),
        ("exact, refined", ExactGmm::params(30).refine(1)),
        ("vc-gmm, refined", VcGmm::params(60).refine(1)),
        ("pointwise, refined", pointwise(SimilarityKind::Posterior).refine(1)),
        ("grouped, refined", grouped(120).init(Init::Hierarchical).refine(2)),
        ("mixture, few", GaussianMixture::params(9)),
        ("mixture, grouped", GaussianMixture::params(140).covariance(Covariance::Diag)),
        ("mixture, spherical", GaussianMixture::params(130).covariance(Covariance::Spherical)),
        ("mixture, pointwise", GaussianMixture::params(130).covariance(Covariance::TiedDiag).engine(Engine::Pointwise)),
        ("mixture, weights", GaussianMixture::params(130).covariance(Covariance::Isotropic)),
    ]
    .into_iter()
    .map(|(name, params)| (name, params.tol(0.0).max_iter(5).seed(3)))
    .collect()
}

/// A name, rows and weights.
type Table<T> = (&'static str, Array2<T>, Option<Array1<f64>>);

/// Rows and weights: near zero and unweighted, or far from zero and weighted.
fn tables<T: Real>() -> [Table<T>; 2] {
    let x: Array2<f64> = blobs(ROWS, DIM, 40, 3);
    [("near", x.mapv(T::from_f64), None), ("far, weighted", x.mapv(|v| T::from_f64(v + 700.0)), Some(weights(ROWS)))]
}

fn dataset<'a, T: Real>(x: &'a Array2<T>, w: &Option<Array1<f64>>) -> Dataset<'a, T> {
    let data = Dataset::new(x.view()).unwrap();
    w.as_ref().map_or(data.clone(), |w| data.weighted(w.view()).unwrap())
}

/// The result of a fit, except for seconds.
#[derive(Debug, PartialEq)]
struct Bits {
    centers: Vec<u64>,
    variance: u64,
    labels: Vec<u32>,
    history: Vec<(u64, u64, u64)>,
    end: (u64, u64, bool),
}

impl Bits {
    fn new<T: Real>(model: &dgmm::Model<T>, labels: Vec<u32>, report: &Report) -> Self {
        let history = report.iterations.iter();
        Self {
            centers: model.centers().iter().map(|x| x.to_f64().to_bits()).collect(),
            variance: model.variance().to_bits(),
            labels,
            history: history.map(|i| (i.lower_bound.to_bits(), i.variance.to_bits(), i.distance_evals)).collect(),
            end: (report.lower_bound.to_bits(), report.inertia.to_bits(), report.converged),
        }
    }
}

fn fit<T: Real>(params: &Params, data: &Dataset<'_, T>, start: Option<&Array2<T>>) -> Bits {
    let fit = params.fit_observed(data, start.map(|s| s.view()), &Silent).unwrap();
    Bits::new(&fit.model, fit.labels.clone(), &fit.report)
}

/// How the loop is run.
#[derive(Debug, Clone, Copy, Default)]
struct Way {
    /// Process the last shard first.
    reversed: bool,
    /// Serialize everything in between.
    bytes: bool,
    /// Merge pairs of neighbors, level by level, without a [`Merger`].
    pairs: bool,
}

fn merged<T: Real>(mut parts: Vec<Statistics<T>>, way: Way) -> Statistics<T> {
    if !way.pairs {
        let mut merger = Merger::default();
        parts.into_iter().for_each(|part| merger.add(part).unwrap());
        return merger.finish().unwrap().unwrap();
    }
    while parts.len() > 1 {
        let mut next = Vec::new();
        let mut rest = parts.into_iter();
        while let Some(part) = rest.next() {
            next.push(rest.next().map_or_else(|| part.clone(), |other| part.clone().merge(other).unwrap()));
        }
        parts = next;
    }
    parts.remove(0)
}

/// The trainer of a fit over shards, from their summaries.
fn trainer<T: Real>(params: &Params, data: &Dataset<'_, T>, shards: &[Shard<'_, T>], way: Way) -> Trainer<T> {
    let run = Run { threads: Some(2), ..Run::default() };
    let plan = params.plan(data.rows(), data.dim()).unwrap();
    let mut merger = Merger::default();
    for shard in shards {
        let mut summary = Summary::of(shard, &plan.sampling(), &run).unwrap();
        if way.bytes {
            let back = Summary::from_bytes(&summary.to_bytes()).unwrap();
            assert_eq!(back, summary);
            summary = back;
        }
        merger.add(summary).unwrap();
    }
    params.trainer_from(&merger.finish().unwrap().unwrap(), None, &run).unwrap()
}

fn by_hand<T: Real>(params: &Params, data: &Dataset<'_, T>, rows: usize, way: Way) -> (Bits, Trainer<T>) {
    let run = Run { threads: Some(2), ..Run::default() };
    let shards = Shard::cut(data, rows).unwrap();
    let mut trainer = trainer(params, data, &shards, way);
    let mut memberships = vec![Memberships::new(); shards.len()];
    while !trainer.is_finished() {
        if way.bytes {
            trainer = Trainer::from_bytes(&trainer.to_bytes()).unwrap();
        }
        let mut round = trainer.round().clone();
        let mut parts = vec![None; shards.len()];
        for i in 0..shards.len() {
            let i = if way.reversed { shards.len() - 1 - i } else { i };
            if way.bytes {
                round = dgmm::step::Round::from_bytes(&round.to_bytes()).unwrap();
                memberships[i] = Memberships::from_bytes(&memberships[i].to_bytes()).unwrap();
            }
            let mut part = step(&round, &shards[i], &mut memberships[i], &run).unwrap();
            if way.bytes {
                let back = Statistics::from_bytes(&part.to_bytes()).unwrap();
                assert_eq!(back, part);
                part = back;
            }
            parts[i] = Some(part);
        }
        trainer.absorb(merged(parts.into_iter().map(Option::unwrap).collect(), way)).unwrap();
    }
    let labels = memberships.iter().flat_map(Memberships::labels).collect();
    (Bits::new(trainer.round().model(), labels, trainer.report()), trainer)
}

/// Rows per shard for this number of shards.
fn shard_rows(shards: usize) -> usize {
    ROWS.div_ceil(shards)
}

fn threads_do_not_change_bits_of_a_fit_over_shards<T: Real>() {
    for (table, x, w) in tables::<T>() {
        let data = dataset(&x, &w);
        assert_eq!([1, 3, 17].map(|n| Shard::cut(&data, shard_rows(n)).unwrap().len()), [1, 3, 17]);
        let given = x.slice(s![..100, ..]).to_owned();
        let mut all: Vec<_> = systems().into_iter().map(|(name, params)| (name, params, None)).collect();
        let params = Dgmm::params(100).engine(Engine::Grouped).tol(0.0).max_iter(5);
        all.push(("grouped, given", params, Some(&given)));
        all.push(("vc-gmm, given", VcGmm::params(100).tol(0.0).max_iter(5), Some(&given)));
        for (name, params, start) in all {
            let plain = fit(&params, &data, start);
            for shards in [1, 3, 17] {
                let sharded = |threads| {
                    let params = params.clone().shard_rows(shard_rows(shards)).threads(threads);
                    fit(&params, &data, start)
                };
                let one = sharded(1);
                assert!([2, 7].iter().all(|&t| sharded(t) == one), "{name}, {table}: {shards} shards");
                assert!(shards > 1 || one == plain, "{name}, {table}: one shard is the plain fit");
            }
        }
    }
}

#[test]
fn threads_do_not_change_bits_of_a_fit_over_shards_in_f32() {
    threads_do_not_change_bits_of_a_fit_over_shards::<f32>();
}

#[test]
fn threads_do_not_change_bits_of_a_fit_over_shards_in_f64() {
    threads_do_not_change_bits_of_a_fit_over_shards::<f64>();
}

fn the_public_loop_is_the_fit<T: Real>() {
    let ways = [
        Way::default(),
        Way { reversed: true, ..Way::default() },
        Way { pairs: true, ..Way::default() },
        Way { bytes: true, ..Way::default() },
    ];
    for (table, x, w) in tables::<T>() {
        let data = dataset(&x, &w);
        for (name, params) in systems() {
            for (shards, ways) in [(1, &ways[..1]), (3, &ways[..]), (7, &ways[2..3]), (17, &ways[3..])] {
                let rows = shard_rows(shards);
                let expected = fit(&params.clone().shard_rows(rows), &data, None);
                for &way in ways {
                    let (bits, _) = by_hand(&params, &data, rows, way);
                    assert_eq!(bits, expected, "{name}, {table}: {shards} shards, {way:?}");
                }
            }
        }
    }
}

#[test]
fn the_public_loop_is_the_fit_in_any_order_of_shards_and_through_bytes_in_f32() {
    the_public_loop_is_the_fit::<f32>();
}

#[test]
fn the_public_loop_is_the_fit_in_any_order_of_shards_and_through_bytes_in_f64() {
    the_public_loop_is_the_fit::<f64>();
}

#[test]
fn empty_clusters_are_moved_onto_far_rows_of_any_shard() {
    // Most rows are one of five, so that random centers often coincide; the others are isolated.
    let mut x: Array2<f32> = blobs(3000, 3, 50, 5);
    for n in (0..3000).filter(|n| n % 10 != 0) {
        (0..3).for_each(|d| x[[n, d]] = ((n % 5) * (d + 1)) as f32);
    }
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in [
        ("k-means", KMeans::params(60)),
        ("grouped", Dgmm::params(60).engine(Engine::Grouped)),
        ("vc-gmm", VcGmm::params(60)),
    ] {
        let params = params.init(Init::Random).tol(0.0).max_iter(40).seed(2);
        let start = trainer(&params, &data, &Shard::cut(&data, 3000).unwrap(), Way::default());
        let start = start.round().model().centers();
        let copies = start.rows().into_iter().filter(|c| c.iter().all(|v| v.fract() == 0.0)).count();
        assert!(copies > 40, "{name}: {copies}");
        for rows in [3000, 1000, 177] {
            let fit = params.clone().shard_rows(rows).fit(&data).unwrap();
            let way = Way { bytes: true, pairs: true, reversed: true };
            let (bits, _) = by_hand(&params, &data, rows, way);
            assert_eq!(bits, Bits::new(&fit.model, fit.labels.clone(), &fit.report), "{name}, {rows}");
            if name == "k-means" {
                assert_eq!(fit.report.empty_clusters, 0, "{rows}");
            }
        }
    }
}

/// F increases, except for rounding and at the start of a round of refinement. After convergence the last F is the
/// best, and after refinement it is that of the model.
pub fn assert_rises<T: Real>(report: &Report, dim: usize, name: &str) {
    let bounds: Vec<f64> = report.iterations.iter().map(|i| i.lower_bound).collect();
    let slack = |f: f64| 64.0 * T::EPSILON.to_f64() * dim as f64 + 1e-9 * f.abs();
    for pair in report.iterations.windows(2).filter(|pair| pair[0].refine == pair[1].refine) {
        let (before, now) = (pair[0].lower_bound, pair[1].lower_bound);
        assert!(now >= before - slack(before), "{name}: {now} after {before}: {bounds:?}");
    }
    let best = bounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let refined = report.iterations.iter().any(|i| i.refine > 0);
    let last = if refined { report.lower_bound } else { bounds[bounds.len() - 1] };
    assert!(!(report.converged || refined) || last >= best - slack(best), "{name}: {last}: {bounds:?}");
}

fn the_lower_bound_rises_over_shards<T: Real>() {
    for (table, x, w) in tables::<T>() {
        let data = dataset(&x, &w);
        for (name, params) in systems() {
            let fit = params.max_iter(15).shard_rows(shard_rows(5)).fit(&data).unwrap();
            assert_rises::<T>(&fit.report, DIM, &format!("{name}, {table}"));
        }
    }
}

#[test]
fn the_lower_bound_rises_over_shards_in_f32() {
    the_lower_bound_rises_over_shards::<f32>();
}

#[test]
fn the_lower_bound_rises_over_shards_in_f64() {
    the_lower_bound_rises_over_shards::<f64>();
}

#[test]
fn parts_of_other_shards_or_models_are_refused() {
    let x: Array2<f32> = blobs(ROWS, DIM, 40, 3);
    let data = Dataset::new(x.view()).unwrap();
    let narrow = x.slice(s![.., ..3]).to_owned();
    let narrow = Dataset::new(narrow.view()).unwrap();
    let run = Run::default();
    for (name, params) in systems() {
        let trainer = |params: &Params, data: &Dataset<'_, f32>| {
            trainer(params, data, &Shard::cut(data, ROWS).unwrap(), Way::default())
        };
        let mut own = trainer(&params, &data);
        let shards = Shard::cut(&data, 1000).unwrap();
        let mut memberships = Memberships::new();
        let statistics = step(own.round(), &shards[0], &mut memberships, &run).unwrap();
        let wrong = step(own.round(), &Shard::new(narrow.clone(), 0).unwrap(), &mut Memberships::new(), &run);
        assert_eq!(wrong, Err(Error::DimensionMismatch { columns: 3, dim: DIM }), "{name}");
        let wrong = step(own.round(), &shards[2], &mut memberships, &run);
        assert!(matches!(wrong, Err(Error::MembershipsMismatch { rows: 1000, expected: (600, _), .. })), "{name}");
        let other = Dgmm::params(160).engine(Engine::Pointwise).truncation(11);
        let wrong = step(trainer(&other, &data).round(), &shards[0], &mut memberships, &run);
        assert!(matches!(wrong, Err(Error::MembershipsMismatch { expected: (1000, 11), .. })), "{name}");
        let shard = Shard::cut(&data, 500).unwrap().remove(0);
        let foreign = step(trainer(&other, &data).round(), &shard, &mut Memberships::new(), &run).unwrap();
        let expected = (own.round().model().clusters(), DIM);
        let mismatch = Error::StatisticsMismatch { clusters: 160, dim: DIM, expected };
        assert_eq!(statistics.clone().merge(foreign.clone()), Err(mismatch.clone()), "{name}");
        assert_eq!(own.absorb(foreign), Err(mismatch), "{name}");
        own.absorb(statistics).unwrap();
    }
}

#[test]
fn fits_that_begin_with_a_sample_have_the_same_bits_everywhere() {
    let x: Array2<f32> = blobs(90_000, 2, 40, 3);
    let w = weights(90_000);
    for weighted in [false, true] {
        let data = dataset(&x, &weighted.then(|| w.clone()));
        let pointwise = Dgmm::params(60).engine(Engine::Pointwise);
        for params in [KMeans::params(30), Dgmm::params(120), VcGmm::params(40), pointwise] {
            let params = params.shard_rows(23_000).max_iter(12).seed(5);
            assert_eq!(params.plan(90_000, 2).unwrap().samples, [1 << 16]);
            let expected = fit(&params.clone().threads(1), &data, None);
            assert_eq!(fit(&params.clone().threads(3), &data, None), expected);
            let (bits, trainer) = by_hand(&params, &data, 23_000, Way { bytes: true, pairs: true, ..Way::default() });
            assert_eq!(bits, expected);
            let rows: Vec<u64> = trainer.report().iterations.iter().map(|i| i.rows).collect();
            assert!(rows.is_sorted() && rows[0] == 1 << 16 && *rows.last().unwrap() == 90_000, "{rows:?}");
            // At least half of the possible iterations see all rows, and F increases among iterations that see the same
            // rows.
            assert!(rows.iter().filter(|&&n| n < 90_000).count() <= 6);
            for seen in [1 << 16, 90_000] {
                let mut report = trainer.report().clone();
                report.iterations.retain(|i| i.rows == seen);
                assert_rises::<f32>(&report, 2, &format!("{params:?}, {seen} rows"));
            }
        }
    }
}

#[test]
fn settings_that_need_rows_in_memory_are_refused_over_shards() {
    let x: Array2<f32> = blobs(ROWS, DIM, 40, 3);
    let data = Dataset::new(x.view()).unwrap();
    let shard = Shard::cut(&data, ROWS).unwrap().remove(0);
    let refused = |params: Params, size: usize| {
        let sampling = Sampling { size, seed: 0, total_rows: None, metric: dgmm::Metric::Euclidean };
        let summary = Summary::of(&shard, &sampling, &Run::default()).unwrap();
        params.trainer_from(&summary, None, &Run::default()).unwrap_err().to_string()
    };
    let said = refused(KMeans::params(5).n_init(3), ROWS);
    assert_eq!(said, "n_init is 3; it must be 1 if rows are read shard by shard");
    let said = refused(KMeans::params(5).coreset_size(50), ROWS);
    assert!(said.starts_with("coreset_size is 50; it must be unset"), "{said}");
    let said = refused(KMeans::params(5), 7);
    assert_eq!(said, "the size of the sample is 7; it must be at least 2600");
}
