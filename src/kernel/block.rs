//! Dense blocks: all distances between a block of rows and many centres, by |y|^2 - 2 y.mu + |mu|^2.
//!
//! Rows sit in lanes (see [`pack`](super::pack)); a centre's number is broadcast and multiplied into two vectors of rows.
//! A group of centres at a time fills the registers with sums, so that a column costs two loads and a broadcast a
//! centre, whatever the number of rows. Centres are taken in chunks that stay in the first-level cache while the tiles of
//! the block, which stay in the second-level cache, pass by. A sum runs over the columns in order, and so does not
//! depend on the tile, the lane or the group it was made in.
#![allow(unsafe_code)]

use super::buffer::Buffer;
use super::dispatch::{Isa, Operation, run};
use super::pack::{Pack, Source, SquaredNorms};
use super::select;
use super::simd::Simd;
use crate::real::Real;

/// Centres whose values are held at a time.
const CHUNK: usize = 60;
/// Bytes of centres that stay in the first-level cache beside a tile.
const CHUNK_BYTES: usize = 16 << 10;
/// Bytes of packed rows that stay in the second-level cache.
const BLOCK_BYTES: usize = 256 << 10;
/// Rows a block has at most.
const BLOCK_ROWS: usize = 1024;

/// Rows a block of `dim` columns should have: whole tiles, and few enough for the second-level cache.
pub(crate) fn block_rows<T: Real>(dim: usize) -> usize {
    let tile = 2 * Isa::best().lanes::<T>();
    let fit = BLOCK_BYTES / (tile * dim.max(1) * size_of::<T>());
    tile * fit.clamp(1, BLOCK_ROWS / tile)
}

/// Centres as rows, with their squared norms beside them.
#[derive(Debug, Clone)]
pub struct Centres<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) dim: usize,
    pub(crate) norms: Vec<T>,
}

impl<'a, T: Real> Centres<'a, T> {
    pub(crate) fn new(values: &'a [T], dim: usize) -> Self {
        Self::with_isa(Isa::best(), values, dim)
    }

    pub(super) fn with_isa(isa: Isa, values: &'a [T], dim: usize) -> Self {
        let mut norms = vec![T::ZERO; values.len() / dim];
        run(isa, SquaredNorms { values: &values[..norms.len() * dim], dim, norms: &mut norms });
        Self { values, dim, norms }
    }

    pub(crate) fn len(&self) -> usize {
        self.norms.len()
    }
}

/// A block of rows laid out for the dense kernels; reused from block to block.
#[derive(Debug, Default)]
pub struct RowBlock<T> {
    pub(crate) rows: usize,
    pub(crate) dim: usize,
    isa: Isa,
    packed: Buffer<T>,
    norms: Buffer<T>,
    copy: Buffer<T>,
}

impl<T: Real> RowBlock<T> {
    /// An empty block for the given instruction set.
    pub(super) fn with_isa(isa: Isa) -> Self {
        Self { isa, ..Self::default() }
    }

    /// Takes in `rows` (row after row, `dim` columns), less `origin` where there is one.
    pub(crate) fn load(&mut self, rows: &[T], dim: usize, origin: Option<&[T]>) {
        self.copy.resize(0);
        self.pack(rows, None, rows.len() / dim, dim, origin);
    }

    /// Takes in rows `ids` of `values` (row after row, `dim` columns), less `origin` where there is one, and keeps them as
    /// rows too: see [`row`](Self::row).
    pub(crate) fn load_gathered(&mut self, values: &[T], dim: usize, ids: &[u32], origin: Option<&[T]>) {
        self.copy.resize(ids.len() * dim);
        self.pack(values, Some(ids), ids.len(), dim, origin);
    }

