//! The E-step of one segment: some rows of one group, against the group's candidates.

use super::candidates::Seen;
use crate::kernel::{Buffer, Centers, Move, NearestScratch, Part, Real, RowBlock, Share, block_rows};
use crate::model::Model;
use crate::step::groups::{Partial, Segment, load};
use crate::step::search::{Task, keep_nearest};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of rows that go through the steps of an E-step together, so that they stay near.
const BLOCK_BYTES: usize = 32 << 10;

/// Rows that go through the steps together.
fn rows_at_once<T: Real>(dim: usize) -> usize {
    (BLOCK_BYTES / (dim * size_of::<T>())).max(1).next_multiple_of(32).min(block_rows::<T>(dim))
}

/// What all segments of an E-step share.
pub(super) struct Frame<'a, T: Real> {
    pub task: &'a Task<'a, T>,
    pub model: &'a Model<T>,
    /// The candidates of each group in a first look, where no point has a set yet.
    pub looks: Option<&'a [Vec<u32>]>,
    /// The rows of the data, group after group.
    pub order: &'a [u32],
    pub truncation: usize,
    pub candidates: usize,
    /// Whether a point belongs to its nearest cluster alone.
    pub hard: bool,
    pub learn: bool,
    /// K(n), N x H.
    pub members: &'a [AtomicU32],
}

/// One worker and its buffers.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    /// 1 + place of each cluster in the list, 0 for those that are not in it.
    pub(super) places: Vec<u32>,
    /// 1 + place of each cluster among the task's targets, else 0.
    pub(super) targets: Vec<u32>,
    /// The clusters of the group: its candidates, then old members that were none of them.
    pub(super) list: Vec<u32>,
    /// The centers of the candidates, and of the others, counted from the group's point.
    pub(super) candidates: Buffer<T>,
    pub(super) others: Vec<T>,
    /// The first center of the list, in the model's coordinates and in the data's.
    pub(super) offset: Vec<T>,
    pub(super) point: Vec<T>,
    pub(super) block: RowBlock<T>,
    pub(super) scratch: NearestScratch<T>,
    /// For each row of a block its H nearest, as places in the list, and their distances and posteriors.
    pub(super) ids: Vec<u32>,
    pub(super) distances: Vec<T>,
    pub(super) posterior: Vec<T>,
    /// For each of the list: the weight of the rows that held it, sum w q (y - point), and sum w q.
    pub(super) counts: Vec<f32>,
    pub(super) sums: Buffer<T>,
    pub(super) mass: Vec<f64>,
    pub(super) shares: Vec<Share<T>>,
    pub(super) moves: Vec<Move<T>>,
    /// Where each row of a block stands among those whose sums would lose digits around the group's point, if it is one of
    /// them; these rows, counted from the model's origin, and their parts, which are counted from each cluster's own center.
    pub(super) delicate: Vec<Option<u32>>,
    pub(super) asides: Vec<T>,
    pub(super) parts: Vec<Part<T>>,
}

impl<T: Real> Worker<T> {
    pub fn new(clusters: usize) -> Self {
        Self {
            places: vec![0; clusters],
            targets: vec![0; clusters],
            list: Vec::new(),
            candidates: Buffer::default(),
            others: Vec::new(),
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
        }
    }

    /// The E-step of a task: its segments one after the other.
    pub(super) fn expectation(&mut self, frame: &Frame<'_, T>, segments: &[Segment]) -> (Partial<T>, Seen) {
        let (mut partial, mut seen) = (Partial::default(), Seen::default());
        for segment in segments {
            self.segment(frame, segment, &mut partial, &mut seen);
        }
        partial.targets.iter().for_each(|&j| self.targets[j as usize] = 0);
        (partial, seen)
    }

