//! Rows taken cluster by cluster: the points with one nearest cluster form a group, groups are cut into segments and these
//! put together to tasks, by the sizes of the groups alone. Each task leaves partial sums a target cluster, and each
//! target adds them in the order of the tasks: the same bits for any number of threads.

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

/// Tasks wanted, so that all threads have work.
const TASKS: usize = 64;
/// Partial sums ahead that are asked for while they are merged.
const AHEAD: usize = 6;
/// Tasks whose partial sums wait to be merged at most.
pub(crate) const WAVE: usize = 64;

/// The clusters in an order in which neighbors stand together, and the place of each.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sequence {
    pub clusters: Vec<u32>,
    pub ranks: Vec<u32>,
}

impl Sequence {
    /// Of all clusters in order.
    pub fn of(clusters: Vec<u32>) -> Result<Self> {
        let mut ranks = filled(0, clusters.len(), "an order of the clusters")?;
        clusters.iter().zip(0..).for_each(|(&c, rank)| ranks[c as usize] = rank);
        Ok(Self { clusters, ranks })
    }

    /// A copy, if there is room for it.
    pub fn copied(&self) -> Result<Self> {
        let what = "an order of the clusters";
        Ok(Self { clusters: copied(&self.clusters, what)?, ranks: copied(&self.ranks, what)? })
    }
}

/// Some rows of a group, by their places in the order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    /// The cluster that leads the group; in a first look the number of the cell.
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

/// Puts the segments of all `rows` together to tasks of at least `task_rows`, where that leaves enough tasks.
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

/// The rows by the place in an order of clusters (`ranks`) of a member of their sets of `h`: the nearest, the next nearest
/// and so on. Rows with the same stay in their order.
pub(crate) fn by_member(members: &[u32], h: usize, nearness: usize, ranks: &[u32]) -> Result<ByCluster> {
    let keys = par_collected(members.par_chunks_exact(h).map(|set| ranks[set[nearness] as usize]), "rows by cluster")?;
    ByCluster::new(&keys, ranks.len(), |_| true)
}

/// What the segments of a task leave: scalars, and sums a target cluster, counted from its center.
#[derive(Debug)]
pub(crate) struct Partial<T> {
    pub targets: Vec<u32>,
    pub mass: Vec<f64>,
    pub sums: Buffer<T>,
    /// Squared distance to the nearest member, for each row in order.
    pub nearest: Vec<T>,
    pub weighted_distance: f64,
    pub log_sum: f64,
    pub inertia: f64,
    /// sum w q of the offsets that are in `weighted_distance`.
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
    /// Adds parts of rows to the sums of their targets, with `extra` second moments where these are wanted.
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

    /// Makes it a new one that has room already.
    pub fn clear(&mut self) {
        let Self { mut targets, mut mass, mut sums, mut nearest, .. } = std::mem::take(self);
        targets.clear();
        mass.clear();
        sums.resize(0);
        nearest.clear();
        *self = Self { targets, mass, sums, nearest, ..Self::default() };
    }

    /// Where the sum of cluster `j` stands, a new place if it has none. `targets` (IN OUT) has 1 + the place of each
    /// cluster that has one, else 0.
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

/// What waits to be used again: workers with their buffers, partial sums that were merged.
#[derive(Debug)]
pub(crate) struct Pool<W>(Mutex<Vec<W>>);

impl<W> Default for Pool<W> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<W> Pool<W> {
    /// One that waits, or a new one.
    pub fn take(&self, new: impl FnOnce() -> Result<W>) -> Result<W> {
        let waiting = self.0.lock().expect("nobody panics with the list in hand").pop();
        waiting.map_or_else(new, Ok)
    }

    /// Gives it back.
    pub fn put(&self, one: W) {
        self.0.lock().expect("nobody panics with the list in hand").push(one);
    }
}

/// Adds the partial sums to the statistics: scalars in order, each target's sums in the order of the tasks.
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

/// From sums that are counted from each cluster's center to sums counted from the model's origin.
pub(crate) fn count_from_origin<T: Real>(statistics: &mut Statistics<T>, model: &Model<T>) {
    let (dim, width) = (statistics.dim, statistics.width());
    let sums = statistics.sums.par_chunks_mut(width).zip(&statistics.mass).zip(model.local_centers().par_chunks(dim));
    sums.with_min_len(256).for_each(|((sum, &mass), center)| T::add_scaled(&mut sum[..dim], mass, center));
}

/// Numbers that many threads write, each to places of its own: relaxed stores, plain moves without unsafe code.
pub(crate) fn shared(numbers: Vec<u32>) -> Vec<AtomicU32> {
    numbers.into_iter().map(AtomicU32::new).collect()
}

/// The numbers again.
pub(crate) fn unshared(numbers: Vec<AtomicU32>) -> Vec<u32> {
    numbers.into_iter().map(AtomicU32::into_inner).collect()
}

#[inline]
pub(crate) fn load(numbers: &[AtomicU32], place: usize) -> u32 {
    numbers[place].load(Ordering::Relaxed)
}
