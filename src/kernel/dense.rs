//! The products of a block of rows with centres, |mu|^2 - 2 y.mu, handed on a chunk of centres and a tile at a time.
//!
//! Rows sit in lanes (see [`pack`](super::pack)); a centre's number is broadcast and multiplied into two vectors of rows.
//! A group of centres at a time fills the registers with sums, so that a column costs two loads and a broadcast a centre
//! for twice as many multiply-adds. Centres are taken in chunks that stay in the first-level cache while the tiles of the
//! block, which stay in the second-level cache, pass by. Centres with many columns are cut into panels, copied to where
//! their rows do not fall on the same lines of the cache. A sum runs over the columns in order, and so does not depend on
//! the tile, the lane, the group or the panels it was made in.
#![allow(unsafe_code)]

use super::block::{Centres, RowBlock};
use super::buffer::Buffer;
use super::dispatch::{Operation, run};
use super::simd::Simd;
use crate::real::Real;
use std::ops::Range;

/// Centres whose values are held at a time, at most.
pub(super) const CHUNK: usize = 60;
/// Bytes of centres that stay in the first-level cache beside a tile.
const CHUNK_BYTES: usize = 16 << 10;
/// Bytes of a centre above which it is cut into panels.
const LONG: usize = 3584;
/// Bytes of a centre in a panel.
const PANEL: usize = 1024;

/// Calls `f(t, c, values)` for each tile t and chunk of centres from c on, chunks in order for each tile, with the values
/// |mu|^2 - 2 y.mu, centres x tile.
pub(super) fn for_chunks<T: Real>(
    block: &RowBlock<T>,
    centres: &Centres<'_, T>,
    mut f: impl FnMut(usize, usize, &[T]),
) {
    assert_eq!(block.dim, centres.dim, "rows and centres of different length");
    let (isa, tile, dim) = (block.isa(), block.tile(), block.dim);
    let group = isa.group::<T>();
    if dim * size_of::<T>() > LONG {
        return for_panels(block, centres, group, f);
    }
    let chunk = (CHUNK_BYTES / (dim * size_of::<T>())).clamp(group, CHUNK) / group * group;
    let mut values = Buffer::new(chunk.min(centres.len()) * tile);
    for first in (0..centres.len()).step_by(chunk) {
        let n = chunk.min(centres.len() - first);
        let out = &mut values.as_mut_slice()[..n * tile];
        for (t, rows) in block.packed().chunks_exact(tile * dim).enumerate() {
            let (mu, norms) = (&centres.values[first * dim..(first + n) * dim], &centres.norms[first..first + n]);
            run(isa, Values { tile: rows, centres: mu, stride: dim, norms, begin: true, end: true, out });
            f(t, first, out);
        }
    }
}

/// [`for_chunks`] a group of centres and a panel of columns at a time, with the sums of all tiles kept in between.
fn for_panels<T: Real>(
    block: &RowBlock<T>,
    centres: &Centres<'_, T>,
    group: usize,
    mut f: impl FnMut(usize, usize, &[T]),
) {
    let (isa, tile, dim) = (block.isa(), block.tile(), block.dim);
    let panel = PANEL / size_of::<T>();
    // A line more than the panel, so that the rows of centres fall on different lines of the cache.
    let stride = panel + 64 / size_of::<T>();
    let mut copy = Buffer::new(group * stride);
    let mut sums = Buffer::new(block.tiles() * group * tile);
    for first in (0..centres.len()).step_by(group) {
        let n = group.min(centres.len() - first);
        for d in (0..dim).step_by(panel) {
            let columns = d..dim.min(d + panel);
            let width = columns.len();
            copy_panel(&centres.values[first * dim..(first + n) * dim], dim, columns, copy.as_mut_slice(), stride);
            let packed =
                block.packed().chunks_exact(tile * dim).zip(sums.as_mut_slice().chunks_exact_mut(group * tile));
            for (t, (rows, out)) in packed.enumerate() {
                let (begin, end) = (d == 0, d + width == dim);
                let (rows, out) = (&rows[d * tile..(d + width) * tile], &mut out[..n * tile]);
                let mu = &copy.as_slice()[..n * stride];
                run(
                    isa,
                    Values {
                        tile: rows,
                        centres: mu,
                        stride,
                        norms: &centres.norms[first..first + n],
                        begin,
                        end,
                        out,
                    },
                );
                if end {
                    f(t, first, out);
                }
            }
        }
    }
}

/// Copies some columns of rows to rows `stride` apart.
fn copy_panel<T: Real>(rows: &[T], dim: usize, columns: Range<usize>, to: &mut [T], stride: usize) {
    for (row, to) in rows.chunks_exact(dim).zip(to.chunks_exact_mut(stride)) {
        to[..columns.len()].copy_from_slice(&row[columns.clone()]);
    }
}

/// OUT `out`, centres x tile: |mu|^2 - 2 y.mu; IN OUT the sums y.mu so far where these columns are not the first (`begin`)
/// or not the last (`end`). Centres are `stride` apart.
struct Values<'a, T> {
    tile: &'a [T],
    centres: &'a [T],
    stride: usize,
    norms: &'a [T],
    begin: bool,
    end: bool,
    out: &'a mut [T],
}

