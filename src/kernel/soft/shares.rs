//! The shares of rows in centers, in lanes: exp(scale (v - the smallest v)), 0 if negligible.
#![allow(unsafe_code)]

use super::super::dispatch::Operation;
use super::super::exp::exp_of_normal;
use super::super::simd::Simd;
use super::MAX_LANES;
use crate::kernel::Real;

/// Number of centers whose shares are added in the type of the data before the sum continues in `f64`.
const TOGETHER: usize = 32;

/// IN OUT `values`: centers x tile; those of centers in which some row has a share become the shares and move to the
/// front. OUT `places`: the indices of these centers, in order. IN `near`: the smallest value of each lane. IN OUT
/// `total`: the shares of each lane are added to it; `spread`: likewise the shares times v - the smallest v. Returns
/// the number of remaining centers.
pub(super) struct Shares<'a, T> {
    pub(super) values: &'a mut [T],
    pub(super) near: &'a [T],
    pub(super) scale: T,
    pub(super) places: &'a mut [u32],
    pub(super) total: &'a mut [f64],
    pub(super) spread: &'a mut [f64],
}

impl<T: Real> Operation<T> for Shares<'_, T> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) -> usize {
        let tile = 2 * V::LANES;
        let m = self.values.len() / tile;
        assert!(self.values.len() == m * tile && self.places.len() >= m && self.near.len() == tile);
        assert!(self.total.len() == tile && self.spread.len() == tile);
        // Threshold beyond which shares are negligible.
        let limit = T::from_f64(T::NEGLIGIBLE.to_f64().ln() / self.scale.to_f64());
        let (values, places) = (self.values.as_mut_ptr(), self.places.as_mut_ptr());
        let mut kept = 0;
        // SAFETY: V is available; the lengths are those asserted, and `kept` never passes the center that is read.
        unsafe {
            let near = [V::load(self.near.as_ptr()), V::load(self.near.as_ptr().add(V::LANES))];
            let (limit, zero) = (V::splat(limit), V::splat(T::ZERO));
            let scale = V::splat(self.scale);
            for first in (0..m).step_by(TOGETHER) {
                let start = kept;
                let (mut sum, mut spread) = ([zero; 2], [zero; 2]);
                for c in first..m.min(first + TOGETHER) {
                    let from = values.add(c * tile);
                    let apart = [V::load(from).sub(near[0]), V::load(from.add(V::LANES)).sub(near[1])];
                    let counts = [apart[0].lt(limit), apart[1].lt(limit)];
                    if !(V::any(counts[0]) | V::any(counts[1])) {
                        continue;
                    }
                    for half in 0..2 {
                        let q = V::select(counts[half], exp_of_normal(apart[half].fma(scale, zero)), zero);
                        q.store(values.add(kept * tile + half * V::LANES));
                        (sum[half], spread[half]) = (sum[half].add(q), q.fma(apart[half], spread[half]));
                    }
                    *places.add(kept) = c as u32;
                    kept += 1;
                }
                if kept > start {
                    add_wide::<V>(sum, self.total);
                    add_wide::<V>(spread, self.spread);
                }
            }
        }
        kept
    }
}

/// Adds the lanes of both vectors to `to` (IN OUT, a tile).
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
unsafe fn add_wide<V: Simd>(lanes: [V; 2], to: &mut [f64]) {
    let lanes: [V::Elem; 2 * MAX_LANES] = {
        let mut numbers = [V::Elem::ZERO; 2 * MAX_LANES];
        // SAFETY: V is available, and there is room for two of the longest vectors.
        unsafe {
            lanes[0].store(numbers.as_mut_ptr());
            lanes[1].store(numbers.as_mut_ptr().add(V::LANES));
        }
        numbers
    };
    to.iter_mut().zip(lanes).for_each(|(to, x)| *to += x.to_f64());
}

/// IN OUT `values`, centers x tile: `base` is added in the lanes whose `small` is not negative, and the result is at
/// least 0. OUT `places`: centers with a value below `small`, in order. Returns their number.
pub(super) struct Raise<'a, T> {
    pub(super) values: &'a mut [T],
    pub(super) base: &'a [T],
    pub(super) small: &'a [T],
    pub(super) places: &'a mut [u32],
}

impl<T: Real> Operation<T> for Raise<'_, T> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) -> usize {
        let tile = 2 * V::LANES;
        assert!(self.base.len() == tile && self.small.len() == tile);
        let mut count = 0;
        for (c, values) in self.values.chunks_exact_mut(tile).enumerate() {
            let mut any = false;
            for half in [0, V::LANES] {
                // SAFETY: V is available, and each of the three has a vector from `half` on.
                unsafe {
                    let (zero, at) = (V::splat(T::ZERO), values.as_mut_ptr().add(half));
                    let (small, v) = (V::load(self.small.as_ptr().add(half)), V::load(at));
                    let raised = v.add(V::load(self.base.as_ptr().add(half))).max(zero);
                    any |= V::any(raised.lt(small));
                    V::select(small.lt(zero), v, raised).store(at);
                }
            }
            self.places[count] = c as u32;
            count += usize::from(any);
        }
        count
    }
}
