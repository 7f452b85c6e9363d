//! A second look, by differences, for rows of which products around the group's point cannot tell the nearest candidates.
//!
//! A group that several clusters share can be far wider than they are, and the point is the center of one of them. Rounding
//! then hides which of the others is the nearest, and would drop members of K(n) for clusters that are farther: F would fall.

use super::segment::{Frame, Worker};
use crate::kernel::Real;
use crate::step::search::keep_nearest;
use crate::step::search::scored_look::has_lost_score;

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
                Some(_) => has_lost_score(&self.local[r * model.dim()..(r + 1) * model.dim()], &self.narrowest, last),
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
}
