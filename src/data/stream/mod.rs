//! Coresets of rows that arrive in chunks: in one pass, on several machines if needed, or in two passes.
//!
//! A [`CoresetBuilder`] keeps a [priority sample](crate::data). A row of weight w and importance g has the key u / (w
//! g), with u uniform in (0, 1). The `size` rows with the smallest keys are kept, and each represents the weight w /
//! min(1, w g t), where t is the smallest key of the other rows. The importance is that of the [lightweight
//! coreset](crate::coreset),
//! ```text
//! g(row) = 1/2 + 1/2 d(row, p)^2 / E
//! ```
//!
//! where p approximates the mean of the rows and E their mean squared distance to it. Neither is known before the end
//! of the stream. For each block of 2,048 rows, p is the mean of the first 256 rows of this and all earlier blocks, and
//! E the mean squared distance over all rows up to the end of the block. So p and E follow a changing stream, and rows
//! far from all earlier rows do not crowd these out of the sample: the sum of w g over a block is at most the weight of
//! all rows up to its end.
//!
//! **Why the weights are unbiased** for any p and E: the estimate of a priority sample is unbiased if no importance
//! depends on any of the u. Here g depends on the values, weights and order of the rows, and u on the seed and the row
//! number. So g may differ between blocks and between builders, and each kept row carries its own. Merging two builders
//! keeps the smallest keys of both, and the result is the priority sample of all rows with the importances that they
//! had when they were added. The quality of p and E affects only the variance.
//!
//! **Row numbers** determine the random numbers, so rows of different builders must have different numbers: rows are
//! counted from `first_row`. If the number of rows before those of a builder is unknown, any numbers that are far
//! enough apart will do, such as i 2^40 for part i. Merging refuses builders with rows of the same numbers.
//!
//! Cost: one distance per row, and memory for 2 `size` rows and one block. The same rows in the same order give the
//! same bits, however they are cut into chunks, for any number of threads.
//!
//! ```
//! use dgmm::{CoresetBuilder, Dataset, Run};
//! let x = ndarray::Array2::from_shape_fn((10_000, 2), |(n, d)| ((n * (d + 7)) % 100) as f32);
//! let (data, run) = (Dataset::new(x.view())?, Run::default());
//! let mut here = CoresetBuilder::new(500, 7)?;
//! let mut there = CoresetBuilder::new(500, 7)?.starting_at(6_000)?;
//! for start in [0, 2_000, 4_000] {
//!     here.add(&data.slice(start..start + 2_000)?, &run)?;
//! }
//! there.add(&data.slice(6_000..10_000)?, &run)?;
//! here.merge(CoresetBuilder::from_bytes(&there.to_bytes())?)?;
//! let coreset = here.result()?;
//! assert_eq!((coreset.points.dim(), here.rows_seen()), ((500, 2), 10_000));
//! let total: f64 = coreset.weights.iter().sum();
//! assert!((total / 10_000.0 - 1.0).abs() < 0.1);
//! # Ok::<(), dgmm::Error>(())
//! ```

mod bytes;
mod pending;
mod ranges;
mod scan;
mod seen;
#[cfg(test)]
mod tests;
mod two_passes;

pub use two_passes::{FirstPass, SecondPass};

use super::coreset::Coreset;
use super::priority::AT_ONCE;
use super::{BLOCK, Dataset, PrioritySample};
use crate::error::{Error, Result, at_least_one};
use crate::kernel::Real;
use crate::memory::{filled, matrix};
use crate::observer::Observer;
use crate::parallel::Run;
use crate::rng::Keys;
use pending::Pending;
use ranges::Ranges;
use scan::{Draw, check_finite, measure, measure_blocks};
use seen::Seen;

/// Row numbers are below it, so that they fit in signed integers.
const MOST_ROWS: u64 = 1 << 63;

/// Builds a coreset of a stream in one pass. See the [module](self).
#[derive(Debug, Clone)]
pub struct CoresetBuilder<T: Real> {
    seed: u64,
    /// The number of the next row.
    next_row: u64,
    /// The numbers of all rows that were added or merged.
    rows: Ranges,
    /// Has no columns before the first row.
    seen: Seen,
    /// The rows of an incomplete block.
    pending: Pending<T>,
    /// The sample of all rows except the pending ones. Has no columns before the first row.
    sample: PrioritySample<T>,
}

