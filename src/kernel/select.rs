//! The h nearest centres of each row, kept sorted in lanes while the values of the dense kernel come by.
//!
//! A centre enters in front of the first that is strictly farther, and centres come in the order of their indices: of
//! equally near ones the lower index stays first. Up to [`MAX_LANES_H`] the lists are vectors, one a rank; longer ones are
//! selected row by row from a tile's values.
#![allow(unsafe_code)]

use super::block::{Centres, RowBlock};
use super::buffer::Buffer;
use super::dispatch::{Isa, Operation, run};
use super::simd::Simd;
use crate::real::Real;

/// The longest lists that are kept in vectors.
const MAX_LANES_H: usize = 8;

/// See [`RowBlock::nearest`]; there is a row, and 1 <= h <= M.
pub(super) fn nearest<T: Real>(
    block: &RowBlock<T>,
    centres: &Centres<'_, T>,
    h: usize,
    ids: &mut [u32],
    dist: &mut [T],
) {
    if h > MAX_LANES_H {
        return by_rows(block, centres, h, ids, dist);
    }
    // A tile's list: h vectors of values, then h of indices. Indices start valid, should no value be below infinity.
    let (tile, isa) = (block.tile(), block.isa());
    let tiles = block.rows.div_ceil(tile);
    let mut lists = Buffer::new(tiles * 2 * h * tile);
    for list in lists.as_mut_slice().chunks_exact_mut(2 * h * tile) {
        let (best, index) = list.split_at_mut(h * tile);
        best.fill(T::INFINITY);
        for (k, index) in index.chunks_exact_mut(tile).enumerate() {
            index.fill(T::from_index(k as u32));
        }
    }
    block.for_chunks(centres, |t, first, values| {
        let list = &mut lists.as_mut_slice()[t * 2 * h * tile..(t + 1) * 2 * h * tile];
        insert(isa, h, values, first as u32, list);
    });
    for r in 0..block.rows {
        let (t, lane) = (r / tile, r % tile);
        let list = &lists.as_slice()[t * 2 * h * tile..(t + 1) * 2 * h * tile];
        let norm = block.tile_norms(t)[lane];
        for k in 0..h {
            ids[r * h + k] = list[(h + k) * tile + lane].to_index();
            dist[r * h + k] = (norm + list[k * tile + lane]).max(T::ZERO);
        }
    }
}

/// Any h: all values of a tile, then a partial sort a row.
fn by_rows<T: Real>(block: &RowBlock<T>, centres: &Centres<'_, T>, h: usize, ids: &mut [u32], dist: &mut [T]) {
    let (tile, m) = (block.tile(), centres.len());
    let mut values = Buffer::new(m * tile);
    let mut order: Vec<(T, u32)> = Vec::with_capacity(m);
    for t in 0..block.rows.div_ceil(tile) {
        block.values(t, centres, 0, values.as_mut_slice());
        for r in t * tile..((t + 1) * tile).min(block.rows) {
            let lane = r - t * tile;
            order.clear();
            order.extend(values.as_slice().chunks_exact(tile).zip(0..).map(|(v, c)| (v[lane], c)));
            let compare = |a: &(T, u32), b: &(T, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            if h < m {
                order.select_nth_unstable_by(h - 1, compare);
            }
            order[..h].sort_unstable_by(compare);
            for (k, &(value, c)) in order[..h].iter().enumerate() {
                ids[r * h + k] = c;
                dist[r * h + k] = (block.tile_norms(t)[lane] + value).max(T::ZERO);
            }
        }
    }
}

fn insert<T: Real>(isa: Isa, h: usize, values: &[T], first: u32, list: &mut [T]) {
    match h {
        1 => run(isa, Insert::<T, 1> { values, first, list }),
        2 => run(isa, Insert::<T, 2> { values, first, list }),
        3 => run(isa, Insert::<T, 3> { values, first, list }),
        4 => run(isa, Insert::<T, 4> { values, first, list }),
        5 => run(isa, Insert::<T, 5> { values, first, list }),
        6 => run(isa, Insert::<T, 6> { values, first, list }),
        7 => run(isa, Insert::<T, 7> { values, first, list }),
        _ => run(isa, Insert::<T, MAX_LANES_H> { values, first, list }),
    }
}

/// IN `values`: centres from `first` on x tile. IN OUT `list`: 2 x H x tile.
struct Insert<'a, T, const H: usize> {
    values: &'a [T],
    first: u32,
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
            for half in 0..2 {
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
