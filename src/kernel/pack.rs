//! Packing of rows into lanes: the layout of the dense kernels, `[tile][column][row of the tile]`, with each row's
//! squared norm.
//!
//! A tile is two vectors of rows. The last tile is padded with copies of its last row, whose results are ignored. Norms
//! are summed column by column with one multiply-add each, in exactly the order of the dense kernel's products, so that
//! the distance of a row from an equal center is exactly 0.
#![allow(unsafe_code)]

use super::dispatch::{Isa, Operation, prefetch, run};
use super::simd::Simd;
use crate::kernel::Real;
use std::ops::Range;

/// Maximum number of rows of a tile.
pub(super) const MAX_TILE: usize = 32;
/// Number of rows that a gather prefetches ahead.
const AHEAD: usize = 12;

/// Where the rows of a block come from.
pub(super) enum Source<'a, T> {
    /// Row-major.
    Rows(&'a [T]),
    /// The first of the rows `ids` (each checked) of a table, also copied, less the origin, to a row-major array (OUT).
    Gathered { table: Table<'a, T>, ids: &'a [u32], copy: &'a mut [T] },
}

/// Consecutive rows of `dim` numbers, each multiplied by its factor.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a, T> {
    /// Rows, row-major.
    pub values: &'a [T],
    /// Number of columns.
    pub dim: usize,
    /// One factor per row, unless all are 1.
    pub factors: Option<&'a [T]>,
}

impl<'a, T> Table<'a, T> {
    /// Rows with factor 1.
    pub(crate) fn plain(values: &'a [T], dim: usize) -> Self {
        Self { values, dim, factors: None }
    }
}

/// OUT `packed`: tiles x (dim + extra) x tile; OUT `norms`: tiles x tile. There is at least one row. With `extra`
/// columns, rows are lifted by their squares, by the sum of them (one column) or by each, and their norms are 0.
pub(super) struct Pack<'a, T> {
    pub(super) source: Source<'a, T>,
    pub(super) rows: usize,
    pub(super) dim: usize,
    pub(super) extra: usize,
    pub(super) origin: Option<&'a [T]>,
    pub(super) packed: &'a mut [T],
    pub(super) norms: &'a mut [T],
}

impl<T: Real> Operation<T> for Pack<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(mut self) {
        let (tile, dim) = (2 * V::LANES, self.dim);
        assert!(self.origin.is_none_or(|o| o.len() == dim) && tile <= MAX_TILE);
        for (t, (packed, norms)) in
            self.packed.chunks_exact_mut(tile * (dim + self.extra)).zip(self.norms.chunks_exact_mut(tile)).enumerate()
        {
            let first = t * tile;
            let last = (first + tile).min(self.rows) - 1;
            let (packed, squares) = packed.split_at_mut(tile * dim);
            // SAFETY: V is available; slicing checks the rows.
            unsafe {
                let (base, origin) = match &mut self.source {
                    Source::Rows(rows) => (&rows[first * dim..(last + 1) * dim], self.origin),
                    Source::Gathered { table, ids, copy } => {
                        copy_rows::<V>(*table, ids, self.origin, first..last + 1, copy);
                        (&copy[first * dim..(last + 1) * dim], None)
                    }
                };
                pack_tile::<V>(base, dim, origin, packed, norms);
            }
            lift_tile(packed, squares, norms);
        }
    }
}

/// Copies rows `ids[range]`, times their factors and less the origin, to rows `range` of `copy`.
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
unsafe fn copy_rows<V: Simd>(
    table: Table<'_, V::Elem>,
    ids: &[u32],
    origin: Option<&[V::Elem]>,
    range: Range<usize>,
    copy: &mut [V::Elem],
) {
    let Table { values, dim, factors } = table;
    let Some(factors) = factors else {
        // SAFETY: the caller's.
        return unsafe { copy_each::<V>(values, dim, ids, origin, range, copy, |_, x| x) };
    };
    // SAFETY: the caller's. Adding -0 changes nothing.
    let scaled = |id: usize, x: V| unsafe { x.fma(V::splat(factors[id]), V::splat(-V::Elem::ZERO)) };
    // SAFETY: the caller's.
    unsafe { copy_each::<V>(values, dim, ids, origin, range, copy, scaled) }
}