impl<T: Real> CoresetBuilder<T> {
    /// A builder for a coreset of at most `size` rows.
    pub fn new(size: usize, seed: u64) -> Result<Self> {
        at_least_one("size", size)?;
        let (rows, sample) = (Ranges::default(), PrioritySample::new(size, 0));
        Ok(Self { seed, next_row: 0, rows, seen: Seen::none(0), pending: Pending::none(), sample })
    }

    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        let (rows, seen) = (self.rows.clone(), self.seen.clone());
        Ok(Self { rows, seen, pending: self.pending.copied()?, sample: self.sample.copied()?, ..*self })
    }

    /// Sets the number of the first row.
    pub fn starting_at(mut self, first_row: u64) -> Result<Self> {
        if first_row >= MOST_ROWS {
            return Err(Error::bad("first_row", first_row, "below 2^63"));
        }
        self.flush()?;
        self.next_row = first_row;
        Ok(self)
    }

    /// Maximum number of rows of the coreset.
    pub fn size(&self) -> usize {
        self.sample.size
    }

    /// The seed that, with the row numbers, determines the random numbers.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Number of columns; `None` before the first row.
    pub fn dim(&self) -> Option<usize> {
        (self.sample.dim > 0).then_some(self.sample.dim)
    }

    /// Number of rows added, here and in all merged builders.
    pub fn rows_seen(&self) -> u64 {
        self.rows.count()
    }

    /// The number of the next row to be added.
    pub fn next_row(&self) -> u64 {
        self.next_row
    }

    /// Adds the rows of a chunk. After an error the builder is unchanged.
    pub fn add(&mut self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<()> {
        let rows = self.next_row..self.next_row.saturating_add(data.rows() as u64);
        if rows.end > MOST_ROWS {
            return Err(Error::bad("first_row", rows.start, format!("at most 2^63 - {}", data.rows())));
        }
        self.rows.check(&rows)?;
        self.check_width(data.dim())?;
        // Rows are added one by one, and removed again after an error. The sample is copied only if it is trimmed along
        // the way.
        let (before, count) = (self.sample.dim, self.sample.rows.len());
        let copy = (data.rows() > slice_rows(self.rows_seen())).then(|| self.sample.copied()).transpose()?;
        self.sample.dim = data.dim();
        let done = run.install(|| self.add_blocks(data, run.observer));
        match (&done, copy) {
            (Ok(()), _) => {
                self.sample.trim_if_large()?;
                self.next_row = rows.end;
                self.rows.insert(rows);
            }
            (Err(_), Some(copy)) => self.sample = copy,
            (Err(_), None) => {
                self.sample.rows.truncate(count);
                self.sample.values.truncate(count * before);
                self.sample.dim = before;
            }
        }
        done
    }

    fn check_width(&self, columns: usize) -> Result<()> {
        match self.dim() {
            Some(dim) if dim != columns => Err(Error::WidthChanged { columns, dim }),
            _ => Ok(()),
        }
    }

    /// Processes the block that `data` completes and the whole blocks after it, and keeps the rest for later.
    fn add_blocks(&mut self, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<()> {
        let (dim, first_row, held) = (data.dim(), self.next_row, self.pending.rows());
        let lead = if held == 0 { 0 } else { (BLOCK - held).min(data.rows()) };
        let whole = lead + (data.rows() - lead) / BLOCK * BLOCK;
        // Pending rows are known to be valid, so that a later chunk cannot fail because of them.
        check_finite(data.given_rows(0..lead), dim, first_row)?;
        check_finite(data.given_rows(whole..data.rows()), dim, first_row + whole as u64)?;
        let mut held_now = self.pending.copied()?;
        held_now.extend(data, 0..lead)?;
        let mut seen = if self.seen.heads.mean.is_empty() { Seen::none(dim) } else { self.seen.clone() };
        if held_now.rows() == BLOCK {
            self.add_block(&held_now.dataset(dim)?, first_row - held as u64, &mut seen)?;
            held_now = Pending::none();
        }
        let mut start = lead;
        while start < whole {
            let end = whole.min(start + slice_rows(self.rows_seen() + start as u64));
            let slice = data.slice(start..end)?;
            self.add_whole_blocks(&slice, first_row + start as u64, &mut seen, observer)?;
            start = end;
            if start < whole {
                self.sample.trim_if_large()?;
            }
        }
        held_now.extend(data, whole..data.rows())?;
        (self.seen, self.pending) = (seen, held_now);
        Ok(())
    }

    /// Processes whole blocks, the first row of which has number `first_row`.
    fn add_whole_blocks(
        &mut self,
        data: &Dataset<'_, T>,
        first_row: u64,
        seen: &mut Seen,
        observer: &dyn Observer,
    ) -> Result<()> {
        let points = seen.points(data, observer)?;
        let measured = measure_blocks(data, first_row, |i| &points[i][..], seen.unit(), observer)?;
        let means: Vec<f64> = measured.iter().map(|block| seen.mean_distance(block)).collect();
        let reference = |i: usize| (&points[i][..], means[i]);
        let found = self.draw().candidates_of_blocks(data, first_row, &measured, reference, observer)?;
        self.sample.add_found(found.iter().map(Vec::as_slice), data, first_row)
    }

    /// Processes a single block, which may be incomplete, on this thread.
    fn add_block(&mut self, block: &Dataset<'_, T>, first_row: u64, seen: &mut Seen) -> Result<()> {
        let (rows, point) = (0..block.rows(), seen.point(block)?);
        let measured = measure(block, rows.clone(), first_row, &point, seen.unit())?;
        let mean = seen.mean_distance(&measured);
        let found = self.draw().candidates(block, rows, first_row, &measured.distances, &point, mean);
        self.sample.add_found([&found[..]], block, first_row)
    }

    fn draw(&self) -> Draw {
        Draw { keys: Keys::new(self.seed), bound: self.sample.bound }
    }

    /// Processes the pending rows as if no more were to come. The next row begins a block.
    fn flush(&mut self) -> Result<()> {
        let held = std::mem::replace(&mut self.pending, Pending::none());
        if held.rows() > 0 {
            let (first_row, mut seen) = (self.next_row - held.rows() as u64, self.seen.clone());
            self.add_block(&held.dataset(self.sample.dim)?, first_row, &mut seen)?;
            self.seen = seen;
            self.sample.trim_if_large()?;
        }
        Ok(())
    }

    /// Merges another builder into this one. The coreset then has the smaller of both sizes. The order of merges does
    /// not matter.
    ///
    /// Rows added later are numbered from [`next_row`](Self::next_row), which skips the rows of `other` if these
    /// directly follow the rows of this builder.
    pub fn merge(&mut self, mut other: Self) -> Result<()> {
        if let Some(columns) = other.dim() {
            self.check_width(columns)?;
            other.rows.0.iter().try_for_each(|range| self.rows.check(range))?;
            self.flush()?;
            other.flush()?;
            self.sample.dim = columns;
            self.sample.merge(other.sample)?;
            self.seen.merge(other.seen);
            other.rows.0.into_iter().for_each(|range| self.rows.insert(range));
            self.next_row = self.rows.next_free(self.next_row);
        } else {
            self.sample.size = self.sample.size.min(other.sample.size);
        }
        Ok(())
    }

    /// The coreset of all rows so far, in the order of their numbers. If at most `size` have positive weight, it is all
    /// of these with their weights. More rows may be added afterwards.
    pub fn result(&self) -> Result<Coreset<T>> {
        let mut all = self.copied()?;
        all.flush()?;
        all.sample.cut()?;
        coreset(&all.sample, self.rows_seen())
    }
}

/// The coreset from a sample that has been cut, of `rows_seen` rows in total.
fn coreset<T: Real>(sample: &PrioritySample<T>, rows_seen: u64) -> Result<Coreset<T>> {
    if sample.rows.is_empty() {
        return Err(if rows_seen == 0 { Error::NoRows } else { Error::ZeroWeights });
    }
    let (dim, first) = (sample.dim, sample.first(sample.size)?);
    let mut points = filled(T::ZERO, first.len() * dim, "a coreset")?;
    for (point, &(i, _)) in points.chunks_exact_mut(dim).zip(&first) {
        point.copy_from_slice(&sample.values[i * dim..(i + 1) * dim]);
    }
    let indices = first.iter().map(|&(i, _)| sample.rows[i].row as usize).collect();
    let weights = first.into_iter().map(|(_, weight)| weight).collect();
    Ok(Coreset { points: matrix(points, dim), weights, indices, evaluations: rows_seen })
}

/// Number of rows to process before the sample is trimmed: about as many as were seen, so that few are copied in vain.
fn slice_rows(seen: u64) -> usize {
    usize::try_from(seen).map_or(AT_ONCE, |seen| (seen / BLOCK * BLOCK).clamp(8 * BLOCK, AT_ONCE))
}
