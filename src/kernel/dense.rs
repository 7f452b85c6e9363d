//! Products of a block of rows with centers, |mu|^2 - 2 y.mu, passed on one chunk of centers and one tile at a time.
//!
//! Rows sit in lanes (see [`pack`](super::pack)); each number of a center is broadcast and multiplied into two vectors
//! of rows. A group of centers fills the registers with sums, so that each column takes two loads, and one broadcast
//! per center for two multiply-adds. Centers are processed in chunks that stay in the first-level cache while the
//! block's tiles, which stay in the second-level cache, pass by. Each sum runs over the columns in order, so it does
//! not depend on the tile, the lane or the group.
#![allow(unsafe_code)]

use super::block::{Centers, RowBlock};
use super::buffer::Buffer;
use super::dispatch::{Operation, run};
use super::simd::Simd;
use crate::kernel::Real;

/// Maximum number of centers whose values are held at a time.
pub(super) const CHUNK: usize = 60;
/// Bytes of centers that stay in the first-level cache next to a tile.
const CHUNK_BYTES: usize = 16 << 10;

/// Calls `f(t, c, values)` for each tile t and each chunk of centers, c being its first, with the values |mu|^2 - 2
/// y.mu, centers x tile; the chunks of each tile come in order. Lanes without a row hold arbitrary numbers. `scratch`
/// holds the values.
pub(super) fn for_chunks<T: Real>(
    block: &RowBlock<T>,
    centers: &Centers<'_, T>,
    scratch: &mut Buffer<T>,
    mut f: impl FnMut(usize, usize, &[T]),
) {
    assert_eq!(block.dim, centers.dim, "rows and centers of different length");
    let (isa, tile, dim) = (block.isa(), block.tile(), block.dim);
    let chunk = chunk_of(block);
    scratch.resize(chunk.min(centers.len()) * tile);
    for first in (0..centers.len()).step_by(chunk) {
        let n = chunk.min(centers.len() - first);
        let (mu, norms) = (&centers.values[first * dim..(first + n) * dim], &centers.norms[first..first + n]);
        let out = &mut scratch[..n * tile];
        for (t, rows) in block.packed().chunks_exact(tile * dim).enumerate() {
            run(isa, Values { tile: rows, rows: block.rows - t * tile, centers: mu, norms, out });
            f(t, first, out);
        }
    }
}

/// All values of the block: OUT `out`, tiles x centers x tile. Lanes without a row repeat the last row.
pub(super) fn all_values<T: Real>(block: &RowBlock<T>, centers: &Centers<'_, T>, out: &mut [T]) {
    assert_eq!(block.dim, centers.dim, "rows and centers of different length");
    let (isa, tile, dim, m) = (block.isa(), block.tile(), block.dim, centers.len());
    let chunk = chunk_of(block);
    for first in (0..m).step_by(chunk) {
        let range = first..(first + chunk).min(m);
        let (mu, norms) = (&centers.values[first * dim..range.end * dim], &centers.norms[range.clone()]);
        let tiles = block.packed().chunks_exact(tile * dim).zip(out.chunks_exact_mut(m * tile));
        for (rows, out) in tiles {
            let out = &mut out[first * tile..range.end * tile];
            run(isa, Values { tile: rows, rows: tile, centers: mu, norms, out });
        }
    }
}

/// Number of centers in a chunk.
fn chunk_of<T: Real>(block: &RowBlock<T>) -> usize {
    let group = block.isa().group::<T>();
    (CHUNK_BYTES / (block.dim * size_of::<T>())).clamp(group, CHUNK) / group * group
}

