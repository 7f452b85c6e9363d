//! A few iterations of k-means on a sample, for the coarse levels of the seeding.

use super::seed_afkmc2;
use crate::data::Dataset;
use crate::error::Result;
use crate::kernel::Real;
use crate::model::Model;
use crate::observer::Observer;
use crate::options::Stop;
use crate::step::{Memberships, Scratch, Search, Shard, Start, Trainer, Training, step_in};

/// Step length: centers move beyond the mean by this factor, which saves iterations.
const STEP_LENGTH: f64 = 1.6;

/// How much work k-means does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KMeansStart {
    /// Chain length of AFK-MC2.
    pub chain_length: usize,
    /// Iterations after the seeding.
    pub iterations: usize,
}

/// k-means on a sample, relative to `origin`, started by AFK-MC2. Also returns the number of distance evaluations.
pub(crate) fn k_means<T: Real>(
    sample: &Dataset<'_, T>,
    clusters: usize,
    origin: Option<&[T]>,
    start: KMeansStart,
    seed: u64,
    observer: &dyn Observer,
) -> Result<(Model<T>, u64)> {
    let moments = sample.moments(observer)?;
    let seeds = seed_afkmc2(sample, &moments, clusters, start.chain_length, seed, observer)?;
    let variance = moments.variance().max(f64::MIN_POSITIVE);
    let training = Training {
        search: Search::Exhaustive { truncation: 1 },
        hard: true,
        hard_iterations: 0,
        step_length: STEP_LENGTH,
        stop: Stop::PerDim,
        // Run all iterations.
        tol: f64::NEG_INFINITY,
        max_iter: usize::MAX,
        refine: 0,
        relocate: false,
        variance_floor: f64::MIN_POSITIVE,
        shape: None,
    };
    let model = Model::from_origin(seeds.centers.view(), origin.map(<[T]>::to_vec), variance)?;
    let start_from = Start { model, cells: None, sequence: Vec::new(), evaluations: seeds.evaluations };
    let mut trainer = Trainer::new(training, start_from, sample.rows() as u64, sample.total_weight(), seed)?;
    let (shard, mut memberships, mut scratch) = (Shard::whole(sample), Memberships::new(), Scratch::default());
    while trainer.report().iterations.len() < start.iterations && !trainer.is_finished() {
        trainer.absorb(step_in(trainer.round(), &shard, &mut memberships, &mut scratch, observer)?)?;
    }
    let (model, report) = trainer.into_parts();
    Ok((model, report.evaluations.seeding + report.evaluations.em))
}
