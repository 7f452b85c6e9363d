//! Lightweight coresets: a small weighted sample that represents the data.
//!
//! Bachem, Lucic and Krause, "Scalable k-means clustering via lightweight coresets" (KDD 2018), for rows with weights w
//! (sum W): N' rows are drawn with replacement, each with probability
//!
//! ```text
//! q(n) = 1/2 w_n / W + 1/2 w_n d(n, mean)^2 / sum_i w_i d(i, mean)^2
//! ```
//!
//! and each drawn row gets the weight w_n / (N' q(n)). This makes every weighted sum over the coreset, such as the
//! quantization error for any centers, an unbiased estimate of the sum over the data. If all rows are equal, q(n) = w_n
//! / W.
//!
//! Two passes over the data, for the mean and for the N distances to it: O(N D) time, and memory for one number per row
//! in the data's type. The weights are exact even if the distances are not, as long as q and the weights use the same
//! distances.
//!
//! Coresets merge: the concatenated coresets of the shards of a data set are a coreset of the whole, and the errors of
//! the shards add up. A coreset, being weighted rows, can be sampled again. For rows that arrive in chunks use
//! [`CoresetBuilder`], in one pass, or [`FirstPass`] and [`SecondPass`].
//!
//! ```
//! use dgmm::{Dataset, Run, coreset::lightweight_coreset};
//! let x = ndarray::Array2::from_shape_fn((10_000, 2), |(n, d)| ((n * (d + 7)) % 100) as f32);
//! let coreset = lightweight_coreset(&Dataset::new(x.view())?, 500, 7, &Run::default())?;
//! assert_eq!(coreset.points.dim(), (500, 2));
//! let total: f64 = coreset.weights.iter().sum();
//! assert!((total / 10_000.0 - 1.0).abs() < 0.1);
//! # Ok::<(), dgmm::Error>(())
//! ```

pub use super::stream::{CoresetBuilder, FirstPass, SecondPass};

use super::{Dataset, Importance, Moments, gather};
use crate::error::{Error, Result, at_least_one};
use crate::kernel::Real;
use crate::memory::collected;
use crate::observer::Observer;
use crate::parallel::Run;
use crate::rng::{Stage, stream};
use ndarray::{Array2, ArrayView1};

/// Weighted rows that represent the data. See the [module](self).
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(bound(serialize = "T: Clone + serde::Serialize")))]
pub struct Coreset<T> {
    /// The drawn rows, N' x D.
    pub points: Array2<T>,
    /// The weight of each drawn row; their sum approximates that of the data's weights.
    pub weights: Vec<f64>,
    /// The indices of the rows in the data, ascending; a row drawn twice occurs twice.
    pub indices: Vec<usize>,
    /// Distance evaluations spent: N.
    pub evaluations: u64,
}

/// A coreset of `size` rows, drawn with replacement, so `size` may be anything from 1 up to 16 times the number of rows
/// (or 2^20). Rows of weight 0 are never drawn.
pub fn lightweight_coreset<T: Real>(
    data: &Dataset<'_, T>,
    size: usize,
    seed: u64,
    run: &Run<'_>,
) -> Result<Coreset<T>> {
    check_coreset_size(size, data.rows())?;
    run.install(|| {
        let moments = data.moments(run.observer)?;
        draw_coreset(data, &moments, size, seed, run.observer)
    })
}

impl<T: Real> Coreset<T> {
    /// The coreset as weighted data.
    pub fn dataset(&self) -> Result<Dataset<'_, T>> {
        Dataset::new(self.points.view())?.weighted(ArrayView1::from(&self.weights))
    }
}

/// Refuses coresets that are empty or far larger than the data: more rows would only take memory, because each row is
/// drawn many times already.
pub(crate) fn check_coreset_size(size: usize, rows: usize) -> Result<()> {
    at_least_one("coreset_size", size)?;
    let most = rows.saturating_mul(16).max(1 << 20);
    if size > most {
        return Err(Error::bad("coreset_size", size, format!("at most {most} for {rows} rows")));
    }
    Ok(())
}

