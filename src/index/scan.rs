//! The search block by block: the cells in reach, their centers in eight bits, and the best few exactly.

use super::cells::Cells;
use crate::data::Dataset;
use crate::data::gather;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::kernel::int8::{Int8Isa, LANES, LaneBest, Rows, scan};
use crate::kernel::{Centers, Probes, RowBlock, prefetch};
use crate::memory::{append, filled};
use crate::model::Model;
use crate::observer::Observer;
use crate::parallel::block;
use crate::seeding::cells::view;
use rayon::prelude::*;

/// Number of rows ahead for which the centers to be measured are prefetched.
const AHEAD: usize = 6;
/// Numbers held for all rows of a block, so that they stay in the second-level cache; and bounds on the number of rows.
const HELD: usize = 1 << 18;
const FEWEST_ROWS: usize = 64;
const MOST_ROWS: usize = 1024;

/// The parameters of a search.
#[derive(Clone, Copy)]
pub(super) struct Search<'a, T: Real> {
    pub cells: &'a Cells,
    pub model: &'a Model<T>,
    /// How much farther than its nearest cell a row searches, in the cells' scale.
    pub reach: f32,
    /// Number of nearest clusters to find for each row.
    pub k: usize,
}

/// The result of a search.
pub(super) struct Found<T> {
    /// The k nearest clusters of each row, nearest first: N x k.
    pub ids: Vec<u32>,
    /// Their squared distances.
    pub distances: Vec<T>,
    /// Number of centers that rows were compared with in eight bits, including padding.
    pub scanned: u64,
}

/// Buffers of a thread.
#[derive(Default)]
struct Scratch {
    local: Vec<f32>,
    rounded: Rows,
    block: RowBlock<f32>,
    probes: Probes,
    best: Vec<LaneBest>,
    candidates: Vec<u32>,
}

impl<T: Real> Search<'_, T> {
    /// Number of sets of lanes. Of two centers in the same lane of a set only the nearer is kept; with this many sets,
    /// about one in a hundred of the k nearest is lost.
    fn sets(&self) -> usize {
        if self.k == 1 { 1 } else { (2 * self.k).next_power_of_two() }
    }

    /// Number of clusters per row that are measured exactly: more than k, because eight bits confuse the order of
    /// nearly equal distances.
    fn measured(&self) -> usize {
        2 * self.k + 2
    }

    /// Approximate cost of a row that is compared with `scanned` centers in eight bits, in exact distance evaluations.
    pub fn cost(&self, scanned: f64) -> f64 {
        // Sets of lanes have a cost, too.
        let dearer = if self.k == 1 { 1.0 } else { 1.25 };
        self.cells.len() as f64 + dearer * Int8Isa::best().cost() * scanned
    }

    /// The k nearest clusters of each row among those of its cells. Rows whose cells have fewer than k are searched
    /// exactly. Must run inside a pool.
    pub fn run(&self, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<Found<T>> {
        let (k, coarse) = (self.k, Centers::new(&self.cells.coarse, self.cells.dim));
        let held = self.cells.len() + 2 * LANES * self.sets();
        let size = (HELD / held).clamp(FEWEST_ROWS, MOST_ROWS);
        let mut ids = filled(0u32, data.rows() * k, "labels")?;
        let mut distances = filled(T::ZERO, data.rows() * k, "distances")?;
        let blocks: Vec<(Vec<usize>, u64)> = (ids.par_chunks_mut(size * k), distances.par_chunks_mut(size * k))
            .into_par_iter()
            .enumerate()
            .map_init(<(Scratch, Vec<T>)>::default, |(scratch, made), (i, (ids, distances))| {
                if observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                let rows = block(i, size, data.rows());
                let scanned = scratch.scan(self, &coarse, data.range(rows.clone(), made))?;
                Ok((scratch.measure(self, data, rows.start, ids, distances), scanned))
            })
            .collect::<Result<_>>()?;
        let scanned = blocks.iter().map(|block| block.1).sum();
        let mut short = Vec::new();
        blocks.iter().try_for_each(|block| append(&mut short, &block.0, "labels"))?;
        if !short.is_empty() {
            let values = gather(data, &short)?;
            let (near, apart) = self.model.nearest_k(&view(&values, data.dim())?, k, observer)?;
            for ((&n, near), apart) in short.iter().zip(near.chunks_exact(k)).zip(apart.chunks_exact(k)) {
                ids[n * k..(n + 1) * k].copy_from_slice(near);
                distances[n * k..(n + 1) * k].copy_from_slice(apart);
            }
        }
        Ok(Found { ids, distances, scanned })
    }
}

