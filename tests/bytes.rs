//! Damaged bytes are refused or harmless: no input makes a step panic.

use crate::common::blobs;
use crate::fuzzing::shard_bytes::{Moment, systems};
use dgmm::step::{Memberships, Merge, Round, Shard, Statistics, Summary, Trainer, step};
use dgmm::{Dataset, Dgmm, Error, Run};
use ndarray::Array2;
use proptest::prelude::*;
use std::sync::OnceLock;

const ROWS: usize = 120;

fn rows() -> &'static Array2<f32> {
    static ROWS_OF_ALL: OnceLock<Array2<f32>> = OnceLock::new();
    ROWS_OF_ALL.get_or_init(|| blobs(ROWS, 2, 6, 1).mapv(|v: f32| v + 50.0))
}

/// The first steps of each system; with refinement, the third is a probe and the fourth follows its moves.
fn moments() -> &'static [Moment] {
    static MOMENTS: OnceLock<Vec<Moment>> = OnceLock::new();
    MOMENTS.get_or_init(|| {
        let data = Dataset::new(rows().view()).unwrap();
        let (shard, run) = (Shard::new(data.clone(), 0).unwrap(), Run { threads: Some(1), ..Run::default() });
        let mut all = Vec::new();
        for params in systems() {
            let sampling = params.plan(ROWS, 2).unwrap().sampling();
            let summary = Summary::of(&shard, &sampling, &run).unwrap();
            let mut trainer = params.trainer_from(&summary, None, &run).unwrap();
            let mut memberships = Memberships::new();
            for _ in 0..4 {
                let before = memberships.clone();
                let statistics = step(trainer.round(), &shard, &mut memberships, &run).unwrap();
                all.push(Moment { trainer: trainer.clone(), memberships: before, statistics: statistics.clone() });
                trainer.absorb(statistics).unwrap();
            }
        }
        all
    })
}

/// One kind of damage.
#[derive(Debug, Clone)]
enum Damage {
    CutOff(prop::sample::Index),
    Flips(Vec<(prop::sample::Index, u8)>),
    Length(prop::sample::Index, u64),
    Longer(Vec<u8>),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::CutOff(at) => bytes.truncate(at.index(bytes.len())),
            Self::Flips(flips) => flips.iter().for_each(|(at, flip)| {
                let at = at.index(bytes.len());
                bytes[at] ^= flip;
            }),
            Self::Length(at, value) => {
                let at = at.index(bytes.len() - 8);
                bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            }
            Self::Longer(more) => bytes.extend(more),
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = any::<prop::sample::Index>;
    let values = prop_oneof![Just(u64::MAX), Just(u64::MAX / 4), Just(1 << 40), 0u64..300];
    prop_oneof![
        index().prop_map(Damage::CutOff),
        prop::collection::vec((index(), 1u8..), 1..4).prop_map(Damage::Flips),
        (index(), values).prop_map(|(at, value)| Damage::Length(at, value)),
        prop::collection::vec(any::<u8>(), 1..20).prop_map(Damage::Longer),
    ]
}

