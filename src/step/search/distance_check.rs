//! A second measurement, by differences, for rows whose nearest centers |y|^2 - 2 y.mu + |mu|^2 cannot tell apart.
//!
//! If a squared distance is tiny relative to the norms, rounding may have decided the nearest center. It has not if all
//! other centers are far from the chosen one: by the triangle inequality, a center at distance 2 |y - mu| or more from
//! mu is not nearer to y. Only rows for which that fails are compared with all centers again, so tight but
//! well-separated clusters cost next to nothing.

use crate::kernel::{Centers, Real, RowBlock};
use crate::memory::filled;
use crate::model::score::Scores;
use crate::observer::Observer;
use std::sync::OnceLock;

/// Number of centers that are compared with all others at a time.
const AT_ONCE: usize = 256;

/// The centers of a step, and the separations computed so far.
pub(crate) struct DistanceCheck<'a, T> {
    centers: &'a Centers<'a, T>,
    observer: &'a dyn Observer,
    /// The squared distance of each center to the nearest other one, minus a bound on its rounding error. Computed for
    /// a batch of centers when one of them is first needed, by the thread that needs it. Empty if memory runs out.
    apart: Vec<OnceLock<Vec<T>>>,
}

impl<'a, T: Real> DistanceCheck<'a, T> {
    fn new(centers: &'a Centers<'a, T>, observer: &'a dyn Observer) -> Self {
        Self { centers, observer, apart: vec![OnceLock::new(); centers.len().div_ceil(AT_ONCE)] }
    }

    /// `None` unless rows choose by distance alone.
    pub(crate) fn of(scores: &Scores<T>, centers: &'a Centers<'a, T>, observer: &'a dyn Observer) -> Option<Self> {
        (!scores.has_offsets() && scores.lift().is_none()).then(|| Self::new(centers, observer))
    }

    /// Measures again for row `i` of `block`, whose values are `row`, if rounding may have decided one of `members`,
    /// its h nearest centers with their squared `distances`, nearest first (IN OUT). Does nothing after the step was
    /// cancelled, because it takes time.
    #[inline]
    pub(crate) fn remeasure(&self, block: &RowBlock<T>, i: usize, row: &[T], members: &mut [u32], distances: &mut [T]) {
        let h = members.len();
        if h < self.centers.len() && block.has_lost_digits(i, distances[h - 1]) && !self.observer.cancelled() {
            let sure = h == 1 && self.is_alone(members[0], distances[0] + block.slack(i));
            if !sure {
                self.centers.measure_nearest(row, members, distances);
            }
        }
    }

    /// Whether no other center can be as near to a row as center `c`, which is at a squared distance of at most `d`.
    fn is_alone(&self, c: u32, d: T) -> bool {
        let (part, place) = (c as usize / AT_ONCE, c as usize % AT_ONCE);
        let apart = self.apart[part].get_or_init(|| self.separations(part));
        apart.get(place).is_some_and(|&apart| apart > T::from_f64(4.0) * d)
    }

    fn separations(&self, part: usize) -> Vec<T> {
        let Centers { values, dim, .. } = *self.centers;
        let values = values.chunks(AT_ONCE * dim).nth(part).expect("a part of the centers");
        let Ok(mut apart) = filled(T::ZERO, values.len() / dim, "distances of centers") else { return Vec::new() };
        let (mut block, mut ids, mut nearest) = (RowBlock::default(), [0; 2 * AT_ONCE], [T::ZERO; 2 * AT_ONCE]);
        let pairs = 2 * apart.len();
        block.load(values, dim, None);
        // The first is the center itself, or one that coincides with it.
        block.nearest(self.centers, 2, &mut ids[..pairs], &mut nearest[..pairs]);
        for (i, apart) in apart.iter_mut().enumerate() {
            *apart = nearest[2 * i + 1] - block.slack(i);
        }
        apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;

    /// Two locations at each of which centers are nearer to each other than `f32` can resolve relative to their norms.
    fn places(count: usize, spread: f32) -> Vec<f32> {
        let noise = |i: usize| spread * (((i * 7919) % 1009) as f32 / 1009.0 - 0.5);
        (0..3 * count).map(|i| if (i / 3).is_multiple_of(2) { 3.0 } else { -2.0 } + noise(i)).collect()
    }

    #[test]
    fn rows_that_rounding_could_mislead_get_the_nearest_of_all_centers() {
        let (values, rows) = (places(300, 1e-4), places(500, 2e-4));
        let centers = Centers::new(&values, 3);
        let distance_check = DistanceCheck::new(&centers, &Silent);
        let mut block = RowBlock::default();
        block.load(&rows, 3, None);
        for h in [1, 4] {
            let (mut ids, mut d) = (vec![0; 500 * h], vec![0.0; 500 * h]);
            block.nearest(&centers, h, &mut ids, &mut d);
            let before = ids.clone();
            for (i, (ids, d)) in ids.chunks_mut(h).zip(d.chunks_mut(h)).enumerate() {
                let row = &rows[3 * i..][..3];
                distance_check.remeasure(&block, i, row, ids, d);
                let square = |c: usize| (0..3).map(|j| f64::from(row[j] - values[3 * c + j]).powi(2)).sum::<f64>();
                let mut all: Vec<usize> = (0..300).collect();
                all.sort_by(|&a, &b| square(a).total_cmp(&square(b)));
                for (k, &id) in ids.iter().enumerate() {
                    approx::assert_relative_eq!(square(id as usize), square(all[k]), max_relative = 1e-5);
                }
                assert!(d.is_sorted());
            }
            assert!(ids != before, "rounding misled no row");
        }
    }

    #[test]
    fn rows_near_an_isolated_center_are_measured_once() {
        let values = [1.0f32, 1.0, 1.0, -1.0];
        let centers = Centers::new(&values, 2);
        let distance_check = DistanceCheck::new(&centers, &Silent);
        assert!(distance_check.is_alone(0, 0.9) && !distance_check.is_alone(1, 1.0));
        let one = Centers::new(&values[..2], 2);
        let mut block = RowBlock::default();
        block.load(&values[..2], 2, None);
        let (mut ids, mut d) = ([0], [0.0]);
        DistanceCheck::new(&one, &Silent).remeasure(&block, 0, &values[..2], &mut ids, &mut d);
        assert_eq!((ids, d), ([0], [0.0]));
    }

    #[test]
    fn separations_are_computed_on_demand_and_never_after_a_cancel() {
        struct Cancelled;
        impl Observer for Cancelled {
            fn cancelled(&self) -> bool {
                true
            }
        }
        let (values, row) = (places(600, 1e-4), [3.0f32; 3]);
        let centers = Centers::new(&values, 3);
        let mut block = RowBlock::default();
        block.load(&row, 3, None);
        let remeasured = |check: &DistanceCheck<'_, f32>| {
            let (mut ids, mut d) = ([598], [0.0]);
            check.remeasure(&block, 0, &row, &mut ids, &mut d);
            (ids[0], check.apart.iter().map(|part| part.get().is_some()).collect::<Vec<_>>())
        };
        let (nearest, compared) = remeasured(&DistanceCheck::new(&centers, &Silent));
        assert_ne!(nearest, 598);
        assert_eq!(compared, [false, false, true]);
        assert_eq!(remeasured(&DistanceCheck::new(&centers, &Cancelled)), (598, vec![false; 3]));
    }
}
