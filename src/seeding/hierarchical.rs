//! A start on two levels (three for very many clusters): coarse cells, centres inside them, each point beside its own.
//!
//! 1. About sqrt(M) cells from k-means on a sample; every row is put into its nearest cell.
//! 2. The M centres are divided over the cells in proportion to sqrt(n sse), and AFK-MC2 finds them inside each cell, on a
//!    sample of at most 64 rows a centre.
//! 3. Every row looks at the centres of its own cell and of the adjacent ones for its first K(n): its H nearest of them.
//!
//! Cost: O(N M^(1/2) D + m M^(3/2) D), against O(N D + m M^2 D) for AFK-MC2 over everything and O(N M D) for the labels;
//! with three levels the roots are cubic.

use super::cells::{Cell, Ground, view};
use super::{Seeds, seed_afkmc2};
use crate::error::{Error, Result};
use crate::kernel::{Centres, RowBlock, block_rows};
use crate::real::Real;
use crate::rng::{Stage, stream};
use ndarray::{Array2, ArrayView1};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU32, Ordering};

/// Clusters from which on there are three levels.
const THREE_LEVELS: usize = 50_000;
/// Clusters below which there is one cell.
const ONE_CELL: usize = 64;
/// Rows a centre is chosen from, and as many for any cell.
const ROWS_A_CENTRE: usize = 64;
const ROWS_A_CELL: usize = 1024;
/// Centres that a row looks at first, as far as whole cells allow ...
const FIRST_LOOK: usize = 400;
/// ... but those of at least so many cells, its own included, ...
const FEWEST_CELLS: usize = 3;
/// ... and of at most so many.
const MOST_CELLS: usize = 8;

/// Where every point is to start from.
pub(crate) struct Start<T> {
    /// K(n), N x H, nearest first.
    pub members: Vec<u32>,
    /// Distance evaluations.
    pub evaluations: u64,
    /// The centres, if they were chosen here.
    pub seeds: Option<Seeds<T>>,
}

/// Cells of a share each, by one or two splits.
fn cells<T: Real>(ground: &Ground<'_, T>, clusters: usize) -> Result<(Vec<Cell<T>>, u64)> {
    let rows = (0..ground.data.rows() as u32).collect();
    let mut cells = vec![Cell { rows, share: clusters, centre: vec![T::ZERO; ground.data.dim()] }];
    let mut evaluations = 0;
    let levels = if clusters >= THREE_LEVELS { 2 } else { usize::from(clusters >= ONE_CELL) };
    for level in 0..levels {
        let root = 1.0 / (levels - level + 1) as f64;
        let split: Vec<(Vec<Cell<T>>, u64)> = cells
            .par_iter()
            .enumerate()
            .map(|(i, cell)| {
                let parts = (cell.share as f64).powf(root).round() as usize;
                ground.split(cell, parts.max(1), (level as u64) << 32 | i as u64)
            })
            .collect::<Result<_>>()?;
        cells.clear();
        for (parts, count) in split {
            cells.extend(parts);
            evaluations += count;
        }
    }
    Ok((cells, evaluations))
}

/// Chooses M centres and the start from them: sets of H clusters, or no sets where `h` is `None`.
pub(crate) fn seed_hierarchical<T: Real>(
    ground: &Ground<'_, T>,
    clusters: usize,
    chain_length: usize,
    h: Option<usize>,
) -> Result<Start<T>> {
    let dim = ground.data.dim();
    let (cells, mut evaluations) = cells(ground, clusters)?;
    let chosen: Vec<Seeds<T>> = cells
        .par_iter()
        .enumerate()
        .map(|(i, cell)| {
            if cell.share == 0 {
                return Ok(Seeds { centres: Array2::default((0, dim)), indices: Vec::new(), evaluations: 0 });
            }
            let most = ROWS_A_CENTRE * cell.share + ROWS_A_CELL;
            let (values, weights) = ground.sample(&cell.rows, most, 1 << 63 | i as u64);
            let sample = view(&values, dim)?.weighted(ArrayView1::from(&weights))?;
            let moments = sample.moments(ground.observer)?;
            let seed = stream(ground.seed, Stage::Cells, 2, i as u64).bits();
            seed_afkmc2(&sample, &moments, cell.share, chain_length, seed, ground.observer)
        })
        .collect::<Result<_>>()?;
    let mut values = Vec::with_capacity(clusters * dim);
    for seeds in &chosen {
        values.extend(seeds.centres.iter().copied());
        evaluations += seeds.evaluations;
    }
    let centres = Array2::from_shape_vec((clusters, dim), values).expect("the shares sum to M");
    let Some(h) = h else {
        let seeds = Some(Seeds { centres, indices: Vec::new(), evaluations });
        return Ok(Start { members: Vec::new(), evaluations, seeds });
    };
    let mut local = centres.as_slice().expect("in C order").to_vec();
    if let Some(origin) = ground.origin {
        local.chunks_exact_mut(dim).for_each(|c| c.iter_mut().zip(origin).for_each(|(x, &o)| *x -= o));
    }
    let mut first = 0;
    let lists: Vec<Vec<u32>> = cells
        .iter()
        .map(|cell| {
            first += cell.share as u32;
            (first - cell.share as u32..first).collect()
        })
        .collect();
    let mut start = locate(ground, &local, &cells, &lists, h)?;
    start.evaluations += evaluations;
    start.seeds = Some(Seeds { centres, indices: Vec::new(), evaluations: start.evaluations });
    Ok(start)
}

