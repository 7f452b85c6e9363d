//! Samples of rows that can grow, nest and merge: priority sampling.
//!
//! N. Duffield, C. Lund and M. Thorup, "Priority sampling for estimation of arbitrary subset sums" (Journal of the ACM,
//! 2007). A row of weight w and importance p = w g gets the key u / p, with u uniform in (0, 1), and the k rows with
//! the smallest keys are kept. If t is the smallest key of the other rows, row n represents the weight
//!
//! ```text
//! w_n / min(1, p_n t)
//! ```
//! which makes every weighted sum over the sample an unbiased estimate of the sum over all rows. With g = 1 and equal
//! weights this is a uniform sample without replacement. Because u depends only on the seed and the row number,
//!
//! - the samples of two parts of the rows merge to the sample of all, in any order and over any tree;
//! - a smaller sample is a prefix of a larger one, in the order of the keys;
//! - one pass is enough, whether or not the number of rows is known.

use super::{BLOCK, Dataset};
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::{collected, copied, entries, filled, reserve};
use crate::observer::Observer;
use crate::parallel::map_blocks;
use crate::rng::Keys;
use rayon::prelude::*;
use std::cmp::Ordering;

/// Number of rows whose keys are computed before the sample is cut to its size.
pub(super) const AT_ONCE: usize = 1 << 18;
/// The largest importance: beyond it keys would lose their digits, and such rows are in the sample anyway.
const MOST: f64 = (1u64 << 60) as f64;
/// Name of a sample in messages.
const SAMPLE: &str = "a sample of the rows";

/// A row of the sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sampled {
    pub key: f64,
    /// Row number in all of the data.
    pub row: u64,
    pub weight: f64,
    /// How much likelier the row is drawn than by its weight alone.
    pub importance: f64,
}

/// The `size` rows with the smallest keys, and one more. See the [module](self).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PrioritySample<T> {
    pub size: usize,
    pub dim: usize,
    /// Keys above it are left out, if enough rows are known to come that they would be dropped in the end.
    pub bound: f64,
    /// The rows, smallest key first.
    pub rows: Vec<Sampled>,
    /// The values of `rows`, in the same order; empty if the data remain available.
    pub values: Vec<T>,
    pub in_memory: bool,
}

