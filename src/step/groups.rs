//! Rows grouped by cluster: the rows with the same nearest cluster form a group. Groups are cut into segments, which
//! are combined into tasks, depending only on the sizes of the groups. Each task leaves partial sums per target
//! cluster, and each target adds them in task order: the same bits for any number of threads.

use super::by_cluster::ByCluster;
use super::statistics::Statistics;
use crate::error::Result;
use crate::kernel::{Buffer, Part, Real, prefetch};
use crate::memory::{copied, filled, par_collected, reserve};
use crate::model::Model;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// Minimum number of tasks, so that all threads have work.
const TASKS: usize = 64;
/// Number of partial sums prefetched ahead during a merge.
const AHEAD: usize = 6;
/// Maximum number of tasks whose partial sums wait to be merged.
pub(crate) const WAVE: usize = 64;

/// The clusters in an order that puts neighbors next to each other, and the position of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sequence {
    pub clusters: Vec<u32>,
    pub ranks: Vec<u32>,
}

impl Sequence {
    /// From all clusters in order.
    pub fn of(clusters: Vec<u32>) -> Result<Self> {
        let mut ranks = filled(0, clusters.len(), "an order of the clusters")?;
        clusters.iter().zip(0..).for_each(|(&c, rank)| ranks[c as usize] = rank);
        Ok(Self { clusters, ranks })
    }

    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        let what = "an order of the clusters";
        Ok(Self { clusters: copied(&self.clusters, what)?, ranks: copied(&self.ranks, what)? })
    }
}

/// Some rows of a group, as a range of the order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// The cluster that leads the group; the index of the cell in the first E-step.
    pub leader: u32,
    pub start: usize,
    pub end: usize,
}

/// Cuts a group into segments of at most `size` rows.
pub(crate) fn cut(group: Range<usize>, size: usize, leader: u32, segments: &mut Vec<Segment>) -> Result<()> {
    reserve(segments, group.len().div_ceil(size), "rows by cluster")?;
    for start in group.clone().step_by(size) {
        segments.push(Segment { leader, start, end: (start + size).min(group.end) });
    }
    Ok(())
}

/// Combines the segments of all `rows` into tasks of at least `task_rows`, if that leaves enough tasks.
pub(crate) fn together(segments: Vec<Segment>, rows: usize, task_rows: usize) -> Vec<Vec<Segment>> {
    let enough = (rows / TASKS).clamp(1, task_rows);
    let (mut tasks, mut task, mut held) = (Vec::new(), Vec::new(), 0);
    for segment in segments {
        held += segment.end - segment.start;
        task.push(segment);
        if held >= enough {
            tasks.push(std::mem::take(&mut task));
            held = 0;
        }
    }
    tasks.push(task);
    tasks
}

/// The rows sorted by one member of their sets of `h`, in the order of clusters given by `ranks`: by the nearest
/// member, the second nearest, and so on. Rows with the same member keep their order.
pub(crate) fn by_member(members: &[u32], h: usize, nearness: usize, ranks: &[u32]) -> Result<ByCluster> {
    let keys = par_collected(members.par_chunks_exact(h).map(|set| ranks[set[nearness] as usize]), "rows by cluster")?;
    ByCluster::new(&keys, ranks.len(), |_| true)
}

/// What the segments of a task leave: scalars, and sums per target cluster, relative to its center.
#[derive(Debug)]
pub(crate) struct Partial<T> {
    pub targets: Vec<u32>,
    pub mass: Vec<f64>,
    pub sums: Buffer<T>,
    /// Squared distance to the nearest member for each row, in order.
    pub nearest: Vec<T>,
    pub weighted_distance: f64,
    pub log_sum: f64,
    pub inertia: f64,
    /// sum w q of the offsets contained in `weighted_distance`.
    pub offsets: f64,
    pub evaluations: u64,
}

impl<T: Real> Default for Partial<T> {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            mass: Vec::new(),
            sums: Buffer::default(),
            nearest: Vec::new(),
            weighted_distance: 0.0,
            log_sum: 0.0,
            inertia: 0.0,
            offsets: 0.0,
            evaluations: 0,
        }
    }
}

