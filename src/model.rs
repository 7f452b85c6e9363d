//! The model, M isotropic Gaussians of equal weight and one variance, and what can be asked of it:
//!
//! p(y) = 1/M sum_c (2 pi s2)^(-D/2) exp(-|y - mu_c|^2 / 2 s2).
//!
//! Everything here looks at all clusters, through the blocked kernel: O(N M D), in blocks, with no N x M array unless that is
//! what was asked for. It is exact but for rounding; the rules of the [crate](crate#rules) say where that can be felt.

use crate::data::Dataset;
use crate::em::expectation::take_posterior;
use crate::em::objective::log_normalizer;
use crate::error::{Error, Result};
use crate::graph::{self, Found};
use crate::kernel::{self, Buffer, Centers, RowBlock};
use crate::observer::Observer;
use crate::parallel::Run;
use crate::real::Real;
use ndarray::{Array2, ArrayView2};
use rayon::prelude::*;
use std::fmt;

/// Centers and variance: p(y) = 1/M sum_c (2 pi s2)^(-D/2) exp(-|y - mu_c|^2 / 2 s2). What it is asked is answered exactly.
///
/// ```
/// use dgmm::{Dataset, Model, Run};
/// let model = Model::new(ndarray::array![[0.0f32, 0.0], [4.0, 0.0]].view(), 1.0)?;
/// let x = ndarray::array![[1.0f32, 0.0], [3.5, 1.0]];
/// let data = Dataset::new(x.view())?;
/// assert_eq!(model.predict(&data, &Run::default())?, [0, 1]);
/// assert_eq!(model.quantization_error(&data, &Run::default())?, 1.0 + 1.25);
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Clone)]
pub struct Model<T: Real> {
    /// M x D, counted from the origin.
    centers: Buffer<T>,
    /// Where coordinates are counted from; 0 where there is none.
    origin: Option<Vec<T>>,
    dim: usize,
    variance: f64,
}

impl<T: Real> fmt::Debug for Model<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut model = f.debug_struct("Model");
        model.field("centers", &self.centers()).field("variance", &self.variance).finish()
    }
}

impl<T: Real> Model<T> {
    /// A model of the given centers (M x D, finite) and variance (positive).
    pub fn new(centers: ArrayView2<'_, T>, variance: f64) -> Result<Self> {
        Self::new_in(centers, variance, &Run::default())
    }

    /// The same in the pool that `run` asks for.
    #[doc(hidden)]
    pub fn new_in(centers: ArrayView2<'_, T>, variance: f64, run: &Run<'_>) -> Result<Self> {
        if !(variance.is_finite() && variance > 0.0) {
            let allowed = "finite and positive".into();
            return Err(Error::BadParameter { name: "variance", value: variance.to_string(), allowed });
        }
        let moments = run.install(|| Dataset::new(centers)?.moments(run.observer))?;
        Ok(Self::from_origin(centers, moments.origin(), variance))
    }

    /// A model that counts from the given origin.
    pub(crate) fn from_origin(centers: ArrayView2<'_, T>, origin: Option<Vec<T>>, variance: f64) -> Self {
        let dim = centers.ncols();
        let mut local = Buffer::of(centers.as_standard_layout().as_slice().expect("it is in order"));
        if let Some(origin) = &origin {
            for center in local.chunks_exact_mut(dim) {
                center.iter_mut().zip(origin).for_each(|(x, &o)| *x -= o);
            }
        }
        Self { centers: local, origin, dim, variance }
    }

    /// The model with its centers rounded to what [`centers`](Self::centers) says, and whether that changed any.
    pub(crate) fn settled(mut self) -> (Self, bool) {
        let Some(origin) = &self.origin else { return (self, false) };
        let mut changed = false;
        for center in self.centers.chunks_exact_mut(self.dim) {
            for (x, &o) in center.iter_mut().zip(origin) {
                let rounded = (*x + o) - o;
                changed |= rounded != *x;
                *x = rounded;
            }
        }
        (self, changed)
    }

    pub(crate) fn local_centers(&self) -> &[T] {
        &self.centers
    }

    pub(crate) fn local_centers_mut(&mut self) -> &mut [T] {
        &mut self.centers
    }

    pub(crate) fn origin(&self) -> Option<&[T]> {
        self.origin.as_deref()
    }

