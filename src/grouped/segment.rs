//! The E-step of one segment: some rows of one group, against the group's candidates.

use super::candidates::NeighbourRows;
use super::load;
use crate::em::expectation::Task;
use crate::kernel::{Centres, RowBlock, block_rows, prefetch};
use crate::model::Model;
use crate::real::Real;
use crate::rng::{Stage, stream};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of rows that go through the steps of an E-step together, so that they stay in the first-level cache.
const BLOCK_BYTES: usize = 32 << 10;

/// Rows that go through the steps together.
fn rows_at_once<T: Real>(dim: usize) -> usize {
    (BLOCK_BYTES / (dim * size_of::<T>())).next_multiple_of(32).min(block_rows::<T>(dim))
}

/// What all segments of an E-step share.
pub(super) struct Frame<'a, T: Real> {
    pub task: &'a Task<'a, T>,
    pub model: &'a Model<T>,
    pub rows: &'a NeighbourRows,
    pub truncation: usize,
    pub candidates: usize,
    pub iteration: u64,
    /// Whether a point belongs to its nearest cluster alone.
    pub hard: bool,
    pub learn: bool,
    pub members: &'a [AtomicU32],
    pub nearest: &'a [AtomicU32],
}

/// Some rows of the group of a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub cluster: u32,
    pub rows: &'a [u32],
}

/// What a segment leaves: scalars, and sums a target cluster relative to `offset`.
#[derive(Debug)]
pub(super) struct Partial<T> {
    pub targets: Vec<u32>,
    pub mass: Vec<f64>,
    pub sums: Vec<T>,
    /// Where the sums are counted from, in the model's coordinates.
    pub offset: Vec<T>,
    pub weighted_distance: f64,
    pub log_sum: f64,
    pub inertia: f64,
    pub evaluations: u64,
}

/// Buffers that a worker keeps from segment to segment.
#[derive(Debug)]
pub(super) struct Scratch<T> {
    /// 1 + slot of each cluster in the list, 0 for those that are not in it.
    slots: Vec<u32>,
    list: Vec<u32>,
    /// The list's centres, counted from the frame's point.
    centres: Vec<T>,
    point: Vec<T>,
    /// One more centre, counted from there.
    one: Vec<T>,
    block: RowBlock<T>,
    ids: Vec<u32>,
    distances: Vec<T>,
    posterior: Vec<T>,
    sums: Vec<T>,
    mass: Vec<f64>,
}

impl<T: Real> Scratch<T> {
    pub fn new(clusters: usize) -> Self {
        Self {
            slots: vec![0; clusters],
            list: Vec::new(),
            centres: Vec::new(),
            point: Vec::new(),
            one: Vec::new(),
            block: RowBlock::default(),
            ids: Vec::new(),
            distances: Vec::new(),
            posterior: Vec::new(),
            sums: Vec::new(),
            mass: Vec::new(),
        }
    }

    /// Puts the frame's point at the centre of cluster `c`, as near as `T` can say it in the data's coordinates, and the
    /// list's centres around it. Returns the point in the model's coordinates.
    fn place_centres(&mut self, model: &Model<T>, c: u32) -> Vec<T> {
        let (dim, all) = (model.dim(), model.local_centres());
        let own = &all[c as usize * dim..(c as usize + 1) * dim];
        let offset: Vec<T> = match model.origin() {
            None => own.to_vec(),
            Some(origin) => own.iter().zip(origin).map(|(&m, &o)| (m + o) - o).collect(),
        };
        self.point.clear();
        match model.origin() {
            None => self.point.extend_from_slice(own),
            Some(origin) => self.point.extend(offset.iter().zip(origin).map(|(&m, &o)| m + o)),
        }
        self.centres.clear();
        for &j in &self.list {
            let centre = &all[j as usize * dim..(j as usize + 1) * dim];
            self.centres.extend(centre.iter().zip(&offset).map(|(&m, &o)| m - o));
        }
        offset
    }

    /// The slot of cluster `j` among the sums; a new one if it has none.
    fn slot(&mut self, j: u32, dim: usize) -> usize {
        if self.slots[j as usize] == 0 {
            self.list.push(j);
            self.slots[j as usize] = self.list.len() as u32;
            self.sums.resize(self.list.len() * dim, T::ZERO);
            self.mass.resize(self.list.len(), 0.0);
        }
        self.slots[j as usize] as usize - 1
    }
}

impl Segment<'_> {
    /// Searches, takes posteriors and adds up, for each row of the segment.
    pub fn expectation<T: Real>(&self, frame: &Frame<'_, T>, scratch: &mut Scratch<T>) -> Partial<T> {
        let (data, dim, h) = (frame.task.data, frame.model.dim(), frame.truncation);
        let mut rng = stream(frame.task.seed, Stage::Proposals, frame.iteration, u64::from(self.cluster));
        frame.rows.propose(self.cluster, frame.candidates, h, &mut rng, &mut scratch.list, &mut scratch.slots);
        let listed = scratch.list.len();
        let offset = scratch.place_centres(frame.model, self.cluster);
        scratch.sums.clear();
        scratch.sums.resize(listed * dim, T::ZERO);
        scratch.mass.clear();
        scratch.mass.resize(listed, 0.0);
        let mut partial = Partial {
            targets: Vec::new(),
            mass: Vec::new(),
            sums: Vec::new(),
            offset,
            weighted_distance: 0.0,
            log_sum: 0.0,
            inertia: 0.0,
            evaluations: (self.rows.len() * listed) as u64,
        };
        let centres = std::mem::take(&mut scratch.centres);
        let packed = Centres::new(&centres, dim);
        for rows in self.rows.chunks(rows_at_once::<T>(dim)) {
            for &n in rows {
                prefetch(&frame.members[n as usize * h..(n as usize + 1) * h]);
            }
            scratch.block.load_gathered(data.values(), dim, rows, Some(&scratch.point));
            scratch.ids.resize(rows.len() * h, 0);
            scratch.distances.resize(rows.len() * h, T::ZERO);
            scratch.block.nearest(&packed, h, &mut scratch.ids, &mut scratch.distances);
            for (r, &n) in rows.iter().enumerate() {
                let set = r * h..(r + 1) * h;
                // From places in the list to clusters.
                scratch.ids[set.clone()].iter_mut().for_each(|id| *id = scratch.list[*id as usize]);
                partial.evaluations += keep_old(frame, scratch, &partial.offset, listed, r, n as usize);
            }
            sum_up(frame, scratch, rows, &mut partial);
        }
        drop(packed);
        scratch.centres = centres;
        partial.take_sums(scratch, dim, frame.learn);
        partial
    }
}

