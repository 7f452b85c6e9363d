//! Rows with candidates of their own: the nearest candidates of each row, its posterior, and its part in each cluster.
//!
//! A row's distances to its few candidates are measured by differences, as in a [gather](super::distance), and written
//! to the row's lane of a tile, so that the selection of the nearest and all later stages process many rows at once.
#![allow(unsafe_code)]

use super::buffer::Buffer;
use super::dispatch::{Isa, Operation, run};
use super::distance::center;
use super::exp::exp;
use super::select::insert;
use super::simd::Simd;
use crate::kernel::Real;

/// A block of rows, each with the same number of candidates.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a, T> {
    /// The table of rows, `dim` numbers each.
    pub values: &'a [T],
    /// Number of columns.
    pub dim: usize,
    /// Indices of the block's rows in the table.
    pub rows: &'a [u32],
    /// Centers, M x `dim`.
    pub centers: &'a [T],
    /// The candidates of each row, row after row.
    pub candidates: &'a [u32],
    /// Number of candidates that each row keeps.
    pub keep: usize,
}

/// What each row of a block keeps, in lanes: lane l of tile t belongs to row t x tile + l of the block.
#[derive(Debug, Default)]
pub(crate) struct Kept<T> {
    isa: Isa,
    values: Buffer<T>,
    /// Per tile, h vectors of distances, then h vectors of slots.
    lists: Buffer<T>,
    h: usize,
}

impl<T: Real> Kept<T> {
    #[cfg(test)]
    pub(super) fn with_isa(isa: Isa) -> Self {
        Self { isa, ..Self::default() }
    }

    /// Number of rows per tile.
    pub fn tile(&self) -> usize {
        2 * self.isa.lanes::<T>()
    }

    /// Finds the nearest candidates of each row, nearest first (ties: earlier candidate first). Panics if a candidate
    /// or row does not exist.
    pub fn find(&mut self, look: Look<'_, T>) {
        let isa = self.isa;
        self.find_by(look, |look, width, out| run(isa, Distances { look, width, out }));
    }

    /// [`find`](Self::find) by scores: `measure` computes the scores of a row for some clusters.
    pub fn find_scored(&mut self, look: Look<'_, T>, measure: impl Fn(&[T], &[u32], &mut [T])) {
        let (tile, mut scores) = (self.tile(), Vec::new());
        self.find_by(look, |look, width, out| {
            scores.resize(width, T::ZERO);
            for (lane, (&row, ids)) in look.rows.iter().zip(look.candidates.chunks_exact(width)).enumerate() {
                measure(&look.values[row as usize * look.dim..][..look.dim], ids, &mut scores);
                scores.iter().enumerate().for_each(|(k, &score)| out[k * tile + lane] = score);
            }
        });
    }

    /// Selects by the values that `fill` writes for the rows of a tile: candidates x tile.
    fn find_by(&mut self, look: Look<'_, T>, mut fill: impl FnMut(Look<'_, T>, usize, &mut [T])) {
        let (tile, h) = (self.tile(), look.keep);
        self.h = h;
        let width = look.candidates.len() / look.rows.len().max(1);
        assert!(look.candidates.len() == width * look.rows.len() && (1..=width).contains(&h), "candidates of each row");
        self.values.resize(width * tile);
        self.lists.resize(look.rows.len().div_ceil(tile) * 2 * h * tile);
        let lists = self.lists.chunks_exact_mut(2 * h * tile);
        for ((rows, candidates), list) in look.rows.chunks(tile).zip(look.candidates.chunks(width * tile)).zip(lists) {
            let values = &mut self.values[..];
            fill(Look { rows, candidates, ..look }, width, values);
            list[..h * tile].fill(T::INFINITY);
            for (k, slots) in list[h * tile..].chunks_exact_mut(tile).enumerate() {
                slots.fill(T::from_index(k as u32));
            }
            insert(self.isa, h, values, 0, rows.len(), list);
        }
    }

    /// The distances of tile `t`, first those of all nearest candidates, then those of all second-nearest, and so on;
    /// and in the same order which of its candidates each row keeps, as [indices](super::dispatch::Element::to_index).
    /// Lanes without a row hold arbitrary numbers.
    pub fn tile_lists(&self, t: usize) -> (&[T], &[T]) {
        let size = self.h * self.tile();
        self.lists[2 * t * size..2 * (t + 1) * size].split_at(size)
    }
}

