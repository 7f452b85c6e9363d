//! Mean, spread and bounds of the data, and the origin that coordinates are relative to.

use super::dataset::{BLOCK, Dataset};
use crate::error::{Error, Result, Spanning};
use crate::kernel::{Columns, Real};
use crate::observer::Observer;
use crate::parallel::map_blocks;
use std::ops::Range;

impl<T: Real> Dataset<'_, T> {
    /// Mean and variance in one parallel pass, which also checks that every value is finite and that squared distances
    /// fit in `T`. Block moments are merged by the formula of Chan, Golub and LeVeque (1979), in block order.
    pub fn moments(&self, observer: &dyn Observer) -> Result<Moments> {
        let blocks = map_blocks(self.rows(), BLOCK, observer, |_, rows| self.block_moments(rows))?;
        let mut all = Moments::empty(self.dim());
        for block in &blocks {
            all.merge(block);
        }
        if all.finite != 0.0 {
            let i = self.given().iter().position(|x| !x.is_finite()).unwrap_or(0);
            let (row, column) = (i / self.dim(), i % self.dim());
            return Err(Error::NotFinite { row, column, value: self.given()[i].to_string() });
        }
        all.check_range::<T>()?;
        Ok(all)
    }

    pub(super) fn block_moments(&self, rows: Range<usize>) -> Moments {
        let weights = self.weights().map(|w| &w[rows.clone()]);
        let weight = weights.map_or(rows.len() as f64, |w| w.iter().sum());
        let mut columns = Columns::new(self.dim());
        self.for_portions(rows.clone(), |part, weights| T::add_columns(part, weights, &mut columns));
        let Columns { sum: mut mean, min, max, finite } = columns;
        let mut scatter = vec![0.0; self.dim()];
        if weight > 0.0 {
            mean.iter_mut().for_each(|x| *x /= weight);
            self.for_portions(rows, |part, weights| T::add_scatter(part, weights, &mean, &mut scatter));
        }
        Moments { weight, mean, scatter: scatter.iter().sum(), min, max, finite: finite.iter().sum() }
    }

    /// Calls `take` with the rows of a range as used in computations and their weights: all at once, or in small
    /// portions, which stay in cache, if the rows must be computed.
    fn for_portions(&self, rows: Range<usize>, mut take: impl FnMut(&[T], Option<&[f64]>)) {
        let size = if self.factors().is_some() { PORTION } else { rows.len().max(1) };
        let mut buffer = Vec::new();
        for start in rows.clone().step_by(size) {
            let part = start..(start + size).min(rows.end);
            take(self.range(part.clone(), &mut buffer), self.weights().map(|w| &w[part]));
        }
    }
}

/// Number of rows computed at a time.
const PORTION: usize = 32;
/// Factor by which the squared distance across all data must exceed the smallest normal number, because other distances
/// are far smaller.
const ROOM_BELOW: f64 = (1 << 20) as f64;

/// Headroom above a single squared distance that posteriors, sums of distances and their merges need.
const ROOM_ABOVE: f64 = 64.0;

/// The column with the largest span, that span, and whether the sum of `room` squared distances within these bounds fits
/// in `T`.
fn widest<T: Real>(min: &[f64], max: &[f64], room: f64) -> (usize, f64, bool) {
    let spans = min.iter().zip(max).map(|(a, b)| b - a);
    let (column, span) = spans.clone().enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).expect("there is a column");
    let largest: f64 = spans.map(|s| s * s).sum::<f64>() * room;
    (column, span, largest < T::MAX.to_f64())
}

/// Weighted mean and scatter of the rows.
#[derive(Debug, Clone, PartialEq)]
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
    /// 0 as long as all values are finite, NaN from the first that is not.
    finite: f64,
}

impl Moments {
    pub(super) fn empty(dim: usize) -> Self {
        let (min, max) = (vec![f64::INFINITY; dim], vec![f64::NEG_INFINITY; dim]);
        Self { weight: 0.0, mean: vec![0.0; dim], scatter: 0.0, min, max, finite: 0.0 }
    }

    /// Checks that the sum of the weights of merged parts is finite.
    pub(crate) fn check_weight(&self) -> Result<()> {
        if self.weight.is_finite() {
            return Ok(());
        }
        Err(Error::bad("the sum of all weights", self.weight, format!("at most {:e}", f64::MAX)))
    }

    /// Checks that squared distances between the rows fit in `T`.
    pub(crate) fn check_range<T: Real>(&self) -> Result<()> {
        match widest::<T>(&self.min, &self.max, ROOM_ABOVE) {
            (column, span, fits) if !fits || !self.scatter.is_finite() => {
                Err(Error::Overflow { what: Spanning::Data, column, span, kind: T::NAME })
            }
            _ => Ok(()),
        }
    }

