//! Threads that do not affect results: fixed blocks, reductions in block order, and thread pools.
//!
//! A block's bounds depend only on the sizes of the problem, never on the number of threads, and results are merged in
//! block order.
//!
//! A call inside a rayon pool that does not specify a number of threads works in that pool. Any other call takes an
//! idle pool of the requested size, or builds one, and leaves it to the next call. A nested call, such as one from a
//! callback, gets a different pool. A forked process has none of its parent's threads: it forgets their pools and
//! builds its own.

use crate::error::{Error, Result};
use crate::memory::address_space_left;
use crate::observer::{Observer, Silent};
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::thread;

/// Maximum number of threads of a pool: starting more takes longer than most work.
const MOST_THREADS: usize = 1024;
/// Stack size of a thread in bytes: the default of the standard library, regardless of the environment.
const STACK: usize = 2 << 20;
/// Bytes that must be available for each new thread besides its stack. A thread that cannot allocate its own data
/// aborts the process, and one without room for its own heap takes a page for each small allocation.
const THREAD_ROOM: usize = 1 << 20;
/// Maximum number of idle pools that are kept.
const MOST_IDLE: usize = 4;

/// How a call is run, which never affects its result: the number of threads, and the observer that may stop it.
///
/// ```
/// use dgmm::{Dataset, Model, Run};
/// let model = Model::new(ndarray::array![[0.0f32], [4.0]].view(), 1.0)?;
/// let run = Run { threads: Some(2), ..Run::default() };
/// assert_eq!(model.predict(&Dataset::from_slice(&[1.0, 3.0], 1)?, &run)?, [0, 1]);
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Number of threads. `None`: those of the current rayon pool; outside of any pool, as many as the CPU affinity and
    /// container quota of the process allow.
    pub threads: Option<usize>,
    /// Asked whether to cancel.
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
    /// Runs `work` in a pool with the requested number of threads. Functions of this crate without a [`Run`] argument,
    /// such as the merging of statistics, work in the pool in which they are called; outside of any pool, in rayon's
    /// global one, which a forked process does not have.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
        with_threads(self.threads, work)?
    }
}

/// The default number of threads, from the CPU affinity and container quota of the process.
pub fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Runs `work` in the pool that `threads` specifies, which all functions of this module called inside it use.
pub fn with_threads<R: Send>(threads: Option<usize>, work: impl FnOnce() -> R + Send) -> Result<R> {
    static IDLE: Pools = Pools::new();
    if let Some(n) = threads.filter(|n| !(1..=MOST_THREADS).contains(n)) {
        return Err(Error::bad("threads", n, format!("from 1 to {MOST_THREADS}")));
    }
    match threads {
        None if rayon::current_thread_index().is_some() => Ok(work()),
        None => IDLE.install(default_threads(), work),
        Some(threads) => IDLE.install(threads, work),
    }
}

/// Idle pools of one process, the most recently used last. The lock is never waited for: a fork may have copied it
/// while it was held.
struct Pools(Mutex<Idle>);

struct Idle {
    /// The process that owns the pools.
    process: u32,
    pools: Vec<ThreadPool>,
}

impl Idle {
    /// Forgets the pools of a parent process: their threads do not exist in this one, and dropping a pool would wait
    /// for them.
    fn belong_to_this_process(&mut self) {
        let process = std::process::id();
        if self.process != process {
            self.process = process;
            std::mem::take(&mut self.pools).into_iter().for_each(std::mem::forget);
        }
    }
}

impl Pools {
    const fn new() -> Self {
        Self(Mutex::new(Idle { process: 0, pools: Vec::new() }))
    }

    /// Runs `work` in a pool of `threads` threads that no other call uses at the same time.
    fn install<R: Send>(&self, threads: usize, work: impl FnOnce() -> R + Send) -> Result<R> {
        let pool = match self.take(threads) {
            Some(pool) => pool,
            None => build(threads)?,
        };
        let result = pool.install(work);
        self.give_back(pool);
        Ok(result)
    }

    fn take(&self, threads: usize) -> Option<ThreadPool> {
        let mut idle = self.0.try_lock().ok()?;
        idle.belong_to_this_process();
        let last = idle.pools.iter().rposition(|pool| pool.current_num_threads() == threads)?;
        Some(idle.pools.remove(last))
    }

