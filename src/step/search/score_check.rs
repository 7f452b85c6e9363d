//! A second measurement, by differences, for rows whose clusters of lowest score cannot be told apart by products: if
//! clusters are narrow, the terms of p |y|^2 - 2 p y.mu + p |mu|^2 are far larger than their sum.

use crate::error::Result;
use crate::kernel::{Real, RowBlock};
use crate::model::Model;
use crate::model::score::Scores;

/// Upper bound on the rounding error of a score, and the score below which it matters, in units in the last place of p
/// |y|^2 ...
const ROUNDING: [f64; 2] = [256.0, 4096.0];
/// ... unless the error is less than this, which does not affect F: scores are in units of half a nat.
const HARMLESS: f64 = 1.0;
/// Number of clusters measured at a time.
const AT_ONCE: usize = 256;

/// Whether the score of some cluster may be significantly wrong relative to `last`, the largest that a row keeps:
/// `narrowest` has the largest precision of the clusters in each column.
fn has_lost_score<T: Real>(row: &[T], narrowest: &[T], last: T) -> bool {
    let norm: T = row.iter().zip(narrowest).map(|(&y, &p)| p * y * y).sum();
    let [rounding, counts] = ROUNDING.map(|digits| T::from_f64(digits) * T::EPSILON * norm);
    rounding > T::from_f64(HARMLESS) && last < counts
}

/// All clusters of a model, for rows that choose by score.
pub(crate) struct ScoreCheck<'a, T: Real> {
    model: &'a Model<T>,
    scores: &'a Scores<T>,
    /// The largest precision in each column; empty if scores are distances with offsets.
    narrowest: Vec<T>,
}

impl<'a, T: Real> ScoreCheck<'a, T> {
    /// `None` if rows choose by distance alone.
    pub fn of(model: &'a Model<T>, scores: &'a Scores<T>) -> Result<Option<Self>> {
        if !scores.has_offsets() && scores.lift().is_none() {
            return Ok(None);
        }
        let narrowest = match scores.lift() {
            Some(_) => scores.largest_precisions(model.dim())?,
            None => Vec::new(),
        };
        Ok(Some(Self { model, scores, narrowest }))
    }

    /// Whether rounding may have decided what row `i` of `block`, whose values are `row`, keeps: scores up to `last`.
    pub fn is_misled(&self, block: &RowBlock<T>, i: usize, row: &[T], last: T) -> bool {
        match self.narrowest.is_empty() {
            true => block.has_lost_digits(i, last),
            false => has_lost_score(row, &self.narrowest, last),
        }
    }

    /// Finds the clusters of lowest score for a row, lowest first (ties: lower index first), and their scores (OUT).
    pub fn measure(&self, row: &[T], members: &mut [u32], scores: &mut [T]) {
        let (clusters, mut known) = (self.model.clusters(), 0);
        let mut measured = [T::ZERO; AT_ONCE];
        for start in (0..clusters).step_by(AT_ONCE) {
            let ids: [u32; AT_ONCE] = std::array::from_fn(|k| (start + k) as u32);
            let some = AT_ONCE.min(clusters - start);
            self.scores.measure(row, self.model.local_centers(), &ids[..some], &mut measured[..some]);
            for (&c, &score) in ids.iter().zip(&measured[..some]) {
                keep(c, score, members, scores, &mut known);
            }
        }
    }

    /// Measures again for row `i` of `block` if rounding may have decided one of `members` with these scores, highest
    /// last (IN OUT).
    pub fn remeasure(&self, block: &RowBlock<T>, i: usize, row: &[T], members: &mut [u32], scores: &mut [T]) {
        let h = members.len();
        if h < self.model.clusters() && self.is_misled(block, i, row, scores[h - 1]) {
            self.measure(row, members, scores);
        }
    }
}

/// Inserts cluster `c` with score `d` among the lowest of the `known` so far, lowest first (ties: the first) (IN OUT).
#[inline]
fn keep<T: Real>(c: u32, d: T, members: &mut [u32], distances: &mut [T], known: &mut usize) {
    let h = members.len();
    if *known == h && d >= distances[h - 1] {
        return;
    }
    *known = (*known + 1).min(h);
    let mut place = *known - 1;
    while place > 0 && d < distances[place - 1] {
        (members[place], distances[place]) = (members[place - 1], distances[place - 1]);
        place -= 1;
    }
    (members[place], distances[place]) = (c, d);
}