/// [`copy_rows`], where `scaled` multiplies a row's numbers by its factor.
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
unsafe fn copy_each<V: Simd>(
    values: &[V::Elem],
    dim: usize,
    ids: &[u32],
    origin: Option<&[V::Elem]>,
    range: Range<usize>,
    copy: &mut [V::Elem],
    scaled: impl Fn(usize, V) -> V,
) {
    for i in range {
        if let Some(&id) = ids.get(i + AHEAD) {
            prefetch(&values[id as usize * dim..][..dim]);
        }
        let id = ids[i] as usize;
        let from = values[id * dim..][..dim].as_ptr();
        let to = copy[i * dim..][..dim].as_mut_ptr();
        let shift = origin.map(|o| o[..dim].as_ptr());
        // SAFETY: V is available, and the three slices are checked to hold `dim` numbers.
        unsafe {
            let whole = |d: usize| {
                let x = scaled(id, V::load(from.add(d)));
                shift.map_or(x, |o| x.sub(V::load(o.add(d)))).store(to.add(d));
            };
            let mut d = 0;
            while d + V::LANES <= dim {
                whole(d);
                d += V::LANES;
            }
            if d < dim && dim >= V::LANES {
                // Repeat some numbers rather than load a partial vector, which would wait for the line after the row.
                whole(dim - V::LANES);
            } else if d < dim {
                let n = dim - d;
                let x = scaled(id, V::load_partial(from.add(d), n));
                shift.map_or(x, |o| x.sub(V::load_partial(o.add(d), n))).store_partial(to.add(d), n);
            }
        }
    }
}

/// Copies rows `ids` of `table`, less `origin` if there is one, to `out`.
pub(super) fn gather<T: Real>(isa: Isa, table: Table<'_, T>, ids: &[u32], origin: Option<&[T]>, out: &mut [T]) {
    let dim = table.dim;
    assert!(origin.is_none_or(|o| o.len() == dim) && out.len() == ids.len() * dim, "ids x dim numbers");
    run(isa, Gather { table, ids, origin, out });
}

/// OUT `out`. See [`gather`].
struct Gather<'a, T> {
    table: Table<'a, T>,
    ids: &'a [u32],
    origin: Option<&'a [T]>,
    out: &'a mut [T],
}

impl<T: Real> Operation<T> for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let rows = 0..self.ids.len();
        // SAFETY: V is available.
        unsafe { copy_rows::<V>(self.table, self.ids, self.origin, rows, self.out) };
    }
}

/// Packs one tile from `rows`, of which there is at least one.
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
unsafe fn pack_tile<V: Simd>(
    rows: &[V::Elem],
    dim: usize,
    origin: Option<&[V::Elem]>,
    packed: &mut [V::Elem],
    norms: &mut [V::Elem],
) {
    let tile = 2 * V::LANES;
    assert!(packed.len() == tile * dim && norms.len() == tile);
    let at = row_pointers(rows, dim);
    // SAFETY: V is available; the pointers are good for `dim` numbers, the outputs for the sizes asserted.
    unsafe {
        let mut sums = [V::splat(V::Elem::ZERO); 2];
        let mut d = 0;
        while d + 4 <= dim {
            for (half, sum) in sums.iter_mut().enumerate() {
                let columns = V::transposed(|r| at[half * V::LANES + r].add(d));
                *sum = put(columns, 0..4, d, origin, packed.as_mut_ptr().add(half * V::LANES), *sum);
            }
            d += 4;
        }
        if d < dim {
            for (half, sum) in sums.iter_mut().enumerate() {
                let columns = last_columns::<V>(&at[half * V::LANES..], d, dim);
                *sum = put(columns, 0..dim - d, d, origin, packed.as_mut_ptr().add(half * V::LANES), *sum);
            }
        }
        sums[0].store(norms.as_mut_ptr());
        sums[1].store(norms.as_mut_ptr().add(V::LANES));
    }
}

