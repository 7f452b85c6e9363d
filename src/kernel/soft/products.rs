//! Sums of rows by their shares: the product of shares (centers x rows) and rows (rows x columns).
//!
//! A group of centers keeps its sums over two vectors of columns in registers while the rows of the tile pass by, so
//! that a row's vectors and a share are each loaded once for many multiply-adds. Rows are weighted in advance, because
//! there are fewer rows than shares. The sums of a tile, at most 32 rows, are in the type of the data, or in `f64`,
//! where a product of two `f32` is exact; then they are added to `f64`.
#![allow(unsafe_code)]

use super::super::buffer::Buffer;
use super::super::dispatch::{Element, Operation};
use super::super::simd::Simd;
use super::{MAX_LANES, MAX_TILE, ROOM};
use crate::kernel::Real;

/// Number of lanes of vectors without a fused multiply-add.
const PLAIN_LANES: usize = <f32 as Element>::Baseline::LANES;
/// Maximum number of centers of a group, rounded up to a multiple of 4.
const MAX_GROUP: usize = 16;

/// sums[places[k]] += sum_r shares[k][r] factors[r] rows[r], and mass[places[k]] += sum_r shares[k][r] factors[r].
///
/// IN `rows`: at most a tile of rows of `dim` numbers, followed by [`ROOM`] more; `shares`: places x tile; `factors`: a
/// tile, 0 for lanes without a row; `wide`: whether a tile's sums are in `f64`. IN OUT `sums`, M x `dim`, and `mass`,
/// M. All `places` are different.
pub(super) struct Products<'a, T> {
    pub(super) rows: &'a [T],
    pub(super) dim: usize,
    pub(super) places: &'a [u32],
    pub(super) shares: &'a [T],
    pub(super) factors: &'a [f64],
    pub(super) wide: bool,
    pub(super) sums: &'a mut [f64],
    pub(super) mass: &'a mut [f64],
    pub(super) weighed: &'a mut Weighed<T>,
}

/// Rows times their factors, in the type of the sums, each padded with zeros to whole vectors.
#[derive(Debug, Default)]
pub(crate) struct Weighed<T> {
    own: Buffer<T>,
    wide: Buffer<f64>,
}

/// Sums in the type of the data.
struct Own;
/// Sums in `f64`.
struct Wide;

/// The vector type that sums use, given `V`.
trait Choice<V: Simd> {
    type Sum: Simd;
    /// Loads as many of the numbers at `p` as the sums' vector has lanes.
    /// # Safety
    /// The CPU has the instruction set of `V`; `p` is readable for this many numbers.
    unsafe fn read(p: *const V::Elem) -> Self::Sum;
    /// The numbers at `p`, if they need no conversion.
    fn same(p: *const V::Elem) -> Option<*const Of<V, Self>>;
    /// The buffer for rows of that type.
    fn rows(weighed: &mut Weighed<V::Elem>) -> &mut Buffer<Of<V, Self>>;
}

impl<V: Simd> Choice<V> for Own {
    type Sum = V;
    #[inline(always)]
    unsafe fn read(p: *const V::Elem) -> V {
        // SAFETY: the caller's.
        unsafe { V::load(p) }
    }
    #[inline(always)]
    fn same(p: *const V::Elem) -> Option<*const V::Elem> {
        Some(p)
    }
    #[inline(always)]
    fn rows(weighed: &mut Weighed<V::Elem>) -> &mut Buffer<V::Elem> {
        &mut weighed.own
    }
}

impl<V: Simd> Choice<V> for Wide {
    type Sum = V::Wide;
    #[inline(always)]
    unsafe fn read(p: *const V::Elem) -> V::Wide {
        // SAFETY: the caller's.
        unsafe { V::load_wide(p) }
    }
    #[inline(always)]
    fn same(_: *const V::Elem) -> Option<*const f64> {
        None
    }
    #[inline(always)]
    fn rows(weighed: &mut Weighed<V::Elem>) -> &mut Buffer<f64> {
        &mut weighed.wide
    }
}

/// The element type of a tile's sums.
type Of<V, S> = <<S as Choice<V>>::Sum as Simd>::Elem;

