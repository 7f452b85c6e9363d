//! Dense blocks: all distances between a block of rows and many centers, as |y|^2 - 2 y.mu + |mu|^2.
//!
//! This file has the block and the centers as the rest of the crate sees them; [`pack`](super::pack) lays out the rows,
//! [`dense`](super::dense) multiplies, and [`select`] keeps the nearest.

use super::buffer::Buffer;
use super::dense::{Spread, for_chunks};
use super::dispatch::{Isa, run};
use super::pack::{Pack, Source, SquaredNorms, Table};
use super::select;
use crate::kernel::Real;

/// Bytes of packed rows that fit in any second-level cache with room to spare.
const BLOCK_BYTES: usize = 256 << 10;
/// This many tiles are worth it even if they are larger, because centers are then fetched less often ...
const FEW_TILES: usize = 4;
/// ... up to this many columns in all of them: one megabyte with vectors of 64 bytes.
const FEW_TILES_COLUMNS: usize = 8192;
/// Maximum number of rows of a block.
const BLOCK_ROWS: usize = 1024;

/// Number of rows for a block with `dim` columns: whole tiles that fit in the second-level cache.
pub(crate) fn block_rows<T: Real>(dim: usize) -> usize {
    let tile = 2 * Isa::best().lanes::<T>();
    let fit = BLOCK_BYTES / (tile * dim.max(1) * size_of::<T>());
    let few = (FEW_TILES_COLUMNS / dim.max(1)).min(FEW_TILES);
    tile * fit.max(few).clamp(1, BLOCK_ROWS / tile)
}

/// Squared distances below this fraction of the squared norms are measured by differences: in `f32`, fewer than four of
/// their digits can be trusted.
pub(super) const DELICATE: f64 = 1e-3;

/// Centers, row after row, with their squared norms.
#[derive(Debug, Clone)]
pub struct Centers<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) dim: usize,
    pub(crate) norms: Vec<T>,
}

impl<'a, T: Real> Centers<'a, T> {
    pub(crate) fn new(values: &'a [T], dim: usize) -> Self {
        Self::with_isa(Isa::best(), values, dim)
    }

    /// With an offset per center (none if empty), which is added to all squared distances.
    pub(crate) fn with_offsets(values: &'a [T], dim: usize, offsets: &[T]) -> Self {
        let mut centers = Self::new(values, dim);
        centers.norms.iter_mut().zip(offsets).for_each(|(norm, &offset)| *norm += offset);
        centers
    }

    /// What lifted rows are multiplied by, and what is added to the products.
    pub(crate) fn of(values: &'a [T], dim: usize, norms: Vec<T>) -> Self {
        assert_eq!(values.len(), dim * norms.len(), "one norm per center");
        Self { values, dim, norms }
    }

    pub(super) fn with_isa(isa: Isa, values: &'a [T], dim: usize) -> Self {
        let mut norms = vec![T::ZERO; values.len() / dim];
        run(isa, SquaredNorms { values: &values[..norms.len() * dim], dim, norms: &mut norms });
        Self { values, dim, norms }
    }

    /// Writes the squared norms of `values`, rows of `dim` numbers, to `norms` (OUT).
    pub(crate) fn squared_norms(values: &[T], dim: usize, norms: &mut [T]) {
        assert_eq!(values.len(), norms.len() * dim, "one norm per row");
        run(Isa::best(), SquaredNorms { values, dim, norms });
    }

    pub(crate) fn len(&self) -> usize {
        self.norms.len()
    }