    /// Searches, takes posteriors and adds up, for each row of the segment.
    fn segment(&mut self, frame: &Frame<'_, T>, segment: &Segment, partial: &mut Partial<T>, seen: &mut Seen) {
        let (data, dim, h) = (frame.task.data, frame.model.dim(), frame.truncation);
        let all_listed = match frame.looks {
            Some(looks) => self.list_all(&looks[segment.leader as usize]),
            None => self.list_candidates(frame, segment, seen),
        };
        let listed = self.list.len();
        self.place_centers(frame.model);
        let candidates = std::mem::take(&mut self.candidates);
        let centers = Centers::new(&candidates, dim);
        partial.evaluations += ((segment.end - segment.start) * listed) as u64;
        let size = rows_at_once::<T>(dim);
        for start in (segment.start..segment.end).step_by(size) {
            let count = size.min(segment.end - start);
            let rows = &frame.order[start..start + count];
            self.block.load_first(data.values(), dim, &frame.order[start..], count, Some(&self.point));
            self.ids.resize(count * h, 0);
            self.distances.resize(count * h, T::ZERO);
            self.block.nearest_in(&mut self.scratch, &centers, h, &mut self.ids, &mut self.distances);
            if !all_listed {
                for (r, &n) in rows.iter().enumerate() {
                    partial.evaluations += self.keep_old(frame, listed, r, n as usize);
                }
            }
            self.delicate.clear();
            self.asides.clear();
            self.parts.clear();
            for (r, &n) in rows.iter().enumerate() {
                let delicate = self.block.is_delicate(r, self.distances[r * h]);
                self.delicate.push((delicate && frame.learn).then(|| (self.asides.len() / dim) as u32));
                if delicate {
                    self.measure_set(frame, r, n as usize);
                }
            }
            if frame.hard {
                self.hard_sums(frame, rows, partial);
            } else {
                self.soft_sums(frame, rows, partial);
            }
            if frame.learn {
                T::add_rows(&mut self.sums, self.block.as_rows(), dim, &self.shares);
                partial.sums.resize_with_zeros(partial.targets.len() * dim);
                T::add_parts(&mut partial.sums, &self.asides, frame.model.local_centers(), dim, &self.parts);
            }
        }
        self.candidates = candidates;
        if frame.learn {
            self.move_sums(listed, dim, partial);
        }
        self.list.iter().for_each(|&j| self.places[j as usize] = 0);
    }

