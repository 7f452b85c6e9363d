//! The result of a step over a shard: sums over its rows, which merge.
//!
//! | symbol | field |
//! |---|---|
//! | sum_n w q_c y | `sums` (the first D of each row, relative to the model's origin) |
//! | sum_n w q_c (y - mu_c)^2 | `sums` (after those, if variances are learned: per column, or summed over all) |
//! | N_c = sum_n w q_c | `mass` |
//! | sum_n w sum_c q_c d_c | `weighted_distance` |
//! | sum_n w log sum_c exp(-d_c / 2 s2) | `log_sum` |
//! | counts for S | `pairs` |
//! | rows onto which an empty cluster may be moved | `farthest` |
//! | sum_n w d over the rows of each cluster, and the increase of that without the cluster | `error`, `removal` (in a [probe](super::refine)) |

use super::similarity::PairCounts;
use crate::data::compare;
use crate::error::{Error, Result};
use crate::kernel::{Real, for_both};
use crate::memory::{copied, filled, par_collected, reserve};
use rayon::prelude::*;

/// Number of entries of the sums that one task merges.
const MERGED_AT_ONCE: usize = 1 << 13;

/// The sums of a step over a shard: masses, weighted rows and squared distances of its clusters, and counts for S.
///
/// The statistics of all shards [merge](Merger) into what a [`Trainer`](super::Trainer) absorbs. They can be
/// [sent](Self::to_bytes) to where it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Statistics<T> {
    pub(crate) dim: usize,
    /// Number of second moments per cluster: none, 1 or D.
    pub(crate) extra: usize,
    pub(crate) rows: u64,
    pub(crate) weight: f64,
    pub(crate) sums: Vec<f64>,
    pub(crate) mass: Vec<f64>,
    pub(crate) weighted_distance: f64,
    pub(crate) log_sum: f64,
    /// sum_n w d for the nearest member.
    pub(crate) inertia: f64,
    /// Distance evaluations.
    pub(crate) evaluations: u64,
    pub(crate) pairs: PairCounts,
    pub(crate) farthest: Vec<FarRow<T>>,
    /// In a probe, for each cluster the sum of the squared distances of its rows ...
    pub(crate) error: Vec<f64>,
    /// ... and how much larger the sum to their second-nearest clusters is.
    pub(crate) removal: Vec<f64>,
}

/// A row far from its nearest cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FarRow<T> {
    pub distance: T,
    /// Its number in all of the data.
    pub row: u64,
    /// Relative to the model's origin.
    pub values: Vec<T>,
}

impl<T: Real> Statistics<T> {
    /// Empty statistics with `extra` second moments per cluster.
    pub(crate) fn new(clusters: usize, dim: usize, extra: usize) -> Result<Self> {
        Ok(Self {
            dim,
            extra,
            rows: 0,
            weight: 0.0,
            // In parallel, because touching fresh memory costs more than writing the zeros.
            sums: par_collected((0..clusters * (dim + extra)).into_par_iter().map(|_| 0.0), "sums")?,
            mass: filled(0.0, clusters, "sums")?,
            weighted_distance: 0.0,
            log_sum: 0.0,
            inertia: 0.0,
            evaluations: 0,
            pairs: PairCounts::none(),
            farthest: Vec::new(),
            error: Vec::new(),
            removal: Vec::new(),
        })
    }

    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        let far = |row: &FarRow<T>| Ok(FarRow { values: copied(&row.values, "farthest rows")?, ..*row });
        let mut farthest = Vec::new();
        reserve(&mut farthest, self.farthest.len(), "farthest rows")?;
        for row in &self.farthest {
            farthest.push(far(row)?);
        }
        Ok(Self {
            sums: copied(&self.sums, "sums")?,
            mass: copied(&self.mass, "sums")?,
            pairs: self.pairs.copied()?,
            farthest,
            error: copied(&self.error, "sums")?,
            removal: copied(&self.removal, "sums")?,
            ..*self
        })
    }

    /// Number of entries per cluster in `sums`.
    pub(crate) fn width(&self) -> usize {
        self.dim + self.extra
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.mass.len()
    }

    /// Number of rows in the step.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Sum of their weights.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Weighted sum of the squared distances to the nearest clusters.
    pub fn inertia(&self) -> f64 {
        self.inertia
    }

    /// Number of distance evaluations.
    pub fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Clusters without mass.
    pub(crate) fn empty(&self) -> impl Iterator<Item = u32> + '_ {
        self.mass.iter().zip(0..).filter(|(mass, _)| **mass <= 0.0).map(|(_, c)| c)
    }
}