/// The shares of a group of centers, centers x tile, and the factors, in the type of the sums.
#[repr(align(64))]
struct Group<E>([E; MAX_GROUP * MAX_TILE], [E; MAX_TILE]);

impl<T: Real> Operation<T> for Products<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let (tile, m) = (2 * V::LANES, self.mass.len());
        assert!(self.shares.len() == self.places.len() * tile && self.factors.len() == tile);
        assert!(self.rows.len() >= ROOM && (self.rows.len() - ROOM) / self.dim <= tile && V::LANES <= ROOM);
        assert!(self.sums.len() == m * self.dim && self.places.iter().all(|&c| (c as usize) < m));
        // SAFETY: V is available, and the sizes are those asserted.
        unsafe {
            // If the columns fit in one wide vector, vectors of the data's type would be half empty. Plain vectors,
            // which round each product, need the digits more than the time.
            match self.wide || self.dim <= V::Wide::LANES || V::LANES <= PLAIN_LANES {
                true => self.all::<V, Wide>(),
                false => self.all::<V, Own>(),
            }
        }
    }
}

impl<T: Real> Products<'_, T> {
    /// Sums for all places.
    /// # Safety
    /// The CPU has the instruction set of `V`; the sizes are those asserted in `run`.
    #[inline(always)]
    unsafe fn all<V: Simd<Elem = T>, S: Choice<V>>(mut self) {
        let mut group = Group([Of::<V, S>::ZERO; MAX_GROUP * MAX_TILE], [Of::<V, S>::ZERO; MAX_TILE]);
        group.1.iter_mut().zip(self.factors).for_each(|(to, &x)| *to = Of::<V, S>::from_f64(x));
        self.weigh::<V, S>(&group.1);
        let mut k = 0;
        while k < self.places.len() {
            let left = self.places.len() - k;
            // SAFETY: the caller's; the rows have been weighed.
            k += unsafe {
                match V::GROUP {
                    14 if left > 8 => self.group::<V, S, 14>(k, &mut group),
                    14 if left > 4 => self.group::<V, S, 8>(k, &mut group),
                    6 if left > 4 => self.group::<V, S, 6>(k, &mut group),
                    _ if left > 2 => self.group::<V, S, 4>(k, &mut group),
                    _ => self.group::<V, S, 2>(k, &mut group),
                }
            };
        }
    }

    /// Distance between consecutive weighted rows, in numbers.
    #[inline(always)]
    fn width<V: Simd<Elem = T>, S: Choice<V>>(&self) -> usize {
        self.dim.next_multiple_of(S::Sum::LANES)
    }

    /// Multiplies the rows by the `factors`.
    #[inline(always)]
    fn weigh<V: Simd<Elem = T>, S: Choice<V>>(&mut self, factors: &[Of<V, S>]) {
        let (dim, width) = (self.dim, self.width::<V, S>());
        let rows = self.rows[..self.rows.len() - ROOM].chunks_exact(dim);
        let weighed = S::rows(self.weighed);
        weighed.resize(rows.len() * width);
        for ((row, to), &factor) in rows.zip(weighed.chunks_exact_mut(width)).zip(factors) {
            let (to, rest) = to.split_at_mut(dim);
            to.iter_mut().zip(row).for_each(|(to, &y)| *to = factor * Of::<V, S>::from_f64(y.to_f64()));
            rest.fill(Of::<V, S>::ZERO);
        }
    }

    /// Sums for at most C places from `k` on; returns how many.
    /// # Safety
    /// As for [`all`](Self::all), and the rows have been weighed.
    #[inline(always)]
    unsafe fn group<V: Simd<Elem = T>, S: Choice<V>, const C: usize>(
        &mut self,
        k: usize,
        group: &mut Group<Of<V, S>>,
    ) -> usize {
        let (dim, tile, lanes) = (self.dim, 2 * V::LANES, S::Sum::LANES);
        let places = &self.places[k..self.places.len().min(k + C)];
        let given = self.shares[k * tile..(k + places.len()) * tile].as_ptr();
        // SAFETY: the caller's; there are places from `k` on.
        unsafe { self.add_mass::<V, S>(k, places.len(), &group.1) };
        let shares = match S::same(given).filter(|_| places.len() == C) {
            Some(shares) => shares,
            None => {
                for r in (0..places.len() * tile).step_by(lanes) {
                    // SAFETY: V is available; both have a tile for each of the places, at most MAX_GROUP.
                    unsafe { S::read(given.add(r)).store(group.0.as_mut_ptr().add(r)) };
                }
                group.0.as_ptr()
            }
        };
        // SAFETY: the caller's; columns from `d` on are processed as long as there are any; `shares` has C tiles.
        unsafe {
            let mut d = 0;
            while d < dim {
                if dim - d > lanes {
                    self.columns::<V, S, C, 2>(places, d, shares);
                    d += 2 * lanes;
                } else {
                    self.columns::<V, S, C, 1>(places, d, shares);
                    d += lanes;
                }
            }
        }
        places.len()
    }

    /// Adds the shares of `count` places from `k` on, times the `factors`, to the mass.
    /// # Safety
    /// The CPU has the instruction set of `V`; there is a place.
    #[inline(always)]
    unsafe fn add_mass<V: Simd<Elem = T>, S: Choice<V>>(
        &mut self,
        k: usize,
        count: usize,
        factors: &[Of<V, S>; MAX_TILE],
    ) {
        let tile = 2 * V::LANES;
        let (shares, factors) = (self.shares[k * tile..(k + count) * tile].as_ptr(), factors.as_ptr());
        for first in (0..count).step_by(4) {
            // SAFETY: V is available; places are clamped to the last, whose tile of shares is in bounds.
            let masses = unsafe {
                let mut masses = [S::Sum::splat(Of::<V, S>::ZERO); 4];
                for (i, mass) in masses.iter_mut().enumerate() {
                    let shares = shares.add((first + i).min(count - 1) * tile);
                    for r in (0..tile).step_by(S::Sum::LANES) {
                        *mass = S::read(shares.add(r)).fma(S::Sum::load(factors.add(r)), *mass);
                    }
                }
                S::Sum::sum4(masses)
            };
            for (&c, mass) in self.places[k + first..k + count].iter().zip(masses) {
                self.mass[c as usize] += mass.to_f64();
            }
        }
    }

    /// B vectors of columns from `d` on; the last may be partial.
    /// # Safety
    /// As for [`group`](Self::group); more than B - 1 vectors of columns are left; there are at most C places, and `shares` is
    /// good for C tiles.
    #[inline(always)]
    unsafe fn columns<V: Simd<Elem = T>, S: Choice<V>, const C: usize, const B: usize>(
        &mut self,
        places: &[u32],
        d: usize,
        shares: *const Of<V, S>,
    ) {
        let (dim, tile, lanes, width) = (self.dim, 2 * V::LANES, S::Sum::LANES, self.width::<V, S>());
        let mut sums = [[[Of::<V, S>::ZERO; MAX_LANES]; B]; C];
        let weighed = S::rows(self.weighed);
        // SAFETY: V is available; rows are whole vectors, as many as `weighed` has; `shares` has C tiles; a vector has at most
        // MAX_LANES lanes.
        unsafe {
            let y = weighed.as_ptr().add(d);
            let mut vectors = [[S::Sum::splat(Of::<V, S>::ZERO); B]; C];
            for r in 0..weighed.len() / width {
                let row: [S::Sum; B] = std::array::from_fn(|b| S::Sum::load(y.add(r * width + b * lanes)));
                for (c, sums) in vectors.iter_mut().enumerate() {
                    let share = S::Sum::splat(*shares.add(c * tile + r));
                    for (sum, &y) in sums.iter_mut().zip(&row) {
                        *sum = share.fma(y, *sum);
                    }
                }
            }
            for (to, vectors) in sums.as_flattened_mut().iter_mut().zip(vectors.as_flattened()) {
                vectors.store(to.as_mut_ptr());
            }
        }
        for (&c, sums) in places.iter().zip(&sums) {
            let to = &mut self.sums[c as usize * dim..][d..dim];
            for (to, sum) in to.chunks_mut(lanes).zip(sums) {
                // The same loop twice; the first is vectorized.
                match to.len() == lanes {
                    true => (0..lanes).for_each(|i| to[i] += sum[i].to_f64()),
                    false => to.iter_mut().zip(sum).for_each(|(to, x)| *to += x.to_f64()),
                }
            }
        }
    }
}