/// Measures the members of row `r`'s old set that were not listed and keeps those that are near. Returns how many.
fn keep_old<T: Real>(
    frame: &Frame<'_, T>,
    scratch: &mut Scratch<T>,
    offset: &[T],
    listed: usize,
    r: usize,
    n: usize,
) -> u64 {
    let (h, dim) = (frame.truncation, frame.model.dim());
    let mut measured = 0;
    for k in 0..h {
        let j = load(frame.members, n * h + k);
        let slot = scratch.slots[j as usize] as usize;
        if slot != 0 && slot <= listed {
            continue;
        }
        measured += 1;
        let centre = &frame.model.local_centres()[j as usize * dim..(j as usize + 1) * dim];
        scratch.one.clear();
        scratch.one.extend(centre.iter().zip(offset).map(|(&m, &o)| m - o));
        let d = T::squared_distance(scratch.block.row(r), &scratch.one);
        let (ids, distances) = (&mut scratch.ids[r * h..(r + 1) * h], &mut scratch.distances[r * h..(r + 1) * h]);
        let mut place = h;
        while place > 0 && d < distances[place - 1] {
            place -= 1;
        }
        if place < h {
            ids[place..].rotate_right(1);
            distances[place..].rotate_right(1);
            (ids[place], distances[place]) = (j, d);
        }
    }
    measured
}

/// Posteriors of a block, then its sums.
fn sum_up<T: Real>(frame: &Frame<'_, T>, scratch: &mut Scratch<T>, rows: &[u32], partial: &mut Partial<T>) {
    let (data, dim, h) = (frame.task.data, frame.model.dim(), frame.truncation);
    let scale = -0.5 / frame.model.variance();
    let narrow = T::from_f64(scale);
    let mut posterior = std::mem::take(&mut scratch.posterior);
    posterior.clear();
    if frame.hard {
        posterior.resize(rows.len() * h, T::ONE);
    } else {
        for d in scratch.distances.chunks_exact(h) {
            posterior.extend(d.iter().map(|&x| (x - d[0]) * narrow));
        }
        T::exp_neg(&mut posterior);
    }
    for (r, &n) in rows.iter().enumerate() {
        let n = n as usize;
        let (q, d) = (&posterior[r * h..(r + 1) * h], &scratch.distances[r * h..(r + 1) * h]);
        let ids = &scratch.ids[r * h..(r + 1) * h];
        ids.iter().zip(&frame.members[n * h..(n + 1) * h]).for_each(|(&j, m)| m.store(j, Ordering::Relaxed));
        // Members come nearest first: the negligible ones are the last.
        let kept = if frame.hard { 1 } else { q.iter().position(|&x| x < T::NEGLIGIBLE).unwrap_or(h) };
        let (mut total, mut spread) = (T::ZERO, T::ZERO);
        for (&q, &d) in q[..kept].iter().zip(d) {
            total += q;
            spread += q * (d - scratch.distances[r * h]);
        }
        let (w, near, total) = (data.weight(n), d[0].to_f64(), total.to_f64());
        partial.log_sum += w * (near * scale + if kept == 1 { 0.0 } else { total.ln() });
        partial.inertia += w * near;
        partial.weighted_distance += w * (near + spread.to_f64() / total);
        frame.nearest[n].store((near as f32).to_bits(), Ordering::Relaxed);
        if frame.learn {
            let share = w / total;
            for k in 0..kept {
                let slot = scratch.slot(scratch.ids[r * h + k], dim);
                let wq = share * posterior[r * h + k].to_f64();
                scratch.mass[slot] += wq;
                let sum = &mut scratch.sums[slot * dim..(slot + 1) * dim];
                T::axpy(sum, T::from_f64(wq), scratch.block.row(r));
            }
        }
    }
    scratch.posterior = posterior;
}

impl<T: Real> Partial<T> {
    /// Moves the sums of the clusters that have mass out of the scratch, which is left ready for the next segment.
    fn take_sums(&mut self, scratch: &mut Scratch<T>, dim: usize, learn: bool) {
        for (slot, &j) in scratch.list.iter().enumerate() {
            scratch.slots[j as usize] = 0;
            if learn && scratch.mass[slot] > 0.0 {
                self.targets.push(j);
                self.mass.push(scratch.mass[slot]);
                self.sums.extend_from_slice(&scratch.sums[slot * dim..(slot + 1) * dim]);
            }
        }
    }
}