/// OUT `out`, centers x tile: |mu|^2 - 2 y.mu of the first `rows` rows of the tile.
struct Values<'a, T> {
    tile: &'a [T],
    rows: usize,
    centers: &'a [T],
    norms: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Operation<T> for Values<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let (n, dim) = (self.norms.len(), self.tile.len() / (2 * V::LANES));
        assert!(self.centers.len() == n * dim && self.out.len() == n * 2 * V::LANES);
        // SAFETY: V is available, and the sizes are those asserted.
        unsafe {
            // If the last tile is at most half full, one of its vectors is enough.
            match (V::GROUP, self.rows > V::LANES) {
                (14, true) => self.groups::<V, 2, 14, 8, 4>(n, dim),
                (14, false) => self.groups::<V, 1, 14, 8, 4>(n, dim),
                (6, true) => self.groups::<V, 2, 6, 4, 2>(n, dim),
                (6, false) => self.groups::<V, 1, 6, 4, 2>(n, dim),
                (_, true) => self.groups::<V, 2, 4, 2, 1>(n, dim),
                (_, false) => self.groups::<V, 1, 4, 2, 1>(n, dim),
            }
        }
    }
}

impl<T: Real> Values<'_, T> {
    /// Processes the centers A at a time. The rest is covered by the smallest sufficient group, which reaches back over
    /// centers already done (giving the same values again) rather than leave too few sums to hide latency.
    /// # Safety
    /// The CPU has the instruction set of `V`; the sizes are those asserted in `run`.
    #[inline(always)]
    unsafe fn groups<V: Simd<Elem = T>, const R: usize, const A: usize, const B: usize, const C: usize>(
        mut self,
        n: usize,
        dim: usize,
    ) {
        let mut c = 0;
        while c < n {
            let left = n - c;
            let covering = [C, B, A].into_iter().find(|&size| left <= size && size <= n);
            let size = match covering {
                Some(size) => size,
                None => [A, B, C].into_iter().find(|&size| size <= left).unwrap_or(1),
            };
            let start = c.min(n - size);
            // SAFETY: `size` centers, norms and values from `start` on are within bounds.
            unsafe {
                if size == A {
                    self.group::<V, R, A>(start, dim);
                } else if size == B {
                    self.group::<V, R, B>(start, dim);
                } else if size == C {
                    self.group::<V, R, C>(start, dim);
                } else {
                    self.group::<V, R, 1>(start, dim);
                }
            }
            c = start + size;
        }
    }

    /// The innermost loop: R vectors of the tile's rows against `C` centers, the first being `start`.
    /// # Safety
    /// The CPU has the instruction set of `V`; start + C is at most the number of centers; R is 1 or 2.
    #[inline(always)]
    unsafe fn group<V: Simd<Elem = T>, const R: usize, const C: usize>(&mut self, start: usize, dim: usize) {
        let tile = self.tile.as_ptr();
        let norms = &self.norms[start..start + C];
        // SAFETY: the caller's: the tile has two vectors per column, and `centers` and `out` have C rows from `start`
        // on.
        unsafe {
            let mu = self.centers.as_ptr().add(start * dim);
            let out = self.out.as_mut_ptr().add(start * 2 * V::LANES);
            let mut sums = [[V::splat(T::ZERO); R]; C];
            for d in 0..dim {
                let y = tile.add(d * 2 * V::LANES);
                let mut rows = [V::load(y); R];
                if R == 2 {
                    rows[R - 1] = V::load(y.add(V::LANES));
                }
                for (c, sums) in sums.iter_mut().enumerate() {
                    let m = V::splat(*mu.add(c * dim + d));
                    for (sum, &y) in sums.iter_mut().zip(&rows) {
                        *sum = m.fma(y, *sum);
                    }
                }
            }
            let minus_two = V::splat(-(T::ONE + T::ONE));
            for (c, (sums, &norm)) in sums.iter().zip(norms).enumerate() {
                for (r, sum) in sums.iter().enumerate() {
                    sum.fma(minus_two, V::splat(norm)).store(out.add((2 * c + r) * V::LANES));
                }
            }
        }
    }
}

/// Transposes the values of a tile to distances by row: OUT `out`, rows x `width`, columns `first`...
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
                // SAFETY: V is available; centers are clamped to the last and columns r + 4 to the tile, whose size is a
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
