//! Calls whose memory grows with the data. All use one thread, so that allocations come in the same order.

use crate::allocator::{Faults, LARGE};
use dgmm::step::{Memberships, Shard, Summary, step};
use dgmm::{
    Dataset, Dgmm, Engine, ExactGmm, Init, KMeans, Labels, Metric, Model, Params, Result, Run, SimilarityKind, VcGmm,
    lightweight_coreset,
};
use ndarray::{Array1, Array2};
use std::sync::OnceLock;

const ROWS: usize = 40_000;
const COLUMNS: usize = 8;
/// So many that four bytes for each are a large allocation ...
const MANY: usize = 33_000;
const _: () = assert!(4 * MANY >= LARGE);
/// ... and so many that their centers are one.
const SOME: usize = 5000;
const FEW: usize = 200;

/// A result that can be compared.
type Outcome = Result<Vec<u64>>;
type Case = (&'static str, fn() -> Outcome);

const CASES: &[Case] = &[
    ("kmeans", || fit(KMeans::params(FEW).init(Init::AfkMc2))),
    ("kmeans_of_many", || fit(few_rows(KMeans::params(SOME)).init(Init::Random))),
    ("exact", || fit(ExactGmm::params(40).init(Init::KMeansPlusPlus))),
    ("vcgmm", || fit(VcGmm::params(SOME).truncation(2).init(Init::Random))),
    ("vcgmm_in_cells", || fit(VcGmm::params(FEW).truncation(3).init(Init::Hierarchical))),
    ("pointwise", || fit(pointwise(MANY, SimilarityKind::Cooccurrence))),
    ("pointwise_posterior", || fit(pointwise(MANY, SimilarityKind::Posterior))),
    ("pointwise_kernel", || fit(pointwise(FEW, SimilarityKind::Kernel))),
    ("grouped", || fit(Dgmm::params(FEW).engine(Engine::Grouped))),
    ("grouped_of_many", || fit(Dgmm::params(MANY).engine(Engine::Grouped).init(Init::Random))),
    ("grouped_in_shards", || fit(Dgmm::params(FEW).engine(Engine::Grouped).shard_rows(11_000))),
    ("hierarchical", || fit(Dgmm::params(MANY).init(Init::Hierarchical))),
    ("coreset", || fit(Dgmm::params(FEW).coreset_size(35_000))),
    ("approximate_labels", || fit(Dgmm::params(FEW).coreset_size(9000).labels(Labels::Approximate))),
    ("exact_labels", || fit(Dgmm::params(FEW).labels(Labels::Exact))),
    ("weighted", weighted),
    ("lightweight_coreset", || Ok(bits(&lightweight_coreset(&data(), 36_000, 1, &run())?.points))),
    ("predict", || Ok(numbers(model()?.predict(&data(), &run())?))),
    ("columns", columns),
    ("top_k", || Ok(bits(&model()?.top_k(&data(), 3, &run())?.1))),
    ("distances", || Ok(bits(&model()?.distances(&data(), &run())?))),
    ("posteriors", || Ok(bits(&model()?.posteriors(&data(), 3, &run())?.1))),
    ("log_density", || Ok(bits_of(&model()?.log_density(&data(), &run())?))),
    ("quantization_error", || Ok(vec![model()?.quantization_error(&data(), &run())?.to_bits()])),
    ("index", index),
    ("step", one_step),
];

pub fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|case| case.0)
}

pub fn named(name: &str) -> fn() -> Outcome {
    CASES.iter().find(|case| case.0 == name).expect("a known name").1
}

fn run() -> Run<'static> {
    Run { threads: Some(1), ..Run::default() }
}

fn rows() -> &'static Array2<f32> {
    static ALL: OnceLock<Array2<f32>> = OnceLock::new();
    ALL.get_or_init(|| {
        Array2::from_shape_fn((ROWS, COLUMNS), |(n, d)| ((n * (7 + 4 * d)) % 1009) as f32 + (n % 20 * 3000) as f32)
    })
}

fn data() -> Dataset<'static, f32> {
    Dataset::new(rows().view()).expect("good rows")
}

fn model() -> Result<Model<f32>> {
    Model::new_in(rows().slice(ndarray::s![..;100, ..]), 1.0, Metric::Euclidean, &run())
}

fn bits(values: &Array2<f32>) -> Vec<u64> {
    Faults::end();
    values.iter().map(|x| u64::from(x.to_bits())).collect()
}

fn bits_of(values: &[f64]) -> Vec<u64> {
    Faults::end();
    values.iter().map(|x| x.to_bits()).collect()
}

fn numbers(values: Vec<u32>) -> Vec<u64> {
    Faults::end();
    values.into_iter().map(u64::from).collect()
}

fn pointwise(clusters: usize, kind: SimilarityKind) -> Params {
    Dgmm::params(clusters).engine(Engine::Pointwise).similarity(kind).truncation(3).init(Init::Random)
}

fn few_rows(params: Params) -> Params {
    params.coreset_size(10_000).labels(Labels::None)
}

fn fit(params: Params) -> Outcome {
    let fit = params.seed(1).threads(1).max_iter(3).tol(0.0).fit(&data())?;
    Faults::end();
    Ok(bits(&fit.model.centers()))
}

fn weighted() -> Outcome {
    static WEIGHTS: OnceLock<Array1<f64>> = OnceLock::new();
    let weights = WEIGHTS.get_or_init(|| Array1::from_shape_fn(ROWS, |n| (n % 3) as f64 * 1e9));
    let data = data().weighted(weights.view())?;
    let fit = Dgmm::params(FEW).threads(1).max_iter(2).fit(&data)?;
    Faults::end();
    Ok(bits(&fit.model.centers()))
}

/// Rows that must be copied because they are in Fortran order.
fn columns() -> Outcome {
    static TURNED: OnceLock<Array2<f32>> = OnceLock::new();
    let turned = TURNED.get_or_init(|| Array2::from_shape_fn((COLUMNS, ROWS), |(d, n)| rows()[[n, d]]));
    Ok(numbers(model()?.predict(&Dataset::new(turned.t())?, &run())?))
}

fn index() -> Outcome {
    let mut index = model()?.index(&run())?;
    let recall = index.tune(&data(), 0.9, &run())?;
    let labels = index.predict(&data(), &run())?;
    Faults::end();
    Ok(labels.into_iter().map(u64::from).chain([recall.to_bits()]).collect())
}

fn one_step() -> Outcome {
    let data = data();
    let params = Dgmm::params(MANY).engine(Engine::Grouped).init(Init::Random);
    let shard = Shard::new(data.clone(), 0)?;
    let summary = Summary::of(&shard, &params.plan(ROWS, COLUMNS)?.sampling(), &run())?;
    let mut trainer = params.trainer_from(&summary, None, &run())?;
    let mut memberships = Memberships::new();
    trainer.absorb(step(trainer.round(), &shard, &mut memberships, &run())?)?;
    Faults::end();
    Ok(bits(&trainer.round().model().centers()))
}
