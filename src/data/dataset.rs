//! The data: a view of rows with optional weights.

use crate::error::{Error, Result};
use crate::kernel::{Real, Table};
use crate::memory::collected;
use crate::options::Metric;
use ndarray::{ArrayView1, ArrayView2};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

/// Number of rows per block in passes over all data.
pub(crate) const BLOCK: usize = 2048;

/// N rows with D columns and a weight each. Borrowed if they are in C order, otherwise copied.
///
/// Rows may stand for their [directions](Self::directions) only, as with [`Metric::Cosine`]. The given rows then differ
/// from the rows used in computations, so each accessor says which of them it returns.
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
    pub(super) scaling: Scaling<'a, T>,
}

/// How the rows used in computations follow from the given rows.
#[derive(Debug, Clone)]
pub(super) enum Scaling<'a, T: Real> {
    /// They are the given rows.
    None,
    /// They are the given rows, which are unit vectors.
    Unit,
    /// The given rows times one factor per row, 1 / |y|.
    Factors(Cow<'a, [T]>),
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
            None => Cow::Owned(collected(values.iter().copied(), "rows")?),
        };
        let scaling = Scaling::None;
        Ok(Self { values, rows, dim, weights: None, total_weight: rows as f64, positive_rows: rows, scaling })
    }

    /// A view of consecutive rows of `dim` numbers.
    ///
    /// ```
    /// let data = dgmm::Dataset::from_slice(&[0.0f32, 1.0, 2.0, 3.0], 2)?;
    /// assert_eq!((data.rows(), data.dim()), (2, 2));
    /// # Ok::<(), dgmm::Error>(())
    /// ```
    pub fn from_slice(values: &'a [T], dim: usize) -> Result<Self> {
        if dim == 0 {
            return Err(Error::NoColumns);
        }
        if !values.len().is_multiple_of(dim) {
            return Err(Error::RaggedRows { values: values.len(), dim });
        }
        Self::new(ArrayView2::from_shape((values.len() / dim, dim), values).expect("whole rows"))
    }

    /// The data with these weights: row n counts as `weights[n]` copies of itself.
    pub fn weighted(self, weights: ArrayView1<'_, f64>) -> Result<Self> {
        match self.weighted_part(weights)? {
            data if data.positive_rows == 0 => Err(Error::ZeroWeights),
            data => Ok(data),
        }
    }

    /// [`weighted`](Self::weighted) for a part of the data: all of its weights may be 0.
    pub fn weighted_part(mut self, weights: ArrayView1<'_, f64>) -> Result<Self> {
        if weights.len() != self.rows() {
            return Err(Error::WeightCount { weights: weights.len(), rows: self.rows() });
        }
        if let Some(row) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(Error::BadWeight { row, value: weights[row] });
        }
        self.positive_rows = weights.iter().filter(|&&w| w > 0.0).count();
        self.total_weight = weights.iter().sum();
        if !self.total_weight.is_finite() {
            let row = (0..self.rows()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]).then(b.cmp(&a))).unwrap_or(0);
            return Err(Error::WeightSum { row, value: weights[row] });
        }
        self.weights = Some(Cow::Owned(collected(weights.iter().copied(), "weights")?));
        Ok(self)
    }

    /// A range of the rows as a dataset.
    pub fn slice(&self, rows: Range<usize>) -> Result<Dataset<'_, T>> {
        if rows.is_empty() {
            return Err(Error::NoRows);
        }
        let mut part = Dataset::from_slice(self.given_rows(rows.clone()), self.dim)?;
        part.scaling = match &self.scaling {
            Scaling::None => Scaling::None,
            Scaling::Unit => Scaling::Unit,
            Scaling::Factors(factors) => Scaling::Factors(Cow::Borrowed(&factors[rows.clone()])),
        };
        match self.weights() {
            None => Ok(part),
            Some(weights) => {
                let weights = &weights[rows];
                let (total_weight, positive_rows) =
                    (weights.iter().sum(), weights.iter().filter(|&&w| w > 0.0).count());
                Ok(Dataset { weights: Some(Cow::Borrowed(weights)), total_weight, positive_rows, ..part })
            }
        }
    }

    /// Number of rows N.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// All values as given, row-major.
    pub fn given(&self) -> &[T] {
        &self.values
    }

    /// Row `n` as given.
    #[inline]
    pub fn given_row(&self, n: usize) -> &[T] {
        let dim = self.dim();
        &self.given()[n * dim..(n + 1) * dim]
    }

    /// The rows of a range as given, row-major.
    pub fn given_rows(&self, rows: Range<usize>) -> &[T] {
        let dim = self.dim();
        &self.given()[rows.start * dim..rows.end * dim]
    }

    /// How rows are compared: [`Metric::Cosine`] if they stand for their directions.
    pub fn metric(&self) -> Metric {
        if matches!(self.scaling, Scaling::None) { Metric::Euclidean } else { Metric::Cosine }
    }

    /// The rows in the form that copying kernels take.
    pub(crate) fn table(&self) -> Table<'_, T> {
        Table { values: self.given(), dim: self.dim, factors: self.factors() }
    }

    /// The factor of each row, unless all are 1.
    #[inline]
    pub(crate) fn factors(&self) -> Option<&[T]> {
        if let Scaling::Factors(factors) = &self.scaling { Some(factors) } else { None }
    }

    /// Row `n` as used in computations; written to `buffer` if it differs from the given row.
    #[inline]
    pub(crate) fn row<'s>(&'s self, n: usize, buffer: &'s mut Vec<T>) -> &'s [T] {
        self.local(n, None, buffer)
    }

    /// The rows of a range as used in computations, row-major; written to `buffer` if they differ from the given rows.
    #[inline]
    pub(crate) fn range<'s>(&'s self, rows: Range<usize>, buffer: &'s mut Vec<T>) -> &'s [T] {
        let Some(factors) = self.factors() else { return self.given_rows(rows) };
        buffer.clear();
        for (row, &factor) in self.given_rows(rows.clone()).chunks_exact(self.dim).zip(&factors[rows]) {
            buffer.extend(row.iter().map(|&x| x * factor));
        }
        buffer
    }

    /// Calls `take` with the index of each row of a range and the row as used in computations.
    #[inline]
    pub(crate) fn for_rows(&self, rows: Range<usize>, mut take: impl FnMut(usize, &[T])) {
        if self.factors().is_none() {
            let values = self.given_rows(rows.clone());
            return rows.zip(values.chunks_exact(self.dim)).for_each(|(n, row)| take(n, row));
        }
        let mut buffer = Vec::new();
        rows.for_each(|n| take(n, self.row(n, &mut buffer)));
    }

    /// Row `n` as used in computations, relative to `origin` if there is one; written to `buffer` if it differs from
    /// the given row.
    #[inline]
    pub(crate) fn local<'s>(&'s self, n: usize, origin: Option<&[T]>, buffer: &'s mut Vec<T>) -> &'s [T] {
        let row = self.given_row(n);
        let factor = self.factors().map(|factors| factors[n]);
        if factor.is_none() && origin.is_none() {
            return row;
        }
        buffer.clear();
        match (factor, origin) {
            (Some(factor), Some(origin)) => buffer.extend(row.iter().zip(origin).map(|(&x, &o)| x * factor - o)),
            (Some(factor), None) => buffer.extend(row.iter().map(|&x| x * factor)),
            (None, Some(origin)) => buffer.extend(row.iter().zip(origin).map(|(&x, &o)| x - o)),
            (None, None) => unreachable!("handled above"),
        }
        buffer
    }

    /// The weights, if any.
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

    /// A power of two near the mean weight if that is so far from 1 that sums of weights could leave the range of
    /// `f32`; otherwise 1.
    pub(crate) fn weight_unit(&self) -> f64 {
        Self::unit_of(self.total_weight, self.positive_rows)
    }

    /// [`weight_unit`](Self::weight_unit) for rows with this sum of weights.
    pub(crate) fn unit_of(weight: f64, positive_rows: usize) -> f64 {
        let mean = weight / positive_rows.max(1) as f64;
        if mean == 0.0 || (1e-6..1e6).contains(&mean) { 1.0 } else { mean.log2().floor().clamp(-1022.0, 1023.0).exp2() }
    }

    /// The same rows with weights in units of `unit`. No positive weight becomes 0.
    pub(crate) fn in_weights_of(&self, unit: f64) -> Result<Self> {
        let scaled = self.weights().map(|w| collected(w.iter().map(|&w| in_units(w, unit)), "weights")).transpose()?;
        let (weights, total_weight) = (scaled.map(Cow::Owned), self.total_weight / unit);
        Ok(Self { values: self.values.clone(), weights, total_weight, scaling: self.scaling.clone(), ..*self })
    }

    /// Number of rows with a positive weight.
    pub fn positive_rows(&self) -> usize {
        self.positive_rows
    }
}

/// A weight in units of `unit`, which is 0 only if the weight is 0.
fn in_units(weight: f64, unit: f64) -> f64 {
    if weight > 0.0 { (weight / unit).max(f64::MIN_POSITIVE) } else { weight }
}

/// Lexicographic order of two rows.
pub(crate) fn compare<T: Real>(a: &[T], b: &[T]) -> Ordering {
    let differing = a.iter().zip(b).map(|(x, y)| x.total_cmp(y)).find(|order| order.is_ne());
    differing.unwrap_or(Ordering::Equal)
}