    /// Measures small `distances` (IN OUT, rows x M) again by differences: those so small relative to the norms that
    /// |y|^2 - 2 y.mu + |mu|^2 may have lost their digits. `row(r)` writes row r to its argument.
    pub(crate) fn measure_near(&self, distances: &mut [T], mut row: impl FnMut(usize, &mut Vec<T>)) {
        let largest = self.norms.iter().fold(T::ZERO, |a, &b| a.max(b));
        let mut y = Vec::new();
        for (r, distances) in distances.chunks_exact_mut(self.len()).enumerate() {
            y.clear();
            row(r, &mut y);
            let norm: T = y.iter().map(|&x| x * x).sum();
            let small = T::from_f64(DELICATE) * (norm + largest);
            for (c, d) in distances.iter_mut().enumerate().filter(|(_, d)| **d < small) {
                T::gathered_distances(&y, self.values, &[c as u32], std::slice::from_mut(d));
            }
        }
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

/// The lists and values of a search, for reuse.
pub(crate) type NearestScratch<T> = [Buffer<T>; 2];

impl<T: Real> RowBlock<T> {
    /// An empty block for the given instruction set.
    #[cfg(test)]
    pub(super) fn with_isa(isa: Isa) -> Self {
        Self { isa, ..Self::default() }
    }

    /// Loads `rows` (row-major, `dim` columns), less `origin` if there is one.
    pub(crate) fn load(&mut self, rows: &[T], dim: usize, origin: Option<&[T]>) {
        self.copy.resize(0);
        self.pack(Table::plain(rows, dim), None, rows.len() / dim, origin, 0);
    }

    /// Loads rows `ids` of `table`, less `origin` if there is one, and also keeps them row-major: see
    /// [`row`](Self::row).
    pub(crate) fn load_gathered(&mut self, table: Table<'_, T>, ids: &[u32], origin: Option<&[T]>) {
        self.load_first(table, ids, ids.len(), origin, 0);
    }

    /// [`load_gathered`](Self::load_gathered) for the first `count` of `ids`; later ones are prefetched. Rows are
    /// [lifted](Self::load_lifted) by `extra` columns.
    pub(crate) fn load_first(
        &mut self,
        table: Table<'_, T>,
        ids: &[u32],
        count: usize,
        origin: Option<&[T]>,
        extra: usize,
    ) {
        self.copy.resize(count * table.dim);
        self.pack(table, Some(ids), count, origin, extra);
    }

    /// Loads `rows` lifted by `extra` columns: by their squared norm if that is one column, else by the square of each
    /// number. Their products with centers are complete scores; no norm of the row is added.
    pub(crate) fn load_lifted(&mut self, rows: &[T], dim: usize, extra: usize) {
        self.copy.resize(0);
        self.pack(Table::plain(rows, dim), None, rows.len() / dim, None, extra);
    }

    /// Packs the first `rows` of `ids`, or of the table if there are none; the table then has no factors.
    fn pack(&mut self, table: Table<'_, T>, ids: Option<&[u32]>, rows: usize, origin: Option<&[T]>, extra: usize) {
        let (tile, dim) = (self.tile(), table.dim);
        let tiles = rows.div_ceil(tile);
        (self.rows, self.dim) = (rows, dim + extra);
        self.packed.resize(tiles * tile * self.dim);
        self.norms.resize(tiles * tile);
        let source = match ids {
            Some(ids) => Source::Gathered { table, ids, copy: &mut self.copy },
            None => Source::Rows(table.values),
        };
        let (packed, norms) = (&mut self.packed, &mut self.norms);
        run(self.isa, Pack { source, rows, dim, extra, origin, packed, norms });
    }

    /// Whether squared distance `d` of row `i` is so small relative to |y|^2 that it may have lost its digits.
    #[inline]
    pub(crate) fn is_delicate(&self, i: usize, d: T) -> bool {
        d < T::from_f64(DELICATE) * self.norms[i]
    }

    /// Whether squared distance `d` of row `i` is so small relative to |y|^2 that rounding may have decided the
    /// cluster.
    #[inline]
    pub(crate) fn has_lost_digits(&self, i: usize, d: T) -> bool {
        d < T::from_f64(4096.0) * T::EPSILON * self.norms[i]
    }

    /// Bound on the rounding error of a small squared distance of row `i`.
    #[inline]
    pub(crate) fn slack(&self, i: usize) -> T {
        T::from_f64(256.0) * T::EPSILON * self.norms[i]
    }

    /// Row `i`, less the origin, of a block loaded by [`load_gathered`](Self::load_gathered).
    #[inline]
    pub(crate) fn row(&self, i: usize) -> &[T] {
        &self.copy[i * self.dim..(i + 1) * self.dim]
    }

    /// The `h` nearest centers of each row, nearest first (ties: lower index first), and their squared distances
    /// |y|^2 - 2 y.mu + |mu|^2, at least 0. `ids` and `dist` are rows x h (OUT). h is at most the number of centers.
    pub(crate) fn nearest(&self, centers: &Centers<'_, T>, h: usize, ids: &mut [u32], dist: &mut [T]) {
        self.nearest_in(&mut NearestScratch::default(), centers, h, ids, dist);
    }

    /// [`nearest`](Self::nearest) with reused memory.
    pub(crate) fn nearest_in(
        &self,
        scratch: &mut NearestScratch<T>,
        centers: &Centers<'_, T>,
        h: usize,
        ids: &mut [u32],
        dist: &mut [T],
    ) {
        assert!(h <= centers.len(), "{h} nearest of {} centers", centers.len());
        assert!(ids.len() == self.rows * h && dist.len() == ids.len(), "rows x h ids and distances");
        if h > 0 && self.rows > 0 {
            select::nearest(self, scratch, centers, h, ids, dist);
        }
    }

    /// All rows, less the origin, of a block loaded by [`load_gathered`](Self::load_gathered).
    pub(crate) fn as_rows(&self) -> &[T] {
        &self.copy
    }

    /// All squared distances, rows x M, to `out` (OUT).
    pub(crate) fn distances(&self, centers: &Centers<'_, T>, out: &mut [T]) {
        let m = centers.len();
        assert_eq!(out.len(), self.rows * m, "rows x M distances");
        let tile = self.tile();
        for_chunks(self, centers, &mut Buffer::default(), |t, first, values| {
            let rows = t * tile..((t + 1) * tile).min(self.rows);
            let out = &mut out[rows.start * m..rows.end * m];
            run(self.isa, Spread { values, norms: self.tile_norms(t), width: m, first, out });
        });
    }

    /// Number of rows per tile.
    pub(super) fn tile(&self) -> usize {
        2 * self.isa.lanes::<T>()
    }

    /// The rows in lanes: tiles x columns x rows per tile.
    pub(super) fn packed(&self) -> &[T] {
        &self.packed
    }

    pub(super) fn isa(&self) -> Isa {
        self.isa
    }

    /// |y|^2 of the rows of tile `t`.
    pub(super) fn tile_norms(&self, t: usize) -> &[T] {
        &self.norms[t * self.tile()..(t + 1) * self.tile()]
    }
}