/// OUT `out`: candidates x tile.
struct Distances<'a, T> {
    look: Look<'a, T>,
    width: usize,
    out: &'a mut [T],
}

impl<T: Real> Operation<T> for Distances<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let Look { values, dim, rows, centers, candidates, .. } = self.look;
        let tile = 2 * V::LANES;
        for (lane, (&row, ids)) in rows.iter().zip(candidates.chunks_exact(self.width)).enumerate() {
            let y = center(values, dim, row);
            for (first, ids) in ids.chunks(TOGETHER).enumerate() {
                let mut mu = [y; TOGETHER];
                for (at, &id) in mu.iter_mut().zip(ids) {
                    *at = center(centers, dim, id);
                }
                // SAFETY: V is available, and `center` has checked the row and each candidate.
                let d = unsafe { side_by_side::<V>(y, &mu[..ids.len()], dim) };
                for (b, &d) in d[..ids.len()].iter().enumerate() {
                    self.out[(first * TOGETHER + b) * tile + lane] = d;
                }
            }
        }
    }
}

/// Number of candidates that share the loads of a row.
const TOGETHER: usize = 12;
/// Vectors of a row that are held in registers at a time.
const HELD: usize = 4;

/// y - mu|^2 for each of at most [`TOGETHER`] `mu`, one part of the row at a time, which stays in registers meanwhile.
/// # Safety
/// The CPU has the instruction set of `V`; `y` and each of `mu` are good for `dim` numbers.
#[inline(always)]
unsafe fn side_by_side<V: Simd>(y: *const V::Elem, mu: &[*const V::Elem], dim: usize) -> [V::Elem; TOGETHER] {
    // SAFETY: the caller's; reads stay below `dim`.
    unsafe {
        let zero = V::splat(V::Elem::ZERO);
        let mut sums = [zero; TOGETHER];
        let mut d = 0;
        while d + HELD * V::LANES <= dim {
            let row: [V; HELD] = std::array::from_fn(|i| V::load(y.add(d + i * V::LANES)));
            for (sum, mu) in sums.iter_mut().zip(mu) {
                let apart: [V; HELD] = std::array::from_fn(|i| row[i].sub(V::load(mu.add(d + i * V::LANES))));
                let even = apart[2].fma(apart[2], apart[0].fma(apart[0], *sum));
                let odd = apart[3].fma(apart[3], apart[1].fma(apart[1], zero));
                *sum = even.add(odd);
            }
            d += HELD * V::LANES;
        }
        while d + V::LANES <= dim {
            let row = V::load(y.add(d));
            for (sum, mu) in sums.iter_mut().zip(mu) {
                let apart = row.sub(V::load(mu.add(d)));
                *sum = apart.fma(apart, *sum);
            }
            d += V::LANES;
        }
        if d < dim {
            let row = V::load_partial(y.add(d), dim - d);
            for (sum, mu) in sums.iter_mut().zip(mu) {
                let apart = row.sub(V::load_partial(mu.add(d), dim - d));
                *sum = apart.fma(apart, *sum);
            }
        }
        let mut out = [V::Elem::ZERO; TOGETHER];
        for (out, sums) in out.chunks_exact_mut(4).zip(sums.chunks_exact(4)).take(mu.len().div_ceil(4)) {
            out.copy_from_slice(&V::sum4([sums[0], sums[1], sums[2], sums[3]]));
        }
        out
    }
}

