//! Random numbers: xoshiro256++ (Blackman and Vigna, 2021), with streams derived from their purpose.
//!
//! No generator is shared between threads, and none is hidden: every use opens [`stream`]`(seed, stage, iteration,
//! block)`, so the draws of a row depend on its position in the data and never on the thread. The algorithm and the
//! derivation are frozen: a seed keeps its meaning from version to version (tests hold the values).

use rand_core::{Rng as _, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The purpose of a random stream. The numbers are part of the value-stability promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Stage {
    /// Drawing a coreset.
    Coreset = 1,
    /// Choosing the initial centers.
    Seeding = 2,
    /// Drawing the initial truncated sets K(n).
    Start = 3,
    /// Drawing proposals in an E-step.
    Proposals = 4,
    /// Deriving the seeds of restarts.
    Restart = 5,
    /// Drawing new rows from a model.
    Sample = 6,
    /// Choosing coarse cells of the two-level seeding.
    Cells = 7,
    /// Deriving the seeds of shards.
    Shard = 8,
    /// Keys of rows for priority samples.
    Keys = 9,
    /// Choosing the parts of clusters that are split.
    Balance = 10,
    /// Directions along which clusters may be split.
    Refine = 11,
}

/// A generator of random numbers. See the [module](self).
#[derive(Debug, Clone)]
pub struct Rng(Xoshiro256PlusPlus);

/// SplitMix64's finalizer (Steele, Lea and Flood, 2014).
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The generator for one purpose: equal arguments give equal numbers, different arguments independent ones.
pub fn stream(seed: u64, stage: Stage, iteration: u64, block: u64) -> Rng {
    let mut state = mix(seed.wrapping_add(GOLDEN));
    for word in [stage as u64, iteration, block] {
        state = mix(state.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ mix(word.wrapping_add(GOLDEN)));
    }
    Rng(Xoshiro256PlusPlus::seed_from_u64(state))
}

/// One random number per row, independent of the order of requests.
#[derive(Debug, Clone, Copy)]
pub struct Keys(u64);

impl Keys {
    /// The numbers for `seed`.
    pub fn new(seed: u64) -> Self {
        Self(stream(seed, Stage::Keys, 0, 0).bits())
    }

    /// The number of `row`, uniform in (0, 1).
    #[inline]
    pub fn unit(self, row: u64) -> f64 {
        let bits = mix(self.0 ^ mix(row.wrapping_add(GOLDEN)));
        ((bits >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
    }
}

impl Rng {
    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in 0..n, by multiplication (bias below n / 2^64). `n` must not be 0.
    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        ((self.bits() as u128 * n as u128) >> 64) as usize
    }

    #[cfg(test)]
    /// Standard normal, by the polar method of Marsaglia and Bray (1964).
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                return u * (-2.0 * s.ln() / s).sqrt();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_in_every_argument() {
        let first = |seed, stage, it, block| stream(seed, stage, it, block).bits();
        let all = [
            first(0, Stage::Seeding, 0, 0),
            first(1, Stage::Seeding, 0, 0),
            first(0, Stage::Start, 0, 0),
            first(0, Stage::Seeding, 1, 0),
            first(0, Stage::Seeding, 0, 1),
        ];
        for i in 0..all.len() {
            for j in 0..i {
                assert_ne!(all[i], all[j]);
            }
        }
    }

    #[test]
    fn below_and_unit_stay_in_range_and_are_uniform() {
        let mut rng = stream(3, Stage::Sample, 0, 0);
        let mut counts = [0usize; 7];
        for _ in 0..70_000 {
            counts[rng.below(7)] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        let chi2: f64 = counts.iter().map(|&c| (c as f64 - 1e4).powi(2) / 1e4).sum();
        assert!(chi2 < 22.5, "chi-square {chi2} with 6 degrees of freedom");
    }

    /// The values were confirmed by an independent implementation of the generator and the derivation.
    #[test]
    fn a_seed_keeps_its_meaning() {
        let stages = [
            Stage::Coreset,
            Stage::Seeding,
            Stage::Start,
            Stage::Proposals,
            Stage::Restart,
            Stage::Sample,
            Stage::Cells,
        ];
        let bits = stages.map(|stage| stream(42, stage, 3, 5).bits());
        assert_eq!(
            bits,
            [
                0xe5d2_7620_7f88_0d2a,
                0xafab_7fd1_cfbc_e6ee,
                0xc54f_4447_caa7_e7ce,
                0xeec2_0025_25d9_2b3f,
                0x07c7_23b0_eabd_4e72,
                0xe531_5546_f601_1e1e,
                0xf7e0_6fa5_c1c6_dcb6
            ]
        );
        let mut rng = stream(0, Stage::Sample, 0, 0);
        assert_eq!(
            [rng.bits(), rng.bits(), rng.bits()],
            [0xd637_3951_fe3d_835b, 0xa04a_e253_0cca_59f1, 0x5ac3_14bd_3840_5bb3]
        );
        let mut rng = stream(u64::MAX, Stage::Sample, 0, 0);
        assert_eq!([7, 1000, 1 << 40].map(|n| rng.below(n)), [4, 635, 737692434199]);
        assert_eq!([rng.unit(), rng.unit()], [0.5048522619590451, 0.924335707766617]);
        approx::assert_relative_eq!(rng.normal(), 0.7878310220230381, max_relative = 1e-14);
    }
}
