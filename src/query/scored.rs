//! Queries to a model whose clusters differ in weight or variance: by [scores](crate::model::score), not by distances.

use super::block_size;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::{NearestScratch, Real, RowBlock};
use crate::memory::{entries, filled};
use crate::model::Model;
use crate::model::score::{ScoredCenters, Scores};
use crate::observer::Observer;
use crate::step::{ScoreCheck, keep_nearest, take_posterior};
use rayon::prelude::*;
use std::ops::Range;

/// Number of additional clusters that are measured by differences, because rounding may have changed the order.
const MORE: usize = 4;
/// Scores this far above the lowest do not contribute to a density: exp(-32) of it. The others are measured by
/// differences.
const REACH: f64 = 64.0;

/// A model with its scores.
pub(super) struct Scored<'a, T: Real> {
    model: &'a Model<T>,
    scores: Scores<T>,
}

/// Buffers for a block of rows.
#[derive(Default)]
struct Scratch<T> {
    block: RowBlock<T>,
    nearest: NearestScratch<T>,
    /// The rows relative to the model's origin.
    rows: Vec<T>,
    ids: Vec<u32>,
    values: Vec<T>,
}

impl<'a, T: Real> Scored<'a, T> {
    pub fn new(model: &'a Model<T>) -> Result<Self> {
        Ok(Self { model, scores: Scores::of(model)? })
    }

    /// The cluster with the lowest score for each row, and the squared distance to it: its score without the offset.
    pub fn labels(&self, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<(Vec<u32>, Vec<T>)> {
        let (ids, mut scores) = self.lowest(data, 1, observer)?;
        scores.iter_mut().zip(&ids).for_each(|(score, &c)| *score -= self.scores.offset(c));
        Ok((ids, scores))
    }

    /// The k clusters with the lowest scores for each row, lowest first, and these scores: N x k each.
    pub fn lowest(&self, data: &Dataset<'_, T>, k: usize, observer: &dyn Observer) -> Result<(Vec<u32>, Vec<T>)> {
        let count = entries(data.rows(), k, "nearest clusters")?;
        let mut ids = filled(0, count, "nearest clusters")?;
        let mut values = filled(T::ZERO, count, "nearest clusters")?;
        let more = (k + MORE).min(self.model.clusters());
        let size = block_size::<T>(data.rows(), self.model.dim());
        let scored = ScoredCenters::new(self.model, &self.scores)?;
        let (centers, check) = (scored.centers(), ScoreCheck::of(self.model, &self.scores)?);
        let parts = ids.par_chunks_mut(size * k).zip(values.par_chunks_mut(size * k)).enumerate();
        parts.try_for_each_init(Scratch::default, |scratch, (i, (ids, values))| {
            if observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let rows = i * size..i * size + ids.len() / k;
            self.load(data, rows.clone(), scratch);
            let Scratch { block, nearest, rows: local, ids: near, values: d, .. } = scratch;
            near.resize(rows.len() * more, 0);
            d.resize(rows.len() * more, T::ZERO);
            block.nearest_in(nearest, &centers, more, near, d);
            for (r, (ids, values)) in ids.chunks_exact_mut(k).zip(values.chunks_exact_mut(k)).enumerate() {
                let (near, d) = (&near[r * more..(r + 1) * more], &mut d[r * more..(r + 1) * more]);
                self.scores.measure(self.row(local, r), self.model.local_centers(), near, d);
                keep_nearest(near, d, ids, values);
                if let Some(check) = &check {
                    check.remeasure(block, r, self.row(local, r), ids, values);
                }
            }
            Ok(())
        })?;
        Ok((ids, values))
    }

    /// Converts scores to posteriors, for rows of `h` scores each (IN OUT).
    pub fn posteriors(&self, h: usize, scores: &mut [T]) {
        scores.par_chunks_mut(h).for_each_init(Vec::new, |d, q| {
            d.clear();
            d.extend_from_slice(q);
            take_posterior(d, self.scores.variance, q);
        });
    }

    /// log p(y) of each row (OUT), over all clusters.
    pub fn log_density(&self, data: &Dataset<'_, T>, logs: &mut [f64], observer: &dyn Observer) -> Result<()> {
        let (clusters, size) = (self.model.clusters(), block_size::<T>(data.rows(), self.model.dim()));
        let scored = ScoredCenters::new(self.model, &self.scores)?;
        let (centers, check) = (scored.centers(), ScoreCheck::of(self.model, &self.scores)?);
        logs.par_chunks_mut(size).enumerate().try_for_each_init(Scratch::default, |scratch, (i, logs)| {
            if observer.cancelled() {
                return Err(Error::Cancelled);
            }
            self.load(data, i * size..i * size + logs.len(), scratch);
            let mut all = filled(T::ZERO, logs.len() * clusters, "scores")?;
            scratch.block.distances(&centers, &mut all);
            let mut q = filled(T::ZERO, clusters, "posteriors")?;
            for (r, (log, d)) in logs.iter_mut().zip(all.chunks_exact_mut(clusters)).enumerate() {
                let row = self.row(&scratch.rows, r);
                let least = d.iter().copied().fold(T::INFINITY, |a, b| if b < a { b } else { a });
                let misled = check.as_ref().is_some_and(|check| check.is_misled(&scratch.block, r, row, least));
                let reach = if misled { T::INFINITY } else { least + T::from_f64(REACH * self.scores.variance) };
                self.measure_lowest(row, reach, d);
                *log = self.scores.constant + take_posterior(d, self.scores.variance, &mut q).log_sum;
            }
            Ok(())
        })
    }

    /// Measures those of a row's scores (IN OUT, M) that are at most `reach` again, by differences.
    fn measure_lowest(&self, row: &[T], reach: T, scores: &mut [T]) {
        for (c, score) in scores.iter_mut().enumerate().filter(|(_, score)| **score <= reach) {
            self.scores.measure(row, self.model.local_centers(), &[c as u32], std::slice::from_mut(score));
        }
    }

    /// A block of rows in the kernel's layout, and relative to the model's origin.
    fn load(&self, data: &Dataset<'_, T>, rows: Range<usize>, scratch: &mut Scratch<T>) {
        let (dim, mut local) = (self.model.dim(), Vec::new());
        scratch.rows.clear();
        for n in rows {
            scratch.rows.extend_from_slice(data.local(n, self.model.origin(), &mut local));
        }
        match self.scores.lift() {
            None => scratch.block.load(&scratch.rows, dim, None),
            Some(lift) => scratch.block.load_lifted(&scratch.rows, dim, lift.columns(dim)),
        }
    }

    fn row<'s>(&self, rows: &'s [T], r: usize) -> &'s [T] {
        &rows[r * self.model.dim()..(r + 1) * self.model.dim()]
    }
}
