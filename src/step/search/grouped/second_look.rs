//! A second measurement, by differences, for rows whose nearest candidates cannot be told apart by products around the
//! group's point.
//!
//! A group shared by several clusters can be far wider than each of them, and its point is the center of only one.
//! Rounding can then hide which of the others is nearest and would replace members of K(n) by farther clusters: F would
//! fall.

use super::segment::{Frame, Worker};
use crate::kernel::Real;
use crate::step::search::keep_nearest;

/// Upper bound on the rounding error of a score, in units in the last place of its norm p |mu|^2 (relative to the
/// group's point). An error of one nat does not change F.
const ROUNDING: f64 = 2048.0;
/// Scores below this many units in the last place of the norm may be those of other clusters.
const COUNTS: f64 = 8192.0;
/// Norm from which a score has lost so many digits that it is measured again.
const LARGE: f64 = 1024.0;
/// At most one in this many candidates is measured by differences alone: with more, few rows would need all of them.
const FEW: usize = 4;

impl<T: Real> Worker<T> {
    /// Takes candidates out of the products if these cannot resolve their scores, because they are far narrower than
    /// the group is wide, and if they are few. Every row then measures them by differences.
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

    /// Whether scores of lifted rows have lost significant digits, apart from those measured by differences.
    pub(super) fn rounds_scores(&self) -> bool {
        self.largest > T::from_f64(LARGE)
    }

    /// Measures the narrow candidates for all rows of the block, or all `listed` candidates for the rows whose sets may
    /// be decided by rounding.
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

    /// Measures the narrow candidates for each row, all of which are set aside, and keeps the near ones.
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
