//! Nearest clusters without looking at all of them: the cells around a row, what stands in them in eight bits, and the best
//! few of these exactly.
//!
//! The centers are cut into about 4 sqrt(M) cells. A row is compared with the cells' own centers and goes to the nearest
//! cell and to all that are farther by no more than a reach, which is the same for all rows. There it looks at all
//! centers, rounded to eight bits, and what came out best is measured exactly. How long the reach must be depends on the
//! data: it is learned from a sample of the rows that are searched exactly, and then a second sample tells the recall.
//!
//! Cost: O(N M^(1/2) D) for the cells, and as much again or several times as much for what stands in them, against
//! O(N M D) of the exact search; most of it in products of eight bits where the machine has them (AVX-512 VNNI).

mod cells;
mod scan;

use crate::data::Dataset;
use crate::error::Result;
use crate::importance::gather;
use crate::kernel::int8::{Int8Isa, MOST_COLUMNS};
use crate::kernel::{Centers, RowBlock};
use crate::model::Model;
use crate::observer::Observer;
use crate::real::Real;
use crate::rng::{Stage, stream};
use crate::seeding::cells::view;
use cells::Cells;

/// Clusters below which there is nothing to be saved.
const FEWEST_CLUSTERS: usize = 256;
/// Rows of each of the two samples that are searched exactly.
const SAMPLE: usize = 1024;
/// The recall on the first sample at which the reach is long enough: what is promised, 0.98, and two standard errors.
const ENOUGH: f64 = 0.9875;
/// Reaches to try: those that take so large a share of the first sample to the cell of its nearest cluster. Some of the
/// others find one that is nearly as near.
const SHARES: [f64; 9] = [0.9, 0.93, 0.95, 0.965, 0.975, 0.9825, 0.99, 0.995, 1.0];
/// A cluster counts as found if it is farther than the nearest by no more than this share of the squared distance: 1 % of
/// the distance.
const SLACK: f64 = 1.01 * 1.01;

/// What a search over the graph found.
#[derive(Debug, Clone)]
pub struct Found {
    /// For each row the nearest cluster that was seen.
    pub labels: Vec<u32>,
    /// Of a sample of the rows, the share whose label is the true nearest cluster or at most 1 % farther.
    pub recall: f64,
    /// Distance evaluations, those of the samples not included.
    pub evaluations: u64,
}

/// Searches for all rows: exactly where they or the clusters are so few that the preparations would cost more. Must run
/// inside a pool.
pub(crate) fn search<T: Real>(model: &Model<T>, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<Found> {
    let (rows, dim, clusters) = (data.rows(), data.dim(), model.clusters());
    if rows <= 2 * SAMPLE || clusters < FEWEST_CLUSTERS || dim > MOST_COLUMNS || !Int8Isa::best().is_fast() {
        let (labels, _) = model.nearest(data, observer)?;
        return Ok(Found { labels, recall: 1.0, evaluations: rows as u64 * clusters as u64 });
    }
    let (cells, preparation) = Cells::new(model.local_centers(), dim, observer)?;
    let more = reach(&cells, model, data, observer)?;
    let (labels, evaluations) = scan::search(&cells, model, data, more, observer)?;
    let audit = Sample::new(model, data, 1, observer)?;
    let picked: Vec<u32> = audit.rows.iter().map(|&n| labels[n]).collect();
    let recall = audit.recall(model, &picked)?;
    Ok(Found { labels, recall, evaluations: preparation + evaluations })
}

/// How much farther than its nearest cell a row must look.
fn reach<T: Real>(cells: &Cells, model: &Model<T>, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<f32> {
    let sample = Sample::new(model, data, 0, observer)?;
    let mut needs = sample.needs(cells, model);
    needs.sort_unstable_by(f32::total_cmp);
    let rows = view(&sample.values, data.dim())?;
    let mut more = 0.0;
    for share in SHARES {
        more = needs[((share * needs.len() as f64) as usize).min(needs.len() - 1)];
        let (labels, _) = scan::search(cells, model, &rows, more, observer)?;
        if sample.recall(model, &labels)? >= ENOUGH {
            break;
        }
    }
    Ok(more)
}

/// Some rows, their nearest clusters, and how far these are.
struct Sample<T> {
    rows: Vec<usize>,
    values: Vec<T>,
    labels: Vec<u32>,
    nearest: Vec<T>,
}

impl<T: Real> Sample<T> {
    fn new(model: &Model<T>, data: &Dataset<'_, T>, which: u64, observer: &dyn Observer) -> Result<Self> {
        let mut rng = stream(0, Stage::Sample, which, 0);
        let rows: Vec<usize> = (0..SAMPLE).map(|_| rng.below(data.rows())).collect();
        let values = gather(data, &rows);
        let (labels, nearest) = model.nearest(&view(&values, data.dim())?, observer)?;
        Ok(Self { rows, values, labels, nearest })
    }

    /// How much farther than the nearest cell that of the nearest cluster is, for each row, in the cells' scale.
    fn needs(&self, cells: &Cells, model: &Model<T>) -> Vec<f32> {
        let (coarse, count) = (Centers::new(&cells.coarse, cells.dim), cells.len());
        let (mut block, mut local) = (RowBlock::default(), Vec::new());
        let mut distances = Vec::new();
        let mut needs = Vec::with_capacity(self.rows.len());
        for (rows, labels) in self.values.chunks(64 * cells.dim).zip(self.labels.chunks(64)) {
            cells.localize(rows, model.origin(), &mut local);
            block.load(&local, cells.dim, None);
            distances.resize(labels.len() * count, 0.0f32);
            block.distances(&coarse, &mut distances);
            for (row, &label) in distances.chunks_exact(count).zip(labels) {
                let nearest = row.iter().copied().fold(f32::INFINITY, f32::min);
                needs.push(row[cells.of[label as usize] as usize].sqrt() - nearest.sqrt());
            }
        }
        needs
    }

    /// The share of the rows whose label is the nearest cluster, or nearly as near.
    fn recall(&self, model: &Model<T>, labels: &[u32]) -> Result<f64> {
        let rows = view(&self.values, model.dim())?;
        let mut local = Vec::new();
        let found = labels.iter().zip(&self.nearest).enumerate().filter(|&(n, (&label, &nearest))| {
            let mut d = [T::ZERO];
            let row = rows.local(n, model.origin(), &mut local);
            T::gathered_distances(row, model.local_centers(), &[label], &mut d);
            d[0].to_f64() <= SLACK * nearest.to_f64()
        });
        Ok(found.count() as f64 / self.rows.len() as f64)
    }
}
