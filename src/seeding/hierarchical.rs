//! Seeding on two levels (three for very many clusters): coarse cells, centers inside them, and initial sets K(n) near
//! each row.
//!
//! 1. k-means on a sample makes about 3 sqrt(M) cells; every row is assigned to its nearest cell.
//! 2. The M centers are divided among the cells in proportion to sqrt(n sse). Inside each cell, AFK-MC2 chooses them on a
//!    sample of at most 64 rows per center, followed by a few iterations of k-means.
//! 3. Every row is compared with the centers of its own cell and the nearest centers of adjacent cells; the H nearest of them
//!    become its first K(n).
//!
//! Cost, including the iterations inside the cells: O(N M^(1/2) D + m M^(3/2) D), against O(N D + m M^2 D) for AFK-MC2
//! over all rows and O(N M D) for the labels. With three levels the roots are cube roots.

use super::Seeds;
use super::cells::{Cell, CellTree, Splitter, centers_of, view};
use super::kmeans::{KMeansStart, k_means};
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::{append, collected, reserve};
use crate::observer::Observer;
use crate::rng::{Stage, stream};
use crate::step::{ByCluster, Cells, Level};
use ndarray::{Array2, ArrayView1};
use rayon::prelude::*;

/// Number of clusters from which there are three levels.
const THREE_LEVELS: usize = 50_000;
/// Number of clusters below which there is a single cell.
const ONE_CELL: usize = 64;
/// The last level has this many times as many cells as the root gives: small cells leave less to search outside ...
const MORE_CELLS: f64 = 3.0;
/// ... but each cell should get at least this many centers, because shares are whole numbers.
const CENTERS_A_CELL: usize = 12;
/// Rows sampled per center; the same for every cell.
const ROWS_A_CENTER: usize = 64;
const ROWS_A_CELL: usize = 256;
/// Chains inside a cell are longer than requested by this factor: with few centers they cost next to nothing, and they
/// miss fewer clusters.
const LONGER: usize = 4;
/// k-means iterations inside a cell: this many centers' worth of work per row, but at least 2 and at most 6 iterations.
const LOCAL_WORK: usize = 384;
/// Clusters put in order at a time.
const CHAIN: usize = 512;
/// Centers that the rows of a cell are first compared with, those inside it and the nearest to it: this many times sqrt(M),
/// within these bounds, ...
const LOOK_PER_ROOT: usize = 4;
const LEAST_LOOK: usize = 128;
const MOST_LOOK: usize = 256;
/// ... among this many centers in it and in whole cells around it: ...
const AROUND: usize = 1024;
/// ... at least this many cells, ...
const FEWEST_CELLS: usize = 3;
/// ... and at most this many.
const MOST_CELLS: usize = 96;

/// The candidates of every row in the first E-step.
#[derive(Debug)]
pub(crate) struct FirstLook<T> {
    pub cells: Cells<T>,
    /// All clusters, in an order that puts neighbors next to each other.
    pub sequence: Vec<u32>,
}

/// Cells that divide the `clusters` among them, by at most two splits.
fn cells<T: Real>(splitter: &Splitter<'_, T>, clusters: usize) -> Result<CellTree<T>> {
    let levels = if clusters >= THREE_LEVELS { 2 } else { usize::from(clusters >= ONE_CELL) };
    splitter.cut(clusters, levels, |level, share| {
        let parts = match (share as f64).powf(1.0 / (levels - level + 1) as f64) {
            parts if level + 1 < levels => parts,
            parts => (MORE_CELLS * parts).min((share / CENTERS_A_CELL) as f64),
        };
        (parts.round() as usize).max(1)
    })
}

