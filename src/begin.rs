//! How a run begins: the first centers, the first truncated sets, and the E-step that goes on from them.

use crate::data::{Dataset, Moments};
use crate::em::expectation::{Expectation, RowByRow, Task};
use crate::em::lloyd::k_means_step;
use crate::error::Result;
use crate::grouped::Grouped;
use crate::model::Model;
use crate::observer::Observer;
use crate::params::{Engine, Init, Plan, SimilarityKind, Stop, System};
use crate::real::Real;
use crate::sampled::Sampled;
use crate::search::{Exhaustive, Neighbors, State};
use crate::seeding::cells::Ground;
use crate::seeding::hierarchical::{look_at, seed_hierarchical};
use crate::seeding::{Seeds, seed_afkmc2, seed_plus_plus, seed_random};
use ndarray::{Array2, ArrayView2};

/// R where nobody says otherwise: clusters a point tries ...
const POINTWISE_PROPOSALS: usize = 5;
/// ... and clusters a group of points tries.
const GROUPED_PROPOSALS: usize = 56;
/// Clusters up to which looking at all of them is the fastest.
pub const EXHAUSTIVE_CLUSTERS: usize = 96;
/// Clusters from which on `init="auto"` goes by levels.
pub const HIERARCHICAL_CLUSTERS: usize = 200;

/// Where to stop.
const TOL: f64 = 1e-3;
/// Where k-means stops: the error falls by 0.002 % an iteration, about where scikit-learn's rule on the centers ends it.
const KMEANS_TOL: f64 = 1e-5;
/// Where to stop when there are many clusters: the error falls by less than 1.5 % an iteration.
const GROUPED_TOL: f64 = 7e-3;

/// How far the centers of many clusters move in an iteration, in parts of the way to their points' mean: fewer iterations
/// lead to the same error.
const GROUPED_STEP_LENGTH: f64 = 1.6;

/// Rows times clusters up to which `init="auto"` can afford greedy k-means++, which misses fewer clusters.
pub const GREEDY_PAIRS: usize = 1 << 22;

/// What a run goes on from.
pub(crate) struct Begin<T: Real> {
    pub centers: Array2<T>,
    pub state: State<T>,
    pub step: Box<dyn Expectation<T>>,
    /// Distance evaluations of it all.
    pub evaluations: u64,
}

/// Chooses the first centers, unless they are given, and the sets and the engine to go on with.
pub(crate) fn begin<T: Real>(
    data: &Dataset<'_, T>,
    moments: &Moments,
    plan: &Plan,
    given: Option<ArrayView2<'_, T>>,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Begin<T>> {
    let engine = engine(plan);
    let origin = moments.origin::<T>();
    let ground = Ground { data, origin: origin.as_deref(), seed, observer };
    let levels = match plan.init() {
        Init::Hierarchical => true,
        Init::Auto => plan.clusters >= HIERARCHICAL_CLUSTERS,
        _ => false,
    };
    let (seeds, look) = match given {
        Some(centers) => (Seeds { centers: centers.to_owned(), indices: Vec::new(), evaluations: 0 }, None),
        None if levels => {
            let start = seed_hierarchical(&ground, plan.clusters, plan.chain_length(), plan.truncation)?;
            (start.seeds, Some(start.look))
        }
        None => {
            let seeds = match plan.init() {
                Init::Random => seed_random(data, plan.clusters, seed, observer)?,
                Init::KMeansPlusPlus => seed_plus_plus(data, plan.clusters, 1, seed, observer)?,
                Init::Auto if data.rows() * plan.clusters <= GREEDY_PAIRS => {
                    let trials = 2 + (plan.clusters as f64).ln() as usize;
                    seed_plus_plus(data, plan.clusters, trials, seed, observer)?
                }
                _ => seed_afkmc2(data, moments, plan.clusters, plan.chain_length(), seed, observer)?,
            };
            (seeds, None)
        }
    };
    let Seeds { centers, mut evaluations, .. } = seeds;
    let (clusters, h, rows) = (plan.clusters, plan.truncation, data.rows());
    if looks_at_all(plan, engine) {
        let step: Box<dyn Expectation<T>> = if plan.hard() && h == 1 {
            k_means_step(rows, clusters, data.dim())
        } else {
            Box::new(RowByRow(Box::new(Exhaustive { truncation: h })))
        };
        return Ok(Begin { centers, state: State::forgetful(rows), step, evaluations });
    }
    if engine == Engine::Grouped {
        let look = match look {
            Some(look) => look,
            None => {
                let local = Model::from_origin(centers.view(), origin.clone(), 1.0);
                let (look, count) = look_at(&ground, local.local_centers(), h)?;
                evaluations += count;
                look
            }
        };
        let candidates = plan.proposals().unwrap_or(GROUPED_PROPOSALS).max(h);
        let step = Box::new(Grouped::new(h, candidates, look));
        return Ok(Begin { centers, state: State::unknown(h), step, evaluations });
    }
    let state = match look {
        Some(look) => {
            let task = Task { data, hard: true, seed, observer };
            let model = Model::from_origin(centers.view(), origin, 1.0);
            let mut state = State::unknown(h);
            evaluations += Grouped::new(h, h, look).step(&task, &model, &mut state, 0, false)?.evaluations;
            State::of_sets(state.members, h)
        }
        None => State::uniform(rows, h, clusters, seed),
    };
    let step: Box<dyn Expectation<T>> = match plan.system() {
        System::VcGmm => {
            Box::new(RowByRow(Box::new(Neighbors::new(clusters, h, plan.neighbors(), plan.random_neighbor()))))
        }
        _ => {
            let proposals = plan.proposals().unwrap_or(POINTWISE_PROPOSALS);
            Box::new(Sampled::new(clusters, h, proposals, plan.similarity()))
        }
    };
    Ok(Begin { centers, state, step, evaluations })
}

/// The tolerance of the stopping rule where nobody says otherwise.
pub(crate) fn tolerance(plan: &Plan) -> f64 {
    plan.tol().unwrap_or(match (engine(plan), plan.stop()) {
        _ if plan.system() == System::KMeans => KMEANS_TOL,
        (Engine::Grouped, Stop::PerDim) => GROUPED_TOL,
        _ => TOL,
    })
}

/// The length of a step where nobody says otherwise: that of EM, and longer where the engine is not the paper's anyway.
pub(crate) fn step_length(plan: &Plan) -> f64 {
    plan.step_length().unwrap_or(match engine(plan) {
        Engine::Grouped => GROUPED_STEP_LENGTH,
        _ => 1.0,
    })
}

/// The engine that D-GMM's E-step runs on; `Auto` stands for looking at all clusters.
fn engine(plan: &Plan) -> Engine {
    if plan.system() != System::Dgmm {
        return Engine::Auto;
    }
    match plan.engine() {
        Engine::Auto if plan.similarity() != SimilarityKind::Cooccurrence => Engine::Pointwise,
        Engine::Auto if plan.clusters <= EXHAUSTIVE_CLUSTERS => Engine::Auto,
        Engine::Auto => Engine::Grouped,
        engine => engine,
    }
}

fn looks_at_all(plan: &Plan, engine: Engine) -> bool {
    match plan.system() {
        System::KMeans | System::ExactGmm => true,
        System::Dgmm => engine == Engine::Auto,
        System::VcGmm => false,
    }
}
