//! Fits of any small table with any settings: an error with a reason, or a finite model whose bound does not fall.

use super::run;
use dgmm::{
    Dataset, Dgmm, Engine, Error, ExactGmm, Fit, Init, KMeans, Labels, Params, Real, SimilarityKind, Stop, VcGmm,
};
use ndarray::{Array1, Array2, Axis};

/// Choices made by the input; zeros after its end.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// From 0 to `end - 1`.
    fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    fn of<V: Copy>(&mut self, values: &[V]) -> V {
        values[self.below(values.len())]
    }

    fn is(&mut self) -> bool {
        self.byte() & 1 == 1
    }
}

/// Valid inputs to start from: one for each system.
pub fn seeds() -> Vec<Vec<u8>> {
    (0..16u8).map(|i| (0..120u8).map(|j| j.wrapping_mul(37).wrapping_add(i.wrapping_mul(j | 1))).collect()).collect()
}

struct Table {
    values: Array2<f64>,
    weights: Option<Array1<f64>>,
}

/// Rows from few distinct values, so that they repeat, in any unit and at any distance from 0; weights of any size.
fn table(choices: &mut Choices<'_>) -> Table {
    let rows = 1 + choices.below(120);
    let dim = if choices.below(8) == 0 { 1 + choices.below(200) } else { 1 + choices.below(6) };
    let unit = 10f64.powi(choices.below(61) as i32 - 30);
    let (kinds, offset) = (choices.of(&[2, 3, 16, 251]), choices.of(&[0.0, 0.0, 1.0, 1e3, -1e6]));
    let weighted = choices.is();
    let (mut state, salt) = (1u64, u64::from(choices.byte()));
    // A generator fills in what the input does not specify, so that a few bytes are enough for a table.
    let mut value = |choices: &mut Choices<'_>| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(2 * salt + 1);
        let more = if choices.0.is_empty() { (state >> 33) as u8 } else { choices.byte() };
        usize::from(more)
    };
    let values = Array2::from_shape_simple_fn((rows, dim), || unit * (offset + (value(choices) % kinds) as f64));
    let spread = choices.of(&[0, 1, 15]);
    let weight = |choices: &mut Choices<'_>| match value(choices) {
        0..20 => 0.0,
        more => (more % 4 + 1) as f64 * 10f64.powi((more % (2 * spread + 1)) as i32 - spread as i32),
    };
    let mut weight = weight;
    let weights = weighted.then(|| Array1::from_shape_simple_fn(rows, || weight(choices)));
    Table { values, weights }
}

fn params(choices: &mut Choices<'_>) -> Params {
    let clusters = if choices.below(4) == 0 { 101 + choices.below(30) } else { 1 + choices.below(20) };
    let (truncation, proposals) = (1 + choices.below(clusters), 1 + choices.below(70));
    let engine = choices.of(&[Engine::Auto, Engine::Pointwise, Engine::Grouped]);
    let kinds =
        [SimilarityKind::Cooccurrence, SimilarityKind::Posterior, SimilarityKind::Kernel, SimilarityKind::Uniform];
    let system = match choices.below(5) {
        0 => KMeans::params(clusters),
        1 => ExactGmm::params(clusters),
        2 => VcGmm::params(clusters).truncation(truncation).neighbors(proposals).random_neighbor(choices.is()),
        3 => Dgmm::params(clusters),
        _ => {
            let set = Dgmm::params(clusters).truncation(truncation).proposals(proposals);
            set.engine(engine).similarity(choices.of(&kinds))
        }
    };
    let inits = [Init::Auto, Init::AfkMc2, Init::Hierarchical, Init::KMeansPlusPlus, Init::Random];
    let coreset = choices.below(200);
    let system = system
        .init(choices.of(&inits))
        .chain_length(1 + choices.below(9))
        .coreset_size((coreset > 140).then_some(coreset))
        .shard_rows(choices.of(&[None, None, Some(7), Some(40)]))
        .labels(choices.of(&[Labels::Auto, Labels::Exact, Labels::Approximate, Labels::None]))
        .stop(choices.of(&[Stop::PerDim, Stop::Relative]))
        .tol(choices.of(&[0.0, 1e-3]))
        .n_init(1 + choices.below(8) / 7)
        .max_iter(1 + choices.below(12));
    // One byte for both, so that old inputs keep their meaning.
    let seed = choices.byte();
    system.seed(u64::from(seed)).refine([0, 0, 1, 3][usize::from(seed % 4)])
}

/// How much F may fall due to rounding.
fn slack<T: Real>(values: &Array2<f64>, bound: f64, variance: f64) -> f64 {
    slack_of::<T>(values, bound, variance, 0.0)
}

