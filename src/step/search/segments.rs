//! Segments of the rows with sums of their own, for searches that sum their rows in one pass: [`lloyd`](super::lloyd)
//! and [`soft`](super::soft).
//!
//! The cuts depend only on the sizes of the problem. The rows of a segment are added to its sums in order, and segments
//! merge in order, so the sums do not depend on the number of threads.

use crate::error::Result;
use crate::kernel::{CenterSums, Real};
use crate::memory::resize;
use crate::step::statistics::Statistics;
use rayon::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Number of entries of the sums merged at a time.
const MERGE: usize = 1 << 13;

/// The sums of each segment and the threads' workers, kept from step to step.
#[derive(Debug)]
pub(crate) struct Segments<S, W> {
    pub(super) segments: Vec<S>,
    /// One per thread, so that no thread ever waits for a lock.
    workers: Vec<Mutex<W>>,
}

impl<S, W> Default for Segments<S, W> {
    fn default() -> Self {
        Self { segments: Vec::new(), workers: Vec::new() }
    }
}

impl<S: Default + Send, W: Default + Send> Segments<S, W> {
    /// Calls `work` for each segment of `size` rows, with a worker, the index of its first row, and its part of
    /// `labels` and `nearest`, which have one entry per row (OUT). Must run inside a pool.
    pub fn run<T: Real>(
        &mut self,
        size: usize,
        labels: &mut [u32],
        nearest: &mut [T],
        work: impl Fn(&mut S, &mut W, usize, &mut [u32], &mut [T]) -> Result<()> + Sync,
    ) -> Result<&[S]> {
        let Self { segments, workers } = self;
        segments.resize_with(nearest.len().div_ceil(size), S::default);
        if workers.len() < rayon::current_num_threads() {
            workers.resize_with(rayon::current_num_threads(), Mutex::default);
        }
        (&mut *segments, labels.par_chunks_mut(size), nearest.par_chunks_mut(size))
            .into_par_iter()
            .enumerate()
            .try_for_each(|(i, (segment, labels, nearest))| {
                let mine = rayon::current_thread_index().unwrap_or(0) % workers.len();
                let worker = &mut *workers[mine].lock().unwrap_or_else(PoisonError::into_inner);
                work(segment, worker, i * size, labels, nearest)
            })?;
        Ok(segments)
    }
}

/// Sets the sums of `clusters` centers of `width` columns to zero.
pub(crate) fn clear(sums: &mut CenterSums, clusters: usize, width: usize) -> Result<()> {
    for (sums, len) in [(&mut sums.sums, clusters * width), (&mut sums.mass, clusters)] {
        sums.clear();
        resize(sums, len, 0.0, "sums")?;
    }
    Ok(())
}

/// Adds the sums of all segments, in their order, to the statistics of a step.
pub(crate) fn merge<T: Real>(statistics: &mut Statistics<T>, segments: &[&CenterSums]) {
    statistics.sums.par_chunks_mut(MERGE).enumerate().for_each(|(i, sums)| {
        for segment in segments {
            let part = &segment.sums[i * MERGE..][..sums.len()];
            sums.iter_mut().zip(part).for_each(|(a, b)| *a += b);
        }
    });
    for segment in segments {
        statistics.mass.iter_mut().zip(&segment.mass).for_each(|(a, b)| *a += b);
    }
}
