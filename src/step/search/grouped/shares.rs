//! The shares of each row in its clusters, and the resulting sums.

use super::segment::{Frame, Worker};
use crate::kernel::{Move, Part, Real, Share};
use crate::step::groups::Partial;
use crate::step::posterior::{LogSum, scale_of};

impl<T: Real> Worker<T> {
    /// Assigns each row of a block to its nearest cluster only.
    pub(super) fn hard_sums(&mut self, frame: &Frame<'_, T>, rows: &[u32], partial: &mut Partial<T>) {
        let (data, h) = (frame.task.data, frame.truncation);
        let scores = frame.task.scores;
        self.shares.clear();
        let (mut inertia, mut offsets) = (0.0, 0.0);
        for (r, &n) in rows.iter().enumerate() {
            let w = data.weight(n as usize);
            self.store(frame, r, n as usize);
            let (place, score) = (self.ids[r * h], self.distances[r * h]);
            let offset = scores.offset(self.list[place as usize]);
            let near = score - offset;
            partial.nearest.push(near);
            inertia += w * near.to_f64();
            offsets += w * offset.to_f64();
            self.add(r, place, w, partial);
        }
        partial.inertia += inertia;
        partial.weighted_distance += inertia;
        partial.log_sum += (inertia + offsets) * -0.5 / scores.variance;
    }

    /// Divides each row of a block by its posterior. Negligible shares count as 0 everywhere.
    pub(super) fn soft_sums(&mut self, frame: &Frame<'_, T>, rows: &[u32], partial: &mut Partial<T>) {
        let (data, h, scores) = (frame.task.data, frame.truncation, frame.task.scores);
        let scale = -0.5 / scores.variance;
        let narrow = scale_of(scores.variance);
        self.posterior.clear();
        for d in self.distances.chunks_exact(h) {
            self.posterior.extend(d.iter().map(|&x| (x - d[0]) * narrow));
        }
        T::exp_neg(&mut self.posterior);
        self.shares.clear();
        let mut logs = LogSum::default();
        for (r, &n) in rows.iter().enumerate() {
            let w = data.weight(n as usize);
            self.store(frame, r, n as usize);
            let set = r * h..(r + 1) * h;
            let (q, d) = (&self.posterior[set.clone()], &self.distances[set]);
            // Members are sorted by distance, so the negligible ones are last.
            let kept = q.iter().position(|&x| x < T::NEGLIGIBLE).unwrap_or(h);
            let (mut total, mut spread) = (T::ZERO, T::ZERO);
            for (&q, &x) in q[..kept].iter().zip(d) {
                total += q;
                spread += q * (x - d[0]);
            }
            let (near, total) = (d[0].to_f64(), total.to_f64());
            let offset = scores.offset(self.list[self.ids[r * h] as usize]);
            partial.nearest.push(d[0] - offset);
            partial.log_sum += w * (near * scale);
            logs.add(w, total);
            partial.inertia += w * (near - offset.to_f64());
            partial.weighted_distance += w * (near + spread.to_f64() / total);
            let share = w / total;
            for k in r * h..r * h + kept {
                let (place, part) = (self.ids[k], share * self.posterior[k].to_f64());
                partial.offsets += part * scores.offset(self.list[place as usize]).to_f64();
                self.add(r, place, part, partial);
            }
        }
        partial.log_sum += logs.value();
    }

    /// Adds share `weight` of row `r` of the block to the cluster at position `place` of the list. A row far nearer to
    /// its cluster than to the group's point is summed relative to the cluster's center: around the point, rounding
    /// would exceed its distance.
    #[inline]
    fn add(&mut self, r: usize, place: u32, weight: f64, partial: &mut Partial<T>) {
        match self.delicate[r] {
            None => {
                self.mass[place as usize] += weight;
                self.shares.push(Share { row: r as u32, place, weight: T::from_f64(weight) });
            }
            Some(row) => {
                let cluster = self.list[place as usize];
                let place = partial.place(cluster, &mut self.targets);
                partial.mass[place as usize] += weight;
                self.parts.push(Part { row, cluster, place, weight: T::from_f64(weight) });
            }
        }
    }

    /// Adds the sums of the clusters with mass to the task's, relative to each cluster's own center.
    pub(super) fn move_sums(&mut self, listed: usize, dim: usize, partial: &mut Partial<T>) {
        self.moves.clear();
        for (place, (&j, &mass)) in self.list.iter().zip(&self.mass).enumerate() {
            if mass > 0.0 {
                let to = partial.place(j, &mut self.targets);
                partial.mass[to as usize] += mass;
                self.moves.push(Move { from: place as u32, to, mass: T::from_f64(mass) });
            }
        }
        partial.sums.resize_with_zeros(partial.targets.len() * dim);
        let split = self.moves.partition_point(|m| (m.from as usize) < listed);
        let (of_candidates, of_others) = self.moves.split_at_mut(split);
        of_others.iter_mut().for_each(|m| m.from -= listed as u32);
        let (sums, sums_of_others) = self.sums.split_at(listed * dim);
        T::settle(&mut partial.sums, sums, &self.candidates, dim, of_candidates);
        T::settle(&mut partial.sums, sums_of_others, &self.others, dim, of_others);
    }
}
