//! The EM loop.

use crate::error::Result;
use crate::kernel::Real;
use crate::observer::{Event, Observer};
use crate::step::{Memberships, Merger, Progress, Scratch, Shard, Trainer, step_in};

/// Settings of the loop.
pub(super) struct Loop<'a> {
    /// The run, counted from 0.
    pub run: usize,
    /// Number of iterations after which the loop ends, including earlier ones ...
    pub max_iter: usize,
    /// ... out of this many in total.
    pub of: usize,
    /// Whether a last E-step assigns the rows to the final centers.
    pub labels: bool,
    pub observer: &'a dyn Observer,
}

/// Runs until the trainer has finished: a step over each shard, in order, then absorb the merged statistics.
pub(super) fn expectation_maximization<T: Real>(
    trainer: &mut Trainer<T>,
    shards: &[Shard<'_, T>],
    memberships: &mut [Memberships],
    em: &Loop<'_>,
) -> Result<()> {
    let mut scratch = Scratch::default();
    while !trainer.is_finished() && (em.labels || !trainer.is_trained()) {
        let mut merger = Merger::default();
        for (shard, memberships) in shards.iter().zip(&mut *memberships) {
            merger.add(step_in(trainer.round(), shard, memberships, &mut scratch, em.observer)?)?;
        }
        let merged = merger.finish()?.expect("there is a shard");
        let Progress::Iterated { iteration, lower_bound, change, variance, seconds, .. } = trainer.absorb(merged)?
        else {
            continue;
        };
        let event =
            Event::Iteration { run: em.run, iteration, max_iter: em.of, lower_bound, change, variance, seconds };
        if em.observer.event(&event).is_break() {
            trainer.stop();
        } else if iteration >= em.max_iter {
            trainer.end();
        }
    }
    Ok(())
}
