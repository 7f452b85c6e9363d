//! Threads that do not change results: a pool of the caller's size, fixed blocks, reductions in block order.
//!
//! A block's bounds depend on the sizes of the problem only, never on the number of threads, and results are merged in
//! the order of the blocks. A fit, and each call of a model, makes a pool of its own, so forked processes are safe; what is
//! called outside of one, as [`map_blocks`] may be, works in rayon's global pool.

use crate::error::{Error, Result};
use crate::observer::{Observer, Silent};
use rayon::prelude::*;
use std::fmt;
use std::ops::Range;

/// Threads of a pool at most: to start more takes longer than most work.
const MOST_THREADS: usize = 1024;

/// How a call is carried out, which never changes what it returns: with how many threads, and who may stop it.
///
/// ```
/// use dgmm::parallel::Run;
/// let run = Run { threads: Some(2), ..Run::default() };
/// assert_eq!(run.install(|| Ok(6 * 7))?, 42);
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Number of threads; `None` for [`default_threads`].
    pub threads: Option<usize>,
    /// Is asked whether to give up.
    pub observer: &'a dyn Observer,
}

impl Default for Run<'_> {
    fn default() -> Self {
        Self { threads: None, observer: &Silent }
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Run<'_> {
    /// Runs `work` in a pool of the asked-for number of threads.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        with_threads(self.threads, work)?
    }
}

/// The number of threads to use where the caller names none: the process's CPU affinity and container quota decide.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Runs `work` with a pool of its own; everything in this module that it calls uses that pool.
pub fn with_threads<R: Send>(threads: Option<usize>, work: impl FnOnce() -> R + Send) -> Result<R> {
    if let Some(n) = threads.filter(|n| !(1..=MOST_THREADS).contains(n)) {
        let allowed = format!("from 1 to {MOST_THREADS}");
        return Err(Error::BadParameter { name: "n_threads", value: n.to_string(), allowed });
    }
    let threads = threads.unwrap_or_else(default_threads);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|i| format!("dgmm-{i}"))
        .build()
        .map_err(|e| Error::ThreadPool { threads, reason: e.to_string() })?;
    Ok(pool.install(work))
}

/// The bounds of block `i` of blocks of `size` over `n` items.
pub fn block(i: usize, size: usize, n: usize) -> Range<usize> {
    i * size..((i + 1) * size).min(n)
}

/// Maps each block of `size` of 0..n and returns the results in block order. Stops early if the observer asks to.
pub fn map_blocks<R: Send>(
    n: usize,
    size: usize,
    observer: &dyn Observer,
    map: impl Fn(usize, Range<usize>) -> R + Sync,
) -> Result<Vec<R>> {
    (0..n.div_ceil(size))
        .into_par_iter()
        .map(|i| {
            if observer.cancelled() {
                return Err(Error::Cancelled);
            }
            Ok(map(i, block(i, size, n)))
        })
        .collect()
}

/// Sums, in block order, what `map` makes of each block of 0..n.
pub fn sum_blocks(
    n: usize,
    size: usize,
    observer: &dyn Observer,
    map: impl Fn(usize, Range<usize>) -> f64 + Sync,
) -> Result<f64> {
    Ok(map_blocks(n, size, observer, map)?.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;

    #[test]
    fn sums_have_the_same_bits_for_every_number_of_threads() {
        let sum = |threads| {
            with_threads(Some(threads), || {
                sum_blocks(100_000, 1000, &Silent, |_, r| r.map(|i| (i as f64).sqrt()).sum()).unwrap()
            })
            .unwrap()
            .to_bits()
        };
        let one = sum(1);
        assert!([2, 3, 7].iter().all(|&t| sum(t) == one));
    }

    #[test]
    fn a_run_of_no_threads_is_refused() {
        let run = Run { threads: Some(0), ..Run::default() };
        assert_eq!(run.install(|| Ok(1)).unwrap_err().to_string(), "n_threads is 0; it must be from 1 to 1024");
        assert_eq!(Run::default().install(|| Ok(1)), Ok(1));
    }

    #[test]
    fn a_cancelled_observer_stops_the_blocks() {
        struct Stop;
        impl Observer for Stop {
            fn cancelled(&self) -> bool {
                true
            }
        }
        assert_eq!(map_blocks(10, 1, &Stop, |i, _| i), Err(Error::Cancelled));
    }
}