/// Chooses M centers, the candidates among which each row finds its `h` nearest, and the assignment of rows to cells.
pub(crate) fn seed_hierarchical<T: Real>(
    splitter: &Splitter<'_, T>,
    clusters: usize,
    chain_length: usize,
    h: usize,
) -> Result<(Seeds<T>, FirstLook<T>, ByCluster)> {
    let dim = splitter.data.dim();
    let CellTree { cells, levels, mut evaluations } = cells(splitter, clusters)?;
    let chosen: Vec<(Vec<T>, u64)> = cells
        .par_iter()
        .enumerate()
        .map(|(i, cell)| {
            if cell.share == 0 {
                return Ok((Vec::new(), 0));
            }
            let most = ROWS_A_CENTER * cell.share + ROWS_A_CELL;
            let (values, weights) = splitter.sample(&cell.rows, most, 1 << 63 | i as u64)?;
            let sample = view(&values, dim)?.weighted(ArrayView1::from(&weights))?;
            let seed = stream(splitter.seed, Stage::Cells, 2, i as u64).bits();
            let iterations = (LOCAL_WORK / cell.share).clamp(2, 6);
            let start = KMeansStart { chain_length: chain_length.saturating_mul(LONGER), iterations };
            let (model, evaluations) = k_means(&sample, cell.share, splitter.origin, start, seed, splitter.observer)?;
            Ok((model.centers().into_iter().collect(), evaluations))
        })
        .collect::<Result<_>>()?;
    let mut values = Vec::new();
    reserve(&mut values, clusters * dim, "centers")?;
    for (centers, count) in chosen {
        values.extend(centers);
        evaluations += count;
    }
    let centers = Array2::from_shape_vec((clusters, dim), values).expect("the shares sum to M");
    let mut first = 0;
    let own = |cell: &Cell<T>| {
        first += cell.share as u32;
        collected(first - cell.share as u32..first, "clusters by cell")
    };
    let lists = cells.iter().map(own).collect::<Result<_>>()?;
    let look = first_look(&cells, levels, lists, centers.as_slice().expect("in C order"), h)?;
    let rows = ByCluster::of_lists(cells.into_iter().map(|cell| cell.rows))?;
    Ok((Seeds { centers, indices: Vec::new(), evaluations }, look, rows))
}

/// The candidates for the `h` nearest of given centers (relative to the origin), with cells cut from the centers
/// themselves. Also returns the number of distance evaluations.
pub(crate) fn look_at<T: Real>(
    centers: &[T],
    dim: usize,
    h: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<(FirstLook<T>, u64)> {
    let over = view(centers, dim)?;
    let CellTree { cells, evaluations, .. } =
        cells(&Splitter { data: &over, origin: None, seed, observer }, over.rows())?;
    let level = Level { centers: centers_of(&cells), starts: vec![0, cells.len() as u32] };
    let own = |cell: &Cell<T>| collected(cell.rows.iter().copied(), "clusters by cell");
    let lists = cells.iter().map(own).collect::<Result<_>>()?;
    Ok((first_look(&cells, vec![level], lists, centers, h)?, evaluations))
}

/// The candidates for the rows of each cell. `lists` has the clusters of each cell, and `centers` their centers.
fn first_look<T: Real>(
    cells: &[Cell<T>],
    levels: Vec<Level<T>>,
    mut lists: Vec<Vec<u32>>,
    centers: &[T],
    h: usize,
) -> Result<FirstLook<T>> {
    let dim = cells[0].center.len();
    lists.par_iter_mut().for_each(|list| list.chunks_mut(CHAIN).for_each(|list| chain(list, centers, dim)));
    let mut sequence = Vec::new();
    lists.iter().try_for_each(|list| append(&mut sequence, list, "an order of the clusters"))?;
    Ok(FirstLook { cells: Cells { levels, lists: adjacent(cells, &lists, centers, h) }, sequence })
}

/// Orders clusters greedily: each is followed by the nearest of those left.
fn chain<T: Real>(list: &mut [u32], centers: &[T], dim: usize) {
    let at = |c: u32| &centers[c as usize * dim..(c as usize + 1) * dim];
    for i in 1..list.len() {
        let last = at(list[i - 1]);
        let apart = list[i..].iter().map(|&c| T::squared_distance(last, at(c)));
        let nearest = apart.enumerate().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(k, _)| k);
        list.swap(i, i + nearest);
    }
}

/// For each cell the candidates of its rows in the first E-step, at least `h`: its own clusters and the nearest in
/// adjacent cells.
fn adjacent<T: Real>(cells: &[Cell<T>], lists: &[Vec<u32>], centers: &[T], h: usize) -> Vec<Vec<u32>> {
    let dim = cells[0].center.len();
    let coarse = centers_of(cells);
    let size = (LOOK_PER_ROOT * (centers.len() / dim).isqrt()).clamp(LEAST_LOOK, MOST_LOOK);
    let look = |i: usize| {
        let mut look: Vec<u32> = Vec::new();
        for (taken, j) in cells_around(&coarse, dim, i, MOST_CELLS.max(h)).into_iter().enumerate() {
            let enough = taken >= MOST_CELLS || (taken >= FEWEST_CELLS && look.len() >= AROUND);
            if enough && look.len() >= h {
                break;
            }
            look.extend(&lists[j]);
        }
        let own = lists[i].len();
        let kept = size.max(h).max(own);
        if look.len() > kept {
            let center = &coarse[i * dim..(i + 1) * dim];
            let apart = |j: u32| T::squared_distance(center, &centers[j as usize * dim..(j as usize + 1) * dim]);
            let mut others: Vec<(T, u32)> = look[own..].iter().map(|&j| (apart(j), j)).collect();
            others.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            look.truncate(own);
            look.extend(others[..kept - own].iter().map(|other| other.1));
        }
        look
    };
    (0..cells.len()).into_par_iter().map(look).collect()
}