impl Scratch {
    /// Compares `rows` with the centers of their cells and keeps the best as candidates. Returns the number of
    /// comparisons.
    fn scan<T: Real>(&mut self, search: &Search<'_, T>, coarse: &Centers<'_, f32>, rows: &[T]) -> Result<u64> {
        let (cells, isa, sets) = (search.cells, Int8Isa::best(), search.sets());
        let count = rows.len() / cells.dim;
        cells.localize(rows, search.model.origin(), &mut self.local);
        cells.round(isa, &self.local, &mut self.rounded);
        self.block.load(&self.local, cells.dim, None);
        self.probes.find(&self.block, coarse, search.reach)?;
        self.best.resize_with(sets, LaneBest::default);
        self.best.iter_mut().for_each(|best| best.clear(count));
        let mut scanned = 0;
        for cell in 0..cells.len() {
            let (list, visits) = (cells.list(cell), self.probes.visits(cell));
            if visits.rows.is_empty() {
                continue;
            }
            scanned += (visits.rows.len() * list.vectors() * LANES) as u64;
            if sets == 1 {
                scan(isa, list, &self.rounded, visits, &mut self.best[0]);
                continue;
            }
            for v in 0..list.vectors() {
                let set = (list.first as usize + v) % sets;
                scan(isa, list.vector(v), &self.rounded, visits, &mut self.best[set]);
            }
        }
        self.collect(search, count);
        Ok(scanned)
    }

    /// Collects the best few of each of `count` rows as its candidates.
    fn collect<T: Real>(&mut self, search: &Search<'_, T>, count: usize) {
        let (cells, measured) = (search.cells, search.measured());
        self.candidates.clear();
        let mut lowest = Vec::with_capacity(measured);
        for row in 0..count {
            find_lowest(&self.best, row, measured, &mut lowest);
            let id = |&(_, place): &Seen| {
                let (set, lane) = (place / LANES, place % LANES);
                cells.ids[self.best[set].vectors[row].0[lane] as usize][lane]
            };
            // If too few were seen, the first is repeated.
            let found = lowest.iter().chain(std::iter::repeat(&lowest[0])).take(measured);
            self.candidates.extend(found.map(id));
        }
    }

    /// Writes the k nearest candidates of each row, measured by differences, to `ids` and `distances` (OUT; ties: lower
    /// index first). Returns the rows that have fewer candidates.
    fn measure<T: Real>(
        &self,
        search: &Search<'_, T>,
        data: &Dataset<'_, T>,
        start: usize,
        ids: &mut [u32],
        distances: &mut [T],
    ) -> Vec<usize> {
        let (k, measured, dim) = (search.k, search.measured(), search.cells.dim);
        let centers = search.model.local_centers();
        let (mut local, mut apart) = (Vec::new(), vec![T::ZERO; measured]);
        let mut pairs: Vec<(T, u32)> = Vec::with_capacity(measured);
        let mut short = Vec::new();
        let rows =
            ids.chunks_exact_mut(k).zip(distances.chunks_exact_mut(k)).zip(self.candidates.chunks_exact(measured));
        for (r, ((ids, distances), candidates)) in rows.enumerate() {
            let ahead = (r + AHEAD) * measured;
            for &c in self.candidates.get(ahead..ahead + measured).into_iter().flatten() {
                prefetch(&centers[c as usize * dim..(c as usize + 1) * dim]);
            }
            let row = data.local(start + r, search.model.origin(), &mut local);
            T::gathered_distances(row, centers, candidates, &mut apart);
            pairs.clear();
            pairs.extend(apart.iter().copied().zip(candidates.iter().copied()));
            pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            pairs.dedup_by_key(|pair| pair.1);
            if pairs.len() < k {
                short.push(start + r);
                continue;
            }
            for ((id, distance), &(d, c)) in ids.iter_mut().zip(distances).zip(&pairs) {
                (*id, *distance) = (c, d);
            }
        }
        short
    }
}

/// A value and its position: lane `place % LANES` of set `place / LANES`.
type Seen = (f32, usize);

/// Writes the `count` lowest values that `row` has seen, ascending, to `lowest` (OUT).
fn find_lowest(best: &[LaneBest], row: usize, count: usize, lowest: &mut Vec<Seen>) {
    lowest.clear();
    let values = best.iter().flat_map(|best| &best.values[row].0);
    for (place, &value) in values.enumerate() {
        if lowest.len() < count {
            if value == f32::INFINITY {
                continue;
            }
            lowest.push((value, place));
        } else if value >= lowest[count - 1].0 {
            continue;
        }
        // Farther entries move up by one; the last of a full list is dropped.
        let mut at = lowest.len() - 1;
        while at > 0 && lowest[at - 1].0 > value {
            lowest[at] = lowest[at - 1];
            at -= 1;
        }
        lowest[at] = (value, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::int8::Line;

    #[test]
    fn the_lowest_values_come_in_order_without_unseen_ones() {
        let line = |from: fn(usize) -> f32| Line(std::array::from_fn(from));
        let set = |values| LaneBest { values: vec![values], vectors: vec![Line([0; LANES])] };
        let best = [
            set(line(|lane| if lane % 3 == 0 { (lane * 7 % 16) as f32 } else { f32::INFINITY })),
            set(line(|lane| if lane == 5 { -1.0 } else { f32::INFINITY })),
        ];
        let mut lowest = Vec::new();
        find_lowest(&best, 0, 4, &mut lowest);
        assert_eq!(lowest, [(-1.0, LANES + 5), (0.0, 0), (4.0, 12), (5.0, 3)]);
        find_lowest(&best, 0, 20, &mut lowest);
        assert!(lowest.len() == 7 && lowest.is_sorted_by(|a, b| a.0 < b.0));
    }
}
