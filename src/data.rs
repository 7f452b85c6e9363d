//! The data: a view of rows with optional weights, its moments, and the origin it is worked on from.

use crate::error::{Error, Result};
use crate::kernel::Columns;
use crate::observer::Observer;
use crate::parallel::map_blocks;
use crate::real::Real;
use ndarray::{ArrayView1, ArrayView2};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// Rows a block of the passes over the whole data has.
pub(crate) const BLOCK: usize = 2048;

/// N rows of D columns with a weight each, borrowed where they are in C order and copied where they are not.
///
/// ```
/// use dgmm::Dataset;
/// let x = ndarray::array![[0.0f32, 1.0], [2.0, 3.0]];
/// let data = Dataset::new(x.view())?.weighted(ndarray::array![1.0, 2.0].view())?;
/// assert_eq!((data.rows(), data.dim(), data.total_weight()), (2, 2, 3.0));
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Dataset<'a, T: Real> {
    values: Cow<'a, [T]>,
    rows: usize,
    dim: usize,
    weights: Option<Cow<'a, [f64]>>,
    total_weight: f64,
    positive_rows: usize,
}

impl<'a, T: Real> Dataset<'a, T> {
    /// A view of `values`; a copy only if they are not in C order.
    pub fn new(values: ArrayView2<'a, T>) -> Result<Self> {
        let (rows, dim) = values.dim();
        if rows == 0 {
            return Err(Error::NoRows);
        }
        if dim == 0 {
            return Err(Error::NoColumns);
        }
        let values = match values.to_slice() {
            Some(slice) => Cow::Borrowed(slice),
            None => Cow::Owned(values.iter().copied().collect()),
        };
        Ok(Self { values, rows, dim, weights: None, total_weight: rows as f64, positive_rows: rows })
    }

    /// The same rows with the given weights: row n counts as often as `weights[n]` says.
    pub fn weighted(mut self, weights: ArrayView1<'_, f64>) -> Result<Self> {
        if weights.len() != self.rows() {
            return Err(Error::WeightCount { weights: weights.len(), rows: self.rows() });
        }
        if let Some(row) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(Error::BadWeight { row, value: weights[row] });
        }
        self.positive_rows = weights.iter().filter(|&&w| w > 0.0).count();
        if self.positive_rows == 0 {
            return Err(Error::ZeroWeights);
        }
        self.total_weight = weights.iter().sum();
        if !self.total_weight.is_finite() {
            let row = weights.iter().position(|w| *w > f64::MAX / self.rows() as f64).unwrap_or(0);
            return Err(Error::BadWeight { row, value: weights[row] });
        }
        self.weights = Some(Cow::Owned(weights.to_vec()));
        Ok(self)
    }

    /// Number of rows N.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All values, row after row.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Row `n`.
    #[inline]
    pub fn row(&self, n: usize) -> &[T] {
        let dim = self.dim();
        &self.values()[n * dim..(n + 1) * dim]
    }

    /// Row `n` as counted from `origin`: itself where there is none, else its difference, made in `buffer`.
    #[inline]
    pub(crate) fn local<'s>(&'s self, n: usize, origin: Option<&[T]>, buffer: &'s mut Vec<T>) -> &'s [T] {
        let Some(origin) = origin else { return self.row(n) };
        buffer.clear();
        buffer.extend(self.row(n).iter().zip(origin).map(|(&x, &o)| x - o));
        buffer
    }

    /// The rows of a range, one after the other.
    pub fn range(&self, rows: Range<usize>) -> &[T] {
        let dim = self.dim();
        &self.values()[rows.start * dim..rows.end * dim]
    }

    /// The weights, where there are any.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The weight of row `n`.
    #[inline]
    pub fn weight(&self, n: usize) -> f64 {
        self.weights.as_deref().map_or(1.0, |w| w[n])
    }

    /// Sum of all weights.
    pub fn total_weight(&self) -> f64 {
        self.total_weight
    }

    /// A power of two near the mean weight where that is far from 1, so that sums of weights would leave the range of `f32`.
    pub(crate) fn weight_unit(&self) -> f64 {
        let mean = self.total_weight / self.positive_rows as f64;
        if (1e-6..1e6).contains(&mean) { 1.0 } else { mean.log2().floor().clamp(-1022.0, 1023.0).exp2() }
    }

    /// The same rows with weights counted in `unit`s.
    pub(crate) fn in_weights_of(&self, unit: f64) -> Self {
        let weights: Option<Cow<'a, [f64]>> = self.weights().map(|w| w.iter().map(|w| w / unit).collect());
        Self { weights, total_weight: self.total_weight / unit, ..self.clone() }
    }

    /// Number of rows with a positive weight.
    pub fn positive_rows(&self) -> usize {
        self.positive_rows
    }

    /// Mean and variance in one parallel pass, which also checks that every value is finite and that squared distances
    /// fit into `T`. Block moments are merged by the formula of Chan, Golub and LeVeque (1979), in block order.
    pub fn moments(&self, observer: &dyn Observer) -> Result<Moments> {
        let blocks = map_blocks(self.rows(), BLOCK, observer, |_, rows| self.block_moments(rows))?;
        let mut all = Moments::empty(self.dim());
        for block in &blocks {
            all.merge(block);
        }
        self.check_range(&all)?;
        Ok(all)
    }

    fn block_moments(&self, rows: Range<usize>) -> Moments {
        let weights = self.weights().map(|w| &w[rows.clone()]);
        let weight = weights.map_or(rows.len() as f64, |w| w.iter().sum());
        let mut columns = Columns::new(self.dim());
        T::add_columns(self.range(rows.clone()), weights, &mut columns);
        let Columns { sum: mut mean, min, max, finite } = columns;
        let mut scatter = vec![0.0; self.dim()];
        if weight > 0.0 {
            mean.iter_mut().for_each(|x| *x /= weight);
            T::add_scatter(self.range(rows), weights, &mean, &mut scatter);
        }
        Moments { weight, mean, scatter: scatter.iter().sum(), min, max, finite: finite.iter().sum() }
    }

    fn check_range(&self, moments: &Moments) -> Result<()> {
        if moments.finite != 0.0 {
            let i = self.values().iter().position(|x| !x.is_finite()).unwrap_or(0);
            let (row, column) = (i / self.dim(), i % self.dim());
            return Err(Error::NotFinite { row, column, value: self.values()[i].to_string() });
        }
        match widest::<T>(&moments.min, &moments.max) {
            (column, span, fits) if !fits || !moments.scatter.is_finite() => {
                Err(Error::Overflow { what: "X spans", column, span, kind: T::NAME })
            }
            _ => Ok(()),
        }
    }
}