    fn pack(&mut self, values: &[T], ids: Option<&[u32]>, rows: usize, dim: usize, origin: Option<&[T]>) {
        let tile = self.tile();
        let tiles = rows.div_ceil(tile);
        (self.rows, self.dim) = (rows, dim);
        self.packed.resize(tiles * tile * dim);
        self.norms.resize(tiles * tile);
        let source = match ids {
            Some(ids) => Source::Gathered { values, ids, copy: self.copy.as_mut_slice() },
            None => Source::Rows(values),
        };
        let (packed, norms) = (self.packed.as_mut_slice(), self.norms.as_mut_slice());
        run(self.isa, Pack { source, rows, dim, origin, packed, norms });
    }

    /// Row `i`, less the origin, of a block from [`load_gathered`](Self::load_gathered).
    #[inline]
    pub(crate) fn row(&self, i: usize) -> &[T] {
        &self.copy.as_slice()[i * self.dim..(i + 1) * self.dim]
    }

    /// For each row its `h` nearest centres, nearest first (equal ones: lower index first), and their squared distances by
    /// |y|^2 - 2 y.mu + |mu|^2, at least 0. `ids` and `dist` are rows x h (OUT). h is at most the number of centres.
    pub(crate) fn nearest(&self, centres: &Centres<'_, T>, h: usize, ids: &mut [u32], dist: &mut [T]) {
        assert!(h <= centres.len(), "{h} nearest of {} centres", centres.len());
        assert!(ids.len() == self.rows * h && dist.len() == ids.len(), "rows x h ids and distances");
        if h > 0 && self.rows > 0 {
            select::nearest(self, centres, h, ids, dist);
        }
    }

    /// All squared distances, rows x M, into `out` (OUT).
    pub(crate) fn distances(&self, centres: &Centres<'_, T>, out: &mut [T]) {
        let m = centres.len();
        assert_eq!(out.len(), self.rows * m, "rows x M distances");
        let tile = self.tile();
        self.for_chunks(centres, |t, first, values| {
            let rows = t * tile..((t + 1) * tile).min(self.rows);
            let out = &mut out[rows.start * m..rows.end * m];
            run(self.isa, Spread { values, norms: self.tile_norms(t), width: m, first, out });
        });
    }

    /// Rows of a tile.
    pub(super) fn tile(&self) -> usize {
        2 * self.isa.lanes::<T>()
    }

    #[cfg(test)]
    pub(super) fn packed(&self) -> &[T] {
        self.packed.as_slice()
    }

    pub(super) fn isa(&self) -> Isa {
        self.isa
    }

    /// |y|^2 of the rows of tile `t`.
    pub(super) fn tile_norms(&self, t: usize) -> &[T] {
        &self.norms.as_slice()[t * self.tile()..(t + 1) * self.tile()]
    }

    /// Calls `f(t, c, values)` for each tile t and chunk of centres from c on, chunks in order for each tile, with the
    /// values |mu|^2 - 2 y.mu, centres x tile.
    pub(super) fn for_chunks(&self, centres: &Centres<'_, T>, mut f: impl FnMut(usize, usize, &[T])) {
        let group = self.isa.group::<T>();
        let most = (CHUNK_BYTES / (self.dim.max(1) * size_of::<T>())).clamp(group, CHUNK);
        let chunk = most / group * group;
        let mut values = Buffer::new(chunk.min(centres.len()) * self.tile());
        for first in (0..centres.len()).step_by(chunk) {
            let n = chunk.min(centres.len() - first);
            let values = &mut values.as_mut_slice()[..n * self.tile()];
            for t in 0..self.rows.div_ceil(self.tile()) {
                self.values(t, centres, first, values);
                f(t, first, values);
            }
        }
    }

