//! The h nearest centers of each row, kept sorted in lanes as the dense kernel produces values.
//!
//! A center is inserted before the first one that is strictly farther, and centers arrive in index order, so of equally
//! near centers the lower index comes first. Lists are vectors, one per rank: in registers up to [`IN_REGISTERS`], in
//! memory up to [`IN_LANES`]; longer lists are collected row by row.
#![allow(unsafe_code)]

use super::block::{Centers, NearestScratch, RowBlock};
use super::buffer::Buffer;
use super::dense::{CHUNK, for_chunks};
use super::dispatch::{Isa, Operation, run};
use super::simd::Simd;
use crate::kernel::Real;

/// Maximum length of lists kept in registers.
const IN_REGISTERS: usize = 8;
/// Maximum length of lists for which insertion beats a partial sort.
const IN_LANES: usize = 64;

/// See [`RowBlock::nearest`]; there is at least one row, and 1 <= h <= M.
pub(super) fn nearest<T: Real>(
    block: &RowBlock<T>,
    [lists, values]: &mut NearestScratch<T>,
    centers: &Centers<'_, T>,
    h: usize,
    ids: &mut [u32],
    dist: &mut [T],
) {
    if h > IN_LANES {
        return by_rows(block, centers, h, ids, dist, values);
    }
    // A tile's list: h vectors of values, then h of indices. Indices start valid in case no value is below infinity.
    let (tile, isa) = (block.tile(), block.isa());
    let tiles = block.rows.div_ceil(tile);
    lists.resize(tiles * 2 * h * tile);
    for list in lists.chunks_exact_mut(2 * h * tile) {
        let (best, index) = list.split_at_mut(h * tile);
        best.fill(T::INFINITY);
        for (k, index) in index.chunks_exact_mut(tile).enumerate() {
            index.fill(T::from_index(k as u32));
        }
    }
    for_chunks(block, centers, values, |t, first, values| {
        let list = &mut lists[t * 2 * h * tile..(t + 1) * 2 * h * tile];
        insert(isa, h, values, first as u32, block.rows - t * tile, list);
    });
    let tiles = ids.chunks_mut(tile * h).zip(dist.chunks_mut(tile * h));
    for (t, (list, (ids, dist))) in lists.chunks_exact(2 * h * tile).zip(tiles).enumerate() {
        let (best, index) = list.split_at(h * tile);
        if h == 1 {
            // The same as below, in a form that the compiler vectorizes.
            let found = best.iter().zip(index).zip(block.tile_norms(t));
            for ((id, d), ((&value, index), &norm)) in ids.iter_mut().zip(dist).zip(found) {
                (*id, *d) = (index.to_index(), (norm + value).max(T::ZERO));
            }
            continue;
        }
        let rows = ids.chunks_exact_mut(h).zip(dist.chunks_exact_mut(h)).zip(block.tile_norms(t));
        for (lane, ((ids, dist), &norm)) in rows.enumerate() {
            let best = best[lane..].iter().step_by(tile).zip(index[lane..].iter().step_by(tile));
            for ((id, d), (&value, index)) in ids.iter_mut().zip(dist).zip(best) {
                (*id, *d) = (index.to_index(), (norm + value).max(T::ZERO));
            }
        }
    }
}

/// For any h: each row collects what is nearer than its h-th nearest so far, and cuts the collection to h when it is
/// full.
fn by_rows<T: Real>(
    block: &RowBlock<T>,
    centers: &Centers<'_, T>,
    h: usize,
    ids: &mut [u32],
    dist: &mut [T],
    values: &mut Buffer<T>,
) {
    let tile = block.tile();
    let compare = |a: &(T, u32), b: &(T, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    let room = (2 * h).min(centers.len()) + CHUNK;
    let mut collected: Vec<Vec<(T, u32)>> = (0..block.rows).map(|_| Vec::with_capacity(room)).collect();
    // Until a row's first cut everything is accepted, NaN included.
    let mut bounds: Vec<Option<T>> = vec![None; block.rows];
    for_chunks(block, centers, values, |t, first, values| {
        let rows = t * tile..((t + 1) * tile).min(block.rows);
        for (lane, (row, bound)) in collected[rows.clone()].iter_mut().zip(&mut bounds[rows]).enumerate() {
            if row.len() + values.len() / tile > room {
                row.select_nth_unstable_by(h - 1, compare);
                row.truncate(h);
                *bound = Some(row[h - 1].0);
            }
            let lane = values.chunks_exact(tile).map(|v| v[lane]).zip(first as u32..);
            match *bound {
                Some(bound) => row.extend(lane.filter(|&(v, _)| v < bound)),
                None => row.extend(lane),
            }
        }
    });
    for (r, row) in collected.iter_mut().enumerate() {
        if row.len() > h {
            row.select_nth_unstable_by(h - 1, compare);
        }
        row[..h].sort_unstable_by(compare);
        let norm = block.tile_norms(r / tile)[r % tile];
        for (k, &(value, c)) in row[..h].iter().enumerate() {
            ids[r * h + k] = c;
            dist[r * h + k] = (norm + value).max(T::ZERO);
        }
    }
}

/// Inserts the `values` (centers x tile, of which the first `rows` rows matter) of the centers from `first` on into the
/// sorted lists of a tile (IN OUT, 2 x h x tile: values, then indices).
pub(super) fn insert<T: Real>(isa: Isa, h: usize, values: &[T], first: u32, rows: usize, list: &mut [T]) {
    match h {
        1 => run(isa, Insert::<T, 1> { values, first, rows, list }),
        2 => run(isa, Insert::<T, 2> { values, first, rows, list }),
        3 => run(isa, Insert::<T, 3> { values, first, rows, list }),
        4 => run(isa, Insert::<T, 4> { values, first, rows, list }),
        5 => run(isa, Insert::<T, 5> { values, first, rows, list }),
        6 => run(isa, Insert::<T, 6> { values, first, rows, list }),
        7 => run(isa, Insert::<T, 7> { values, first, rows, list }),
        IN_REGISTERS => run(isa, Insert::<T, IN_REGISTERS> { values, first, rows, list }),
        _ => run(isa, InsertLong { h, values, first, rows, list }),
    }
}

/// IN `values`: centers (the first is `first`) x tile, of which the first `rows` rows matter. IN OUT `list`: 2 x H x
/// tile.
struct Insert<'a, T, const H: usize> {
    values: &'a [T],
    first: u32,
    rows: usize,
    list: &'a mut [T],
}

