//! Approximate search for the nearest clusters: an inverted file of coarse cells with 8-bit residuals.
//!
//! The centers are divided into about 4 sqrt(M) cells by k-means, and each is stored as its difference from its cell's
//! center, rounded to eight bits. A row is compared with the cells' own centers and searches the nearest cell and all
//! cells that are at most a *reach* farther; the reach is the same for all rows. It is compared with all their centers
//! in eight bits, and the best candidates are measured exactly. The reach needed depends on the data: [`Index::tune`]
//! learns it from a sample of the rows that is searched exactly.

mod cells;
mod scan;
#[cfg(test)]
mod tests;
mod tune;

use crate::data::Dataset;
use crate::data::gather;
use crate::error::{Error, Result, Spanning};
use crate::kernel::int8::{Int8Isa, LANES, MOST_COLUMNS};
use crate::kernel::{Real, for_both};
use crate::memory::matrix;
use crate::model::Model;
use crate::parallel::Run;
use crate::seeding::cells::view;
use cells::Cells;
use ndarray::Array2;
use scan::Search;
use std::fmt;
use std::sync::Arc;
use tune::{Learned, Purpose, draw, is_right};

/// Number of clusters below which approximate search saves nothing.
const FEWEST_CLUSTERS: usize = 256;

/// A model's centers, arranged so that the nearest clusters of a row are found without comparing it with all of them.
///
/// Built once by [`Model::index`] and [tuned](Self::tune) once, it answers any number of queries at the same speed per
/// row. It owns a copy of the centers and so outlives the model. Its results do not depend on the number of threads,
/// nor on how rows are divided among calls. Clones share everything but the reach, so they are cheap.
///
/// ```
/// use dgmm::{Dataset, Model, Run};
/// use ndarray::Array2;
/// // 900 centers on a grid, and rows near them.
/// let centers = Array2::from_shape_fn((900, 2), |(c, d)| if d == 0 { (c % 30) as f32 } else { (c / 30) as f32 });
/// let x = Array2::from_shape_fn((3000, 2), |(n, d)| centers[[n % 900, d]] + ((n * (d + 3)) % 17) as f32 / 60.0);
/// let (model, data, run) = (Model::new(centers.view(), 0.1)?, Dataset::new(x.view())?, Run::default());
///
/// let mut index = model.index(&run)?;
/// assert!(index.tune(&data, 0.98, &run)? >= 0.95);
/// let labels = index.predict(&data, &run)?;
/// let (right, checked) = index.audit(&data, &labels, 200, &run)?;
/// assert!(checked == 200 && right >= 190);
/// let (ids, distances) = index.top_k(&data, 3, &run)?;
/// assert!(ids.dim() == (3000, 3) && distances[[0, 0]] <= distances[[0, 1]]);
/// # Ok::<(), dgmm::Error>(())
/// ```
///
/// # Cost
/// Building takes O(M^(3/2) D), and tuning takes exact search for two samples of 1024 rows. A search takes O(M^(1/2) D) per
/// row for the cells and as much again, or several times as much, for the centers in them, against O(M D) for exact search.
/// The index holds about M D t + (M + 48 M^(1/2)) D + 12 M bytes, with t = 4 for `f32` and 8 for `f64`: the centers, the same
/// in eight bits in vectors of 16, and the cells. A search holds one label and one distance per row, and about 3 megabytes
/// per thread.
///
/// # Exact search
/// With fewer than 256 clusters, more than 16,384 columns, or a CPU without fast 8-bit products (they need AVX2), an index
/// searches exactly, like the model: see [`is_exact`](Self::is_exact). It also does so before it is tuned, and if tuning shows
/// that approximate search would save nothing.
#[derive(Clone)]
#[must_use]
pub struct Index<T: Real> {
    model: Arc<Model<T>>,
    /// The smallest, then the largest value of each column of the centers.
    bounds: Arc<[T]>,
    /// `None` if all searches are exact.
    cells: Option<Arc<Cells>>,
    /// In the cells' scale; `None` before it is known.
    reach: Option<f32>,
}

impl<T: Real> Model<T> {
    /// Arranges the centers for approximate search: see [`Index`].
    pub fn index(&self, run: &Run<'_>) -> Result<Index<T>> {
        build(self, run)
    }
}