impl<T: Real> Partial<T> {
    /// Adds parts of rows to the sums of their targets, with `extra` second moments.
    pub fn add(&mut self, rows: &[T], centers: &[T], dim: usize, extra: usize, parts: &[Part<T>]) -> Result<()> {
        let held = self.sums.len();
        self.sums.try_resize(self.targets.len() * (dim + extra))?;
        self.sums[held..].fill(T::ZERO);
        match extra {
            0 => T::add_parts(&mut self.sums, rows, centers, dim, parts),
            _ => T::add_moments(&mut self.sums, dim + extra, rows, centers, dim, parts),
        }
        Ok(())
    }

    /// Resets it, keeping the allocated memory.
    pub fn clear(&mut self) {
        let Self { mut targets, mut mass, mut sums, mut nearest, .. } = std::mem::take(self);
        targets.clear();
        mass.clear();
        sums.resize(0);
        nearest.clear();
        *self = Self { targets, mass, sums, nearest, ..Self::default() };
    }

    /// Position of the sum of cluster `j`, appended if it has none. `targets` (IN OUT) has 1 + the position for each
    /// cluster that has one, 0 for the others.
    #[inline]
    pub fn place(&mut self, j: u32, targets: &mut [u32]) -> u32 {
        let place = &mut targets[j as usize];
        if *place == 0 {
            self.targets.push(j);
            self.mass.push(0.0);
            *place = self.targets.len() as u32;
        }
        *place - 1
    }
}

/// A pool of reusable objects: workers with their buffers, and merged partial sums.
#[derive(Debug)]
pub(crate) struct Pool<W>(Mutex<Vec<W>>);

impl<W> Default for Pool<W> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<W> Pool<W> {
    /// A pooled object, or a new one.
    pub fn take(&self, new: impl FnOnce() -> Result<W>) -> Result<W> {
        let waiting = self.0.lock().expect("nobody panics with the list in hand").pop();
        waiting.map_or_else(new, Ok)
    }

    /// Returns an object to the pool.
    pub fn put(&self, one: W) {
        self.0.lock().expect("nobody panics with the list in hand").push(one);
    }
}

/// Adds the partial sums to the statistics: scalars in order, each target's sums in task order.
pub(crate) fn merge<T: Real>(statistics: &mut Statistics<T>, partials: &[Partial<T>]) {
    for p in partials {
        statistics.weighted_distance += p.weighted_distance - p.offsets;
        statistics.log_sum += p.log_sum;
        statistics.inertia += p.inertia;
        statistics.evaluations += p.evaluations;
    }
    let width = statistics.width();
    let share = statistics.mass.len().div_ceil(8 * rayon::current_num_threads());
    let parts = statistics.sums.par_chunks_mut(share * width).zip(statistics.mass.par_chunks_mut(share)).enumerate();
    parts.for_each(|(i, (sums, mass))| {
        let mine = (i * share) as u32..(i * share + mass.len()) as u32;
        let mut own = Vec::new();
        for p in partials {
            let part = |k: usize| &p.sums[k * width..(k + 1) * width];
            own.clear();
            own.extend((0..p.targets.len()).filter(|&k| mine.contains(&p.targets[k])));
            for (i, &k) in own.iter().enumerate() {
                if let Some(&ahead) = own.get(i + AHEAD) {
                    prefetch(part(ahead));
                }
                let j = (p.targets[k] - mine.start) as usize;
                mass[j] += p.mass[k];
                T::add_scaled(&mut sums[j * width..(j + 1) * width], 1.0, part(k));
            }
        }
    });
}

/// Converts sums relative to each cluster's center to sums relative to the model's origin.
pub(crate) fn count_from_origin<T: Real>(statistics: &mut Statistics<T>, model: &Model<T>) {
    let (dim, width) = (statistics.dim, statistics.width());
    let sums = statistics.sums.par_chunks_mut(width).zip(&statistics.mass).zip(model.local_centers().par_chunks(dim));
    sums.with_min_len(256).for_each(|((sum, &mass), center)| T::add_scaled(&mut sum[..dim], mass, center));
}

/// Numbers that many threads write, each at its own positions: relaxed stores are plain moves, without unsafe code.
pub(crate) fn shared(numbers: Vec<u32>) -> Vec<AtomicU32> {
    numbers.into_iter().map(AtomicU32::new).collect()
}

/// Back to plain numbers.
pub(crate) fn unshared(numbers: Vec<AtomicU32>) -> Vec<u32> {
    numbers.into_iter().map(AtomicU32::into_inner).collect()
}

#[inline]
pub(crate) fn load(numbers: &[AtomicU32], place: usize) -> u32 {
    numbers[place].load(Ordering::Relaxed)
}