/// The posteriors of a tile's rows, from the `distances` of their members, nearest first, in lanes.
#[derive(Debug)]
pub struct Posteriors<'a, T> {
    /// Distances, h x tile.
    pub distances: &'a [T],
    /// -1 / 2 s2.
    pub scale: T,
    /// OUT: exp(scale (d - the nearest d)) of each member, 0 if negligible.
    pub shares: &'a mut [T],
    /// OUT: the sum of each row's shares.
    pub total: &'a mut [T],
    /// OUT: the sum of each row's shares times d - the nearest d.
    pub spread: &'a mut [T],
}

/// Computes the posteriors.
pub(super) fn posteriors<T: Real>(isa: Isa, posteriors: Posteriors<'_, T>) {
    let (tile, size) = (2 * isa.lanes::<T>(), posteriors.distances.len());
    assert!(size >= tile && size % tile == 0 && posteriors.shares.len() == size, "members x tile");
    assert!(posteriors.total.len() == tile && posteriors.spread.len() == tile, "one number a lane");
    run(isa, posteriors);
}

impl<T: Real> Operation<T> for Posteriors<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let tile = 2 * V::LANES;
        let (d, q) = (self.distances.as_ptr(), self.shares.as_mut_ptr());
        let (total, spread) = (self.total.as_mut_ptr(), self.spread.as_mut_ptr());
        for lane in [0, V::LANES] {
            // SAFETY: V is available; the lengths were checked, and each position has a whole vector within them.
            unsafe {
                let (near, one) = (V::load(d.add(lane)), V::splat(T::ONE));
                let (scale, least, zero) = (V::splat(self.scale), V::splat(T::NEGLIGIBLE), V::splat(T::ZERO));
                one.store(q.add(lane));
                let (mut sum, mut apart) = (one, zero);
                for place in (tile + lane..self.distances.len()).step_by(tile) {
                    let farther = V::load(d.add(place)).sub(near);
                    let x = exp(farther.fma(scale, zero));
                    let x = V::select(x.lt(least), zero, x);
                    x.store(q.add(place));
                    (sum, apart) = (sum.add(x), x.fma(farther, apart));
                }
                sum.store(total.add(lane));
                apart.store(spread.add(lane));
            }
        }
    }
}

/// A share of a row in a cluster.
#[derive(Debug, Clone, Copy)]
pub struct Part<T> {
    /// Index of the row.
    pub row: u32,
    /// Index of the cluster.
    pub cluster: u32,
    /// Position of the cluster's sum.
    pub place: u32,
    /// The share.
    pub weight: T,
}

/// sums[place] += weight (values[row] - centers[cluster]) for each part, in order. All have `dim` numbers per row.
pub(super) fn add_parts<T: Real>(isa: Isa, sums: &mut [T], values: &[T], centers: &[T], dim: usize, parts: &[Part<T>]) {
    run(isa, AddParts { sums, values, centers, dim, parts });
}

/// IN OUT `sums`; IN the rest. See [`add_parts`].
struct AddParts<'a, T> {
    sums: &'a mut [T],
    values: &'a [T],
    centers: &'a [T],
    dim: usize,
    parts: &'a [Part<T>],
}

impl<T: Real> Operation<T> for AddParts<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let dim = self.dim;
        for part in self.parts {
            let (y, mu) = (center(self.values, dim, part.row), center(self.centers, dim, part.cluster));
            let sum = self.sums[part.place as usize * dim..][..dim].as_mut_ptr();
            // SAFETY: V is available, and the three pointers are good for `dim` numbers.
            unsafe {
                let weight = V::splat(part.weight);
                let mut d = 0;
                while d + V::LANES <= dim {
                    let rest = V::load(y.add(d)).sub(V::load(mu.add(d)));
                    weight.fma(rest, V::load(sum.add(d))).store(sum.add(d));
                    d += V::LANES;
                }
                if d < dim {
                    let n = dim - d;
                    let rest = V::load_partial(y.add(d), n).sub(V::load_partial(mu.add(d), n));
                    weight.fma(rest, V::load_partial(sum.add(d), n)).store_partial(sum.add(d), n);
                }
            }
        }
    }
}