    /// Checks that data to be fitted have enough spread for squared distances to keep their digits in `T`. Constant
    /// data are accepted: all distances are 0.
    pub(crate) fn check_spread<T: Real>(&self) -> Result<()> {
        let (column, span, _) = widest::<T>(&self.min, &self.max, ROOM_ABOVE);
        let largest: f64 = self.min.iter().zip(&self.max).map(|(a, b)| (b - a) * (b - a)).sum();
        if span == 0.0 || largest >= T::MIN_POSITIVE.to_f64() * ROOM_BELOW {
            return Ok(());
        }
        Err(Error::Underflow { column, span, kind: T::NAME })
    }

    /// Checks that squared distances between the rows and `centers`, given row-major, also fit in `T`; `what` names
    /// both. With `sums`, their sums over all rows must fit, too.
    pub(crate) fn check_reach<T: Real>(
        &self,
        what: Spanning,
        centers: impl Iterator<Item = T>,
        sums: bool,
    ) -> Result<()> {
        let (mut min, mut max) = (self.min.clone(), self.max.clone());
        for (x, d) in centers.zip((0..min.len()).cycle()) {
            min[d] = min[d].min(x.to_f64());
            max[d] = max[d].max(x.to_f64());
        }
        let room = if sums { ROOM_ABOVE.max(self.weight) } else { ROOM_ABOVE };
        match widest::<T>(&min, &max, room) {
            (column, span, false) => Err(Error::Overflow { what, column, span, kind: T::NAME }),
            _ => Ok(()),
        }
    }

    /// Merges the moments of other rows, by the formula of Chan, Golub and LeVeque (1979).
    pub(crate) fn merge(&mut self, other: &Self) {
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

    /// Moments from their parts, for rows that are all finite.
    pub(crate) fn of(weight: f64, scatter: f64, mean: Vec<f64>, min: Vec<f64>, max: Vec<f64>) -> Self {
        Self { weight, mean, scatter, min, max, finite: 0.0 }
    }

    /// The moments with weights in units of `unit`, a power of two.
    pub(crate) fn in_weights_of(&self, unit: f64) -> Self {
        Self { weight: self.weight / unit, scatter: self.scatter / unit, ..self.clone() }
    }

    /// Variance per column, averaged over the columns: the initial s2 of a fit.
    pub fn variance(&self) -> f64 {
        self.scatter / (self.weight * self.mean.len() as f64)
    }

    /// The origin of coordinates: the mean if the data are far from 0 relative to their spread, else 0 (`None`), which
    /// saves the subtraction. It keeps |y|^2 - 2 y.mu + |mu|^2 from cancelling.
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
        assert_eq!(e.to_string(), "data[1, 0] is NaN; every value must be finite");
        let x = array![[0.0f32], [3e38]];
        let e = Dataset::new(x.view()).unwrap().moments(&Silent).unwrap_err();
        assert!(matches!(e, Error::Overflow { column: 0, .. }), "{e}");
        let data = || Dataset::new(x.view()).unwrap();
        assert_eq!(data().weighted(array![1.0].view()).unwrap_err(), Error::WeightCount { weights: 1, rows: 2 });
        assert_eq!(data().weighted(array![0.0, 0.0].view()).unwrap_err(), Error::ZeroWeights);
        assert!(matches!(data().weighted(array![1.0, -2.0].view()), Err(Error::BadWeight { row: 1, .. })));
        let vast = data().weighted(array![1e308, 1.5e308].view()).unwrap_err();
        assert_eq!(vast, Error::WeightSum { row: 1, value: 1.5e308 });
        assert_eq!(Dataset::new(Array2::<f32>::zeros((0, 2)).view()).unwrap_err(), Error::NoRows);
    }

    #[test]
    fn data_whose_squared_distances_underflow_are_refused_and_constant_data_are_not() {
        let spread = |x: Array2<f32>| {
            let data = Dataset::new(x.view()).unwrap();
            data.moments(&Silent).unwrap().check_spread::<f32>()
        };
        let e = spread(array![[0.0, 3.0], [1e-18, 3.0]]).unwrap_err().to_string();
        let words = "in column 0; squared distances underflow float32: rescale data or use a wider type";
        assert!(e.starts_with("data spans only 1.00000") && e.ends_with(words), "{e}");
        assert_eq!((spread(array![[1e-30], [1e-30]]), spread(array![[1e-14], [0.0]])), (Ok(()), Ok(())));
        let x = array![[0.0], [1e-200]];
        let data = Dataset::new(x.view()).unwrap();
        let e = data.moments(&Silent).unwrap().check_spread::<f64>().unwrap_err();
        assert_eq!(e, Error::Underflow { column: 0, span: 1e-200, kind: "float64" });
    }

    #[test]
    fn columns_in_fortran_order_are_copied_into_rows() {
        let x = array![[1.0, 2.0], [3.0, 4.0]];
        assert_eq!(Dataset::new(x.t()).unwrap().given_row(0), &[1.0, 3.0]);
    }
}