/// [`slack`], with centers as large as `largest` rounded when they are returned.
fn slack_of<T: Real>(values: &Array2<f64>, bound: f64, variance: f64, largest: f64) -> f64 {
    let width = |c: ndarray::ArrayView1<'_, f64>| {
        c.iter().copied().fold(f64::MIN, f64::max) - c.iter().copied().fold(f64::MAX, f64::min)
    };
    let span = values.columns().into_iter().map(width).fold(0.0, f64::max);
    let apart = T::EPSILON.to_f64() * (8.0 * span + largest);
    let felt = apart / variance.sqrt();
    let terms = values.ncols() as f64 * (felt + felt * felt + apart * span / variance);
    100.0 * T::EPSILON.to_f64() * (1.0 + bound.abs()) + terms
}

/// Properties of every fit.
fn check_fit<T: Real>(table: &Table, data: &Dataset<'_, T>, fit: &Fit<T>) {
    let Fit { model, labels, report, .. } = fit;
    assert!(labels.is_empty() || labels.len() == data.rows());
    assert!(labels.iter().all(|&c| (c as usize) < model.clusters()));
    assert!(model.centers().iter().all(|x| x.is_finite()));
    assert!(model.variance().is_finite() && model.variance() > 0.0);
    assert!(report.lower_bound.is_finite() && report.inertia.is_finite() && report.inertia >= 0.0);
    assert!(!report.iterations.is_empty() && report.iterations.iter().all(|i| i.lower_bound.is_finite()));
    let em = report.iterations.iter().take_while(|i| i.refine == 0).last().expect("iterations come before refinement");
    if report.iterations.iter().any(|i| i.refine > 0) {
        let (before, after) = (em.lower_bound, report.lower_bound);
        let largest = table.values.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let enough = before - slack_of::<T>(&table.values, before, em.variance, largest);
        assert!(after >= enough, "refinement made F fall from {before} to {after}");
    }
    for pair in report.iterations.windows(2) {
        let (before, after) = (pair[0].lower_bound, pair[1].lower_bound);
        if after < before - slack::<T>(&table.values, before, pair[0].variance) {
            assert!(!report.converged, "F fell from {before} to {after}, but the fit reports convergence");
            assert!(report.lower_bound >= before, "F fell from {before} to {after}, but the worse model is kept");
        }
    }
}

fn fitted<T: Real>(table: &Table, params: &Params) -> Option<Fit<T>> {
    let values = table.values.mapv(T::from_f64);
    let mut data = match Dataset::new(values.view()) {
        Ok(data) => data,
        Err(Error::NotFinite { .. }) => return None,
        Err(other) => panic!("{other}"),
    };
    if let Some(weights) = &table.weights {
        data = match data.weighted(weights.view()) {
            Ok(data) => data,
            Err(Error::ZeroWeights) => return None,
            Err(other) => panic!("{other}"),
        };
    }
    match params.fit(&data) {
        Ok(fit) => {
            check_fit(table, &data, &fit);
            if let Ok(labels) = fit.model.predict(&data, &run()) {
                assert!(labels.iter().all(|&c| (c as usize) < fit.model.clusters()));
            }
            Some(fit)
        }
        Err(
            Error::TooManyClusters { .. }
            | Error::BadParameter { .. }
            | Error::Overflow { .. }
            | Error::Underflow { .. }
            | Error::TruncationTooLarge { .. },
        ) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Fits, and fits again in ways that must give the same result.
fn check_in<T: Real>(choices: &mut Choices<'_>) {
    let again = choices.below(8);
    let (params, mut table) = (params(choices), table(choices));
    let Some(one) = fitted::<T>(&table, &params.clone().threads(1)) else { return };
    if again == 0 {
        let other = fitted::<T>(&table, &params.clone().threads(3)).expect("it could be fitted");
        assert!(other.model == one.model && other.labels == one.labels, "threads change the result");
    }
    let cut = params.plan(table.values.nrows(), table.values.ncols()).is_ok_and(|plan| plan.is_sharded());
    if again == 1 && !cut {
        // Reversed rows: up to 2048 rows are fitted in canonical order, unless they are cut into shards.
        table.values.invert_axis(Axis(0));
        table.values = table.values.as_standard_layout().to_owned();
        table.weights = table.weights.map(|w| w.iter().rev().copied().collect());
        let other = fitted::<T>(&table, &params.threads(1)).expect("it could be fitted");
        assert!(other.model == one.model, "the order of the rows changes the result");
    }
}

/// The input chooses a table and settings.
pub fn check(input: &[u8]) {
    let mut choices = Choices(input);
    if choices.is() { check_in::<f32>(&mut choices) } else { check_in::<f64>(&mut choices) }
}
