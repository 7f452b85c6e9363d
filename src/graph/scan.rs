//! The search of one block of rows after the other: cells in reach, their centers in eight bits, the best few exactly.

use super::cells::Cells;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::int8::{Int8Isa, LANES, LaneBest, Rows, scan};
use crate::kernel::{Centers, Probes, RowBlock, prefetch};
use crate::model::Model;
use crate::observer::Observer;
use crate::parallel::block;
use crate::real::Real;
use rayon::prelude::*;

/// Clusters of a row that are measured exactly.
const MEASURED: usize = 4;
/// Rows ahead for which the centers to be measured are asked for.
const AHEAD: usize = 6;
/// Numbers of rows x cells that are held at a time, so that they stay in the second-level cache; and bounds of the rows.
const HELD: usize = 1 << 18;
const FEWEST_ROWS: usize = 64;
const MOST_ROWS: usize = 1024;

/// What a thread works with.
#[derive(Default)]
struct Desk {
    local: Vec<f32>,
    rounded: Rows,
    block: RowBlock<f32>,
    probes: Probes,
    seen: LaneBest,
    best: Vec<[u32; MEASURED]>,
}

/// The nearest cluster of each row among those of the cells that are farther than its nearest cell by no more than `more`;
/// and the number of distance evaluations.
pub(super) fn search<T: Real>(
    cells: &Cells,
    model: &Model<T>,
    data: &Dataset<'_, T>,
    more: f32,
    observer: &dyn Observer,
) -> Result<(Vec<u32>, u64)> {
    let (coarse, isa) = (Centers::new(&cells.coarse, cells.dim), Int8Isa::best());
    let size = (HELD / cells.len()).clamp(FEWEST_ROWS, MOST_ROWS);
    let mut labels = vec![0; data.rows()];
    let evaluations: Vec<u64> = labels
        .par_chunks_mut(size)
        .enumerate()
        .map_init(Desk::default, |desk, (i, labels)| {
            if observer.cancelled() {
                return Err(Error::Cancelled);
            }
            let rows = block(i, size, data.rows());
            cells.localize(data.range(rows.clone()), model.origin(), &mut desk.local);
            cells.round(isa, &desk.local, &mut desk.rounded);
            desk.block.load(&desk.local, cells.dim, None);
            desk.probes.find(&desk.block, &coarse, more);
            desk.seen.clear(rows.len());
            let mut evaluations = rows.len() * (cells.len() + MEASURED);
            for k in 0..cells.len() {
                let visits = desk.probes.visits(k);
                evaluations += visits.rows.len() * cells.size(k);
                scan(isa, cells.list(k), &desk.rounded, visits, &mut desk.seen);
            }
            desk.measure(cells, model, data, rows.start, labels);
            Ok(evaluations as u64)
        })
        .collect::<Result<_>>()?;
    Ok((labels, evaluations.into_iter().sum()))
}

impl Desk {
    /// The nearest by differences of the best few of each row; of equally near ones the lower index.
    fn measure<T: Real>(
        &mut self,
        cells: &Cells,
        model: &Model<T>,
        data: &Dataset<'_, T>,
        start: usize,
        labels: &mut [u32],
    ) {
        let seen = self.seen.values.iter().zip(&self.seen.vectors);
        self.best.clear();
        self.best.extend(
            seen.map(|(values, vectors)| lowest(&values.0).map(|lane| cells.ids[vectors.0[lane] as usize][lane])),
        );
        let (centers, dim) = (model.local_centers(), cells.dim);
        let mut local = Vec::new();
        for (r, (ids, label)) in self.best.iter().zip(labels).enumerate() {
            for &c in self.best.get(r + AHEAD).into_iter().flatten() {
                prefetch(&centers[c as usize * dim..(c as usize + 1) * dim]);
            }
            let mut distances = [T::ZERO; MEASURED];
            T::gathered_distances(data.local(start + r, model.origin(), &mut local), centers, ids, &mut distances);
            let nearest = distances.iter().zip(ids).min_by(|a, b| a.0.total_cmp(b.0).then(a.1.cmp(b.1)));
            *label = nearest.map_or(0, |(_, &c)| c);
        }
    }
}

/// The lanes of the lowest values.
fn lowest(values: &[f32; LANES]) -> [usize; MEASURED] {
    let mut best = [(f32::INFINITY, 0); MEASURED];
    for (lane, &value) in values.iter().enumerate() {
        let mut new = (value, lane);
        for old in &mut best {
            if new.0 < old.0 {
                std::mem::swap(old, &mut new);
            }
        }
    }
    best.map(|(_, lane)| lane)
}