/// [`lightweight_coreset`] for data with known moments, in the caller's thread pool.
pub(crate) fn draw_coreset<T: Real>(
    data: &Dataset<'_, T>,
    moments: &Moments,
    size: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Coreset<T>> {
    let mean: Vec<T> = moments.mean.iter().map(|&m| T::from_f64(m)).collect();
    let q = Importance::new(data, &mean, observer)?;
    let indices = q.draw_sorted(size, &mut stream(seed, Stage::Coreset, 0, 0), observer)?;
    // w / (N' q) with q = w / W * density: the row's own weight cancels.
    let share = data.total_weight() / size as f64;
    let weights = collected(indices.iter().map(|&n| share / q.density(n)), "a coreset")?;
    let points = Array2::from_shape_vec((size, data.dim()), gather(data, &indices)?);
    let points = points.expect("as many values as the shape says");
    Ok(Coreset { points, weights, indices, evaluations: data.rows() as u64 })
}

#[cfg(test)]
pub(in crate::data) mod tests {
    use super::*;
    use ndarray::{Array1, array};

    fn skewed(rows: usize) -> Array2<f64> {
        Array2::from_shape_fn((rows, 2), |(n, d)| {
            ((n * 37 + d * 11) % 53) as f64 + if n % 50 == 3 { 400.0 } else { 0.0 }
        })
    }

    /// Weighted quantization error for two fixed centers.
    pub(in crate::data) fn error(points: &Array2<f64>, weights: &[f64]) -> f64 {
        let centers = [[10.0, 20.0], [300.0, 350.0]];
        let nearest = |p: ndarray::ArrayView1<f64>| {
            let d2 = |c: &[f64; 2]| (p[0] - c[0]).powi(2) + (p[1] - c[1]).powi(2);
            centers.iter().map(d2).fold(f64::INFINITY, f64::min)
        };
        points.rows().into_iter().zip(weights).map(|(p, w)| w * nearest(p)).sum()
    }

    fn draw(data: &Dataset<'_, f64>, size: usize, seed: u64) -> Coreset<f64> {
        lightweight_coreset(data, size, seed, &Run { threads: Some(1), ..Run::default() }).unwrap()
    }

    /// Checks that the mean of `samples` is `expected`, within four standard errors.
    pub(in crate::data) fn unbiased(samples: &[f64], expected: f64) {
        let n = samples.len() as f64;
        let mean = samples.iter().sum::<f64>() / n;
        let variance = samples.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let off = (mean - expected) / (variance / n).sqrt();
        assert!(off.abs() < 4.0, "mean {mean} is {off} standard errors from {expected}");
    }

    #[test]
    fn the_quantization_error_and_the_total_weight_are_unbiased() {
        let x = skewed(5000);
        let w = Array1::from_shape_fn(5000, |n| (n % 5) as f64);
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        let drawn: Vec<Coreset<f64>> = (0..400).map(|seed| draw(&data, 200, seed)).collect();
        unbiased(
            &drawn.iter().map(|c| error(&c.points, &c.weights)).collect::<Vec<_>>(),
            error(&x, w.as_slice().unwrap()),
        );
        unbiased(&drawn.iter().map(|c| c.weights.iter().sum()).collect::<Vec<_>>(), data.total_weight());
        for c in &drawn {
            assert!(c.indices.iter().all(|&n| w[n] > 0.0) && c.indices.is_sorted());
            // The uniform half of q bounds every weight.
            assert!(c.weights.iter().all(|&v| v > 0.0 && v <= 2.0 * data.total_weight() / 200.0));
        }
    }

    #[test]
    fn a_weight_of_two_draws_as_a_row_twice() {
        let x = array![[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]];
        let twice = array![[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [5.0, 5.0]];
        let weighted = Dataset::new(x.view()).unwrap().weighted(array![1.0, 2.0, 1.0].view()).unwrap();
        let repeated = Dataset::new(twice.view()).unwrap();
        for seed in 0..50 {
            let (a, b) = (draw(&weighted, 100, seed), draw(&repeated, 100, seed));
            // The cumulative distributions over the points are equal, so the same random numbers draw the same points.
            assert_eq!(a.points, b.points);
            assert!(a.weights.iter().zip(&b.weights).all(|(v, w)| (v - w).abs() < 1e-12 * w));
        }
    }

    #[test]
    fn constant_data_is_drawn_by_weight() {
        let x = Array2::from_elem((3000, 4), 1e6f32);
        let w = Array1::from_shape_fn(3000, |n| if n < 1000 { 0.0 } else { 3.0 });
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        let c = lightweight_coreset(&data, 30, 1, &Run::default()).unwrap();
        assert!(c.indices.iter().all(|&n| n >= 1000));
        assert!(c.weights.iter().all(|&v| v == 200.0));
    }

    #[test]
    fn threads_do_not_change_the_coreset() {
        let x = skewed(9000).mapv(|v| v as f32);
        let data = Dataset::new(x.view()).unwrap();
        let with =
            |threads| lightweight_coreset(&data, 700, 5, &Run { threads: Some(threads), ..Run::default() }).unwrap();
        let one = with(1);
        assert!([2, 3, 7].iter().all(|&t| with(t) == one));
        assert!(one.points.rows().into_iter().zip(&one.indices).all(|(p, &n)| p == x.row(n)));
    }

    #[test]
    fn any_size_from_one_is_allowed() {
        let x = skewed(10);
        let data = Dataset::new(x.view()).unwrap();
        let e = lightweight_coreset(&data, 0, 0, &Run::default()).unwrap_err();
        assert_eq!(e.to_string(), "coreset_size is 0; it must be at least 1");
        assert_eq!(draw(&data, 1, 0).indices.len(), 1);
        assert_eq!(draw(&data, 1000, 0).weights.len(), 1000);
    }

    #[test]
    fn a_seed_keeps_its_meaning() {
        let x = skewed(1000);
        assert_eq!(draw(&Dataset::new(x.view()).unwrap(), 8, 2024).indices, [53, 224, 515, 721, 803, 900, 953, 953]);
    }
}
