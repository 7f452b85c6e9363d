//! Drawing rows by weight and by distance, without a table of N entries per distribution.
//!
//! Coresets and AFK-MC2 draw from the same kind of distribution, half by weight, half by squared distance to a point p
//! (the mean, or the first center):
//!
//! ```text
//! q(n) = 1/2 w_n / W + 1/2 w_n d(n, p)^2 / sum_i w_i d(i, p)^2
//! ```
//!
//! One parallel pass stores the distances (one number per row, in the data's type) and the mass of each block. A batch
//! of draws is sorted, each falls into a block by the cumulative masses, and only the blocks hit are scanned. So k
//! draws cost O(k log k + N), no distance is computed twice, and fixed blocks give the same rows for every number of
//! threads.

use super::{BLOCK, Dataset};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{collected, filled, reserve};
use crate::observer::Observer;
use crate::parallel::{block, map_blocks};
use crate::rng::Rng;
use rayon::prelude::*;

/// The first item whose cumulative mass exceeds `target`, or the last of positive mass if rounding leads past the end.
/// Items of mass zero are never picked. `None` if no mass is positive.
pub(crate) fn pick(masses: impl Iterator<Item = f64>, target: f64) -> Option<(usize, f64)> {
    let (mut sum, mut last) = (0.0, None);
    for (i, mass) in masses.enumerate() {
        if mass > 0.0 {
            last = Some((i, sum));
            sum += mass;
            if sum > target {
                break;
            }
        }
    }
    last
}

/// The index of a row drawn in proportion to its weight.
pub(crate) fn draw_by_weight<T: Real>(data: &Dataset<'_, T>, rng: &mut Rng) -> usize {
    let target = rng.unit() * data.total_weight();
    match data.weights() {
        Some(weights) => pick(weights.iter().copied(), target).map_or(0, |(n, _)| n),
        None => (target as usize).min(data.rows() - 1),
    }
}

/// Copies of the rows `indices`, row-major.
pub(crate) fn gather<T: Real>(data: &Dataset<'_, T>, indices: &[usize]) -> Result<Vec<T>> {
    let dim = data.dim();
    let mut out = filled(T::ZERO, indices.len() * dim, "a sample")?;
    out.par_chunks_mut(dim * 64).zip(indices.par_chunks(64)).for_each(|(rows, indices)| {
        let mut buffer = Vec::new();
        for (row, &n) in rows.chunks_exact_mut(dim).zip(indices) {
            row.copy_from_slice(data.row(n, &mut buffer));
        }
    });
    Ok(out)
}

/// At most `most` of `rows`, drawn uniformly from those of positive weight, in ascending order: their values and
/// weights.
pub(crate) fn sample_rows<T: Real>(
    data: &Dataset<'_, T>,
    rows: &[u32],
    most: usize,
    rng: impl FnOnce() -> Rng,
) -> Result<(Vec<T>, Vec<f64>)> {
    let present = |n: &&u32| data.weight(**n as usize) > 0.0;
    let mut chosen: Vec<usize> = Vec::new();
    reserve(&mut chosen, rows.len(), "a sample")?;
    chosen.extend(rows.iter().filter(present).map(|&n| n as usize));
    if chosen.len() > most {
        let mut rng = rng();
        // The first `most` steps of a shuffle, then sorted for locality.
        for i in 0..most {
            let j = i + rng.below(chosen.len() - i);
            chosen.swap(i, j);
        }
        chosen.truncate(most);
        chosen.sort_unstable();
    }
    Ok((gather(data, &chosen)?, collected(chosen.iter().map(|&n| data.weight(n)), "a sample")?))
}

/// The distribution q. See the [module](self).
pub(crate) struct Importance<'a, 'd, T: Real> {
    data: &'a Dataset<'d, T>,
    /// d(n, p)^2.
    distances: Vec<T>,
    /// sum w d^2 / W; if it is 0, q is w / W.
    mean_distance: f64,
    /// Cumulative masses of the blocks.
    cumulative: Vec<f64>,
}

