//! What the seeding needs to know about rows in shards: their number, their moments, and a sample.

use super::shard::Shard;
use super::statistics::Merge;
use crate::data::{Dataset, Moments, PrioritySample, importance};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::observer::Observer;
use crate::options::Metric;
use crate::parallel::Run;
use crate::rng::Keys;

/// Specification of the sample of the rows, the same for all shards.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Number of rows of the sample.
    pub size: usize,
    /// Seed of the sample.
    pub seed: u64,
    /// Number of rows of all shards together, if known. For unweighted data, each shard then leaves out rows that have
    /// no chance to be in the overall sample.
    pub total_rows: Option<u64>,
    /// The metric that compares rows.
    pub metric: Metric,
}

/// Summary of the rows of a shard before a fit: their number, moments, and a sample.
///
/// The summaries of all shards [merge](super::Merger) into the input of
/// [`Params::trainer_from`](crate::Params::trainer_from). They can be [sent](Self::to_bytes) to where it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary<T> {
    pub(crate) rows: u64,
    pub(crate) positive_rows: u64,
    pub(crate) moments: Moments,
    pub(crate) sample: PrioritySample<T>,
    pub(crate) metric: Metric,
}

impl<T: Real> Summary<T> {
    /// Summarizes a shard in one pass over its rows, which also checks that all values are finite.
    pub fn of(shard: &Shard<'_, T>, sampling: &Sampling, run: &Run<'_>) -> Result<Self> {
        run.install(|| Self::new(&shard.for_metric(sampling.metric, run.observer)?, sampling, false, run.observer))
    }

    /// [`of`](Self::of) in the caller's thread pool. If the data remain available, the sample need not hold values.
    pub(crate) fn new(
        shard: &Shard<'_, T>,
        sampling: &Sampling,
        in_memory: bool,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let (data, first_row) = (shard.data(), shard.first_row());
        let moments = data.moments(observer).map_err(|error| match error {
            Error::NotFinite { row, column, value } => {
                Error::NotFinite { row: row.saturating_add(first_row as usize), column, value }
            }
            error => error,
        })?;
        let mut sample = match sampling.total_rows {
            Some(rows) if data.weights().is_none() => PrioritySample::of_total(sampling.size, data.dim(), rows),
            _ => PrioritySample::new(sampling.size, data.dim()),
        };
        sample.in_memory = in_memory;
        if sampling.size > 0 {
            // Importance as for a lightweight coreset of the shard, because a uniform sample misses a few rows far from
            // all others.
            let point: Vec<T> = moments.mean.iter().map(|&x| T::from_f64(x)).collect();
            let apart = moments.scatter / moments.weight;
            let importance = |row: &[T]| importance(T::squared_distance(row, &point).to_f64(), apart);
            sample.add(data, first_row, Keys::new(sampling.seed), importance, observer)?;
        }
        let (rows, positive_rows, metric) = (data.rows() as u64, data.positive_rows() as u64, data.metric());
        Ok(Self { rows, positive_rows, moments, sample, metric })
    }

    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        Ok(Self { moments: self.moments.clone(), sample: self.sample.copied()?, ..*self })
    }

    /// Approximate size in bytes.
    #[doc(hidden)]
    #[must_use]
    pub fn size(&self) -> usize {
        size_of_val(&self.sample.rows[..]) + size_of_val(&self.sample.values[..]) + 3 * 8 * self.dim()
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of columns.
    pub fn dim(&self) -> usize {
        self.sample.dim
    }

    /// Mean, spread and bounds of the rows.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }

    /// Refuses a summary that was made for another metric.
    pub(crate) fn check_metric(&self, metric: Metric) -> Result<()> {
        let allowed = || format!("'{}' as in the summary", self.metric.name());
        if metric == self.metric {
            Ok(())
        } else {
            Err(Error::bad("metric", format!("'{}'", metric.name()), allowed()))
        }
    }

    /// Refuses a sample smaller than the plan requires.
    pub(crate) fn check_sample(&self, size: usize) -> Result<()> {
        match self.sample.size {
            given if given < size => Err(Error::bad("the size of the sample", given, format!("at least {size}"))),
            _ => Ok(()),
        }
    }

    /// The unit of weights: a power of two near the mean weight if that is so far from 1 that sums of weights could
    /// leave the range of `f32`; otherwise 1.
    pub(crate) fn weight_unit(&self) -> f64 {
        Dataset::<T>::unit_of(self.moments.weight, self.positive_rows as usize)
    }
}

impl<T: Real> Merge for Summary<T> {
    fn merge(mut self, other: Self) -> Result<Self> {
        if other.dim() != self.dim() {
            return Err(Error::DimensionMismatch { columns: other.dim(), dim: self.dim() });
        }
        self.check_metric(other.metric)?;
        self.rows = self.rows.saturating_add(other.rows);
        self.positive_rows = self.positive_rows.saturating_add(other.positive_rows);
        self.moments.merge(&other.moments);
        self.moments.check_weight()?;
        self.sample.merge(other.sample)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::step::Merger;
    use ndarray::Array2;

    #[test]
    fn weights_that_overflow_together_are_named() {
        let (x, weights) =
            (Array2::from_shape_fn((4, 2), |(n, _)| n as f64 * 1e-3), ndarray::Array1::from_elem(4, 4e307));
        let data = Dataset::new(x.view()).unwrap().weighted(weights.view()).unwrap();
        let sampling = Sampling { size: 2, seed: 0, total_rows: Some(8), metric: Metric::Euclidean };
        let summary = || Summary::new(&Shard::cut(&data, 4).unwrap()[0], &sampling, false, &Silent).unwrap();
        let error = summary().merge(summary()).unwrap_err().to_string();
        assert_eq!(error, "the sum of all weights is inf; it must be at most 1.7976931348623157e308");
    }

    #[test]
    fn rows_far_from_all_others_are_in_the_sample_and_weights_are_unbiased() {
        let (rows, far) = (40_000, [5usize, 17_000, 39_999]);
        let number = |n: usize, d: usize| if far.contains(&n) { 40.0 } else { (n * (d + 7) % 11) as f32 / 11.0 };
        let x = Array2::from_shape_fn((rows, 3), |(n, d)| number(n, d));
        let data = Dataset::new(x.view()).unwrap();
        for (seed, shard_rows) in [(0, rows), (1, rows), (2, 9000)] {
            let sampling = Sampling { size: 400, seed, total_rows: Some(rows as u64), metric: Metric::Euclidean };
            let mut merger = Merger::default();
            for shard in &Shard::cut(&data, shard_rows).unwrap() {
                merger.add(Summary::new(shard, &sampling, false, &Silent).unwrap()).unwrap();
            }
            let sample = merger.finish().unwrap().unwrap().sample;
            let first = sample.first(400).unwrap();
            let known = |n: &usize| first.iter().any(|&(i, weight)| sample.rows[i].row == *n as u64 && weight == 1.0);
            assert!(far.iter().all(known), "{seed}, {shard_rows}");
            let total: f64 = first.iter().map(|&(_, weight)| weight).sum();
            assert!((total / rows as f64 - 1.0).abs() < 0.2, "{total}");
        }
    }
}
