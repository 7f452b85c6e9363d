//! Directions: each row is used as y / |y|, and its length is ignored.
//!
//! No row is copied. One factor 1 / |y| per row is kept, and rows are multiplied by it when they are read. The length
//! is computed in `f64` after dividing by a power of two near the largest entry, so it neither overflows nor
//! underflows, and scaling a row by a power of two changes no bit of its direction.

use super::dataset::{BLOCK, Dataset, Scaling};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::filled;
use crate::observer::Observer;
use crate::options::Metric;
use crate::parallel::Run;
use rayon::prelude::*;
use std::borrow::Cow;

impl<'a, T: Real> Dataset<'a, T> {
    /// The same rows reduced to their directions, as used by [`Metric::Cosine`]. Refuses rows of zeros, which have no
    /// direction.
    ///
    /// Fits and models with that metric do this themselves. Doing it once saves them a pass over the rows at each call.
    ///
    /// ```
    /// use dgmm::{Dataset, Metric, Run};
    /// let x = ndarray::array![[3.0f32, 4.0], [0.0, 2.0], [0.0, 0.0]];
    /// let data = Dataset::new(x.view())?;
    /// assert_eq!(data.slice(0..2)?.directions(&Run::default())?.metric(), Metric::Cosine);
    /// let error = data.directions(&Run::default()).unwrap_err().to_string();
    /// assert_eq!(error, "row 2 of data is all zeros: metric=\"cosine\" needs rows with a direction");
    /// # Ok::<(), dgmm::Error>(())
    /// ```
    pub fn directions(&self, run: &Run<'_>) -> Result<Dataset<'_, T>> {
        run.install(|| self.for_metric(Metric::Cosine, 0, run.observer))
    }

    /// The rows as used by the metric, in the caller's thread pool; `first_row` is the index of the first, for
    /// messages.
    pub(crate) fn for_metric(&self, metric: Metric, first_row: u64, observer: &dyn Observer) -> Result<Dataset<'_, T>> {
        let mut same = self.slice(0..self.rows())?;
        if metric == Metric::Cosine && self.metric() != metric {
            same.scaling = Scaling::Factors(Cow::Owned(factors(self, first_row, observer)?));
        }
        Ok(same)
    }

    /// Marks the rows as already being in the form that the metric uses.
    pub(crate) fn already(mut self, metric: Metric) -> Self {
        if metric == Metric::Cosine {
            self.scaling = Scaling::Unit;
        }
        self
    }
}

/// 1 / |y| of each row.
fn factors<T: Real>(data: &Dataset<'_, T>, first_row: u64, observer: &dyn Observer) -> Result<Vec<T>> {
    let mut factors = filled(T::ZERO, data.rows(), "lengths of rows")?;
    let bad: Vec<Option<usize>> = factors
        .par_chunks_mut(BLOCK)
        .enumerate()
        .map(|(i, factors)| {
            if observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let first = i * BLOCK;
            for (n, factor) in (first..).zip(factors.iter_mut()) {
                *factor = T::from_f64(inverse_length(data.given_row(n)));
            }
            Ok(factors.iter().position(|x| !x.is_finite() || *x < T::MIN_POSITIVE).map(|r| first + r))
        })
        .collect::<Result<_>>()?;
    match bad.into_iter().flatten().next() {
        None => Ok(factors),
        Some(n) => Err(refusal(data.given_row(n), first_row + n as u64)),
    }
}

/// 1 / |row| in `f64`; infinite for zeros, NaN if a value is not finite.
pub(crate) fn inverse_length<T: Real>(row: &[T]) -> f64 {
    let square: f64 = sum_of_squares(row, 1.0);
    if (1e-200..1e200).contains(&square) {
        return 1.0 / square.sqrt();
    }
    let largest = row.iter().map(|x| x.to_f64().abs()).fold(0.0, f64::max);
    if largest == 0.0 || !largest.is_finite() || square.is_nan() {
        return if square == 0.0 { f64::INFINITY } else { f64::NAN };
    }
    // A power of two, so that nothing is rounded; applied in two steps, because the inverse of a tiny number may
    // overflow.
    let half = (-0.5 * largest.log2()).floor().exp2();
    half * (half / sum_of_squares(row, half * half).sqrt())
}

/// y|, without overflow or underflow.
fn length<T: Real>(row: &[T]) -> f64 {
    let largest = row.iter().map(|x| x.to_f64().abs()).fold(0.0, f64::max);
    if largest == 0.0 {
        return 0.0;
    }
    largest * row.iter().map(|x| (x.to_f64() / largest).powi(2)).sum::<f64>().sqrt()
}

