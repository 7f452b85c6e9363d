//! The E-step of one segment: some rows of a group against the group's candidates.

use super::candidates::Seen;
use crate::error::Result;
use crate::kernel::{Buffer, Centers, Move, NearestScratch, Part, Real, RowBlock, Share, Table, block_rows};
use crate::memory::filled;
use crate::model::Model;
use crate::step::groups::{Partial, Segment, load};
use crate::step::search::{Task, keep_nearest};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of rows that go through all stages of an E-step together, so that they stay in cache.
const BLOCK_BYTES: usize = 32 << 10;

/// Number of rows that go through the stages together.
fn rows_at_once<T: Real>(dim: usize) -> usize {
    (BLOCK_BYTES / (dim * size_of::<T>())).max(1).next_multiple_of(32).min(block_rows::<T>(dim))
}

/// What all segments of an E-step share.
pub(super) struct Frame<'a, T: Real> {
    pub task: &'a Task<'a, T>,
    pub model: &'a Model<T>,
    /// The candidates of each group in the first E-step, where no row has a set yet.
    pub looks: Option<&'a [Vec<u32>]>,
    /// The rows of the data, group after group.
    pub order: &'a [u32],
    pub truncation: usize,
    pub candidates: usize,
    /// Whether a row belongs to its nearest cluster only.
    pub hard: bool,
    pub learn: bool,
    /// Whether every row is measured by differences and summed relative to the centers of its clusters.
    pub apart: bool,
    /// K(n), N x H.
    pub members: &'a [AtomicU32],
}

/// One worker's buffers.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    /// 1 + position of each cluster in the list; 0 if not listed.
    pub(super) places: Vec<u32>,
    /// 1 + position of each cluster among the task's targets; 0 if it is not one.
    pub(super) targets: Vec<u32>,
    /// The clusters of the group: its candidates, then old members that are not candidates.
    pub(super) list: Vec<u32>,
    /// The centers of the candidates and of the others, relative to the group's point. Candidates are lifted if rows
    /// are.
    pub(super) candidates: Buffer<T>,
    pub(super) others: Vec<T>,
    /// Added to the products of rows and candidates.
    pub(super) norms: Vec<T>,
    /// If rows are lifted: the candidates measured by differences, and the largest norm of the others.
    pub(super) narrow: Vec<u32>,
    pub(super) largest: T,
    /// A row relative to the model's origin.
    pub(super) local: Vec<T>,
    /// A set while it is measured again: positions in the list, clusters, distances.
    pub(super) set: (Vec<u32>, Vec<u32>, Vec<T>),
    /// The first center of the list, in the coordinates of the model and of the data.
    pub(super) offset: Vec<T>,
    pub(super) point: Vec<T>,
    pub(super) block: RowBlock<T>,
    pub(super) scratch: NearestScratch<T>,
    /// The H nearest of each row of a block, as positions in the list, with their distances and posteriors.
    pub(super) ids: Vec<u32>,
    pub(super) distances: Vec<T>,
    pub(super) posterior: Vec<T>,
    /// For each listed cluster: the weight of the rows that hold it, sum w q (y - point), and sum w q.
    pub(super) counts: Vec<f32>,
    pub(super) sums: Buffer<T>,
    pub(super) mass: Vec<f64>,
    pub(super) shares: Vec<Share<T>>,
    pub(super) moves: Vec<Move<T>>,
    /// Position of each row of a block among the rows that are summed relative to the centers of their clusters, if it
    /// is one of them; these rows, relative to the model's origin, and their parts.
    pub(super) delicate: Vec<Option<u32>>,
    pub(super) asides: Vec<T>,
    pub(super) parts: Vec<Part<T>>,
}