/// Appends the squares of a tile's numbers, or the norms if there is room for only one column; nothing if there is no
/// room.
#[inline(always)]
fn lift_tile<T: Real>(packed: &[T], squares: &mut [T], norms: &mut [T]) {
    if squares.is_empty() {
        return;
    }
    if squares.len() == norms.len() {
        squares.copy_from_slice(norms);
    } else {
        squares.iter_mut().zip(packed).for_each(|(square, &x)| *square = x * x);
    }
    norms.fill(T::ZERO);
}

/// Stores the columns of `range`, less the origin, as columns `d`... of a tile; returns `sum` plus their squares.
/// # Safety
/// The CPU has the instruction set of `V`; `out` is good for a vector in each of those columns.
#[inline(always)]
unsafe fn put<V: Simd>(
    columns: [V; 4],
    range: Range<usize>,
    d: usize,
    origin: Option<&[V::Elem]>,
    out: *mut V::Elem,
    mut sum: V,
) -> V {
    for c in range {
        let mut v = columns[c];
        // SAFETY: the caller's.
        unsafe {
            if let Some(origin) = origin {
                v = v.sub(V::splat(origin[d + c]));
            }
            v.store(out.add((d + c) * 2 * V::LANES));
        }
        sum = v.fma(v, sum);
    }
    sum
}

/// A pointer to each row of a tile; the last row is repeated if there are fewer.
#[inline(always)]
fn row_pointers<T>(rows: &[T], dim: usize) -> [*const T; MAX_TILE] {
    let count = rows.len() / dim;
    assert!(count > 0);
    std::array::from_fn(|r| rows[r.min(count - 1) * dim..].as_ptr())
}

/// Columns d..dim, fewer than four, padded with zeros.
/// # Safety
/// The CPU has the instruction set of `V`; there are `LANES` rows of `dim` numbers each.
#[inline(always)]
unsafe fn last_columns<V: Simd>(rows: &[*const V::Elem], d: usize, dim: usize) -> [V; 4] {
    let mut short = [[V::Elem::ZERO; 4]; MAX_TILE];
    for (short, &row) in short.iter_mut().zip(&rows[..V::LANES]) {
        for (c, x) in short.iter_mut().enumerate().take(dim - d) {
            // SAFETY: the caller's; d + c is below `dim`.
            *x = unsafe { *row.add(d + c) };
        }
    }
    // SAFETY: the caller vouches for the instruction set; there are more short rows than lanes.
    unsafe { V::transposed(|r| short[r].as_ptr()) }
}

/// OUT `norms`: |mu|^2 of each row of `values`.
pub(super) struct SquaredNorms<'a, T> {
    pub(super) values: &'a [T],
    pub(super) dim: usize,
    pub(super) norms: &'a mut [T],
}

impl<T: Real> Operation<T> for SquaredNorms<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let (tile, dim) = (2 * V::LANES, self.dim);
        for (rows, norms) in self.values.chunks(tile * dim).zip(self.norms.chunks_mut(tile)) {
            let at = row_pointers(rows, dim);
            let mut out = [T::ZERO; MAX_TILE];
            // SAFETY: V is available; the pointers are good for `dim` numbers and `out` for two vectors.
            unsafe {
                for half in 0..2 {
                    let mut sum = V::splat(T::ZERO);
                    let mut d = 0;
                    while d + 4 <= dim {
                        for v in V::transposed(|r| at[half * V::LANES + r].add(d)) {
                            sum = v.fma(v, sum);
                        }
                        d += 4;
                    }
                    if d < dim {
                        for v in last_columns::<V>(&at[half * V::LANES..], d, dim) {
                            // Columns beyond `dim` are 0 and change nothing.
                            sum = v.fma(v, sum);
                        }
                    }
                    sum.store(out.as_mut_ptr().add(half * V::LANES));
                }
            }
            norms.copy_from_slice(&out[..norms.len()]);
        }
    }
}