for_both! {
    fn build(model: &Model<T>, run: &Run<'_>) -> Result<Index<T>> {
        let (dim, fast) = (model.dim(), Int8Isa::best().is_fast());
        let worthwhile = model.clusters() >= FEWEST_CLUSTERS && dim <= MOST_COLUMNS && fast;
        let cells =
            worthwhile.then(|| run.install(|| Cells::new(model.local_centers(), dim, run.observer))).transpose()?;
        let (model, bounds) = (Arc::new(model.copied()?), bounds(model).into());
        Ok(Index { model, bounds, cells: cells.map(Arc::new), reach: None })
    }
}

for_both! {
    fn learn(index: &Index<T>, data: &Dataset<'_, T>, k: usize, recall: f64, run: &Run<'_>) -> Result<Option<Learned>> {
        index.checked(data, run, |data| match &index.cells {
            Some(cells) if k <= LANES => tune::learn(cells, &index.model, data, (k, recall), run.observer),
            _ => Ok(None),
        })
    }
}

for_both! {
    fn nearest_k(index: &Index<T>, data: &Dataset<'_, T>, k: usize, run: &Run<'_>) -> Result<(Vec<u32>, Vec<T>)> {
        index.checked(data, run, |data| match (&index.cells, index.reach) {
            (Some(cells), Some(reach)) if k <= LANES => {
                let found = Search { cells, model: &index.model, reach, k }.run(data, run.observer)?;
                Ok((found.ids, found.distances))
            }
            _ => index.model.nearest_k(data, k, run.observer),
        })
    }
}

impl<T: Real> Index<T> {
    /// Number of clusters M.
    #[must_use]
    pub fn clusters(&self) -> usize {
        self.model.clusters()
    }