impl<T: Real> Operation<T> for Values<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let (n, dim) = (self.norms.len(), self.tile.len() / (2 * V::LANES));
        assert!(self.centres.len() == n * self.stride && dim <= self.stride && self.out.len() == n * 2 * V::LANES);
        // SAFETY: V is available, and the sizes are those asserted.
        unsafe {
            match V::GROUP {
                14 => self.groups::<V, 14, 8, 4>(n, dim),
                6 => self.groups::<V, 6, 4, 2>(n, dim),
                _ => self.groups::<V, 4, 2, 1>(n, dim),
            }
        }
    }
}

impl<T: Real> Values<'_, T> {
    /// Goes through the centres A at a time. Where sums begin and end here, the rest is covered with the smallest group
    /// that does, reaching back over centres already done (the same values again) rather than leaving too few sums to
    /// hide latency.
    /// # Safety
    /// The CPU has the instruction set of `V`; the sizes are those asserted in `run`.
    #[inline(always)]
    unsafe fn groups<V: Simd<Elem = T>, const A: usize, const B: usize, const C: usize>(
        mut self,
        n: usize,
        dim: usize,
    ) {
        let whole = self.begin && self.end;
        let mut c = 0;
        while c < n {
            let left = n - c;
            let covering = [C, B, A].into_iter().find(|&size| whole && left <= size && size <= n);
            let size = match covering {
                Some(size) => size,
                None => [A, B, C].into_iter().find(|&size| size <= left).unwrap_or(1),
            };
            let start = c.min(n - size);
            // SAFETY: `size` centres, norms and values from `start` on are within bounds.
            unsafe {
                if size == A {
                    self.group::<V, A>(start, dim);
                } else if size == B {
                    self.group::<V, B>(start, dim);
                } else if size == C {
                    self.group::<V, C>(start, dim);
                } else {
                    self.group::<V, 1>(start, dim);
                }
            }
            c = start + size;
        }
    }

    /// The innermost loop: the tile against `C` centres from `start` on.
    /// # Safety
    /// The CPU has the instruction set of `V`; start + C is at most the number of centres.
    #[inline(always)]
    unsafe fn group<V: Simd<Elem = T>, const C: usize>(&mut self, start: usize, dim: usize) {
        let (tile, stride) = (self.tile.as_ptr(), self.stride);
        let norms = &self.norms[start..start + C];
        // SAFETY: the caller's: the tile has two vectors a column, and `centres` and `out` have C rows from `start` on.
        unsafe {
            let mu = self.centres.as_ptr().add(start * stride);
            let out = self.out.as_mut_ptr().add(start * 2 * V::LANES);
            let mut sums = [[V::splat(T::ZERO); 2]; C];
            if !self.begin {
                for c in 0..C {
                    sums[c] = [V::load(out.add(2 * c * V::LANES)), V::load(out.add((2 * c + 1) * V::LANES))];
                }
            }
            for d in 0..dim {
                let y = tile.add(d * 2 * V::LANES);
                let (y0, y1) = (V::load(y), V::load(y.add(V::LANES)));
                for c in 0..C {
                    let m = V::splat(*mu.add(c * stride + d));
                    sums[c] = [m.fma(y0, sums[c][0]), m.fma(y1, sums[c][1])];
                }
            }
            let minus_two = V::splat(-(T::ONE + T::ONE));
            for c in 0..C {
                if self.end {
                    let norm = V::splat(norms[c]);
                    sums[c] = [sums[c][0].fma(minus_two, norm), sums[c][1].fma(minus_two, norm)];
                }
                sums[c][0].store(out.add(2 * c * V::LANES));
                sums[c][1].store(out.add((2 * c + 1) * V::LANES));
            }
        }
    }
}

/// Values of a tile to distances in rows: OUT `out`, rows x `width`, columns from `first` on.
pub(super) struct Spread<'a, T> {
    pub(super) values: &'a [T],
    pub(super) norms: &'a [T],
    pub(super) width: usize,
    pub(super) first: usize,
    pub(super) out: &'a mut [T],
}

impl<T: Real> Operation<T> for Spread<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let tile = 2 * V::LANES;
        let n = self.values.len() / tile;
        let rows = self.out.len() / self.width;
        assert!(self.norms.len() == tile && rows <= tile && self.first + n <= self.width);
        for r in (0..rows).step_by(4) {
            for c in (0..n).step_by(V::LANES) {
                let count = V::LANES.min(n - c);
                // SAFETY: V is available; centres are clamped to the last and columns r + 4 to the tile, whose size is a
                // multiple of 4; `count` columns from first + c on are within the width asserted.
                unsafe {
                    let zero = V::splat(T::ZERO);
                    let columns = V::transposed(|l| self.values.as_ptr().add((c + l).min(n - 1) * tile + r));
                    for (i, &column) in columns.iter().enumerate().take(rows - r) {
                        let v = column.add(V::splat(self.norms[r + i])).max(zero);
                        let to = self.out.as_mut_ptr().add((r + i) * self.width + self.first + c);
                        if count == V::LANES { v.store(to) } else { v.store_partial(to, count) }
                    }
                }
            }
        }
    }
}