    /// The centers, M x D.
    pub fn centers(&self) -> Array2<T> {
        let zero = vec![T::ZERO; self.dim];
        let origin = self.origin().unwrap_or(&zero);
        Array2::from_shape_fn((self.clusters(), self.dim), |(c, d)| self.centers[c * self.dim + d] + origin[d])
    }

    /// Number of clusters M.
    pub fn clusters(&self) -> usize {
        self.centers.len() / self.dim
    }

    /// Number of columns D.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The shared variance s2.
    pub fn variance(&self) -> f64 {
        self.variance
    }

    pub(crate) fn set_variance(&mut self, variance: f64) {
        self.variance = variance;
    }

    /// Checks new data, then works on it, in the pool that `run` asks for.
    fn checked<R: Send>(
        &self,
        data: &Dataset<'_, T>,
        run: &Run<'_>,
        work: impl FnOnce() -> Result<R> + Send,
    ) -> Result<R> {
        if data.dim() != self.dim {
            return Err(Error::DimensionMismatch { columns: data.dim(), dim: self.dim });
        }
        run.install(|| {
            let zero = [T::ZERO];
            let origin = self.origin().unwrap_or(&zero).iter().cycle();
            let centers = self.centers.iter().zip(origin).map(|(&x, &o)| x + o);
            data.moments(run.observer)?.check_reach("X and the centers together span", centers)?;
            work()
        })
    }

