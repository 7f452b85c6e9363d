//! The E-step of one segment: some rows of one group, against the group's candidates.

use super::candidates::{NeighbourRows, Seen};
use super::load;
use crate::em::expectation::Task;
use crate::kernel::{Centres, Move, Room, RowBlock, Share, block_rows, prefetch};
use crate::model::Model;
use crate::real::Real;
use crate::rng::{Stage, stream};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of rows that go through the steps of an E-step together, so that they stay near.
const BLOCK_BYTES: usize = 32 << 10;
/// A cluster is worth a place in the list of a group if one in so many rows holds it: to measure it for all rows then costs
/// less than for those alone.
const FEW_ROWS: f32 = 256.0;
/// Rows ahead for which a set is asked.
const SETS_AHEAD: usize = 16;

/// Rows that go through the steps together.
fn rows_at_once<T: Real>(dim: usize) -> usize {
    (BLOCK_BYTES / (dim * size_of::<T>())).next_multiple_of(32).min(block_rows::<T>(dim))
}

/// What all segments of an E-step share.
pub(super) struct Frame<'a, T: Real> {
    pub task: &'a Task<'a, T>,
    pub model: &'a Model<T>,
    pub rows: &'a NeighbourRows,
    /// The candidates of each group in a first look, where no point has a set yet.
    pub looks: Option<&'a [Vec<u32>]>,
    /// The rows of the data, group after group.
    pub order: &'a [u32],
    pub truncation: usize,
    pub candidates: usize,
    pub iteration: u64,
    /// Whether a point belongs to its nearest cluster alone.
    pub hard: bool,
    pub learn: bool,
    /// K(n), N x H.
    pub members: &'a [AtomicU32],
    /// One over the mean weight: S does not change with the unit of the weights.
    pub unit: f64,
}

/// Some rows of a group, by their places in the order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    /// The cluster that leads the group; in a first look the number of the cell.
    pub leader: u32,
    pub start: usize,
    pub end: usize,
}

/// What the segments of a task leave: scalars, the rows of S they saw, and sums a target cluster, counted from its centre.
#[derive(Debug)]
pub(super) struct Partial<T> {
    pub targets: Vec<u32>,
    pub mass: Vec<f64>,
    pub sums: Vec<T>,
    pub seen: Seen,
    /// Squared distance to the nearest member, for each row in order.
    pub nearest: Vec<T>,
    pub weighted_distance: f64,
    pub log_sum: f64,
    pub inertia: f64,
    pub evaluations: u64,
}

impl<T> Default for Partial<T> {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            mass: Vec::new(),
            sums: Vec::new(),
            seen: Seen::default(),
            nearest: Vec::new(),
            weighted_distance: 0.0,
            log_sum: 0.0,
            inertia: 0.0,
            evaluations: 0,
        }
    }
}

/// One worker and its buffers.
#[derive(Debug)]
pub(super) struct Worker<T> {
    /// 1 + place of each cluster in the list, 0 for those that are not in it.
    places: Vec<u32>,
    /// 1 + place of each cluster among the task's targets, else 0.
    targets: Vec<u32>,
    /// The clusters of the group: its candidates, then old members that were none of them.
    list: Vec<u32>,
    /// The centres of the candidates, and of the others, counted from the group's point.
    candidates: Vec<T>,
    others: Vec<T>,
    /// The first centre of the list, in the model's coordinates and in the data's.
    offset: Vec<T>,
    point: Vec<T>,
    block: RowBlock<T>,
    room: Room<T>,
    /// For each row of a block its H nearest, as places in the list, and their distances and posteriors.
    ids: Vec<u32>,
    distances: Vec<T>,
    posterior: Vec<T>,
    /// For each of the list: the weight of the rows that held it, sum w q (y - point), and sum w q.
    counts: Vec<f32>,
    sums: Vec<T>,
    mass: Vec<f64>,
    shares: Vec<Share<T>>,
    moves: Vec<Move<T>>,
}