/// The result, unless the bytes were refused for a legitimate reason.
fn refused<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::BadBytes { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

fn shard() -> Shard<'static, f32> {
    Shard::new(Dataset::new(rows().view()).unwrap(), 0).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_rounds_are_refused_or_harmless(at: prop::sample::Index, damage in damage()) {
        let moment = &moments()[at.index(moments().len())];
        let mut bytes = moment.trainer.round().to_bytes();
        damage.apply(&mut bytes);
        if let Some(round) = refused(Round::<f32>::from_bytes(&bytes)) {
            let run = Run { threads: Some(1), ..Run::default() };
            if let Ok(statistics) = step(&round, &shard(), &mut moment.memberships.clone(), &run) {
                let _ = moment.trainer.clone().absorb(statistics);
            }
        }
    }

    #[test]
    fn damaged_trainers_are_refused_or_harmless(at: prop::sample::Index, damage in damage()) {
        let moment = &moments()[at.index(moments().len())];
        let mut bytes = moment.trainer.to_bytes();
        damage.apply(&mut bytes);
        if let Some(mut trainer) = refused(Trainer::<f32>::from_bytes(&bytes)) {
            let _ = trainer.absorb(moment.statistics.clone());
        }
    }

    #[test]
    fn damaged_memberships_are_refused_or_harmless(at: prop::sample::Index, damage in damage()) {
        let moment = &moments()[at.index(moments().len())];
        let mut bytes = moment.memberships.to_bytes();
        damage.apply(&mut bytes);
        if let Some(mut memberships) = refused(Memberships::from_bytes(&bytes)) {
            let run = Run { threads: Some(1), ..Run::default() };
            if let Ok(statistics) = step(moment.trainer.round(), &shard(), &mut memberships, &run) {
                moment.trainer.clone().absorb(statistics).unwrap();
            }
        }
    }

    #[test]
    fn damaged_statistics_are_refused_or_harmless(at: prop::sample::Index, damage in damage()) {
        let moment = &moments()[at.index(moments().len())];
        let mut bytes = moment.statistics.to_bytes();
        damage.apply(&mut bytes);
        if let Some(statistics) = refused(Statistics::<f32>::from_bytes(&bytes)) {
            if let Ok(sum) = moment.statistics.clone().merge(statistics.clone()) {
                moment.trainer.clone().absorb(sum).unwrap();
            }
            let _ = moment.trainer.clone().absorb(statistics);
        }
    }

    #[test]
    fn damaged_summaries_are_refused_or_harmless(damage in damage()) {
        let run = Run { threads: Some(1), ..Run::default() };
        let params = Dgmm::params(7);
        let sampling = params.plan(ROWS, 2).unwrap().sampling();
        let mut bytes = Summary::of(&shard(), &sampling, &run).unwrap().to_bytes();
        damage.apply(&mut bytes);
        if let Some(summary) = refused(Summary::<f32>::from_bytes(&bytes)) {
            let _ = params.trainer_from(&summary, None, &run);
        }
    }

    #[test]
    fn random_bytes_are_refused(kind in prop::sample::select(b"RKSY".to_vec()), bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let width = if kind == b'K' { 0 } else { 4 };
        let named = [b"dgmm".as_slice(), &[1, kind, width], &bytes].concat();
        for bytes in [&bytes, &named] {
            prop_assert!(refused(Round::<f32>::from_bytes(bytes)).is_none());
            prop_assert!(refused(Statistics::<f32>::from_bytes(bytes)).is_none());
            prop_assert!(refused(Summary::<f32>::from_bytes(bytes)).is_none());
            let _ = refused(Memberships::from_bytes(bytes));
        }
    }
}

#[test]
fn bytes_of_another_kind_or_type_are_refused() {
    let moment = &moments()[0];
    let (round, statistics) = (moment.trainer.round().to_bytes(), moment.statistics.to_bytes());
    let words = |error: Error| error.to_string();
    let said = words(Statistics::<f32>::from_bytes(&round).unwrap_err());
    assert!(said.ends_with("they hold something else"), "{said}");
    let said = words(Round::<f64>::from_bytes(&round).unwrap_err());
    assert!(said.ends_with("their numbers have 4 bytes, not 8"), "{said}");
    assert!(refused(Memberships::from_bytes(&statistics)).is_none());
    for length in 0..round.len() {
        assert!(refused(Round::<f32>::from_bytes(&round[..length])).is_none(), "{length}");
    }
}

#[test]
fn the_largest_number_anywhere_in_a_trainer_is_refused_or_harmless() {
    for moment in moments() {
        let bytes = moment.trainer.to_bytes();
        for at in 0..bytes.len() - 8 {
            let mut damaged = bytes.clone();
            damaged[at..at + 8].fill(0xff);
            if let Some(mut trainer) = refused(Trainer::<f32>::from_bytes(&damaged)) {
                let _ = trainer.absorb(moment.statistics.clone());
            }
        }
    }
}