    /// The values |mu|^2 - 2 y.mu of tile `t` and of the centres from `first` on, as many as `out` has room for.
    pub(super) fn values(&self, t: usize, centres: &Centres<'_, T>, first: usize, out: &mut [T]) {
        assert_eq!(self.dim, centres.dim, "rows and centres of different length");
        let (tile, dim) = (self.tile(), self.dim);
        let n = out.len() / tile;
        run(
            self.isa,
            Values {
                tile: &self.packed.as_slice()[t * tile * dim..(t + 1) * tile * dim],
                centres: &centres.values[first * dim..(first + n) * dim],
                norms: &centres.norms[first..first + n],
                out,
            },
        );
    }
}

/// OUT `out`: |mu|^2 - 2 y.mu, centres x tile.
struct Values<'a, T> {
    tile: &'a [T],
    centres: &'a [T],
    norms: &'a [T],
    out: &'a mut [T],
}

impl<T: Real> Operation<T> for Values<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let (n, dim) = (self.norms.len(), self.tile.len() / (2 * V::LANES));
        assert!(self.centres.len() == n * dim && self.out.len() == n * 2 * V::LANES);
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
    /// Goes through the centres A at a time and covers the rest with the smallest group that does, reaching back over
    /// centres already done (the same values again) rather than leaving the sums too few to hide latency.
    /// # Safety
    /// The CPU has the instruction set of `V`; there are `n` centres of `dim` columns.
    #[inline(always)]
    unsafe fn groups<V: Simd<Elem = T>, const A: usize, const B: usize, const C: usize>(self, n: usize, dim: usize) {
        let mut c = 0;
        while c < n {
            let left = n - c;
            let size = if left >= A {
                A
            } else if left <= C && n >= C {
                C
            } else if left <= B && n >= B {
                B
            } else {
                [A, B, C, 1].into_iter().find(|&size| size <= if n >= A { n } else { left }).unwrap_or(1)
            };
            let start = c.min(n - size);
            let (tile, mu) = (self.tile.as_ptr(), self.centres[start * dim..].as_ptr());
            let (norms, out) = (&self.norms[start..start + size], self.out[start * 2 * V::LANES..].as_mut_ptr());
            // SAFETY: `size` centres, norms and values from `start` on are within bounds.
            unsafe {
                if size == A {
                    group::<V, A>(tile, mu, dim, norms, out);
                } else if size == B {
                    group::<V, B>(tile, mu, dim, norms, out);
                } else if size == C {
                    group::<V, C>(tile, mu, dim, norms, out);
                } else {
                    group::<V, 1>(tile, mu, dim, norms, out);
                }
            }
            c = start + size;
        }
    }
}

/// The innermost loop: one tile against `C` centres.
/// # Safety
/// The CPU has the instruction set of `V`; `tile` is good for two vectors a column, `mu` for C rows of `dim` numbers,
/// `out` for two vectors a centre.
#[inline(always)]
unsafe fn group<V: Simd, const C: usize>(
    tile: *const V::Elem,
    mu: *const V::Elem,
    dim: usize,
    norms: &[V::Elem],
    out: *mut V::Elem,
) {
    // SAFETY: the caller's.
    unsafe {
        let mut sums = [[V::splat(V::Elem::ZERO); 2]; C];
        for d in 0..dim {
            let y = tile.add(d * 2 * V::LANES);
            let (y0, y1) = (V::load(y), V::load(y.add(V::LANES)));
            for c in 0..C {
                let m = V::splat(*mu.add(c * dim + d));
                sums[c] = [m.fma(y0, sums[c][0]), m.fma(y1, sums[c][1])];
            }
        }
        let minus_two = V::splat(-(V::Elem::ONE + V::Elem::ONE));
        for c in 0..C {
            let norm = V::splat(norms[c]);
            for half in 0..2 {
                sums[c][half].fma(minus_two, norm).store(out.add((2 * c + half) * V::LANES));
            }
        }
    }
}

/// Values of a tile to distances in rows: OUT `out`, rows x `width`, columns from `first` on.
struct Spread<'a, T> {
    values: &'a [T],
    norms: &'a [T],
    width: usize,
    first: usize,
    out: &'a mut [T],
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