impl<T: Real> Worker<T> {
    pub fn new(clusters: usize) -> Self {
        Self {
            places: vec![0; clusters],
            targets: vec![0; clusters],
            list: Vec::new(),
            candidates: Vec::new(),
            others: Vec::new(),
            offset: Vec::new(),
            point: Vec::new(),
            block: RowBlock::default(),
            room: Room::default(),
            ids: Vec::new(),
            distances: Vec::new(),
            posterior: Vec::new(),
            sums: Vec::new(),
            mass: Vec::new(),
            counts: Vec::new(),
            shares: Vec::new(),
            moves: Vec::new(),
        }
    }

    /// The E-step of a task: its segments one after the other.
    pub fn expectation(&mut self, frame: &Frame<'_, T>, segments: &[Segment]) -> Partial<T> {
        let mut partial = Partial::default();
        for segment in segments {
            self.segment(frame, segment, &mut partial);
        }
        partial.targets.iter().for_each(|&j| self.targets[j as usize] = 0);
        partial
    }

    /// Searches, takes posteriors and adds up, for each row of the segment.
    fn segment(&mut self, frame: &Frame<'_, T>, segment: &Segment, partial: &mut Partial<T>) {
        let (data, dim, h) = (frame.task.data, frame.model.dim(), frame.truncation);
        let all_listed = match frame.looks {
            Some(looks) => self.list_all(&looks[segment.leader as usize]),
            None => self.list_candidates(frame, segment, &mut partial.seen),
        };
        let listed = self.list.len();
        self.place_centres(frame.model);
        let candidates = std::mem::take(&mut self.candidates);
        let centres = Centres::new(&candidates, dim);
        partial.evaluations += ((segment.end - segment.start) * listed) as u64;
        let size = rows_at_once::<T>(dim);
        for start in (segment.start..segment.end).step_by(size) {
            let count = size.min(segment.end - start);
            let rows = &frame.order[start..start + count];
            self.block.load_first(data.values(), dim, &frame.order[start..], count, Some(&self.point));
            self.ids.resize(count * h, 0);
            self.distances.resize(count * h, T::ZERO);
            self.block.nearest_in(&mut self.room, &centres, h, &mut self.ids, &mut self.distances);
            if !all_listed {
                for (r, &n) in rows.iter().enumerate() {
                    partial.evaluations += self.keep_old(frame, listed, r, n as usize);
                }
            }
            if frame.hard {
                self.hard_sums(frame, rows, partial);
            } else {
                self.soft_sums(frame, rows, partial);
            }
            if frame.learn {
                T::add_rows(&mut self.sums, self.block.as_rows(), dim, &self.shares);
            }
        }
        self.candidates = candidates;
        if frame.learn {
            self.move_sums(listed, dim, partial);
        }
        self.list.iter().for_each(|&j| self.places[j as usize] = 0);
    }

    /// Lists given candidates.
    fn list_all(&mut self, look: &[u32]) -> bool {
        self.list.clear();
        self.list.extend_from_slice(look);
        look.iter().zip(1..).for_each(|(&j, place)| self.places[j as usize] = place);
        true
    }

    /// Lists the members of the rows' sets, and candidates that nobody holds. Says whether all members are listed.
    fn list_candidates(&mut self, frame: &Frame<'_, T>, segment: &Segment, seen: &mut Seen) -> bool {
        let all_listed = self.list_members(frame, segment, seen);
        let (c, h) = (segment.leader, frame.truncation);
        let mut rng = stream(frame.task.seed, Stage::Proposals, frame.iteration, u64::from(c));
        frame.rows.propose(c, frame.candidates, h, &mut rng, &mut self.list, &mut self.places);
        all_listed
    }

