//! A second look, by differences, for rows of which products around the group's point cannot tell the nearest candidates.
//!
//! A group that several clusters share can be far wider than they are, and the point is the center of one of them. Rounding
//! then hides which of the others is the nearest, and would drop members of K(n) for clusters that are farther: F would fall.

use super::segment::{Frame, Worker};
use crate::kernel::Real;
use crate::step::search::keep_nearest;

/// What rounding may do to a score, at the very most, and below what score that counts, in last digits of p |y|^2 ...
const ROUNDING: [f64; 2] = [256.0, 4096.0];
/// ... unless it is less than this, which leaves F as it is: scores count in halves of a nat.
const HARMLESS: f64 = 1.0;

impl<T: Real> Worker<T> {
    /// Measures all `listed` candidates again for those rows of the block whose sets rounding may have chosen.
    pub(super) fn look_again(&mut self, frame: &Frame<'_, T>, listed: usize, rows: &[u32]) {
        let h = frame.truncation;
        if h == listed {
            return;
        }
        let (scores, model, mut row) = (frame.task.scores, frame.model, Vec::new());
        for (r, &n) in rows.iter().enumerate() {
            let last = self.distances[(r + 1) * h - 1];
            let lost = match scores.lift() {
                None => self.block.has_lost_digits(r, last),
                Some(_) => self.has_lost_score(r, model.dim(), last),
            };
            if lost {
                let (places, _, distances) = &mut self.set;
                places.clear();
                places.extend(0..listed as u32);
                distances.resize(listed, T::ZERO);
                let row = frame.task.data.local(n as usize, model.origin(), &mut row);
                scores.measure(row, model.local_centers(), &self.list[..listed], distances);
                let set = r * h..(r + 1) * h;
                keep_nearest(places, distances, &mut self.ids[set.clone()], &mut self.distances[set]);
            }
        }
    }

    /// Whether the score of some candidate may be wrong by much beside `last`, the largest that row `r` keeps.
    fn has_lost_score(&self, r: usize, dim: usize, last: T) -> bool {
        let row = &self.local[r * dim..(r + 1) * dim];
        let norm: T = row.iter().zip(&self.narrowest).map(|(&y, &p)| p * y * y).sum();
        let [rounding, counts] = ROUNDING.map(|digits| T::from_f64(digits) * T::EPSILON * norm);
        rounding > T::from_f64(HARMLESS) && last < counts
    }
}