    /// Keeps a pool for the next call of its size, in place of the least recently used one. Calls that alternate
    /// between different numbers of threads thus start no threads, each of which would leave some memory to the
    /// allocator.
    fn give_back(&self, pool: ThreadPool) {
        let Ok(mut idle) = self.0.try_lock() else { return };
        idle.belong_to_this_process();
        idle.pools.push(pool);
        if idle.pools.len() > MOST_IDLE {
            idle.pools.remove(0);
        }
    }
}

/// A builder of threads, after a check that there is memory for one.
pub fn thread_builder(name: &str) -> Result<thread::Builder> {
    check_room_for(1)?;
    Ok(thread::Builder::new().name(name.into()).stack_size(STACK))
}

fn check_room_for(threads: usize) -> Result<()> {
    let bytes = threads * (STACK + THREAD_ROOM);
    match address_space_left() {
        Some(left) if left < bytes => Err(Error::OutOfMemory { what: "threads", bytes }),
        _ => Ok(()),
    }
}

fn build(threads: usize) -> Result<ThreadPool> {
    check_room_for(threads)?;
    let builder = ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK);
    let builder = builder.thread_name(|i| format!("dgmm-{i}"));
    builder.build().map_err(|e| Error::ThreadPool { threads, reason: e.to_string() })
}

/// The bounds of block `i` of blocks of `size` over `n` items.
pub fn block(i: usize, size: usize, n: usize) -> Range<usize> {
    i * size..((i + 1) * size).min(n)
}

/// Maps each block of `size` of 0..n and returns the results in block order. Stops early if the observer cancels.
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

/// The sum, in block order, of `map` over each block of 0..n.
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
    use std::thread::ThreadId;

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

    /// The threads reached by a broadcast over the current pool.
    fn threads_of_the_pool() -> Vec<ThreadId> {
        rayon::broadcast(|_| std::thread::current().id())
    }

    #[test]
    fn without_a_number_of_threads_the_callers_pool_is_used() {
        let pool = ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let own = pool.install(threads_of_the_pool);
        assert_eq!(own.len(), 3);
        let run = |threads| pool.install(|| with_threads(threads, threads_of_the_pool)).unwrap();
        assert_eq!(run(None), own);
        let other = run(Some(2));
        assert!(other.len() == 2 && other.iter().all(|id| !own.contains(id)));
    }

    #[test]
    fn consecutive_calls_share_a_pool_and_nested_calls_do_not() {
        let pools = Pools::new();
        let first = pools.install(2, threads_of_the_pool).unwrap();
        assert_eq!(pools.install(2, threads_of_the_pool).unwrap(), first);
        let nested = pools.install(2, || (threads_of_the_pool(), pools.install(2, threads_of_the_pool).unwrap()));
        let (outer, inner) = nested.unwrap();
        assert!(outer == first && inner.len() == 2 && inner.iter().all(|id| !outer.contains(id)));
    }

    #[test]
    fn only_a_few_recently_used_idle_pools_are_kept() {
        fn nested(pools: &Pools, depth: usize) {
            pools
                .install(1, || {
                    if depth > 1 {
                        nested(pools, depth - 1)
                    }
                })
                .unwrap();
        }
        let pools = Pools::new();
        let idle = || pools.0.lock().unwrap().pools.iter().map(ThreadPool::current_num_threads).collect::<Vec<_>>();
        nested(&pools, 7);
        assert_eq!(idle(), [1; MOST_IDLE]);
        for threads in [2, 3, 2] {
            pools.install(threads, || ()).unwrap();
        }
        assert_eq!(idle(), [1, 1, 3, 2]);
        let of_two = pools.install(2, threads_of_the_pool).unwrap();
        pools.install(3, || ()).unwrap();
        assert_eq!(pools.install(2, threads_of_the_pool).unwrap(), of_two);
    }

    #[test]
    fn a_forked_process_forgets_the_pools_of_its_parent() {
        let pools = Pools::new();
        let before = pools.install(1, threads_of_the_pool).unwrap();
        pools.0.lock().unwrap().process ^= 1;
        assert_ne!(pools.install(1, threads_of_the_pool).unwrap(), before);
        // The lock may have been held when the process was forked.
        let _held = pools.0.lock().unwrap();
        assert_eq!(pools.install(2, || 6 * 7), Ok(42));
    }

    #[test]
    fn zero_threads_are_refused() {
        let run = Run { threads: Some(0), ..Run::default() };
        assert_eq!(run.install(|| Ok(1)).unwrap_err().to_string(), "threads is 0; it must be from 1 to 1024");
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