    /// Begins the list: the leader, and the members of the rows' sets, which count as seen together with it. Of a large
    /// group only those that many rows hold: to measure the others row by row is cheaper. Says whether all are listed.
    fn list_members(&mut self, frame: &Frame<'_, T>, segment: &Segment, seen: &mut Seen) -> bool {
        let h = frame.truncation;
        self.list.clear();
        self.list.push(segment.leader);
        self.places[segment.leader as usize] = 1;
        self.counts.clear();
        self.counts.push(0.0);
        for place in segment.start..segment.end {
            if let Some(&n) = frame.order.get(place + SETS_AHEAD) {
                prefetch(&frame.members[n as usize * h..(n as usize + 1) * h]);
            }
            let n = frame.order[place] as usize;
            let w = (frame.task.data.weight(n) * frame.unit) as f32;
            for member in &frame.members[n * h..(n + 1) * h] {
                let j = member.load(Ordering::Relaxed);
                let place = &mut self.places[j as usize];
                if *place == 0 {
                    self.list.push(j);
                    self.counts.push(0.0);
                    *place = self.list.len() as u32;
                }
                self.counts[*place as usize - 1] += w;
            }
        }
        if frame.learn {
            seen.push(segment.leader, &self.list, &self.counts);
        }
        let few = (segment.end - segment.start) as f32 / FEW_ROWS;
        if few <= 1.0 {
            return true;
        }
        let (list, counts, places) = (&mut self.list, &self.counts, &mut self.places);
        let mut kept = 1;
        for i in 1..list.len() {
            let j = list[i];
            if counts[i] >= few {
                list[kept] = j;
                kept += 1;
                places[j as usize] = kept as u32;
            } else {
                places[j as usize] = 0;
            }
        }
        let all = kept == list.len();
        list.truncate(kept);
        all
    }

    /// Puts the group's point at the first centre of the list, as near as `T` can say it in the data's coordinates, the
    /// list's centres around it, and makes room for their sums.
    fn place_centres(&mut self, model: &Model<T>) {
        let (dim, all, c) = (model.dim(), model.local_centres(), self.list[0]);
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
        self.candidates.resize(listed * dim, T::ZERO);
        T::gather_less(all, dim, &self.list, &self.offset, &mut self.candidates);
        self.others.clear();
        self.sums.clear();
        self.sums.resize(listed * dim, T::ZERO);
        self.mass.clear();
        self.mass.resize(listed, 0.0);
    }

