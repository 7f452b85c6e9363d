//! For any data and settings: no panic, labels in range, F finite and never falling, no error below the exact one.

use dgmm::{Dataset, Dgmm, Engine, ExactGmm, Fit, Init, KMeans, Params, Real, Run, SimilarityKind, Stop, VcGmm};
use ndarray::{Array1, Array2, ArrayView1};
use proptest::prelude::*;
use proptest::sample::select;

/// A small table with weights. It has few distinct values, so that rows repeat, in any units and at any distance from
/// 0.
#[derive(Debug, Clone)]
struct Table {
    values: Array2<f64>,
    weights: Array1<f64>,
}

fn table() -> impl Strategy<Value = Table> {
    let scale = (select(vec![1u32, 3, 1000]), select(vec![1.0, 1e-6, 1e6]), select(vec![0.0, 1e3]));
    (1usize..60, 1usize..6, scale, any::<bool>()).prop_flat_map(|(rows, dim, (kinds, unit, offset), weighted)| {
        let values = prop::collection::vec((0..kinds).prop_map(move |v| unit * (offset + f64::from(v))), rows * dim);
        let weights = prop::collection::vec(0u8..4, rows);
        (values, weights).prop_map(move |(values, weights)| Table {
            values: Array2::from_shape_vec((rows, dim), values).unwrap(),
            weights: Array1::from_shape_fn(
                rows,
                |n| {
                    if weighted && n > 0 { f64::from(weights[n]) * 0.75 } else { 1.0 }
                },
            ),
        })
    })
}

/// Settings of any system, for at most as many clusters as the table has rows of positive weight.
fn settings() -> impl Strategy<Value = Settings> {
    let sizes = (1usize..12, 1usize..6, 1usize..6, 1usize..4, 0usize..40);
    let engines = select(vec![Engine::Auto, Engine::Pointwise, Engine::Grouped]);
    let inits = select(vec![Init::Auto, Init::AfkMc2, Init::Hierarchical, Init::KMeansPlusPlus, Init::Random]);
    let similarities = select(vec![
        SimilarityKind::Cooccurrence,
        SimilarityKind::Posterior,
        SimilarityKind::Kernel,
        SimilarityKind::Uniform,
    ]);
    let stops = (select(vec![Stop::PerDim, Stop::Relative]), select(vec![0.0, 1e-3]));
    (0usize..4, sizes, engines, inits, similarities, stops, any::<bool>(), 0u64..1000).prop_map(
        |(system, sizes, engine, init, similarity, stop, random, seed)| Settings {
            system,
            sizes,
            engine,
            init,
            similarity,
            stop,
            random,
            seed,
        },
    )
}

#[derive(Debug, Clone)]
struct Settings {
    system: usize,
    /// Clusters, truncation, proposals or neighbors, chain length or threads, coreset.
    sizes: (usize, usize, usize, usize, usize),
    engine: Engine,
    init: Init,
    similarity: SimilarityKind,
    stop: (Stop, f64),
    random: bool,
    seed: u64,
}

impl Settings {
    fn params(&self, most: usize) -> Params {
        let (clusters, truncation, proposals, few, coreset) = self.sizes;
        let clusters = clusters.min(most);
        let similarity = if self.engine == Engine::Grouped { SimilarityKind::Cooccurrence } else { self.similarity };
        let system = match self.system {
            0 => KMeans::params(clusters),
            1 => ExactGmm::params(clusters),
            2 => VcGmm::params(clusters)
                .truncation(truncation.min(clusters))
                .neighbors(proposals)
                .random_neighbor(self.random),
            _ => Dgmm::params(clusters)
                .truncation(truncation.min(clusters))
                .proposals(proposals)
                .engine(self.engine)
                .similarity(similarity),
        };
        system
            .init(self.init)
            .chain_length(few)
            .threads(few)
            .coreset_size((coreset >= clusters).then_some(coreset))
            .stop(self.stop.0)
            .tol(self.stop.1)
            .max_iter(12)
            .seed(self.seed)
    }
}

/// The widest column.
fn span(values: &Array2<f64>) -> f64 {
    let width = |c: ArrayView1<'_, f64>| c.fold(f64::MIN, |a, &b| a.max(b)) - c.fold(f64::MAX, |a, &b| a.min(b));
    values.columns().into_iter().map(width).fold(0.0, f64::max)
}

/// Fits in `T` and checks the properties of every fit.
fn check<T: Real>(table: &Table, settings: &Settings) -> Result<(), TestCaseError> {
    let values = table.values.mapv(T::from_f64);
    let data = Dataset::new(values.view()).unwrap().weighted(table.weights.view()).unwrap();
    let params = settings.params(data.positive_rows());
    let Fit { model, labels, report, .. } = params.fit(&data).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(labels.len(), data.rows());
    prop_assert!(labels.iter().all(|&c| (c as usize) < model.clusters()));
    prop_assert!(model.centers().iter().all(|x| x.is_finite()));
    prop_assert!(model.variance().is_finite() && model.variance() > 0.0);
    let bounds: Vec<f64> = report.iterations.iter().map(|i| i.lower_bound).collect();
    prop_assert!(!bounds.is_empty() && bounds.iter().all(|f| f.is_finite()) && report.lower_bound.is_finite());
    // A center is rounded by about this much. If s2 is tiny, as with as many clusters as rows, that affects F.
    let apart = T::EPSILON.to_f64() * 8.0 * span(&table.values);
    for pair in report.iterations.windows(2) {
        let (before, after) = (pair[0].lower_bound, pair[1].lower_bound);
        let felt = apart / pair[0].variance.sqrt();
        // The grouped engine's distances are products, which cancel: their rounding is relative to |y|^2, not to d.
        let products = if settings.system == 3 { apart * span(&table.values) / pair[0].variance } else { 0.0 };
        let terms = data.dim() as f64 * (felt + felt * felt + products);
        let slack = 100.0 * T::EPSILON.to_f64() * (1.0 + before.abs()) + terms;
        prop_assert!(after >= before - slack, "F fell, by {} of {}: {:?}", before - after, slack, bounds);
    }
    // The exact search uses |y|^2 - 2 y.mu + |mu|^2, so it may choose the other of two almost equally near clusters.
    let exact = model.quantization_error(&data, &Run::default()).unwrap();
    let slack = data.total_weight() * data.dim() as f64 * apart * span(&table.values);
    prop_assert!(report.inertia >= exact * (1.0 - 1e-5) - slack, "inertia {} below {}", report.inertia, exact);
    prop_assert!(report.empty_clusters < model.clusters());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_fit_in_f64_keeps_the_rules(table in table(), settings in settings()) {
        check::<f64>(&table, &settings)?;
    }

    #[test]
    fn every_fit_in_f32_keeps_the_rules(table in table(), settings in settings()) {
        check::<f32>(&table, &settings)?;
    }
}
