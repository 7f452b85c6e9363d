//! Small data sets are fitted in a canonical order: the rows of positive weight, sorted by their values, with equal
//! rows merged and their weights added.
//!
//! The order of the rows then changes no bit of a fit, nor does replacing a row that occurs twice by one of weight 2,
//! or leaving out a row of weight 0, even though random draws depend on the positions of rows. Larger data keep their
//! order, because sorting and copying them would not be worth the cost; for them these promises hold up to rounding,
//! given the initial centers, if the search is exhaustive.

use super::{BLOCK, Dataset, compare};
use crate::error::Result;
use crate::kernel::Real;
use crate::options::Metric;
use ndarray::{Array2, ArrayView1};

/// The distinct rows of a small data set, with their weights added. See the [module](self).
pub(crate) struct DistinctRows<T> {
    rows: Array2<T>,
    weights: Vec<f64>,
    /// For each row of the data its index in `rows`; `None` for rows of weight 0.
    places: Vec<Option<usize>>,
    metric: Metric,
}

impl<T: Real> DistinctRows<T> {
    /// The distinct rows of `data`, if it has at most [`BLOCK`] rows and all values are finite. If there are fewer than
    /// `least`, copies of the first rows share their weight, so that there are as many rows as clusters.
    pub fn of(data: &Dataset<'_, T>, least: usize) -> Option<Self> {
        if data.rows() > BLOCK || data.given().iter().any(|x| !x.is_finite()) {
            return None;
        }
        let mut buffer = Vec::new();
        let values = data.range(0..data.rows(), &mut buffer);
        let row = |n: usize| &values[n * data.dim()..(n + 1) * data.dim()];
        let mut order: Vec<usize> = (0..data.rows()).filter(|&n| data.weight(n) > 0.0).collect();
        let by_weight = |a: usize, b: usize| data.weight(a).total_cmp(&data.weight(b));
        order.sort_by(|&a, &b| compare(row(a), row(b)).then_with(|| by_weight(a, b)));
        let (mut chosen, mut weights, mut places) = (Vec::new(), Vec::new(), vec![None; data.rows()]);
        for n in order {
            match (chosen.last(), weights.last_mut()) {
                (Some(&last), Some(weight)) if compare(row(last), row(n)).is_eq() => {
                    *weight += data.weight(n);
                }
                _ => {
                    chosen.push(n);
                    weights.push(data.weight(n));
                }
            }
            places[n] = Some(chosen.len() - 1);
        }
        let distinct = chosen.len();
        let copies = |i: usize| ((least + distinct - 1 - i) / distinct).max(1);
        for i in distinct..least {
            chosen.push(chosen[i % distinct]);
            weights.push(weights[i % distinct] / copies(i % distinct) as f64);
        }
        for (i, weight) in weights[..distinct].iter_mut().enumerate() {
            *weight /= copies(i) as f64;
        }
        let rows = Array2::from_shape_fn((chosen.len(), data.dim()), |(i, d)| row(chosen[i])[d]);
        Some(Self { rows, weights, places, metric: data.metric() })
    }

    /// The rows as weighted data.
    pub fn dataset(&self) -> Result<Dataset<'_, T>> {
        let data = Dataset::new(self.rows.view())?.weighted(ArrayView1::from(&self.weights))?;
        Ok(data.already(self.metric))
    }

    /// Whether some rows occur more than once, because there are fewer distinct rows than clusters.
    pub fn has_copies(&self) -> bool {
        self.places.iter().flatten().max().is_some_and(|&last| last + 1 < self.weights.len())
    }

    /// The labels of the given rows from those of the distinct rows. `other` labels the rows of weight 0, which the fit
    /// has not seen.
    pub fn labels(&self, labels: &[u32], other: impl FnOnce() -> Result<Vec<u32>>) -> Result<Vec<u32>> {
        let seen = self.places.iter().all(Option::is_some);
        let other = if seen { Vec::new() } else { other()? };
        let label = |(n, place): (usize, &Option<usize>)| place.map_or_else(|| other[n], |i| labels[i]);
        Ok(self.places.iter().enumerate().map(label).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn equal_rows_are_merged_and_copies_share_the_weight_of_too_few_rows() {
        let x = array![[2.0], [0.0], [2.0], [5.0], [7.0]];
        let data = Dataset::new(x.view()).unwrap().weighted(array![1.0, 3.0, 2.0, 6.0, 0.0].view()).unwrap();
        let distinct = |least| DistinctRows::of(&data, least).unwrap();
        assert_eq!((distinct(1).rows, distinct(1).weights), (array![[0.0], [2.0], [5.0]], vec![3.0, 3.0, 6.0]));
        let seven = distinct(7);
        assert!(seven.has_copies() && !distinct(3).has_copies());
        assert_eq!(seven.rows, array![[0.0], [2.0], [5.0], [0.0], [2.0], [5.0], [0.0]]);
        assert_eq!(seven.weights, [1.0, 1.5, 3.0, 1.0, 1.5, 3.0, 1.0]);
        let labels = seven.labels(&[4, 5, 6, 0, 0, 0, 0], || Ok(vec![9; 5])).unwrap();
        assert_eq!(labels, [5, 4, 5, 6, 9]);
    }
}
