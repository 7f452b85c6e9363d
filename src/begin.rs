//! How a run begins: the first centres, the first truncated sets, and the E-step that goes on from them.

use crate::data::{Dataset, Moments};
use crate::em::expectation::{Expectation, Pointwise};
use crate::error::Result;
use crate::grouped::Grouped;
use crate::model::Model;
use crate::observer::Observer;
use crate::params::{Engine, Init, Plan, SimilarityKind, System};
use crate::real::Real;
use crate::search::{Exhaustive, Neighbours, Sampled, State};
use crate::seeding::cells::Ground;
use crate::seeding::hierarchical::{Start, seed_hierarchical, start_from};
use crate::seeding::{seed_afkmc2, seed_plus_plus, seed_random};
use ndarray::{Array2, ArrayView2};

/// R where nobody says otherwise: clusters a point tries ...
const POINTWISE_PROPOSALS: usize = 5;
/// ... and clusters a group of points tries.
const GROUPED_PROPOSALS: usize = 56;
/// Clusters up to which looking at all of them is the fastest.
const EXHAUSTIVE_CLUSTERS: usize = 96;
/// Clusters from which on `init="auto"` goes by levels.
const HIERARCHICAL_CLUSTERS: usize = 200;

/// Rows times clusters up to which `init="auto"` can afford greedy k-means++, which misses fewer clusters.
const GREEDY_PAIRS: usize = 1 << 22;

/// What a run goes on from.
pub(crate) struct Begin<T: Real> {
    pub centres: Array2<T>,
    pub state: State<T>,
    pub step: Box<dyn Expectation<T>>,
    /// Distance evaluations of it all.
    pub evaluations: u64,
}

/// Chooses the first centres, unless they are given, and the sets and the engine to go on with.
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
    let (centres, mut evaluations, start) = match given {
        Some(centres) => (centres.to_owned(), 0, None),
        None if levels => {
            // A search that looks at all clusters has no use for sets, which would be N x M for the exact mixture.
            let sets = (!looks_at_all(plan, engine)).then_some(plan.truncation);
            let mut start = seed_hierarchical(&ground, plan.clusters, plan.chain_length(), sets)?;
            let seeds = start.seeds.take().expect("the centres were chosen there");
            (seeds.centres, start.evaluations, Some(start))
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
            (seeds.centres, seeds.evaluations, None)
        }
    };
    let start = match (start, engine) {
        (None, Engine::Grouped) => {
            let local = Model::from_origin(centres.view(), origin.clone(), 1.0);
            let start = start_from(&ground, local.local_centres(), plan.truncation)?;
            evaluations += start.evaluations;
            Some(start)
        }
        (start, _) => start,
    };
    let (step, state) = step_and_state(plan, engine, start, data.rows(), seed);
    Ok(Begin { centres, state, step, evaluations })
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

fn step_and_state<T: Real>(
    plan: &Plan,
    engine: Engine,
    start: Option<Start<T>>,
    rows: usize,
    seed: u64,
) -> (Box<dyn Expectation<T>>, State<T>) {
    let (clusters, h) = (plan.clusters, plan.truncation);
    let (system, proposals) = (plan.system(), plan.proposals());
    if looks_at_all(plan, engine) {
        return (Box::new(Pointwise(Box::new(Exhaustive { truncation: h }))), State::forgetful(rows));
    }
    let state = match start {
        Some(start) => State { kept: h, members: start.members, nearest: vec![T::ZERO; rows] },
        None => State::uniform(rows, h, clusters, seed),
    };
    let step: Box<dyn Expectation<T>> = match (system, engine) {
        (System::VcGmm, _) => {
            Box::new(Pointwise(Box::new(Neighbours::new(clusters, h, plan.neighbours(), plan.random_neighbour()))))
        }
        (_, Engine::Grouped) => {
            let candidates = proposals.unwrap_or(GROUPED_PROPOSALS).max(h);
            Box::new(Grouped { truncation: h, candidates })
        }
        _ => {
            let proposals = proposals.unwrap_or(POINTWISE_PROPOSALS);
            Box::new(Pointwise(Box::new(Sampled::new(clusters, h, proposals, plan.similarity()))))
        }
    };
    (step, state)
}