impl<T: Real> PrioritySample<T> {
    pub fn new(size: usize, dim: usize) -> Self {
        Self { size, dim, bound: f64::INFINITY, rows: Vec::new(), values: Vec::new(), in_memory: false }
    }

    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        Ok(Self { rows: copied(&self.rows, SAMPLE)?, values: copied(&self.values, SAMPLE)?, ..*self })
    }

    /// A sample for data that will have `rows` rows in total, all of weight 1 and with an [`importance`]: rows that
    /// have no chance to stay are left out from the start.
    pub fn of_total(size: usize, dim: usize, rows: u64) -> Self {
        let enough = size as f64 + 8.0 * (size as f64).sqrt() + 64.0;
        // As if all of them had the smallest importance.
        Self { bound: 2.0 * enough / rows as f64, ..Self::new(size, dim) }
    }

    /// Adds the rows of `data`, the first of which has number `first_row`; `importance` says how much likelier a row is
    /// drawn than by its weight alone.
    pub fn add(
        &mut self,
        data: &Dataset<'_, T>,
        first_row: u64,
        keys: Keys,
        importance: impl Fn(&[T]) -> f64 + Sync,
        observer: &dyn Observer,
    ) -> Result<()> {
        for start in (0..data.rows()).step_by(AT_ONCE) {
            let rows = AT_ONCE.min(data.rows() - start);
            let bound = self.bound;
            let found = map_blocks(rows, BLOCK, observer, |_, block| {
                let (mut found, mut values) = (Vec::new(), Vec::new());
                for n in start + block.start..start + block.end {
                    let (row, weight) = (first_row + n as u64, data.weight(n));
                    if weight > 0.0 {
                        let importance = importance(data.row(n, &mut values));
                        let key = keys.unit(row) / (weight * importance);
                        if key <= bound {
                            found.push(Sampled { key, row, weight, importance });
                        }
                    }
                }
                found
            })?;
            self.add_found(found.iter().map(Vec::as_slice), data, first_row)?;
            self.trim_if_large()?;
        }
        self.cut()
    }

    /// Adds the rows that were `found` in blocks of `data`, whose first row has number `first_row`.
    pub fn add_found<'f>(
        &mut self,
        found: impl IntoIterator<Item = &'f [Sampled], IntoIter: Clone>,
        data: &Dataset<'_, T>,
        first_row: u64,
    ) -> Result<()> {
        let found = found.into_iter();
        let count = found.clone().map(<[Sampled]>::len).sum();
        let held = if self.in_memory { 0 } else { self.dim };
        reserve(&mut self.values, entries(count, held, SAMPLE)?, SAMPLE)?;
        reserve(&mut self.rows, count, SAMPLE)?;
        let mut values = Vec::new();
        for sampled in found.flatten() {
            if !self.in_memory {
                self.values.extend_from_slice(data.row((sampled.row - first_row) as usize, &mut values));
            }
            self.rows.push(*sampled);
        }
        Ok(())
    }

    /// Merges another sample into this one.
    pub fn merge(&mut self, other: Self) -> Result<()> {
        reserve(&mut self.values, other.values.len(), SAMPLE)?;
        reserve(&mut self.rows, other.rows.len(), SAMPLE)?;
        self.size = self.size.min(other.size);
        self.bound = self.bound.min(other.bound);
        self.rows.extend(other.rows);
        self.values.extend(other.values);
        self.cut()
    }

    /// [Trims](Self::trim) the sample once it has twice as many rows as needed, for constant amortized time per row.
    pub fn trim_if_large(&mut self) -> Result<()> {
        if self.rows.len() / 2 > self.size { self.trim() } else { Ok(()) }
    }

    /// Keeps the `size` rows with the smallest keys and one more; larger keys are not accepted from then on.
    pub fn trim(&mut self) -> Result<()> {
        let mut last = (self.bound, u64::MAX);
        let mut keys = Vec::new();
        reserve(&mut keys, self.rows.len(), SAMPLE)?;
        keys.extend(self.rows.iter().map(|s| (s.key, s.row)).filter(|key| !after(key, &last)));
        if keys.len() > self.size {
            last = *keys.select_nth_unstable_by(self.size, by_key).1;
            self.bound = last.0;
        }
        // Without values there is nothing to move.
        let (dim, mut kept) = (if self.in_memory { 0 } else { self.dim }, 0);
        for i in 0..self.rows.len() {
            if !after(&(self.rows[i].key, self.rows[i].row), &last) {
                self.rows[kept] = self.rows[i];
                self.values.copy_within(i * dim..(i + 1) * dim, kept * dim);
                kept += 1;
            }
        }
        self.rows.truncate(kept);
        self.values.truncate(kept * dim);
        Ok(())
    }

    /// [Trims](Self::trim) the sample and sorts it by key.
    pub fn cut(&mut self) -> Result<()> {
        self.trim()?;
        let dim = if self.in_memory { 0 } else { self.dim };
        let mut order = collected(0..self.rows.len(), SAMPLE)?;
        order.sort_unstable_by(|&a, &b| {
            by_key(&(self.rows[a].key, self.rows[a].row), &(self.rows[b].key, self.rows[b].row))
        });
        let mut values = filled(T::ZERO, self.values.len(), SAMPLE)?;
        for (to, &i) in values.chunks_exact_mut(dim.max(1)).zip(&order) {
            to.copy_from_slice(&self.values[i * dim..(i + 1) * dim]);
        }
        self.rows = collected(order.iter().map(|&i| self.rows[i]), SAMPLE)?;
        self.values = values;
        Ok(())
    }

    /// The first `size` rows, in the order of the data, and the weight that each represents. `data` has their values if
    /// they were left there.
    pub fn take(&self, size: usize, data: Option<&Dataset<'_, T>>) -> Result<(Vec<T>, Vec<f64>)> {
        let (first, dim) = (self.first(size)?, self.dim);
        let mut values = filled(T::ZERO, first.len() * dim, SAMPLE)?;
        values.par_chunks_mut(64 * dim).zip(first.par_chunks(64)).for_each(|(values, first)| {
            let mut row = Vec::new();
            for (to, &(i, _)) in values.chunks_exact_mut(dim).zip(first) {
                to.copy_from_slice(match data {
                    Some(data) => data.row(self.rows[i].row as usize, &mut row),
                    None => &self.values[i * dim..(i + 1) * dim],
                });
            }
        });
        Ok((values, collected(first.into_iter().map(|(_, weight)| weight), SAMPLE)?))
    }

    /// The first `size` rows, in the order of the data: the position of each in `values`, and the weight that it
    /// represents.
    pub fn first(&self, size: usize) -> Result<Vec<(usize, f64)>> {
        let size = size.min(self.size);
        // If no key was left out, all rows are there.
        let threshold = self.rows.get(size).map_or(self.bound, |next| next.key);
        let stands_for = |s: &Sampled| s.weight / (s.weight * s.importance * threshold).min(1.0);
        let mut first = collected(self.rows.iter().map(stands_for).enumerate().take(size), SAMPLE)?;
        first.sort_unstable_by_key(|&(i, _)| self.rows[i].row);
        Ok(first)
    }
}

