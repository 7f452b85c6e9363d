//! A second look, by differences, for rows of which products around the group's point cannot tell the nearest candidates.
//!
//! A group that several clusters share can be far wider than they are, and the point is the center of one of them. Rounding
//! then hides which of the others is the nearest, and would drop members of K(n) for clusters that are farther: F would fall.

use super::segment::{Frame, Worker};
use crate::kernel::Real;
use crate::step::search::keep_nearest;

/// Parts of a score's norm, p |mu|^2 counted from the group's point, that rounding may add to it or take from it, at the very
/// most, in last digits. As much as a nat leaves F as it is.
const ROUNDING: f64 = 2048.0;
/// Scores below this many last digits of the norm may be those of other clusters.
const COUNTS: f64 = 8192.0;
/// A norm from which on a score has lost so many digits that it is measured again.
const LARGE: f64 = 1024.0;
/// Candidates that are measured by differences alone are at most one in so many: of more, few rows need all.
const FEW: usize = 4;

impl<T: Real> Worker<T> {
    /// Takes candidates whose scores products cannot tell, as they are far narrower than the group is wide, out of the products
    /// where they are few. Each row then measures them by differences.
    pub(super) fn set_narrow_apart(&mut self, frame: &Frame<'_, T>) {
        self.narrow.clear();
        if frame.task.scores.lift().is_none() {
            return;
        }
        let (listed, h) = (self.norms.len(), frame.truncation);
        let is_narrow = |norm: T| T::from_f64(ROUNDING) * T::EPSILON * norm > T::ONE;
        let narrow = self.norms.iter().zip(0..).filter(|(norm, _)| is_narrow(**norm)).map(|(_, place)| place);
        self.narrow.extend(narrow);
        if self.narrow.len() * FEW > listed || listed - self.narrow.len() < h {
            self.narrow.clear();
        }
        self.narrow.iter().for_each(|&place| self.norms[place as usize] = -T::ONE);
        self.largest = self.norms.iter().fold(T::ZERO, |a, &b| a.max(b));
        self.narrow.iter().for_each(|&place| self.norms[place as usize] = T::INFINITY);
    }

    /// Whether scores of lifted rows have lost digits that count, beside those that are measured by differences.
    pub(super) fn rounds_scores(&self) -> bool {
        self.largest > T::from_f64(LARGE)
    }

    /// Measures the narrow candidates for all rows of the block, or all `listed` ones for those rows whose sets rounding may
    /// have chosen.
    pub(super) fn look_again(&mut self, frame: &Frame<'_, T>, listed: usize, rows: &[u32]) {
        let h = frame.truncation;
        let lifted = frame.task.scores.lift().is_some();
        if !self.narrow.is_empty() {
            return self.measure_narrow(frame, rows);
        }
        if h == listed || lifted && T::from_f64(ROUNDING) * T::EPSILON * self.largest <= T::ONE {
            return;
        }
        let (scores, model, mut row) = (frame.task.scores, frame.model, Vec::new());
        let small = T::from_f64(COUNTS) * T::EPSILON * self.largest;
        for (r, &n) in rows.iter().enumerate() {
            let last = self.distances[(r + 1) * h - 1];
            if if lifted { last < small } else { self.block.has_lost_digits(r, last) } {
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

    /// Measures the narrow candidates for each row, which is aside, and keeps those that are near.
    fn measure_narrow(&mut self, frame: &Frame<'_, T>, rows: &[u32]) {
        let (h, model, narrow) = (frame.truncation, frame.model, std::mem::take(&mut self.narrow));
        let clusters: Vec<u32> = narrow.iter().map(|&place| self.list[place as usize]).collect();
        let (mut scores, asides) = (vec![T::ZERO; narrow.len()], std::mem::take(&mut self.asides));
        for (r, row) in (0..rows.len()).zip(asides.chunks_exact(model.dim())) {
            frame.task.scores.measure(row, model.local_centers(), &clusters, &mut scores);
            for (&place, &score) in narrow.iter().zip(&scores) {
                self.keep(r * h..(r + 1) * h, place, score);
            }
        }
        (self.narrow, self.asides) = (narrow, asides);
    }
}