    /// Measures the members of row `r`'s old set that were not listed and keeps those that are near. Returns how many.
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
                let centre = &self.others[place * dim..(place + 1) * dim];
                let d = T::squared_distance(self.block.row(r), centre);
                self.keep(r * h..(r + 1) * h, (place + listed) as u32, d);
            }
        }
        measured
    }

    /// The place of cluster `j`, which is no candidate, in the list; a new one if it has none.
    fn place_of(&mut self, model: &Model<T>, j: u32) -> usize {
        if self.places[j as usize] == 0 {
            let dim = model.dim();
            let centre = &model.local_centres()[j as usize * dim..(j as usize + 1) * dim];
            self.others.extend(centre.iter().zip(&self.offset).map(|(&m, &o)| m - o));
            self.list.push(j);
            self.places[j as usize] = self.list.len() as u32;
            self.sums.resize(self.list.len() * dim, T::ZERO);
            self.mass.push(0.0);
        }
        self.places[j as usize] as usize - 1
    }

    /// Puts the one at `place` of the list, at distance `d`, into a sorted set if it is near enough.
    fn keep(&mut self, set: Range<usize>, place: u32, d: T) {
        let (ids, distances) = (&mut self.ids[set.clone()], &mut self.distances[set]);
        let rank = distances.iter().rposition(|&x| x <= d).map_or(0, |k| k + 1);
        if rank < ids.len() {
            ids[rank..].rotate_right(1);
            distances[rank..].rotate_right(1);
            (ids[rank], distances[rank]) = (place, d);
        }
    }

    /// Writes down the new set of row `n`.
    #[inline]
    fn store(&self, frame: &Frame<'_, T>, r: usize, n: usize) {
        let h = frame.truncation;
        for (&place, member) in self.ids[r * h..(r + 1) * h].iter().zip(&frame.members[n * h..(n + 1) * h]) {
            member.store(self.list[place as usize], Ordering::Relaxed);
        }
    }

    /// Shares of a block's rows, each in its nearest cluster alone.
    fn hard_sums(&mut self, frame: &Frame<'_, T>, rows: &[u32], partial: &mut Partial<T>) {
        let (data, h) = (frame.task.data, frame.truncation);
        self.shares.clear();
        let mut inertia = 0.0;
        for (r, &n) in rows.iter().enumerate() {
            let w = data.weight(n as usize);
            self.store(frame, r, n as usize);
            let (place, near) = (self.ids[r * h], self.distances[r * h]);
            partial.nearest.push(near);
            inertia += w * near.to_f64();
            self.mass[place as usize] += w;
            self.shares.push(Share { row: r as u32, place, weight: T::from_f64(w) });
        }
        partial.inertia += inertia;
        partial.weighted_distance += inertia;
        partial.log_sum += inertia * -0.5 / frame.model.variance();
    }

    /// Shares of a block's rows by their posterior. What is negligible counts as 0 everywhere.
    fn soft_sums(&mut self, frame: &Frame<'_, T>, rows: &[u32], partial: &mut Partial<T>) {
        let (data, h) = (frame.task.data, frame.truncation);
        let scale = -0.5 / frame.model.variance();
        let narrow = T::from_f64(scale);
        self.posterior.clear();
        for d in self.distances.chunks_exact(h) {
            self.posterior.extend(d.iter().map(|&x| (x - d[0]) * narrow));
        }
        T::exp_neg(&mut self.posterior);
        self.shares.clear();
        for (r, &n) in rows.iter().enumerate() {
            let w = data.weight(n as usize);
            self.store(frame, r, n as usize);
            let set = r * h..(r + 1) * h;
            let (q, d) = (&self.posterior[set.clone()], &self.distances[set.clone()]);
            // Members come nearest first: the negligible ones are the last.
            let kept = q.iter().position(|&x| x < T::NEGLIGIBLE).unwrap_or(h);
            let (mut total, mut spread) = (T::ZERO, T::ZERO);
            for (&q, &x) in q[..kept].iter().zip(d) {
                total += q;
                spread += q * (x - d[0]);
            }
            let (near, total) = (d[0].to_f64(), total.to_f64());
            partial.nearest.push(d[0]);
            partial.log_sum += w * (near * scale + if kept == 1 { 0.0 } else { total.ln() });
            partial.inertia += w * near;
            partial.weighted_distance += w * (near + spread.to_f64() / total);
            let share = w / total;
            for (&place, q) in self.ids[set].iter().zip(&q[..kept]) {
                let wq = share * q.to_f64();
                self.mass[place as usize] += wq;
                self.shares.push(Share { row: r as u32, place, weight: T::from_f64(wq) });
            }
        }
    }

    /// Adds the sums of the clusters that have mass to the task's, counted from each cluster's own centre.
    fn move_sums(&mut self, listed: usize, dim: usize, partial: &mut Partial<T>) {
        self.moves.clear();
        for (place, (&j, &mass)) in self.list.iter().zip(&self.mass).enumerate() {
            if mass > 0.0 {
                let target = &mut self.targets[j as usize];
                if *target == 0 {
                    partial.targets.push(j);
                    partial.mass.push(0.0);
                    *target = partial.targets.len() as u32;
                }
                partial.mass[*target as usize - 1] += mass;
                self.moves.push(Move { from: place as u32, to: *target - 1, mass: T::from_f64(mass) });
            }
        }
        partial.sums.resize(partial.targets.len() * dim, T::ZERO);
        let split = self.moves.partition_point(|m| (m.from as usize) < listed);
        let (of_candidates, of_others) = self.moves.split_at_mut(split);
        of_others.iter_mut().for_each(|m| m.from -= listed as u32);
        let (sums, sums_of_others) = self.sums.split_at(listed * dim);
        T::settle(&mut partial.sums, sums, &self.candidates, dim, of_candidates);
        T::settle(&mut partial.sums, sums_of_others, &self.others, dim, of_others);
    }
}
