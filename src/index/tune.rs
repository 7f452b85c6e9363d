//! Learning the reach from a sample of rows that is searched exactly, and estimating the recall.

use super::cells::Cells;
use super::scan::Search;
use crate::data::Dataset;
use crate::data::gather;
use crate::error::Result;
use crate::kernel::Real;
use crate::kernel::{Centers, RowBlock};
use crate::model::Model;
use crate::observer::Observer;
use crate::rng::{Stage, stream};
use crate::seeding::cells::view;

/// Number of rows of a sample.
const ROWS: usize = 1024;
/// Reaches to try: those that leave this many times the allowed fraction of the nearest clusters outside the cells in
/// reach. Some of these rows find another cluster that is nearly as near.
const MISSES: [f64; 9] = [5.0, 3.5, 2.5, 1.75, 1.25, 0.875, 0.5, 0.25, 0.0];
/// A cluster counts as found if its squared distance exceeds that of the right one by at most this factor: 1 % of the
/// distance.
const SLACK: f64 = 1.01 * 1.01;

/// What samples are for; each purpose has its own sample.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Learning,
    Test,
    Audit,
}

/// `count` of `n` rows, with repetition; all of them if there are no more.
pub(super) fn draw(n: usize, count: usize, purpose: Purpose) -> Vec<usize> {
    if n <= count {
        return (0..n).collect();
    }
    let mut rng = stream(0, Stage::Sample, purpose as u64, 0);
    (0..count).map(|_| rng.below(n)).collect()
}

/// Whether a cluster at squared distance `found` is the nearest, which is at `nearest`, or at most 1 % farther.
pub(super) fn is_right<T: Real>(found: T, nearest: T) -> bool {
    found.to_f64() <= SLACK * nearest.to_f64()
}

/// The reach, in the cells' scale, and the recall with it.
pub(super) struct Learned {
    pub reach: f32,
    pub recall: f64,
}

/// The shortest reach with which a sample shows the recall for the `k` nearest clusters, and the recall on another
/// sample. `None` if exact search costs no more.
pub(super) fn learn<T: Real>(
    cells: &Cells,
    model: &Model<T>,
    data: &Dataset<'_, T>,
    (k, recall): (usize, f64),
    observer: &dyn Observer,
) -> Result<Option<Learned>> {
    let sample = Sample::new(model, data, k, Purpose::Learning, observer)?;
    let mut needs = sample.needs(cells, model);
    needs.sort_unstable_by(f32::total_cmp);
    let mut search = Search { cells, model, reach: f32::NEG_INFINITY, k };
    for misses in MISSES {
        let share = (1.0 - misses * (1.0 - recall)).max(0.0);
        let reach = needs[((share * needs.len() as f64) as usize).min(needs.len() - 1)];
        if reach > search.reach {
            search.reach = reach;
            let (seen, scanned) = sample.recall(&search, observer)?;
            if search.cost(scanned) >= model.clusters() as f64 {
                return Ok(None);
            }
            if at_least(seen, sample.rows()) >= recall {
                break;
            }
        }
    }
    let test = Sample::new(model, data, k, Purpose::Test, observer)?;
    let (recall, _) = test.recall(&search, observer)?;
    Ok(Some(Learned { reach: search.reach, recall }))
}

/// Lower bound on a proportion that was observed in `n` cases, by two standard errors (Wilson, 1927).
fn at_least(share: f64, n: usize) -> f64 {
    let (n, z2) = (n as f64, 4.0);
    let half = (z2 * (share * (1.0 - share) / n + z2 / (4.0 * n * n))).sqrt();
    (share + z2 / (2.0 * n) - half) / (1.0 + z2 / n)
}

/// Some rows, their k nearest clusters, and the distances of these.
struct Sample<T> {
    values: Vec<T>,
    ids: Vec<u32>,
    distances: Vec<T>,
    k: usize,
}

impl<T: Real> Sample<T> {
    fn new(
        model: &Model<T>,
        data: &Dataset<'_, T>,
        k: usize,
        purpose: Purpose,
        observer: &dyn Observer,
    ) -> Result<Self> {
        let values = gather(data, &draw(data.rows(), ROWS, purpose))?;
        let (ids, distances) = model.nearest_k(&view(&values, data.dim())?, k, observer)?;
        Ok(Self { values, ids, distances, k })
    }

    /// How much farther than the nearest cell the cell of each of a row's k nearest clusters is, in the cells' scale.
    fn needs(&self, cells: &Cells, model: &Model<T>) -> Vec<f32> {
        const ROWS: usize = 64;
        let (coarse, count) = (Centers::new(&cells.coarse, cells.dim), cells.len());
        let (mut block, mut local) = (RowBlock::default(), Vec::new());
        let mut distances = Vec::new();
        let mut needs = Vec::with_capacity(self.ids.len());
        for (rows, ids) in self.values.chunks(ROWS * cells.dim).zip(self.ids.chunks(ROWS * self.k)) {
            cells.localize(rows, model.origin(), &mut local);
            block.load(&local, cells.dim, None);
            distances.resize(ids.len() / self.k * count, 0.0f32);
            block.distances(&coarse, &mut distances);
            for (row, ids) in distances.chunks_exact(count).zip(ids.chunks_exact(self.k)) {
                let nearest = row.iter().copied().fold(f32::INFINITY, f32::min).sqrt();
                needs.extend(ids.iter().map(|&id| row[cells.of[id as usize] as usize].sqrt() - nearest));
            }
        }
        needs
    }

    /// The fraction of the rows' k nearest clusters that a search finds, or others nearly as near; and the mean number
    /// of centers that a row was compared with in eight bits.
    fn recall(&self, search: &Search<'_, T>, observer: &dyn Observer) -> Result<(f64, f64)> {
        let found = search.run(&view(&self.values, search.model.dim())?, observer)?;
        let right = found.distances.iter().zip(&self.distances).filter(|&(&found, &nearest)| is_right(found, nearest));
        Ok((right.count() as f64 / self.ids.len() as f64, found.scanned as f64 / self.rows() as f64))
    }

    fn rows(&self) -> usize {
        self.ids.len() / self.k
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_promises_less_than_it_shows_and_small_ones_promise_little() {
        assert!(at_least(1.0, 10) < 0.75 && at_least(1.0, 1024) > 0.995);
        assert!((0.979..0.985).contains(&at_least(0.99, 1024)));
        assert!(at_least(0.0, 5) >= -1e-12);
    }

    #[test]
    fn samples_are_all_rows_or_as_many_as_requested() {
        assert_eq!(draw(3, 5, Purpose::Audit), [0, 1, 2]);
        let drawn = draw(1_000_000, 500, Purpose::Audit);
        assert!(drawn.len() == 500 && drawn.iter().all(|&n| n < 1_000_000));
        assert_ne!(drawn, draw(1_000_000, 500, Purpose::Test));
    }
}