/// How much likelier than by its weight alone a row at this squared distance is drawn, given the mean squared distance:
/// at least 1/2. The same for all rows if all are equal.
#[inline]
pub(crate) fn importance(distance: f64, mean_distance: f64) -> f64 {
    if mean_distance > 0.0 && mean_distance < f64::INFINITY {
        (0.5 + 0.5 * (distance / mean_distance)).min(MOST)
    } else {
        1.0
    }
}

/// A key and its row number.
type Key = (f64, u64);

fn by_key(a: &Key, b: &Key) -> Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

fn after(a: &Key, b: &Key) -> bool {
    by_key(a, b).is_gt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use ndarray::{Array1, Array2};
    use proptest::prelude::*;

    fn rows(count: usize) -> Array2<f32> {
        Array2::from_shape_fn((count, 2), |(n, d)| ((n * 31 + d * 17) % 101) as f32)
    }

    fn sample(data: &Dataset<'_, f32>, first_row: u64, size: usize, seed: u64) -> PrioritySample<f32> {
        let mut sample = PrioritySample::new(size, 2);
        sample.add(data, first_row, Keys::new(seed), |row| 1.0 + f64::from(row[0]), &Silent).unwrap();
        sample
    }

    proptest! {
        #[test]
        fn parts_merge_to_the_sample_of_all(count in 2usize..3000, cut in 1usize..2999, size in 1usize..700, seed in 0u64..99) {
            let x = rows(count);
            let w = Array1::from_shape_fn(count, |n| if n % 7 == 3 { 0.0 } else { 1.0 + (n % 5) as f64 });
            let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
            let whole = sample(&data, 0, size, seed);
            let cut = cut.min(count - 1);
            let (mut a, b) = (sample(&data.slice(0..cut).unwrap(), 0, size, seed),
                              sample(&data.slice(cut..count).unwrap(), cut as u64, size, seed));
            let mut reversed = b.clone();
            reversed.merge(a.clone()).unwrap();
            a.merge(b).unwrap();
            prop_assert_eq!(&a, &whole);
            prop_assert_eq!(&reversed, &whole);
            // A smaller sample is a prefix.
            let smaller = sample(&data, 0, size.div_ceil(2), seed);
            prop_assert_eq!(&smaller.rows[..], &whole.rows[..smaller.rows.len()]);
            let weights = |s: &PrioritySample<f32>, first: Vec<(usize, f64)>| {
                first.into_iter().map(|(i, w)| (s.rows[i].row, w)).collect::<Vec<_>>()
            };
            let half = size.div_ceil(2);
            prop_assert_eq!(weights(&smaller, smaller.first(half).unwrap()), weights(&whole, whole.first(half).unwrap()));
            prop_assert!(whole.first(size).unwrap().iter().all(|&(i, _)| w[whole.rows[i].row as usize] > 0.0));
        }
    }

    #[test]
    fn weighted_sums_are_unbiased_and_a_sample_of_all_rows_is_exact() {
        let x = rows(4000);
        let w = Array1::from_shape_fn(4000, |n| if n == 17 { 5000.0 } else { 1.0 + (n % 3) as f64 });
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        let exact: f64 = (0..4000).map(|n| w[n] * f64::from(x[[n, 1]])).sum();
        let sum = |seed| {
            let s = sample(&data, 0, 300, seed);
            s.first(300).unwrap().iter().map(|&(i, w)| w * f64::from(s.values[2 * i + 1])).sum::<f64>()
        };
        let sums: Vec<f64> = (0..400).map(sum).collect();
        let mean = sums.iter().sum::<f64>() / 400.0;
        let deviation = (sums.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / 399.0 / 400.0).sqrt();
        assert!((mean - exact).abs() < 4.0 * deviation, "{mean} is not {exact}, with an error of {deviation}");
        let all = sample(&data, 0, 4000, 1);
        assert_eq!(all.first(4000), sample(&data, 0, 9999, 1).first(4000));
        assert!(
            all.first(4000).unwrap().iter().enumerate().all(|(n, &(i, v))| all.rows[i].row == n as u64 && v == w[n])
        );
    }

    #[test]
    fn knowing_the_total_changes_nothing_but_the_work() {
        let x = rows(20_000);
        let data = Dataset::new(x.view()).unwrap();
        let (mut known, mut unknown) = (PrioritySample::of_total(500, 2, 20_000), PrioritySample::new(500, 2));
        for sample in [&mut known, &mut unknown] {
            sample.add(&data, 0, Keys::new(3), |_| 1.0, &Silent).unwrap();
        }
        assert_eq!(known, unknown);
        assert_eq!(known.rows.len(), 501);
        let mut in_memory = PrioritySample { in_memory: true, ..PrioritySample::of_total(500, 2, 20_000) };
        in_memory.add(&data, 0, Keys::new(3), |_| 1.0, &Silent).unwrap();
        assert!(in_memory.values.is_empty());
        assert_eq!(in_memory.take(400, Some(&data)), known.take(400, None));
    }
}