/// Cell `i`, then at most `most` other cells, nearest first.
fn cells_around<T: Real>(coarse: &[T], dim: usize, i: usize, most: usize) -> Vec<usize> {
    let own = &coarse[i * dim..(i + 1) * dim];
    let apart = coarse.chunks_exact(dim).enumerate().map(|(j, c)| (T::squared_distance(own, c), j));
    let mut apart: Vec<(T, usize)> = apart.collect();
    let own_first =
        |a: &(T, usize), b: &(T, usize)| (a.1 != i).cmp(&(b.1 != i)).then(a.0.total_cmp(&b.0)).then(a.1.cmp(&b.1));
    if apart.len() > most {
        apart.select_nth_unstable_by(most, own_first);
        apart.truncate(most);
    }
    apart.sort_unstable_by(own_first);
    apart.into_iter().map(|cell| cell.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;
    use crate::observer::Silent;

    /// Overlapping rows, so that cells have neighbors on all sides, `offset` from zero.
    fn rows(offset: f32) -> Array2<f32> {
        let number = |n: usize, d: usize| (n * 7919 + d * 104_729 + n * n * (13 + d)) % 1009;
        Array2::from_shape_fn((4000, 3), |(n, d)| offset + number(n, d) as f32 / 64.0)
    }

    #[test]
    fn rows_that_look_for_their_cell_find_the_one_the_start_has_put_them_in() {
        for offset in [0.0, 1e4] {
            let x = rows(offset);
            let data = Dataset::new(x.view()).unwrap();
            let origin = data.moments(&Silent).unwrap().origin::<f32>();
            assert_eq!(origin.is_some(), offset > 0.0);
            let splitter = Splitter { data: &data, origin: origin.as_deref(), seed: 5, observer: &Silent };
            for levels in 0..=3 {
                let CellTree { cells, levels: tree, .. } = splitter.cut(300, levels, |_, _| 6).unwrap();
                assert_eq!((cells.len() > 1, tree.len()), (levels > 0, levels.max(1)));
                let tree = Cells { levels: tree, lists: Vec::new() };
                let found = tree.assign(&data, origin.as_deref(), &Silent).unwrap();
                assert_eq!(found.clusters(), cells.len());
                cells.iter().enumerate().for_each(|(i, cell)| assert_eq!(found.of(i), cell.rows, "{levels} levels"));
            }
            let (_, look, rows) = seed_hierarchical(&splitter, 300, 5, 4).unwrap();
            assert_eq!(look.cells.assign(&data, origin.as_deref(), &Silent).unwrap(), rows);
        }
    }

    #[test]
    fn the_first_look_is_at_the_own_cell_and_the_nearest_centers_around_it() {
        let (count, share) = (40, 20);
        let cell = |i: usize| Cell { rows: Vec::new(), share, center: vec![10.0 * i as f32] };
        let cells: Vec<Cell<f32>> = (0..count).map(cell).collect();
        let centers: Vec<f32> =
            (0..count * share).map(|j| 10.0 * (j / share) as f32 + 0.4 * (j % share) as f32).collect();
        let lists: Vec<Vec<u32>> =
            (0..count).map(|i| ((i * share) as u32..((i + 1) * share) as u32).collect()).collect();
        for (h, expected) in [(5, LEAST_LOOK), (300, 300), (800, 800)] {
            for (i, look) in adjacent(&cells, &lists, &centers, h).into_iter().enumerate() {
                assert_eq!((look.len(), &look[..share]), (expected, &lists[i][..]));
                let apart = |j: usize| (centers[j] - 10.0 * i as f32).abs();
                let looked: std::collections::BTreeSet<usize> = look.iter().map(|&j| j as usize).collect();
                let farthest = looked.iter().map(|&j| apart(j)).fold(0.0, f32::max);
                assert_eq!(looked.len(), expected);
                assert!((0..centers.len()).all(|j| looked.contains(&j) || apart(j) >= farthest - 1e-3));
            }
        }
    }
}