impl<T: Real> Worker<T> {
    pub fn new(clusters: usize) -> Result<Self> {
        Ok(Self {
            places: filled(0, clusters, "places of clusters")?,
            targets: filled(0, clusters, "places of clusters")?,
            list: Vec::new(),
            candidates: Buffer::default(),
            others: Vec::new(),
            norms: Vec::new(),
            narrow: Vec::new(),
            largest: T::ZERO,
            local: Vec::new(),
            set: (Vec::new(), Vec::new(), Vec::new()),
            offset: Vec::new(),
            point: Vec::new(),
            block: RowBlock::default(),
            scratch: NearestScratch::default(),
            ids: Vec::new(),
            distances: Vec::new(),
            posterior: Vec::new(),
            sums: Buffer::default(),
            mass: Vec::new(),
            counts: Vec::new(),
            shares: Vec::new(),
            moves: Vec::new(),
            delicate: Vec::new(),
            asides: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// The E-step of a task, segment by segment.
    pub(super) fn expectation(&mut self, frame: &Frame<'_, T>, segments: &[Segment]) -> Result<(Partial<T>, Seen)> {
        let (mut partial, mut seen) = (Partial::default(), Seen::default());
        for segment in segments {
            self.segment(frame, segment, &mut partial, &mut seen)?;
        }
        partial.targets.iter().for_each(|&j| self.targets[j as usize] = 0);
        Ok((partial, seen))
    }

    /// Search, posteriors and sums for each row of the segment.
    fn segment(
        &mut self,
        frame: &Frame<'_, T>,
        segment: &Segment,
        partial: &mut Partial<T>,
        seen: &mut Seen,
    ) -> Result<()> {
        let (dim, h) = (frame.model.dim(), frame.truncation);
        let all_listed = match frame.looks {
            Some(looks) => self.list_all(&looks[segment.leader as usize]),
            None => self.list_candidates(frame, segment, seen),
        };
        let listed = self.list.len();
        self.place_centers(frame);
        self.set_narrow_apart(frame);
        let (candidates, norms) = (std::mem::take(&mut self.candidates), std::mem::take(&mut self.norms));
        let centers = Centers::of(&candidates, candidates.len() / listed, norms);
        partial.evaluations += ((segment.end - segment.start) * listed) as u64;
        let size = rows_at_once::<T>(dim);
        for start in (segment.start..segment.end).step_by(size) {
            let count = size.min(segment.end - start);
            let rows = &frame.order[start..start + count];
            self.load(frame, start, count);
            self.put_all_aside(frame, rows);
            self.ids.resize(count * h, 0);
            self.distances.resize(count * h, T::ZERO);
            self.block.nearest_in(&mut self.scratch, &centers, h, &mut self.ids, &mut self.distances);
            self.look_again(frame, listed, rows);
            if !all_listed {
                for (r, &n) in rows.iter().enumerate() {
                    partial.evaluations += self.keep_old(frame, listed, r, n as usize);
                }
            }
            self.measure_delicate(frame, rows);
            if frame.hard {
                self.hard_sums(frame, rows, partial);
            } else {
                self.soft_sums(frame, rows, partial);
            }
            if frame.learn {
                T::add_rows(&mut self.sums, self.block.as_rows(), dim, &self.shares);
                let (centers, extra) = (frame.model.local_centers(), frame.task.round.extra());
                partial.add(&self.asides, centers, dim, extra, &self.parts)?;
            }
        }
        self.norms = centers.norms;
        self.candidates = candidates;
        if frame.learn && !frame.apart {
            self.move_sums(listed, dim, partial);
        }
        self.list.iter().for_each(|&j| self.places[j as usize] = 0);
        Ok(())
    }

    /// Loads `count` rows of the order into the kernel's layout, relative to the group's point.
    fn load(&mut self, frame: &Frame<'_, T>, start: usize, count: usize) {
        let (table, lift) = (frame.task.data.table(), frame.task.scores.lift());
        let extra = lift.map_or(0, |lift| lift.columns(frame.model.dim()));
        self.block.load_first(table, &frame.order[start..], count, Some(&self.point), extra);
    }

    /// Sets the group's point to the first center of the list, as closely as `T` can represent it in the data's
    /// coordinates, computes the listed centers relative to it, and makes room for their sums.
    pub(super) fn place_centers(&mut self, frame: &Frame<'_, T>) {
        let (model, scores) = (frame.model, frame.task.scores);
        let (dim, all, c) = (model.dim(), model.local_centers(), self.list[0]);
        let own = &all[c as usize * dim..(c as usize + 1) * dim];
        self.offset.clear();
        self.point.clear();
        match model.origin() {
            None => {
                self.offset.extend_from_slice(own);
                self.point.extend_from_slice(own);
            }
            Some(origin) => {
                self.point.extend(own.iter().zip(origin).map(|(&m, &o)| m + o));
                self.offset.extend(self.point.iter().zip(origin).map(|(&p, &o)| p - o));
            }
        }
        let listed = self.list.len();
        self.others.clear();
        self.mass.clear();
        self.mass.resize(listed, 0.0);
        self.sums.resize(0);
        if scores.lift().is_some() {
            let (ids, out) = (self.list.iter().copied(), (&mut self.candidates, &mut self.norms));
            return scores.lift_centers(scores.lift(), all, dim, ids, Some(&self.offset), out);
        }
        self.sums.resize_with_zeros(listed * dim);
        self.candidates.resize(listed * dim);
        T::gather(Table::plain(all, dim), &self.list, Some(&self.offset), &mut self.candidates);
        self.norms.resize(listed, T::ZERO);
        Centers::squared_norms(&self.candidates, dim, &mut self.norms);
        if scores.has_offsets() {
            self.norms.iter_mut().zip(&self.list).for_each(|(norm, &j)| *norm += scores.offset(j));
        }
    }

    /// Measures the members of row `r`'s old set that are not listed and keeps the near ones. Returns how many were
    /// measured.
    #[inline]
    fn keep_old(&mut self, frame: &Frame<'_, T>, listed: usize, r: usize, n: usize) -> u64 {
        let (h, dim) = (frame.truncation, frame.model.dim());
        let mut measured = 0;
        for k in 0..h {
            let j = load(frame.members, n * h + k);
            let place = self.places[j as usize] as usize;
            if place == 0 || place > listed {
                measured += 1;
                let place = self.place_of(frame.model, j) - listed;
                let near = frame.task.scores.lift().is_none().then(|| {
                    let center = &self.others[place * dim..(place + 1) * dim];
                    T::squared_distance(self.block.row(r), center) + frame.task.scores.offset(j)
                });
                let d = near.filter(|&d| !self.block.has_lost_digits(r, d)).unwrap_or_else(|| {
                    let (mut d, mut local) = ([T::ZERO], std::mem::take(&mut self.local));
                    let row = frame.task.data.local(n, frame.model.origin(), &mut local);
                    frame.task.scores.measure(row, frame.model.local_centers(), &[j], &mut d);
                    self.local = local;
                    d[0]
                });
                self.keep(r * h..(r + 1) * h, (place + listed) as u32, d);
            }
        }
        measured
    }

    /// Sets all rows of a block aside if all are summed relative to the centers of their clusters.
    fn put_all_aside(&mut self, frame: &Frame<'_, T>, rows: &[u32]) {
        self.asides.clear();
        if frame.apart {
            self.asides.resize(rows.len() * frame.model.dim(), T::ZERO);
            T::gather(frame.task.data.table(), rows, frame.model.origin(), &mut self.asides);
        }
    }

    /// Sets row `n` aside.
    fn put_aside(&mut self, frame: &Frame<'_, T>, n: usize) {
        let row = frame.task.data.local(n, frame.model.origin(), &mut self.local);
        self.asides.extend_from_slice(row);
    }

    /// Measures the new sets again if products may have lost their digits, and records which rows are set aside.
    fn measure_delicate(&mut self, frame: &Frame<'_, T>, rows: &[u32]) {
        let (dim, h) = (frame.model.dim(), frame.truncation);
        let lifted = frame.task.scores.lift().map(|_| self.rounds_scores());
        self.delicate.clear();
        self.parts.clear();
        for (r, &n) in rows.iter().enumerate() {
            let delicate = lifted.unwrap_or_else(|| self.block.is_delicate(r, self.distances[r * h]));
            if delicate && !frame.apart {
                self.put_aside(frame, n as usize);
            }
            let aside = if frame.apart { r } else { (self.asides.len() / dim).saturating_sub(1) };
            if delicate {
                self.measure_set(frame, r, aside);
            }
            self.delicate.push((frame.learn && (delicate || frame.apart)).then_some(aside as u32));
        }
    }

    /// Measures the new set of row `r`, number `aside` of the rows set aside, again by differences and sorts it.
    fn measure_set(&mut self, frame: &Frame<'_, T>, r: usize, aside: usize) {
        let (set, model) = (r * frame.truncation..(r + 1) * frame.truncation, frame.model);
        let row = &self.asides[aside * model.dim()..][..model.dim()];
        let (places, clusters, distances) = &mut self.set;
        places.clear();
        clusters.clear();
        places.extend_from_slice(&self.ids[set.clone()]);
        clusters.extend(places.iter().map(|&place| self.list[place as usize]));
        distances.resize(places.len(), T::ZERO);
        frame.task.scores.measure(row, model.local_centers(), clusters, distances);
        keep_nearest(places, distances, &mut self.ids[set.clone()], &mut self.distances[set]);
    }

    /// Position of cluster `j`, which is not a candidate, in the list; appends it if necessary.
    fn place_of(&mut self, model: &Model<T>, j: u32) -> usize {
        if self.places[j as usize] == 0 {
            let dim = model.dim();
            let center = &model.local_centers()[j as usize * dim..(j as usize + 1) * dim];
            self.others.extend(center.iter().zip(&self.offset).map(|(&m, &o)| m - o));
            self.list.push(j);
            self.places[j as usize] = self.list.len() as u32;
            self.sums.resize_with_zeros(self.list.len() * dim);
            self.mass.push(0.0);
        }
        self.places[j as usize] as usize - 1
    }

    /// Inserts the cluster at position `place` of the list, at distance `d`, into a sorted set if it is near enough.
    pub(super) fn keep(&mut self, set: Range<usize>, place: u32, d: T) {
        let (ids, distances) = (&mut self.ids[set.clone()], &mut self.distances[set]);
        let rank = distances.iter().rposition(|&x| x <= d).map_or(0, |k| k + 1);
        if rank < ids.len() {
            ids[rank..].rotate_right(1);
            distances[rank..].rotate_right(1);
            (ids[rank], distances[rank]) = (place, d);
        }
    }

    /// Stores the new set of row `n`.
    #[inline]
    pub(super) fn store(&self, frame: &Frame<'_, T>, r: usize, n: usize) {
        let h = frame.truncation;
        for (&place, member) in self.ids[r * h..(r + 1) * h].iter().zip(&frame.members[n * h..(n + 1) * h]) {
            member.store(self.list[place as usize], Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