    /// Number of columns D.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.model.dim()
    }

    /// Whether all searches are exact, so that there is nothing to tune: with few clusters, very many columns, or a CPU
    /// without fast 8-bit products.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.cells.is_none()
    }

    /// How much farther than its nearest cell a row searches, as a distance in the units of the data. `None` while
    /// searches are exact: before [`tune`](Self::tune) or [`set_reach`](Self::set_reach), and if they [always
    /// are](Self::is_exact).
    #[must_use]
    pub fn reach(&self) -> Option<f64> {
        let cells = self.cells.as_ref()?;
        self.reach.map(|reach| f64::from(reach) / cells.scale)
    }

    /// Restores a reach that [`reach`](Self::reach) returned for the same centers, or sets one manually: at least 0,
    /// and infinite to search all cells. Has no effect if all searches [are exact](Self::is_exact).
    pub fn set_reach(&mut self, reach: f64) -> Result<()> {
        if reach.is_nan() || reach < 0.0 {
            return Err(Error::BadParameter { name: "reach", value: reach.to_string(), allowed: "at least 0".into() });
        }
        self.reach = self.cells.as_ref().map(|cells| (reach * cells.scale) as f32);
        Ok(())
    }

    /// Learns the reach so that at least the fraction `recall` of the rows get their nearest cluster, or one at most 1
    /// % farther. Two samples of at most 1024 rows are searched exactly: one to learn from, and one to estimate the
    /// recall, which is returned. It may be lower than requested by chance or because eight bits are not enough.
    ///
    /// If rows would have to search so far that exact search costs no more, as in data with many columns and no
    /// structure, the index searches exactly from then on: the [reach](Self::reach) is `None` and the recall 1.
    pub fn tune(&mut self, data: &Dataset<'_, T>, recall: f64, run: &Run<'_>) -> Result<f64> {
        self.tune_top_k(data, 1, recall, run)
    }

    /// [`tune`](Self::tune) for [`top_k`](Self::top_k), which must search farther: at least the fraction `recall` of
    /// the rows' k nearest clusters should be found, or others at the same rank at most 1 % farther.
    pub fn tune_top_k(&mut self, data: &Dataset<'_, T>, k: usize, recall: f64, run: &Run<'_>) -> Result<f64> {
        if !(recall > 0.0 && recall <= 1.0) {
            let allowed = "above 0 and at most 1".into();
            return Err(Error::BadParameter { name: "recall", value: recall.to_string(), allowed });
        }
        self.model.check_k("k", k)?;
        let learned = learn(self, data, k, recall, run)?;
        self.reach = learned.as_ref().map(|learned| learned.reach);
        Ok(learned.map_or(1.0, |learned| learned.recall))
    }

    /// The nearest cluster of each row, as far as the search finds it; exact before the index is tuned.
    pub fn predict(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Vec<u32>> {
        Ok(self.nearest(data, run)?.0)
    }

    /// [`predict`](Self::predict) with the squared distances.
    pub(crate) fn nearest(&self, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<(Vec<u32>, Vec<T>)> {
        nearest_k(self, data, 1, run)
    }

    /// The k nearest clusters of each row, nearest first, and their squared distances, which are exact: N x k each.
    /// Some clusters may be missed, see [`tune_top_k`](Self::tune_top_k); for k above 16 the search is exact.
    pub fn top_k(&self, data: &Dataset<'_, T>, k: usize, run: &Run<'_>) -> Result<(Array2<u32>, Array2<T>)> {
        self.model.check_k("k", k)?;
        let (ids, distances) = nearest_k(self, data, k, run)?;
        Ok((matrix(ids, k), matrix(distances, k)))
    }

    /// Checks labels on a sample of at most `rows` rows, which are searched exactly: returns how many have their
    /// nearest cluster, or one at most 1 % farther, as label, and how many were checked. A hundred rows or so are cheap
    /// enough to check after every call.
    pub fn audit(&self, data: &Dataset<'_, T>, labels: &[u32], rows: usize, run: &Run<'_>) -> Result<(usize, usize)> {
        if labels.len() != data.rows() {
            let allowed = format!("one label for each of the {} rows", data.rows());
            return Err(Error::BadParameter { name: "labels", value: format!("{} long", labels.len()), allowed });
        }
        let drawn = draw(data.rows(), rows, Purpose::Audit);
        if let Some(&n) = drawn.iter().find(|&&n| labels[n] as usize >= self.clusters()) {
            let allowed = format!("below clusters = {}", self.clusters());
            return Err(Error::BadParameter { name: "labels", value: labels[n].to_string(), allowed });
        }
        if drawn.is_empty() {
            return Ok((0, 0));
        }
        let values = run.install(|| gather(data, &drawn))?;
        let sample = &view(&values, data.dim())?.already(data.metric());
        let sample = &run.install(|| sample.for_metric(self.model.metric(), 0, run.observer))?;
        let (_, nearest) = self.checked(sample, run, |sample| self.model.nearest(sample, run.observer))?;
        let (mut local, mut distance) = (Vec::new(), [T::ZERO]);
        let right = drawn.iter().zip(&nearest).enumerate().filter(|&(r, (&n, &nearest))| {
            let row = sample.local(r, self.model.origin(), &mut local);
            T::gathered_distances(row, self.model.local_centers(), &[labels[n]], &mut distance);
            is_right(distance[0], nearest)
        });
        Ok((right.count(), drawn.len()))
    }

    /// Checks new data, then runs `work` on it in the thread pool that `run` specifies.
    fn checked<R: Send>(
        &self,
        data: &Dataset<'_, T>,
        run: &Run<'_>,
        work: impl FnOnce(&Dataset<'_, T>) -> Result<R> + Send,
    ) -> Result<R> {
        if data.dim() != self.dim() {
            return Err(Error::DimensionMismatch { columns: data.dim(), dim: self.dim() });
        }
        run.install(|| {
            let data = &data.for_metric(self.model.metric(), 0, run.observer)?;
            let bounds = self.bounds.iter().copied();
            data.moments(run.observer)?.check_reach(Spanning::DataAndCenters, bounds, false)?;
            work(data)
        })
    }
}

impl<T: Real> fmt::Debug for Index<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut index = f.debug_struct("Index");
        index.field("clusters", &self.clusters()).field("dim", &self.dim());
        index.field("cells", &self.cells.as_ref().map(|cells| cells.len())).field("reach", &self.reach());
        index.finish_non_exhaustive()
    }
}

/// The smallest, then the largest value of each column of a model's centers.
fn bounds<T: Real>(model: &Model<T>) -> Vec<T> {
    let dim = model.dim();
    let zero = vec![T::ZERO; dim];
    let origin = model.origin().unwrap_or(&zero);
    let mut bounds = [vec![T::INFINITY; dim], vec![-T::INFINITY; dim]].concat();
    for center in model.local_centers().chunks_exact(dim) {
        for (d, (&x, &o)) in center.iter().zip(origin).enumerate() {
            let x = x + o;
            bounds[d] = if x < bounds[d] { x } else { bounds[d] };
            bounds[dim + d] = bounds[dim + d].max(x);
        }
    }
    bounds
}
