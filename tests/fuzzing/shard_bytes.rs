//! Rounds, statistics and memberships from bytes are refused, or harmless in a step.

use super::run;
use dgmm::step::{Memberships, Merge, Round, Shard, Statistics, Summary, Trainer, step};
use dgmm::{Dataset, Dgmm, Engine, Error, ExactGmm, Init, KMeans, Params, SimilarityKind, VcGmm};
use ndarray::Array2;
use std::sync::OnceLock;

const ROWS: usize = 120;

/// Each system and engine, with and without refinement.
pub fn systems() -> [Params; 10] {
    let pointwise = |kind| Dgmm::params(10).engine(Engine::Pointwise).similarity(kind).truncation(3);
    // The first round begins after two iterations.
    let refined = |params: Params| params.tol(1e9).refine(2);
    [
        KMeans::params(5),
        ExactGmm::params(6),
        VcGmm::params(10).truncation(3),
        VcGmm::params(70).truncation(3).init(Init::Hierarchical),
        pointwise(SimilarityKind::Cooccurrence),
        pointwise(SimilarityKind::Posterior),
        pointwise(SimilarityKind::Kernel),
        Dgmm::params(70).truncation(4).engine(Engine::Grouped),
        refined(Dgmm::params(30).truncation(4).engine(Engine::Grouped)),
        refined(KMeans::params(20)),
    ]
}

fn rows() -> &'static Array2<f32> {
    static ALL: OnceLock<Array2<f32>> = OnceLock::new();
    let value = |(n, d)| 50.0 + (n % 6 * (d + 3) % 7) as f32 * 4.0 + ((n * (13 + 4 * d)) % 17) as f32 / 9.0;
    ALL.get_or_init(|| Array2::from_shape_fn((ROWS, 2), value))
}

fn shard() -> Shard<'static, f32> {
    Shard::new(Dataset::new(rows().view()).expect("good rows"), 0).expect("a good shard")
}

/// What a fit sends, at one point in time.
pub struct Moment {
    pub trainer: Trainer<f32>,
    pub memberships: Memberships,
    pub statistics: Statistics<f32>,
}

/// Before the first step and after the second, for each system; with refinement, also the step after the probe.
fn moments() -> &'static [Moment] {
    static MOMENTS: OnceLock<Vec<Moment>> = OnceLock::new();
    MOMENTS.get_or_init(|| {
        let (shard, mut all) = (shard(), Vec::new());
        for params in systems() {
            let plan = params.plan(shard.rows(), shard.data().dim()).expect("good parameters");
            let summary = Summary::of(&shard, &plan.sampling(), &run()).expect("good rows");
            let mut trainer = params.trainer_from(&summary, None, &run()).expect("a good start");
            let mut memberships = Memberships::new();
            for turn in 0..4 {
                let before = memberships.clone();
                let statistics = step(trainer.round(), &shard, &mut memberships, &run()).expect("a good step");
                if [0, 2].contains(&turn) || params.plan(ROWS, 2).is_ok_and(|plan| plan.refine > 0) {
                    let statistics = statistics.clone();
                    all.push(Moment { trainer: trainer.clone(), memberships: before, statistics });
                }
                trainer.absorb(statistics).expect("good statistics");
            }
        }
        all
    })
}

/// Valid inputs to start from.
pub fn seeds() -> Vec<Vec<u8>> {
    let named = |(number, moment): (usize, &Moment)| {
        let parts = [moment.trainer.round().to_bytes(), moment.statistics.to_bytes(), moment.memberships.to_bytes()];
        [0u8, 1, 2].map(|kind| [&[3 * number as u8 + kind][..], &parts[usize::from(kind)]].concat())
    };
    moments().iter().enumerate().flat_map(named).collect()
}

/// The result, unless the bytes were refused for a legitimate reason.
fn read<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::BadBytes { .. }) => None,
        Err(other) => panic!("refused for another reason: {other}"),
    }
}

/// The first byte selects the moment and the part that the rest represents.
pub fn check(input: &[u8]) {
    let Some((&first, bytes)) = input.split_first() else { return };
    let moment = &moments()[usize::from(first) / 3 % moments().len()];
    let mut memberships = moment.memberships.clone();
    match first % 3 {
        0 => {
            let Some(round) = read(Round::<f32>::from_bytes(bytes)) else { return };
            let again = Round::<f32>::from_bytes(&round.to_bytes()).expect("what was read can be sent on");
            assert_eq!(again.to_bytes(), round.to_bytes());
            if let Ok(statistics) = step(&round, &shard(), &mut memberships, &run()) {
                let _ = moment.trainer.clone().absorb(statistics);
            }
        }
        1 => {
            let Some(statistics) = read(Statistics::<f32>::from_bytes(bytes)) else { return };
            if let Ok(sum) = moment.statistics.clone().merge(statistics.clone()) {
                let _ = moment.trainer.clone().absorb(sum);
            }
            let _ = moment.trainer.clone().absorb(statistics);
        }
        _ => {
            let Some(mut memberships) = read(Memberships::from_bytes(bytes)) else { return };
            if let Ok(statistics) = step(moment.trainer.round(), &shard(), &mut memberships, &run()) {
                moment.trainer.clone().absorb(statistics).expect("statistics of a step are good");
            }
        }
    }
}
