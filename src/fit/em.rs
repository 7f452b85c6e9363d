//! The EM loop.

use crate::error::Result;
use crate::kernel::Real;
use crate::observer::{Event, Observer};
use crate::step::{Memberships, Merger, Progress, Scratch, Shard, Trainer, step_in};

/// How to run it.
pub(super) struct Loop<'a> {
    /// Which of several runs.
    pub run: usize,
    /// Iterations after which it ends, those before it included ...
    pub max_iter: usize,
    /// ... of this many in all.
    pub of: usize,
    /// Whether rows look once more at the final centers.
    pub last_look: bool,
    pub observer: &'a dyn Observer,
}

/// Runs until the trainer has finished: a step over each shard, in their order, and what follows from their sum.
pub(super) fn expectation_maximization<T: Real>(
    trainer: &mut Trainer<T>,
    shards: &[Shard<'_, T>],
    memberships: &mut [Memberships],
    em: &Loop<'_>,
) -> Result<()> {
    let mut scratch = Scratch::default();
    while !trainer.is_finished() && (em.last_look || !trainer.is_trained()) {
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