/// Of all columns the one with the largest span, that span, and whether squared distances inside these bounds fit into `T`.
fn widest<T: Real>(min: &[f64], max: &[f64]) -> (usize, f64, bool) {
    let spans = min.iter().zip(max).map(|(a, b)| b - a);
    let (column, span) = spans.clone().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there is a column");
    // Posteriors, sums of distances and their merges need some room above a single squared distance.
    let largest: f64 = spans.map(|s| s * s).sum::<f64>() * 64.0;
    (column, span, largest < T::MAX.to_f64())
}

/// The order of two rows by their values, those of the first column first.
pub(crate) fn compare<T: Real>(a: &[T], b: &[T]) -> Ordering {
    let differing = a.iter().zip(b).map(|(x, y)| x.total_cmp(y)).find(|order| order.is_ne());
    differing.unwrap_or(Ordering::Equal)
}

/// Weighted mean and scatter of the rows.
#[derive(Debug, Clone)]
pub struct Moments {
    /// Sum of the weights.
    pub weight: f64,
    /// Weighted mean of each column.
    pub mean: Vec<f64>,
    /// Weighted sum of squared distances to the mean.
    pub scatter: f64,
    /// Smallest value of each column.
    pub min: Vec<f64>,
    /// Largest value of each column.
    pub max: Vec<f64>,
    /// 0 while all values are finite, NaN after the first that is not.
    finite: f64,
}

impl Moments {
    fn empty(dim: usize) -> Self {
        let (min, max) = (vec![f64::INFINITY; dim], vec![f64::NEG_INFINITY; dim]);
        Self { weight: 0.0, mean: vec![0.0; dim], scatter: 0.0, min, max, finite: 0.0 }
    }

