//! Coresets of chunks that can be read twice.

use super::scan::{Draw, measure_blocks};
use super::{coreset, slice_rows};
use crate::data::coreset::Coreset;
use crate::data::{Dataset, Moments, PrioritySample};
use crate::error::{Error, Result, at_least_one};
use crate::kernel::Real;
use crate::memory::collected;
use crate::parallel::Run;
use crate::rng::Keys;
use std::marker::PhantomData;
use std::sync::Arc;

/// Relative difference of a chunk's sums between the passes that is more than rounding explains.
const ROUNDING: f64 = 1e-3;

/// The first of two passes over chunks: mean and spread, so that the second pass can draw with the exact importance.
///
/// The distribution is that of [`lightweight_coreset`](crate::lightweight_coreset), which draws with replacement. Here
/// a row is drawn at most once, and a row that would be drawn many times represents only itself. The coreset has `size`
/// rows, or all rows of positive weight if there are no more. It does not depend on the chunks, up to rounding of the
/// mean.
///
/// ```
/// use dgmm::coreset::FirstPass;
/// use dgmm::{Dataset, Run};
/// let x = ndarray::Array2::from_shape_fn((10_000, 2), |(n, d)| ((n * (d + 7)) % 100) as f32);
/// let (data, run) = (Dataset::new(x.view())?, Run::default());
/// let chunks = [data.slice(0..7_000)?, data.slice(7_000..10_000)?];
/// let mut first = FirstPass::new();
/// for chunk in &chunks {
///     first.add(chunk, &run)?;
/// }
/// let mut second = first.second_pass(500, 7)?;
/// for chunk in &chunks {
///     second.add(chunk, &run)?;
/// }
/// assert_eq!(second.result()?.points.dim(), (500, 2));
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FirstPass<T> {
    chunks: Vec<Arc<Chunk>>,
    /// Moments of all chunks.
    moments: Option<Moments>,
    rows: u64,
    kind: PhantomData<T>,
}

/// What the second pass must find again in a chunk.
#[derive(Debug)]
struct Chunk {
    rows: usize,
    moments: Moments,
}

impl<T: Real> Default for FirstPass<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Real> FirstPass<T> {
    /// The state before the first chunk.
    #[must_use]
    pub fn new() -> Self {
        Self { chunks: Vec::new(), moments: None, rows: 0, kind: PhantomData }
    }

    /// Adds a chunk.
    pub fn add(&mut self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<()> {
        let (columns, rows) = (data.dim(), data.rows());
        let mut all = self.moments.clone().unwrap_or_else(|| Moments::empty(columns));
        if all.mean.len() != columns {
            return Err(Error::WidthChanged { columns, dim: all.mean.len() });
        }
        let moments = run.install(|| data.moments(run.observer)).map_err(|error| match error {
            Error::NotFinite { row, column, value } => {
                Error::NotFiniteRow { row: self.rows + row as u64, column, value }
            }
            other => other,
        })?;
        all.merge(&moments);
        all.check_weight()?;
        all.check_range::<T>()?;
        self.chunks.push(Arc::new(Chunk { rows, moments }));
        self.rows += rows as u64;
        self.moments = Some(all);
        Ok(())
    }

    /// The second pass, which draws a coreset of at most `size` rows.
    pub fn second_pass(&self, size: usize, seed: u64) -> Result<SecondPass<T>> {
        at_least_one("size", size)?;
        let moments = self.moments.as_ref().ok_or(Error::NoRows)?;
        if moments.weight == 0.0 {
            return Err(Error::ZeroWeights);
        }
        let sample = PrioritySample::new(size, moments.mean.len());
        let (point, mean_distance) = (moments.mean.iter().map(|&x| T::from_f64(x)), moments.scatter / moments.weight);
        let (point, keys) = (point.collect(), Keys::new(seed));
        let chunks = collected(self.chunks.iter().cloned(), "chunks")?;
        Ok(SecondPass { chunks, seen: 0, rows: 0, point, mean_distance, keys, sample })
    }
}

/// The second pass over the same chunks, which draws the coreset. See [`FirstPass`].
#[derive(Debug, Clone)]
pub struct SecondPass<T> {
    /// The chunks of the first pass.
    chunks: Vec<Arc<Chunk>>,
    /// Number of chunks seen again.
    seen: usize,
    rows: u64,
    /// The mean of all rows, and the mean squared distance to it.
    point: Vec<T>,
    mean_distance: f64,
    keys: Keys,
    sample: PrioritySample<T>,
}

impl<T: Real> SecondPass<T> {
    /// Draws from a chunk, which must be the same as in the first pass: the numbers of rows and the sums are compared.
    /// After an error, start over.
    pub fn add(&mut self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<()> {
        let columns = data.dim();
        if columns != self.sample.dim {
            return Err(Error::WidthChanged { columns, dim: self.sample.dim });
        }
        let before = self.chunks.get(self.seen).map_or(0, |chunk| chunk.rows);
        self.same("number of rows", before as f64, data.rows() as f64, 0.0)?;
        let moment = run.install(|| {
            let (mut moment, mut start) = (0.0, 0);
            while start < data.rows() {
                let end = data.rows().min(start + slice_rows(self.rows + start as u64));
                let (slice, row) = (data.slice(start..end)?, self.rows + start as u64);
                let draw = Draw { keys: self.keys, bound: self.sample.bound };
                let (point, mean) = (&self.point[..], self.mean_distance);
                let measured = measure_blocks(&slice, row, |_| point, 1.0, run.observer)?;
                let found = draw.candidates_of_blocks(&slice, row, &measured, |_| (point, mean), run.observer)?;
                self.sample.add_found(found.iter().map(Vec::as_slice), &slice, row)?;
                self.sample.trim_if_large()?;
                moment += measured.iter().map(|block| block.moment).sum::<f64>();
                start = end;
            }
            Ok(moment)
        })?;
        let Moments { weight, mean, scatter, .. } = &self.chunks[self.seen].moments;
        self.same("sum of the weights", *weight, data.total_weight(), ROUNDING * weight)?;
        let apart = mean.iter().zip(&self.point).map(|(m, p)| (m - p.to_f64()).powi(2));
        let expected = scatter + weight * apart.sum::<f64>();
        // What is lost to underflow does not count as a change.
        let lost = weight * columns as f64 * T::MIN_POSITIVE.to_f64();
        self.same("sum of squared distances", expected, moment, ROUNDING * expected + lost)?;
        self.rows += data.rows() as u64;
        self.seen += 1;
        Ok(())
    }

    fn same(&self, what: &'static str, first: f64, second: f64, tolerance: f64) -> Result<()> {
        if (first - second).abs() <= tolerance {
            return Ok(());
        }
        Err(Error::ChunkChanged { chunk: self.seen, what, values: (first, second) })
    }

    /// The coreset, in the order of the rows.
    pub fn result(&self) -> Result<Coreset<T>> {
        if let Some(chunk) = self.chunks.get(self.seen) {
            self.same("number of rows", chunk.rows as f64, 0.0, 0.0)?;
        }
        let mut sample = self.sample.copied()?;
        sample.cut()?;
        coreset(&sample, self.rows)
    }
}