impl<'a, 'd, T: Real> Importance<'a, 'd, T> {
    /// One pass: N distances to `point`.
    pub(crate) fn new(data: &'a Dataset<'d, T>, point: &[T], observer: &dyn Observer) -> Result<Self> {
        let mut distances = filled(T::ZERO, data.rows(), "distances")?;
        let sums: Vec<(f64, f64)> = distances
            .par_chunks_mut(BLOCK)
            .enumerate()
            .map(|(i, out)| {
                if observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                let (mut weight, mut moment) = (0.0, 0.0);
                let rows = block(i, BLOCK, data.rows());
                let mut out = out.iter_mut();
                data.for_rows(rows, |n, row| {
                    let d = out.next().expect("one per row");
                    *d = T::squared_distance(row, point);
                    let share = data.weight(n) / data.total_weight();
                    weight += share;
                    moment += share * d.to_f64();
                });
                Ok((weight, moment))
            })
            .collect::<Result<_>>()?;
        let mean_distance: f64 = sums.iter().map(|s| s.1).sum();
        let mut mass = 0.0;
        let cumulative = sums.iter().map(|&(weight, moment)| {
            mass += if mean_distance > 0.0 { 0.5 * (weight + moment / mean_distance) } else { weight };
            mass
        });
        let cumulative = cumulative.collect();
        Ok(Self { data, distances, mean_distance, cumulative })
    }

    /// q(n) W / w_n: how much likelier row n is drawn than by its weight alone. At least 1/2.
    #[inline]
    pub(crate) fn density(&self, n: usize) -> f64 {
        if self.mean_distance > 0.0 { 0.5 * (1.0 + self.distances[n].to_f64() / self.mean_distance) } else { 1.0 }
    }

    /// `count` rows drawn from q with replacement, in the order of the draws.
    pub(crate) fn draw(&self, count: usize, rng: &mut Rng, observer: &dyn Observer) -> Result<Vec<usize>> {
        let units = collected((0..count).map(|_| rng.unit()), "draws")?;
        let mut order = collected(0..count, "draws")?;
        order.par_sort_unstable_by(|&a, &b| units[a].total_cmp(&units[b]).then(a.cmp(&b)));
        let sorted = collected(order.iter().map(|&i| units[i]), "draws")?;
        let mut drawn = filled(0, count, "draws")?;
        for (i, n) in order.into_iter().zip(self.locate(&sorted, observer)?) {
            drawn[i] = n;
        }
        Ok(drawn)
    }

    /// `count` rows drawn from q with replacement, in ascending order.
    pub(crate) fn draw_sorted(&self, count: usize, rng: &mut Rng, observer: &dyn Observer) -> Result<Vec<usize>> {
        let mut units = collected((0..count).map(|_| rng.unit()), "draws")?;
        units.par_sort_unstable_by(f64::total_cmp);
        self.locate(&units, observer)
    }

    /// The rows at ascending `units` of the cumulative distribution.
    fn locate(&self, units: &[f64], observer: &dyn Observer) -> Result<Vec<usize>> {
        let blocks = self.cumulative.len();
        let total = self.cumulative[blocks - 1];
        // Rounding of u * total may reach the total itself: such a draw goes to the last block of positive mass.
        let last = self.cumulative.partition_point(|&c| c < total);
        let starts: Vec<usize> = (0..=blocks)
            .map(|b| match b {
                0 => 0,
                b if b > last => units.len(),
                b => units.partition_point(|u| u * total < self.cumulative[b - 1]),
            })
            .collect();
        let found = map_blocks(blocks, 1, observer, |b, _| {
            let before = if b == 0 { 0.0 } else { self.cumulative[b - 1] };
            self.scan(b, units[starts[b]..starts[b + 1]].iter().map(|u| u * total - before))
        })?;
        let mut rows = Vec::new();
        reserve(&mut rows, units.len(), "draws")?;
        for part in found {
            rows.extend(part?);
        }
        Ok(rows)
    }