impl<T: Real, const H: usize> Operation<T> for Insert<'_, T, H> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let tile = 2 * V::LANES;
        assert_eq!(self.list.len(), 2 * H * tile);
        let list = self.list.as_mut_ptr();
        // SAFETY: V is available; reads and writes are within the length asserted and the rows of `values`.
        unsafe {
            if H == 1 {
                let mut best = [V::load(list), V::load(list.add(V::LANES))];
                let mut index = [V::load(list.add(tile)), V::load(list.add(tile + V::LANES))];
                for (row, c) in self.values.chunks_exact(tile).zip(self.first..) {
                    let c = V::splat(T::from_index(c));
                    for half in 0..2 {
                        let v = V::load(row.as_ptr().add(half * V::LANES));
                        index[half] = V::select(v.lt(best[half]), c, index[half]);
                        best[half] = v.min(best[half]);
                    }
                }
                for half in 0..2 {
                    best[half].store(list.add(half * V::LANES));
                    index[half].store(list.add(tile + half * V::LANES));
                }
                return;
            }
            for half in 0..if self.rows > V::LANES { 2 } else { 1 } {
                let list = list.add(half * V::LANES);
                let mut best = [V::splat(T::ZERO); H];
                let mut index = best;
                for k in 0..H {
                    best[k] = V::load(list.add(k * tile));
                    index[k] = V::load(list.add((H + k) * tile));
                }
                for (row, c) in self.values.chunks_exact(tile).zip(self.first..) {
                    let v = V::load(row.as_ptr().add(half * V::LANES));
                    let mut below = v.lt(best[H - 1]);
                    if V::any(below) {
                        let c = V::splat(T::from_index(c));
                        for k in (1..H).rev() {
                            let further = v.lt(best[k - 1]);
                            best[k] = V::select(further, best[k - 1], V::select(below, v, best[k]));
                            index[k] = V::select(further, index[k - 1], V::select(below, c, index[k]));
                            below = further;
                        }
                        best[0] = V::select(below, v, best[0]);
                        index[0] = V::select(below, c, index[0]);
                    }
                }
                for k in 0..H {
                    best[k].store(list.add(k * tile));
                    index[k].store(list.add((H + k) * tile));
                }
            }
        }
    }
}

/// [`Insert`] for lists of any length.
struct InsertLong<'a, T> {
    h: usize,
    values: &'a [T],
    first: u32,
    rows: usize,
    list: &'a mut [T],
}

impl<T: Real> Operation<T> for InsertLong<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let (tile, h) = (2 * V::LANES, self.h);
        assert!(h > 0 && self.list.len() == 2 * h * tile);
        for half in 0..if self.rows > V::LANES { 2 } else { 1 } {
            for (row, c) in self.values.chunks_exact(tile).zip(self.first..) {
                // SAFETY: V is available; `best` and `index` are good for a vector in each of h rows of the tile's length.
                unsafe {
                    let best = self.list.as_mut_ptr().add(half * V::LANES);
                    let index = best.add(h * tile);
                    let v = V::load(row.as_ptr().add(half * V::LANES));
                    let c = V::splat(T::from_index(c));
                    let mut below = v.lt(V::load(best.add((h - 1) * tile)));
                    let mut k = h;
                    // Move down the ranks as long as the position of some lane is further down.
                    while k > 0 && V::any(below) {
                        k -= 1;
                        let (at, from) = (k * tile, k.saturating_sub(1) * tile);
                        let (up, up_index) = (V::load(best.add(from)), V::load(index.add(from)));
                        let further = v.lt(up);
                        let (here, here_index) = (V::load(best.add(at)), V::load(index.add(at)));
                        let (here, here_index) = (V::select(below, v, here), V::select(below, c, here_index));
                        if k > 0 {
                            V::select(further, up, here).store(best.add(at));
                            V::select(further, up_index, here_index).store(index.add(at));
                        } else {
                            here.store(best.add(at));
                            here_index.store(index.add(at));
                        }
                        below = further;
                    }
                }
            }
        }
    }
}