    /// Maps each block of rows, in the kernel's layout, in order. `map` gets the block, the centers and the first row.
    fn blocks<R: Send>(
        &self,
        data: &Dataset<'_, T>,
        observer: &dyn Observer,
        map: impl Fn(&RowBlock<T>, &Centers<'_, T>, usize) -> R + Sync,
    ) -> Result<Vec<R>> {
        let centers = Centers::new(&self.centers, self.dim);
        let size = kernel::block_rows::<T>(self.dim);
        (0..data.rows().div_ceil(size))
            .into_par_iter()
            .map_init(RowBlock::default, |block, i| {
                if observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                let rows = i * size..((i + 1) * size).min(data.rows());
                block.load(data.range(rows.clone()), self.dim, self.origin());
                Ok(map(block, &centers, rows.start))
            })
            .collect()
    }

    /// The k nearest clusters of each row of a block, with distances by differences, sorted by them.
    fn block_top_k(
        &self,
        data: &Dataset<'_, T>,
        block: &RowBlock<T>,
        centers: &Centers<'_, T>,
        start: usize,
        k: usize,
    ) -> (Vec<u32>, Vec<T>) {
        let rows = block.rows;
        let (mut ids, mut distances) = (vec![0; rows * k], vec![T::ZERO; rows * k]);
        block.nearest(centers, k, &mut ids, &mut distances);
        let (mut local, mut order) = (Vec::new(), Vec::new());
        for (r, (ids, distances)) in ids.chunks_exact_mut(k).zip(distances.chunks_exact_mut(k)).enumerate() {
            T::gathered_distances(data.local(start + r, self.origin(), &mut local), centers.values, ids, distances);
            if !distances.is_sorted() {
                order.clear();
                order.extend(ids.iter().copied().zip(distances.iter().copied()));
                order.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
                for (j, &(id, d)) in order.iter().enumerate() {
                    (ids[j], distances[j]) = (id, d);
                }
            }
        }
        (ids, distances)
    }

    fn check_k(&self, name: &'static str, k: usize) -> Result<()> {
        if k == 0 || k > self.clusters() {
            let allowed = format!("from 1 to n_clusters = {}", self.clusters());
            return Err(Error::BadParameter { name, value: k.to_string(), allowed });
        }
        Ok(())
    }

    /// The nearest cluster of each row; of equally near ones the first.
    pub fn predict(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Vec<u32>> {
        Ok(self.checked(data, run, || self.nearest(data, run.observer))?.0)
    }

    /// The nearest cluster of each row as far as a search of the coarse cells around it finds it, and the recall measured
    /// on the way: see [`Found`]. For some thousand clusters and more; what it finds does not depend on the threads.
    pub fn predict_graph(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Found> {
        self.checked(data, run, || graph::search(self, data, run.observer))
    }

    /// Labels and squared distances of each row's nearest cluster. Must run inside a pool.
    pub(crate) fn nearest(&self, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<(Vec<u32>, Vec<T>)> {
        let top =
            |block: &RowBlock<T>, centers: &Centers<'_, T>, start| self.block_top_k(data, block, centers, start, 1);
        let (ids, distances): (Vec<_>, Vec<_>) = self.blocks(data, observer, top)?.into_iter().unzip();
        Ok((ids.concat(), distances.concat()))
    }

    /// The k nearest clusters of each row, nearest first, and their squared distances: N x k each.
    pub fn top_k(&self, data: &Dataset<'_, T>, k: usize, run: &Run<'_>) -> Result<(Array2<u32>, Array2<T>)> {
        self.check_k("k", k)?;
        let parts = self.checked(data, run, || {
            self.blocks(data, run.observer, |block, centers, start| self.block_top_k(data, block, centers, start, k))
        })?;
        Ok(stack(parts, data.rows(), k))
    }

    /// Posterior probabilities over each row's h nearest clusters, and which these are: N x h each.
    pub fn posteriors(&self, data: &Dataset<'_, T>, h: usize, run: &Run<'_>) -> Result<(Array2<u32>, Array2<T>)> {
        self.check_k("truncation", h)?;
        let parts = self.checked(data, run, || {
            self.blocks(data, run.observer, |block, centers, start| {
                let (ids, distances) = self.block_top_k(data, block, centers, start, h);
                let mut q = vec![T::ZERO; distances.len()];
                for (q, d) in q.chunks_exact_mut(h).zip(distances.chunks_exact(h)) {
                    take_posterior(d, self.variance, q);
                }
                (ids, q)
            })
        })?;
        Ok(stack(parts, data.rows(), h))
    }

    /// The squared distances of a block's rows, from `start` on, to all centers: rows x M.
    fn block_distances(
        &self,
        data: &Dataset<'_, T>,
        block: &RowBlock<T>,
        centers: &Centers<'_, T>,
        start: usize,
    ) -> Vec<T> {
        let mut distances = vec![T::ZERO; block.rows * centers.len()];
        block.distances(centers, &mut distances);
        let mut local = Vec::new();
        let row = |r: usize, y: &mut Vec<T>| y.extend_from_slice(data.local(start + r, self.origin(), &mut local));
        centers.measure_near(&mut distances, row);
        distances
    }

    /// All squared distances: N x M, as asked for.
    pub fn distances(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Array2<T>> {
        let clusters = self.clusters();
        let parts = self.checked(data, run, || {
            self.blocks(data, run.observer, |block, centers, start| self.block_distances(data, block, centers, start))
        })?;
        Ok(Array2::from_shape_vec((data.rows(), clusters), parts.concat()).expect("blocks cover all rows"))
    }

    /// log p(y) of each row, over all M clusters.
    pub fn log_density(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Vec<f64>> {
        let clusters = self.clusters();
        let constant = -(clusters as f64).ln() - log_normalizer(self.dim, self.variance);
        let parts = self.checked(data, run, || {
            self.blocks(data, run.observer, |block, centers, start| {
                let out = self.block_distances(data, block, centers, start);
                let mut q = vec![T::ZERO; clusters];
                let log_sum = |d: &[T]| constant + take_posterior(d, self.variance, &mut q).log_sum;
                out.chunks_exact(clusters).map(log_sum).collect::<Vec<f64>>()
            })
        })?;
        Ok(parts.concat())
    }

    /// The exact sum of w times the squared distance to the nearest center.
    pub fn quantization_error(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<f64> {
        let sums = self.checked(data, run, || {
            self.blocks(data, run.observer, |block, centers, start| {
                let (_, distances) = self.block_top_k(data, block, centers, start, 1);
                distances.iter().zip(start..).map(|(d, n)| data.weight(n) * d.to_f64()).sum::<f64>()
            })
        })?;
        Ok(sums.into_iter().sum())
    }
}

/// The parts of two arrays, one below the other.
fn stack<T: Real>(parts: Vec<(Vec<u32>, Vec<T>)>, rows: usize, columns: usize) -> (Array2<u32>, Array2<T>) {
    let (ids, values): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    let shape = (rows, columns);
    (
        Array2::from_shape_vec(shape, ids.concat()).expect("blocks cover all rows"),
        Array2::from_shape_vec(shape, values.concat()).expect("blocks cover all rows"),
    )
}