    /// The rows of block `b` at ascending `targets` of its cumulative mass, as [`pick`] finds them.
    fn scan(&self, b: usize, targets: impl ExactSizeIterator<Item = f64>) -> Result<Vec<usize>> {
        let mut out = Vec::new();
        reserve(&mut out, targets.len(), "draws")?;
        let mut targets = targets.peekable();
        let (mut sum, mut last) = (0.0, 0);
        for n in block(b, BLOCK, self.data.rows()) {
            if targets.peek().is_none() {
                break;
            }
            let mass = self.data.weight(n) / self.data.total_weight() * self.density(n);
            if mass > 0.0 {
                (sum, last) = (sum + mass, n);
                while targets.next_if(|&t| t < sum).is_some() {
                    out.push(n);
                }
            }
        }
        out.extend(targets.map(|_| last));
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::rng::{Stage, stream};
    use ndarray::{Array1, Array2};

    #[test]
    fn draws_follow_q_over_several_blocks() {
        let rows = 2 * BLOCK + 100;
        let x = Array2::from_shape_fn((rows, 2), |(n, d)| ((n * 31 + d * 17) % 101) as f32);
        // Only a few rows have weight, so that each is drawn often; the entire middle block has none.
        let w = Array1::from_shape_fn(rows, |n| if n % 400 == 7 && n / BLOCK != 1 { (1 + n % 3) as f64 } else { 0.0 });
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        let q = Importance::new(&data, data.given_row(7), &Silent).unwrap();
        let mass = |n: usize| w[n] / data.total_weight() * q.density(n);
        approx::assert_relative_eq!((0..rows).map(mass).sum::<f64>(), 1.0, max_relative = 1e-12);
        let draws = 100_000;
        let drawn = q.draw(draws, &mut stream(1, Stage::Sample, 0, 0), &Silent).unwrap();
        let mut counts = vec![0usize; rows];
        drawn.iter().for_each(|&n| counts[n] += 1);
        let (mut chi2, mut cells) = (0.0, 0.0);
        for (n, &count) in counts.iter().enumerate() {
            let expected = mass(n) * draws as f64;
            if expected > 0.0 {
                (chi2, cells) = (chi2 + (count as f64 - expected).powi(2) / expected, cells + 1.0);
            } else {
                assert_eq!(count, 0);
            }
        }
        assert!(chi2 < cells + 5.0 * (2.0f64 * cells).sqrt(), "chi-square {chi2} over {cells} cells");
        let mut sorted = drawn;
        sorted.sort_unstable();
        assert_eq!(q.draw_sorted(draws, &mut stream(1, Stage::Sample, 0, 0), &Silent).unwrap(), sorted);
    }

    #[test]
    fn the_ends_of_the_unit_interval_fall_on_rows_of_positive_weight() {
        let x = Array2::from_shape_fn((3 * BLOCK, 1), |(n, _)| n as f64);
        let w = Array1::from_shape_fn(3 * BLOCK, |n| f64::from(u8::from(n == 5 || n == BLOCK + 9)));
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        let q = Importance::new(&data, &[0.0], &Silent).unwrap();
        assert_eq!(q.locate(&[0.0, 1.0 - f64::EPSILON / 2.0, 1.0], &Silent).unwrap(), [5, BLOCK + 9, BLOCK + 9]);
    }

    #[test]
    fn pick_skips_items_without_mass() {
        let picked = |target| pick([0.0, 1.0, 0.0, 2.0, 0.0].into_iter(), target).map(|(i, _)| i);
        assert_eq!([picked(0.0), picked(0.999), picked(1.0), picked(9.0)], [Some(1), Some(1), Some(3), Some(3)]);
        assert_eq!(pick([0.0].into_iter(), 0.0), None);
    }
}