/// The sum of (x scale)^2 as four partial sums, which are computed in parallel.
fn sum_of_squares<T: Real>(row: &[T], scale: f64) -> f64 {
    let mut sums = [0.0; 8];
    let (parts, rest) = row.as_chunks::<8>();
    let square = |x: T| {
        let x = x.to_f64() * scale;
        x * x
    };
    for part in parts {
        sums.iter_mut().zip(part).for_each(|(sum, &x)| *sum += square(x));
    }
    sums.iter_mut().zip(rest).for_each(|(sum, &x)| *sum += square(x));
    sums.iter().sum()
}

/// The reason why a row has no direction.
fn refusal<T: Real>(row: &[T], number: u64) -> Error {
    match row.iter().position(|x| !x.is_finite()) {
        Some(column) => Error::NotFinite { row: number as usize, column, value: row[column].to_string() },
        None => Error::NoDirection { row: number, length: length(row), kind: T::NAME },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use ndarray::{Array2, array};
    use proptest::prelude::*;

    fn unit<T: Real>(x: &Array2<T>) -> Vec<T> {
        let data = Dataset::new(x.view()).unwrap();
        let data = data.for_metric(Metric::Cosine, 0, &Silent).unwrap();
        data.range(0..data.rows(), &mut Vec::new()).to_vec()
    }

    proptest! {
        #[test]
        fn rows_are_unit_vectors_whatever_their_scale(
            row in prop::collection::vec(-1.0f64..1.0, 1..40), exponent in -100i32..100, big in -900i32..900,
        ) {
            prop_assume!(row.iter().any(|x| x.abs() > 1e-3));
            let at = |scale: f64| Array2::from_shape_fn((1, row.len()), |(_, d)| row[d] * scale);
            let one = unit(&at(1.0));
            prop_assert!((one.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-14);
            prop_assert_eq!(&unit(&at(f64::from(big).exp2())), &one);
            let single = |scale: f64| at(scale).mapv(|x| x as f32);
            prop_assert_eq!(unit(&single(f64::from(exponent).exp2())), unit(&single(1.0)));
        }
    }

    #[test]
    fn a_row_without_a_direction_is_refused_by_name() {
        let refused = |x: Array2<f32>| {
            let data = Dataset::new(x.view()).unwrap();
            data.for_metric(Metric::Cosine, 15, &Silent).unwrap_err().to_string()
        };
        let zeros = "row 17 of data is all zeros: metric=\"cosine\" needs rows with a direction";
        assert_eq!(refused(array![[1.0, 0.0], [0.0, -1.0], [0.0, -0.0], [f32::NAN, 0.0]]), zeros);
        assert_eq!(refused(array![[1.0], [f32::NEG_INFINITY]]), "data[16, 0] is -inf; every value must be finite");
        assert!(refused(array![[1e-42]]).starts_with("row 15 of data has length 1.0"), "{}", refused(array![[1e-42]]));
    }

    #[test]
    fn the_length_of_a_refused_row_is_reported_however_small() {
        let x = array![[1.0, 1.0], [3e-320, -4e-320]];
        let error = Dataset::new(x.view()).unwrap().for_metric(Metric::Cosine, 0, &Silent).unwrap_err().to_string();
        assert!(error.starts_with("row 1 of data has length 5e-320"), "{error}");
    }

    #[test]
    fn parts_and_copies_keep_their_directions() {
        let x = array![[3.0, 4.0], [5.0, 12.0], [8.0, 15.0]];
        let data = Dataset::new(x.view()).unwrap();
        let data = data.for_metric(Metric::Cosine, 0, &Silent).unwrap();
        let part = data.slice(1..3).unwrap();
        assert_eq!(part.row(0, &mut Vec::new()), data.row(1, &mut Vec::new()));
        assert_eq!(part.row(0, &mut Vec::new()), [5.0 * (1.0 / 13.0), 12.0 * (1.0 / 13.0)]);
        assert_eq!(part.given_row(0), [5.0, 12.0]);
        assert_eq!(part.local(1, Some(&[0.5, 0.5]), &mut Vec::new())[0], 8.0 * (1.0 / 17.0) - 0.5);
        assert_eq!(data.in_weights_of(2.0).unwrap().metric(), Metric::Cosine);
    }
}