/// The start from given centres (counted from the origin): cells are cut from the centres themselves.
pub(crate) fn start_from<T: Real>(ground: &Ground<'_, T>, centres: &[T], h: usize) -> Result<Start<T>> {
    let dim = ground.data.dim();
    let over = view(centres, dim)?;
    let (mut cells, mut evaluations) =
        cells(&Ground { data: &over, origin: None, seed: ground.seed, observer: ground.observer }, over.rows())?;
    let lists: Vec<Vec<u32>> = cells.iter_mut().map(|cell| std::mem::take(&mut cell.rows)).collect();
    let coarse: Vec<T> = cells.iter().flat_map(|cell| cell.centre.iter().copied()).collect();
    let all: Vec<u32> = (0..ground.data.rows() as u32).collect();
    let (labels, _) = ground.nearest(&all, &coarse)?;
    evaluations += (all.len() * cells.len()) as u64;
    labels.iter().zip(all).for_each(|(&cell, n)| cells[cell as usize].rows.push(n));
    let mut start = locate(ground, centres, &cells, &lists, h)?;
    start.evaluations += evaluations;
    Ok(start)
}

/// The first truncated sets: for each row the H nearest of the centres in its own cell and the adjacent ones. `lists` has
/// the clusters of each cell; `centres` is counted from the origin.
fn locate<T: Real>(
    ground: &Ground<'_, T>,
    centres: &[T],
    cells: &[Cell<T>],
    lists: &[Vec<u32>],
    h: usize,
) -> Result<Start<T>> {
    let (data, dim) = (ground.data, ground.data.dim());
    // Relaxed stores to places of different rows: plain moves, without unsafe code.
    let members: Vec<AtomicU32> = (0..data.rows() * h).map(|_| AtomicU32::new(0)).collect();
    let looks = adjacent(cells, lists, dim, h);
    let evaluations = cells
        .par_iter()
        .zip(looks)
        .map(|(cell, look)| {
            let packed = gather_centres(centres, dim, &look);
            let candidates = Centres::new(&packed, dim);
            cell.rows
                .par_chunks(block_rows::<T>(dim))
                .map_init(Look::default, |Look { block, ids, distances }, rows| {
                    if ground.observer.cancelled() {
                        return Err(Error::Cancelled);
                    }
                    block.load_gathered(data.values(), dim, rows, ground.origin);
                    ids.resize(rows.len() * h, 0);
                    distances.resize(rows.len() * h, T::ZERO);
                    block.nearest(&candidates, h, ids, distances);
                    for (&n, set) in rows.iter().zip(ids.chunks_exact(h)) {
                        let places = &members[n as usize * h..(n as usize + 1) * h];
                        places.iter().zip(set).for_each(|(m, &k)| m.store(look[k as usize], Ordering::Relaxed));
                    }
                    Ok(())
                })
                .collect::<Result<()>>()?;
            Ok(cell.rows.len() as u64 * look.len() as u64)
        })
        .collect::<Result<Vec<u64>>>()?;
    let members = members.into_iter().map(AtomicU32::into_inner).collect();
    Ok(Start { members, evaluations: evaluations.iter().sum(), seeds: None })
}

/// Buffers of a first look.
#[derive(Default)]
struct Look<T> {
    block: RowBlock<T>,
    ids: Vec<u32>,
    distances: Vec<T>,
}

/// For each cell the clusters that its rows look at first: its own and those of the adjacent cells, at least `h`.
fn adjacent<T: Real>(cells: &[Cell<T>], lists: &[Vec<u32>], dim: usize, h: usize) -> Vec<Vec<u32>> {
    let coarse: Vec<T> = cells.iter().flat_map(|cell| cell.centre.iter().copied()).collect();
    let order = |i: usize| {
        let own = &coarse[i * dim..(i + 1) * dim];
        let apart = coarse.chunks_exact(dim).enumerate().map(|(j, c)| (T::squared_distance(own, c), j));
        let mut apart: Vec<(T, usize)> = apart.collect();
        apart.sort_unstable_by(|a, b| (a.1 != i).cmp(&(b.1 != i)).then(a.0.total_cmp(&b.0)).then(a.1.cmp(&b.1)));
        apart
    };
    (0..cells.len())
        .into_par_iter()
        .map(|i| {
            let mut look: Vec<u32> = Vec::new();
            for (taken, (_, j)) in order(i).into_iter().enumerate() {
                let enough = taken >= MOST_CELLS || (taken >= FEWEST_CELLS && look.len() >= FIRST_LOOK);
                if enough && look.len() >= h {
                    break;
                }
                look.extend(&lists[j]);
            }
            look
        })
        .collect()
}

fn gather_centres<T: Real>(centres: &[T], dim: usize, list: &[u32]) -> Vec<T> {
    list.iter().flat_map(|&c| centres[c as usize * dim..(c as usize + 1) * dim].iter().copied()).collect()
}