/// Results of shards that combine into one.
pub trait Merge: Sized {
    /// Combines both; `other` comes after `self`.
    fn merge(self, other: Self) -> Result<Self>;
}

impl<T: Real> Merge for Statistics<T> {
    /// Both must belong to the same round.
    fn merge(self, other: Self) -> Result<Self> {
        merged(self, other)
    }
}

for_both! {
    fn merged(sum: Statistics<T>, other: Statistics<T>) -> Result<Statistics<T>> {
        let mut sum = sum;
        let shape = |s: &Statistics<T>| (s.clusters(), s.dim, s.extra, s.error.len(), s.removal.len());
        if shape(&other) != shape(&sum) {
            let (clusters, dim) = (sum.clusters(), sum.dim);
            return Err(Error::StatisticsMismatch { clusters: other.clusters(), dim: other.dim, expected: (clusters, dim) });
        }
        let parts = sum.sums.par_chunks_mut(MERGED_AT_ONCE).zip(other.sums.par_chunks(MERGED_AT_ONCE));
        parts.for_each(|(sums, part)| sums.iter_mut().zip(part).for_each(|(a, b)| *a += b));
        let by_cluster = [
            (&mut sum.mass, &other.mass),
            (&mut sum.error, &other.error),
            (&mut sum.removal, &other.removal),
        ];
        by_cluster.into_iter().for_each(|(sum, part)| sum.iter_mut().zip(part).for_each(|(a, b)| *a += b));
        sum.rows = sum.rows.saturating_add(other.rows);
        sum.weight += other.weight;
        sum.weighted_distance += other.weighted_distance;
        sum.log_sum += other.log_sum;
        sum.inertia += other.inertia;
        sum.evaluations = sum.evaluations.saturating_add(other.evaluations);
        sum.pairs = sum.pairs.merge(other.pairs)?;
        sum.farthest.extend(other.farthest);
        sum.farthest.sort_by(|a, b| {
            b.distance.total_cmp(&a.distance).then_with(|| compare(&a.values, &b.values)).then(a.row.cmp(&b.row))
        });
        sum.farthest.dedup_by(|a, b| a.values == b.values);
        let empty = sum.empty().count();
        sum.farthest.truncate(empty);
        Ok(sum)
    }
}

/// Merges the results of shards in order, neighbors first: (0, 1), (2, 3), then ((0, 1), (2, 3)) and so on. The bits
/// depend only on that order, so merging pairs of neighbors level by level, here or over a network, gives the same.
///
/// Holds at most log2 of the number of shards at a time.
#[derive(Debug, Clone)]
pub struct Merger<S> {
    /// Partial results with the number of shards in each, descending powers of 2.
    parts: Vec<(usize, S)>,
}

impl<S> Default for Merger<S> {
    fn default() -> Self {
        Self { parts: Vec::new() }
    }
}

impl<S: Merge> Merger<S> {
    /// Adds the result of the next shard.
    pub fn add(&mut self, next: S) -> Result<()> {
        let mut new = (1, next);
        while let Some((count, last)) = self.parts.pop_if(|last| last.0 == new.0) {
            new = (2 * count, last.merge(new.1)?);
        }
        self.parts.push(new);
        Ok(())
    }

    /// The combined result; `None` if there were no shards.
    pub fn finish(mut self) -> Result<Option<S>> {
        let Some((_, mut all)) = self.parts.pop() else { return Ok(None) };
        while let Some((_, before)) = self.parts.pop() {
            all = before.merge(all)?;
        }
        Ok(Some(all))
    }
}