    /// Puts the group's point at the first center of the list, as near as `T` can say it in the data's coordinates, the
    /// list's centers around it, and makes room for their sums.
    fn place_centers(&mut self, model: &Model<T>) {
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
        self.candidates.resize(listed * dim);
        T::gather_less(all, dim, &self.list, &self.offset, &mut self.candidates);
        self.others.clear();
        self.sums.resize(0);
        self.sums.resize_with_zeros(listed * dim);
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
                let center = &self.others[place * dim..(place + 1) * dim];
                let d = T::squared_distance(self.block.row(r), center);
                self.keep(r * h..(r + 1) * h, (place + listed) as u32, d);
            }
        }
        measured
    }

    /// Measures the new set of row `r` again, by differences, and puts it in order. The row is put aside.
    #[cold]
    fn measure_set(&mut self, frame: &Frame<'_, T>, r: usize, n: usize) {
        let (h, model, mut local) = (frame.truncation, frame.model, Vec::new());
        let row = frame.task.data.local(n, model.origin(), &mut local);
        let places = self.ids[r * h..(r + 1) * h].to_vec();
        let clusters: Vec<u32> = places.iter().map(|&place| self.list[place as usize]).collect();
        let mut distances = vec![T::ZERO; h];
        T::gathered_distances(row, model.local_centers(), &clusters, &mut distances);
        self.asides.extend_from_slice(row);
        let set = r * h..(r + 1) * h;
        keep_nearest(&places, &distances, &mut self.ids[set.clone()], &mut self.distances[set]);
    }

    /// The place of cluster `j`, which is no candidate, in the list; a new one if it has none.
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
    pub(super) fn store(&self, frame: &Frame<'_, T>, r: usize, n: usize) {
        let h = frame.truncation;
        for (&place, member) in self.ids[r * h..(r + 1) * h].iter().zip(&frame.members[n * h..(n + 1) * h]) {
            member.store(self.list[place as usize], Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;
    use crate::observer::Silent;
    use crate::step::groups::{count_from_origin, merge, shared};
    use crate::step::posterior::take_posterior;
    use crate::step::round::{Round, Search};
    use crate::step::statistics::Statistics;
    use ndarray::{Array2, ArrayView1};

    const CLUSTERS: usize = 6;
    const ROWS: usize = 40;
    const H: usize = 3;

    /// Rows and centers in two columns, `shift` from zero, with one center far away.
    fn places(shift: f64) -> (Array2<f64>, Array2<f64>) {
        let x = Array2::from_shape_fn((ROWS, 2), |(n, d)| shift + ((n * 7 + d * 5) % 23) as f64 / 4.0);
        let far = |c: usize| if c == 5 { 1e3 } else { 0.0 };
        let centers = Array2::from_shape_fn((CLUSTERS, 2), |(c, d)| shift + far(c) + (c * (d + 2)) as f64 * 0.8);
        (x, centers)
    }

    fn round(centers: &Array2<f64>, origin: Option<Vec<f64>>) -> Round<f64> {
        let search = Search::Grouped { truncation: H, candidates: CLUSTERS };
        Round::plain(Model::from_origin(centers.view(), origin, 1.5), search)
    }

    fn with_frame<R>(
        data: &Dataset<'_, f64>,
        round: &Round<f64>,
        members: Vec<u32>,
        hard: bool,
        looks: Option<&[Vec<u32>]>,
        work: impl FnOnce(&Frame<'_, f64>) -> R,
    ) -> R {
        let task = Task { round, data, seed: 0, observer: &Silent };
        let (order, members): (Vec<u32>, _) = ((0..data.rows() as u32).collect(), shared(members));
        work(&Frame {
            task: &task,
            model: &round.model,
            looks,
            order: &order,
            truncation: H,
            candidates: CLUSTERS,
            hard,
            learn: true,
            members: &members,
        })
    }

    #[test]
    fn old_members_that_are_not_listed_are_kept_where_they_are_near() {
        let (x, centers) = places(0.0);
        let (data, round) = (Dataset::new(x.view()).unwrap(), round(&centers, None));
        // Row 9 holds a near cluster and a far one that are not among the candidates.
        let members: Vec<u32> = (0..ROWS).flat_map(|_| [1, 3, 5]).collect();
        with_frame(&data, &round, members, true, None, |frame| {
            let mut worker = Worker::new(CLUSTERS);
            worker.list_all(&[0, 1, 2, 4]);
            worker.place_centers(frame.model);
            let candidates = std::mem::take(&mut worker.candidates);
            worker.block.load_first(data.values(), 2, &[9], 1, Some(&worker.point));
            (worker.ids, worker.distances) = (vec![0; H], vec![0.0; H]);
            worker.block.nearest(&Centers::new(&candidates, 2), H, &mut worker.ids, &mut worker.distances);
            assert_eq!(worker.keep_old(frame, 4, 0, 9), 2);
            let d = |c: usize| (x[[9, 0]] - centers[[c, 0]]).powi(2) + (x[[9, 1]] - centers[[c, 1]]).powi(2);
            let mut nearest: Vec<usize> = (0..CLUSTERS).collect();
            nearest.sort_by(|&a, &b| d(a).total_cmp(&d(b)));
            assert!(nearest[..H].contains(&3), "{nearest:?}");
            let kept: Vec<usize> = worker.ids.iter().map(|&place| worker.list[place as usize] as usize).collect();
            assert_eq!(kept, nearest[..H]);
            kept.iter().zip(&worker.distances).for_each(|(&c, &now)| assert!((now - d(c)).abs() < 1e-12));
            // Another row finds them where they are.
            assert_eq!((worker.keep_old(frame, 4, 0, 10), worker.list.len()), (2, 6));
        });
    }

    #[test]
    fn a_set_that_is_measured_again_stands_in_the_order_of_its_distances() {
        let (x, centers) = places(1e3);
        let (data, round) = (Dataset::new(x.view()).unwrap(), round(&centers, Some(vec![1e3, 1e3])));
        with_frame(&data, &round, vec![0; ROWS * H], true, None, |frame| {
            let mut worker = Worker::new(CLUSTERS);
            worker.list_all(&[4, 2, 0, 1, 3]);
            (worker.ids, worker.distances) = (vec![0, 4, 2], vec![0.0; H]);
            worker.measure_set(frame, 0, 11);
            let d = |c: u32| {
                let apart = &x.row(11) - &centers.row(c as usize);
                apart.dot(&apart)
            };
            assert!(worker.distances.is_sorted());
            for (&place, &now) in worker.ids.iter().zip(&worker.distances) {
                assert!((now - d(worker.list[place as usize])).abs() < 1e-9);
            }
            let mut places = worker.ids.clone();
            places.sort_unstable();
            assert_eq!((places, worker.asides.len()), (vec![0, 2, 4], 2));
        });
    }

    #[test]
    fn sums_are_those_of_a_plain_loop_hard_and_soft() {
        let weights: Vec<f64> = (0..ROWS).map(|n| (n % 4) as f64 * 0.5).collect();
        for (shift, hard) in [(0.0, true), (0.0, false), (1e3, true), (1e3, false)] {
            let (mut x, centers) = places(shift);
            // Rows that are far nearer to their cluster than to the group's point.
            (0..5).for_each(|k| x.row_mut(8 * k).assign(&(&centers.row(k + 1) + 1e-4)));
            let data = Dataset::new(x.view()).unwrap().weighted(ArrayView1::from(&weights)).unwrap();
            let round = round(&centers, (shift > 0.0).then(|| vec![shift; 2]));
            let looks = [(0..CLUSTERS as u32).collect::<Vec<u32>>()];
            let mut statistics = Statistics::new(CLUSTERS, 2);
            let members = with_frame(&data, &round, vec![0; ROWS * H], hard, Some(&looks), |frame| {
                let segment = Segment { leader: 0, start: 0, end: ROWS };
                let (partial, _) = Worker::new(CLUSTERS).expectation(frame, &[segment]);
                assert_eq!(partial.evaluations, (ROWS * CLUSTERS) as u64);
                merge(&mut statistics, &[partial]);
                frame.members.iter().map(|m| m.load(Ordering::Relaxed)).collect::<Vec<u32>>()
            });
            count_from_origin(&mut statistics, &round.model);
            let mut plain: Statistics<f64> = Statistics::new(CLUSTERS, 2);
            for n in 0..ROWS {
                let d = |c: usize| (0..2).map(|k| (x[[n, k]] - centers[[c, k]]).powi(2)).sum::<f64>();
                let mut set: Vec<usize> = (0..CLUSTERS).collect();
                set.sort_by(|&a, &b| d(a).total_cmp(&d(b)).then(a.cmp(&b)));
                set.truncate(H);
                assert!(members[n * H..(n + 1) * H].iter().zip(&set).all(|(&a, &b)| a as usize == b), "row {n}");
                let near: Vec<f64> = set.iter().map(|&c| d(c)).collect();
                let mut q = vec![0.0; H];
                let posterior = take_posterior(&near, 1.5, &mut q);
                if hard {
                    q = vec![1.0, 0.0, 0.0];
                }
                let w = weights[n];
                plain.inertia += w * near[0];
                plain.weighted_distance += w * if hard { near[0] } else { posterior.mean_distance };
                plain.log_sum += w * if hard { -near[0] / 3.0 } else { posterior.log_sum };
                for (&c, q) in set.iter().zip(q) {
                    plain.mass[c] += w * q;
                    (0..2).for_each(|k| plain.sums[c * 2 + k] += w * q * (x[[n, k]] - shift));
                }
            }
            let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-8, "{a} against {b}: {shift}, {hard}");
            statistics.sums.iter().zip(&plain.sums).for_each(|(&a, &b)| close(a, b));
            statistics.mass.iter().zip(&plain.mass).for_each(|(&a, &b)| close(a, b));
            close(statistics.inertia, plain.inertia);
            close(statistics.weighted_distance, plain.weighted_distance);
            close(statistics.log_sum, plain.log_sum);
        }
    }
}