    /// Checks that squared distances between the rows and `centers`, given row after row, fit into `T` too; `what` names both.
    pub(crate) fn check_reach<T: Real>(&self, what: &'static str, centers: impl Iterator<Item = T>) -> Result<()> {
        let (mut min, mut max) = (self.min.clone(), self.max.clone());
        for (x, d) in centers.zip((0..min.len()).cycle()) {
            min[d] = min[d].min(x.to_f64());
            max[d] = max[d].max(x.to_f64());
        }
        match widest::<T>(&min, &max) {
            (column, span, false) => Err(Error::Overflow { what, column, span, kind: T::NAME }),
            _ => Ok(()),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.finite += other.finite;
        for d in 0..self.mean.len() {
            self.min[d] = self.min[d].min(other.min[d]);
            self.max[d] = self.max[d].max(other.max[d]);
        }
        if other.weight == 0.0 {
            return;
        }
        let total = self.weight + other.weight;
        let share = other.weight / total;
        let mut apart = 0.0;
        for (a, b) in self.mean.iter_mut().zip(&other.mean) {
            let delta = b - *a;
            apart += delta * delta;
            *a += share * delta;
        }
        self.scatter += other.scatter + self.weight * share * apart;
        self.weight = total;
    }

    /// Variance per column, averaged over the columns: the s2 that a fit starts from.
    pub fn variance(&self) -> f64 {
        self.scatter / (self.weight * self.mean.len() as f64)
    }

    /// Where to count coordinates from: the mean if the data sit far from 0 for their spread, else 0 (`None`), which
    /// saves the subtraction. Working from there keeps |y|^2 - 2 y.mu + |mu|^2 from cancelling.
    pub fn origin<T: Real>(&self) -> Option<Vec<T>> {
        let offset: f64 = self.mean.iter().map(|m| m * m).sum();
        let far = offset > 4.0 * self.scatter / self.weight;
        far.then(|| self.mean.iter().map(|&m| T::from_f64(m)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use ndarray::{Array2, array};

    #[test]
    fn moments_are_those_of_the_formula_and_survive_an_offset_of_1e6() {
        let x = Array2::from_shape_fn((5000, 3), |(n, d)| ((n * 7 + d * 3) % 11) as f64);
        let near = Dataset::new(x.view()).unwrap().moments(&Silent).unwrap();
        let shifted = x.mapv(|v| v + 1e6);
        let far = Dataset::new(shifted.view()).unwrap().moments(&Silent).unwrap();
        let mean = x.mean_axis(ndarray::Axis(0)).unwrap();
        let scatter = (&x - &mean).mapv(|v| v * v).sum();
        approx::assert_relative_eq!(near.scatter, scatter, max_relative = 1e-12);
        approx::assert_relative_eq!(far.scatter, scatter, max_relative = 1e-9);
        assert!(near.origin::<f64>().is_none() && far.origin::<f64>().is_some());
    }

    #[test]
    fn a_row_of_weight_zero_does_not_count() {
        let x = array![[1.0], [3.0], [1e9]];
        let data = Dataset::new(x.view()).unwrap().weighted(array![1.0, 1.0, 0.0].view()).unwrap();
        let m = data.moments(&Silent).unwrap();
        assert_eq!((m.mean[0], m.scatter, data.positive_rows()), (2.0, 2.0, 2));
    }

    #[test]
    fn bad_values_and_weights_are_named() {
        let x = array![[0.0f32, 1.0], [f32::NAN, 2.0]];
        let e = Dataset::new(x.view()).unwrap().moments(&Silent).unwrap_err();
        assert_eq!(e.to_string(), "X[1, 0] is NaN; every value must be finite");
        let x = array![[0.0f32], [3e38]];
        let e = Dataset::new(x.view()).unwrap().moments(&Silent).unwrap_err();
        assert!(matches!(e, Error::Overflow { column: 0, .. }), "{e}");
        let data = || Dataset::new(x.view()).unwrap();
        assert_eq!(data().weighted(array![1.0].view()).unwrap_err(), Error::WeightCount { weights: 1, rows: 2 });
        assert_eq!(data().weighted(array![0.0, 0.0].view()).unwrap_err(), Error::ZeroWeights);
        assert!(matches!(data().weighted(array![1.0, -2.0].view()), Err(Error::BadWeight { row: 1, .. })));
        assert_eq!(Dataset::new(Array2::<f32>::zeros((0, 2)).view()).unwrap_err(), Error::NoRows);
    }

    #[test]
    fn columns_in_fortran_order_are_copied_into_rows() {
        let x = array![[1.0, 2.0], [3.0, 4.0]];
        assert_eq!(Dataset::new(x.t()).unwrap().row(0), &[1.0, 3.0]);
    }
}
