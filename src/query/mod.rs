//! Queries to a model. All of them compare rows with all clusters, with the blocked kernel: O(N M D), block by block,
//! without an N x M array unless that is the result. They are exact up to rounding; see the rules of the
//! [crate](crate#rules). [`Index`](crate::Index) is faster and nearly always gives the same answers.
//!
//! If clusters differ in weight or variance, `predict`, `posteriors` and `log_density` use their [scores](scored);
//! distances are always those to the centers.

mod scored;

use crate::data::Dataset;
use crate::error::{Error, Result, Spanning};
use crate::kernel::{self, Centers, Real, RowBlock, for_both};
use crate::memory::{collected, entries, filled, matrix};
use crate::model::Model;
use crate::model::score::normalizer_of;
use crate::observer::Observer;
use crate::options::Metric;
use crate::parallel::Run;
use crate::step::{keep_nearest, take_posterior};
use ndarray::Array2;
use rayon::prelude::*;
use scored::Scored;
use std::ops::Range;

/// Number of additional clusters that are measured by differences if the kernel's distances have lost their digits.
const MORE: usize = 8;

impl<T: Real> Model<T> {
    /// The nearest cluster of each row, or the most likely one if clusters differ; of equal ones the first.
    pub fn predict(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Vec<u32>> {
        predict(self, data, run)
    }

    /// The k nearest clusters of each row, nearest first, and their squared distances: N x k each.
    pub fn top_k(&self, data: &Dataset<'_, T>, k: usize, run: &Run<'_>) -> Result<(Array2<u32>, Array2<T>)> {
        top_k(self, data, k, run)
    }

    /// [`top_k`](Self::top_k) written to `ids` and `distances` (OUT), N x k each.
    pub fn top_k_into(
        &self,
        data: &Dataset<'_, T>,
        k: usize,
        ids: &mut [u32],
        distances: &mut [T],
        run: &Run<'_>,
    ) -> Result<()> {
        top_k_into(self, data, k, ids, distances, run)
    }

    /// Posterior probabilities over each row's h nearest (or most likely) clusters, and the indices of these: N x h
    /// each.
    pub fn posteriors(&self, data: &Dataset<'_, T>, h: usize, run: &Run<'_>) -> Result<(Array2<u32>, Array2<T>)> {
        posteriors(self, data, h, run)
    }

    /// All squared distances: N x M.
    pub fn distances(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Array2<T>> {
        let count = entries(data.rows(), self.clusters(), "all distances")?;
        let mut out = filled(T::ZERO, count, "all distances")?;
        self.distances_into(data, &mut out, run)?;
        Ok(matrix(out, self.clusters()))
    }

    /// [`distances`](Self::distances) written to `out` (OUT), N x M.
    pub fn distances_into(&self, data: &Dataset<'_, T>, out: &mut [T], run: &Run<'_>) -> Result<()> {
        distances(self, data, out, run)
    }

    /// log p(y) of each row, over all M clusters.
    pub fn log_density(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Vec<f64>> {
        log_density(self, data, run)
    }

    /// The exact sum of w times the squared distance to the nearest center.
    pub fn quantization_error(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<f64> {
        quantization_error(self, data, run)
    }

    /// The most likely cluster of each row, and the squared distance to it, in units of its variances if clusters
    /// differ. Must run inside a pool.
    pub(crate) fn likeliest(&self, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<(Vec<u32>, Vec<T>)> {
        let model = self.plain(observer)?;
        match model.shape() {
            None => model.nearest(data, observer),
            Some(_) => Scored::new(&model)?.labels(data, observer),
        }
    }

    /// The nearest cluster of each row, and the squared distance to it. Must run inside a pool.
    pub(crate) fn nearest(&self, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<(Vec<u32>, Vec<T>)> {
        self.nearest_k(data, 1, observer)
    }

    /// The k nearest clusters of each row and their squared distances: N x k each. Must run inside a pool.
    pub(crate) fn nearest_k(
        &self,
        data: &Dataset<'_, T>,
        k: usize,
        observer: &dyn Observer,
    ) -> Result<(Vec<u32>, Vec<T>)> {
        let count = entries(data.rows(), k, "nearest clusters")?;
        let mut ids = filled(0, count, "nearest clusters")?;
        let mut distances = filled(T::ZERO, count, "nearest clusters")?;
        self.fill_top_k(data, k, &mut ids, &mut distances, observer)?;
        Ok((ids, distances))
    }

    /// Checks new data, converts them for the metric, and runs `work` on them in the thread pool that `run` specifies.
    pub(crate) fn checked<R: Send>(
        &self,
        data: &Dataset<'_, T>,
        run: &Run<'_>,
        work: impl FnOnce(&Self, &Dataset<'_, T>) -> Result<R> + Send,
    ) -> Result<R> {
        if data.dim() != self.dim() {
            return Err(Error::DimensionMismatch { columns: data.dim(), dim: self.dim() });
        }
        run.install(|| {
            let (data, model) = (&data.for_metric(self.metric(), 0, run.observer)?, self.plain(run.observer)?);
            if self.metric() == Metric::Cosine {
                // The rows have been checked, and unit vectors are never far from one another.
                return work(&model, data);
            }
            let zero = [T::ZERO];
            let origin = model.origin().unwrap_or(&zero).iter().cycle();
            let centers = model.local_centers().iter().zip(origin).map(|(&x, &o)| x + o);
            data.moments(run.observer)?.check_reach(Spanning::DataAndCenters, centers, false)?;
            work(&model, data)
        })
    }

    pub(crate) fn check_k(&self, name: &'static str, k: usize) -> Result<()> {
        if k == 0 || k > self.clusters() {
            return Err(Error::bad(name, k, format!("from 1 to clusters = {}", self.clusters())));
        }
        Ok(())
    }

    /// Calls `work` with each block of rows, in the kernel's layout, and its part of `out` (OUT, `width` numbers per
    /// row).
    fn fill_blocks<R: Send>(
        &self,
        data: &Dataset<'_, T>,
        width: usize,
        out: &mut [R],
        observer: &dyn Observer,
        work: impl Fn(&mut QueryBlock<'_, T>, Range<usize>, &mut [R]) -> Result<()> + Sync,
    ) -> Result<()> {
        assert_eq!(out.len(), data.rows() * width, "rows x {width} numbers");
        let centers = Centers::new(self.local_centers(), self.dim());
        let size = block_size::<T>(data.rows(), self.dim());
        let new = || QueryBlock { model: self, data, centers: &centers, block: RowBlock::default(), local: Vec::new() };
        out.par_chunks_mut(size * width)
            .enumerate()
            .map_init(new, |block, (i, out)| {
                if observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                let rows = i * size..((i + 1) * size).min(data.rows());
                block.block.load(data.range(rows.clone(), &mut block.local), self.dim(), self.origin());
                work(block, rows, out)
            })
            .collect()
    }

    /// The k nearest clusters of each row and their distances (OUT, rows x k each).
    fn fill_top_k(
        &self,
        data: &Dataset<'_, T>,
        k: usize,
        ids: &mut [u32],
        distances: &mut [T],
        observer: &dyn Observer,
    ) -> Result<()> {
        let size = block_size::<T>(data.rows(), self.dim()) * k;
        let mut pairs: Vec<(&mut [u32], &mut [T])> = ids.chunks_mut(size).zip(distances.chunks_mut(size)).collect();
        let centers = Centers::new(self.local_centers(), self.dim());
        let new = || QueryBlock { model: self, data, centers: &centers, block: RowBlock::default(), local: Vec::new() };
        pairs
            .par_iter_mut()
            .enumerate()
            .map_init(new, |block, (i, (ids, distances))| {
                if observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                let start = i * size / k;
                let rows = start..start + ids.len() / k;
                block.block.load(data.range(rows.clone(), &mut block.local), self.dim(), self.origin());
                block.top_k(rows, k, ids, distances)
            })
            .collect()
    }
}

/// Number of rows of a block: that of the kernel, or fewer if threads would otherwise have no work. It does not affect
/// results.
fn block_size<T: Real>(rows: usize, dim: usize) -> usize {
    let share = rows.div_ceil(rayon::current_num_threads()).next_multiple_of(32);
    kernel::block_rows::<T>(dim).min(share)
}

/// A block of rows in a query.
struct QueryBlock<'a, T: Real> {
    model: &'a Model<T>,
    data: &'a Dataset<'a, T>,
    centers: &'a Centers<'a, T>,
    block: RowBlock<T>,
    local: Vec<T>,
}

impl<T: Real> QueryBlock<'_, T> {
    /// The k nearest clusters of each row, with distances by differences, sorted by these (OUT, rows x k each).
    fn top_k(&mut self, rows: Range<usize>, k: usize, ids: &mut [u32], distances: &mut [T]) -> Result<()> {
        self.block.nearest(self.centers, k, ids, distances);
        let lost: Vec<u32> = (rows.clone().enumerate())
            .filter(|&(r, _)| k < self.centers.len() && self.block.has_lost_digits(r, distances[r * k + k - 1]))
            .map(|(_, n)| n as u32)
            .collect();
        for (n, (ids, distances)) in rows.clone().zip(ids.chunks_exact_mut(k).zip(distances.chunks_exact_mut(k))) {
            self.measure(n, ids, distances);
        }
        self.remeasure(&lost, rows.start, k, ids, distances)
    }

    /// Measures a row's clusters by differences and sorts them.
    fn measure(&mut self, n: usize, ids: &mut [u32], distances: &mut [T]) {
        let row = self.data.local(n, self.model.origin(), &mut self.local);
        T::gathered_distances(row, self.centers.values, ids, distances);
        if !distances.is_sorted() {
            let mut order: Vec<(u32, T)> = ids.iter().copied().zip(distances.iter().copied()).collect();
            order.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
            for (j, &(id, d)) in order.iter().enumerate() {
                (ids[j], distances[j]) = (id, d);
            }
        }
    }

    /// Searches again, among more clusters and by differences, for the rows `lost`: their distances are so small
    /// relative to the norms that |y|^2 - 2 y.mu + |mu|^2 cannot tell which cluster is nearest.
    fn remeasure(&mut self, lost: &[u32], first: usize, k: usize, ids: &mut [u32], distances: &mut [T]) -> Result<()> {
        let more = (k + MORE).min(self.centers.len());
        let (mut near, mut d) =
            (filled(0, lost.len() * more, "labels")?, filled(T::ZERO, lost.len() * more, "labels")?);
        let mut block = RowBlock::default();
        if !lost.is_empty() {
            block.load_gathered(self.data.table(), lost, self.model.origin());
            block.nearest(self.centers, more, &mut near, &mut d);
        }
        for (i, &n) in lost.iter().enumerate() {
            let (near, d) = (&mut near[i * more..(i + 1) * more], &mut d[i * more..(i + 1) * more]);
            let place = (n as usize - first) * k..(n as usize - first + 1) * k;
            if more < self.centers.len() && block.has_lost_digits(i, d[more - 1]) {
                // Even the last one may be the nearest: measure all clusters.
                let row = self.data.local(n as usize, self.model.origin(), &mut self.local);
                let all = collected(0..self.centers.len() as u32, "labels")?;
                let mut measured = filled(T::ZERO, all.len(), "labels")?;
                T::gathered_distances(row, self.centers.values, &all, &mut measured);
                keep_nearest(&all, &measured, &mut ids[place.clone()], &mut distances[place]);
                continue;
            }
            self.measure(n as usize, near, d);
            ids[place.clone()].copy_from_slice(&near[..k]);
            distances[place].copy_from_slice(&d[..k]);
        }
        Ok(())
    }

    /// The squared distances of the block's rows to all centers (OUT, rows x M).
    fn distances(&mut self, rows: Range<usize>, out: &mut [T]) {
        self.block.distances(self.centers, out);
        let Self { model, data, local, .. } = self;
        let row = |r: usize, y: &mut Vec<T>| y.extend_from_slice(data.local(rows.start + r, model.origin(), local));
        self.centers.measure_near(out, row);
    }
}

for_both! {
    fn predict(model: &Model<T>, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Vec<u32>> {
        Ok(model.checked(data, run, |model, data| model.likeliest(data, run.observer))?.0)
    }
}

for_both! {
    fn top_k(model: &Model<T>, data: &Dataset<'_, T>, k: usize, run: &Run<'_>) -> Result<(Array2<u32>, Array2<T>)> {
        model.check_k("k", k)?;
        let (ids, distances) = model.checked(data, run, |model, data| model.nearest_k(data, k, run.observer))?;
        Ok((matrix(ids, k), matrix(distances, k)))
    }
}

for_both! {
    fn top_k_into(
        model: &Model<T>,
        data: &Dataset<'_, T>,
        k: usize,
        ids: &mut [u32],
        distances: &mut [T],
        run: &Run<'_>,
    ) -> Result<()> {
        model.check_k("k", k)?;
        assert!(ids.len() == data.rows() * k && distances.len() == ids.len(), "rows x k ids and distances");
        model.checked(data, run, |model, data| model.fill_top_k(data, k, ids, distances, run.observer))
    }
}

for_both! {
    fn posteriors(
        model: &Model<T>,
        data: &Dataset<'_, T>,
        h: usize,
        run: &Run<'_>,
    ) -> Result<(Array2<u32>, Array2<T>)> {
        model.check_k("truncation", h)?;
        model.checked(data, run, |model, data| {
            if model.shape().is_some() {
                let scored = Scored::new(model)?;
                let (ids, mut q) = scored.lowest(data, h, run.observer)?;
                scored.posteriors(h, &mut q);
                return Ok((matrix(ids, h), matrix(q, h)));
            }
            let (ids, mut q) = model.nearest_k(data, h, run.observer)?;
            q.par_chunks_mut(h).for_each_init(Vec::new, |d, q| {
                d.clear();
                d.extend_from_slice(q);
                take_posterior(d, model.variance(), q);
            });
            Ok((matrix(ids, h), matrix(q, h)))
        })
    }
}

for_both! {
    fn distances(model: &Model<T>, data: &Dataset<'_, T>, out: &mut [T], run: &Run<'_>) -> Result<()> {
        model.checked(data, run, |model, data| {
            let clusters = model.clusters();
            model.fill_blocks(data, clusters, out, run.observer, |block, rows, out| {
                block.distances(rows, out);
                Ok(())
            })
        })
    }
}

for_both! {
    fn log_density(model: &Model<T>, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Vec<f64>> {
        let (clusters, variance) = (model.clusters(), model.variance());
        let constant = -(clusters as f64).ln() - normalizer_of(model);
        let mut logs = filled(0.0, data.rows(), "log-densities")?;
        model.checked(data, run, |model, data| {
            if model.shape().is_some() {
                return Scored::new(model)?.log_density(data, &mut logs, run.observer);
            }
            model.fill_blocks(data, 1, &mut logs, run.observer, |block, rows, logs| {
                let mut distances = filled(0.0 as T, rows.len() * clusters, "distances")?;
                block.distances(rows, &mut distances);
                let mut q = filled(0.0 as T, clusters, "posteriors")?;
                for (log, d) in logs.iter_mut().zip(distances.chunks_exact(clusters)) {
                    *log = constant + take_posterior(d, variance, &mut q).log_sum;
                }
                Ok(())
            })
        })?;
        Ok(logs)
    }
}

for_both! {
    fn quantization_error(model: &Model<T>, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<f64> {
        let size = kernel::block_rows::<T>(model.dim());
        let mut errors = filled(0.0, data.rows(), "distances")?;
        model.checked(data, run, |model, data| {
            model.fill_blocks(data, 1, &mut errors, run.observer, |block, rows, errors| {
                let (mut ids, mut d) = (vec![0; rows.len()], vec![0.0 as T; rows.len()]);
                block.top_k(rows.clone(), 1, &mut ids, &mut d)?;
                for ((error, d), n) in errors.iter_mut().zip(d).zip(rows) {
                    *error = data.weight(n) * d.to_f64();
                }
                Ok(())
            })
        })?;
        // Block by block: this keeps more digits, and is the same for every number of threads.
        Ok(errors.chunks(size).map(|block| block.iter().sum::<f64>()).sum())
    }
}
