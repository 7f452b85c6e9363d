//! Distances by differences, one pair or a few gathered centres at a time, and acc += alpha x.
//!
//! |row - mu|^2 of a centre is added up in the same order whichever other centres stand beside it: two vectors of partial
//! sums over the columns, then one tree over the lanes. [`squared_distance`] is a gather of one, to the last bit.
#![allow(unsafe_code)]

use super::dispatch::{Isa, Operation, prefetch, run};
use super::simd::Simd;
use crate::real::Real;

/// |a - b|^2.
#[inline]
pub(super) fn squared_distance<T: Real>(isa: Isa, a: &[T], b: &[T]) -> T {
    assert_eq!(a.len(), b.len(), "rows of different length");
    let mut out = [T::ZERO];
    run(isa, Gathered { row: a, centres: b, ids: &[0], out: &mut out });
    out[0]
}

/// |row - centre|^2 for each of `ids`, into `out`.
#[inline]
pub(super) fn gathered_distances<T: Real>(isa: Isa, row: &[T], centres: &[T], ids: &[u32], out: &mut [T]) {
    assert_eq!(ids.len(), out.len(), "one distance an id");
    let count = if row.is_empty() { 0 } else { centres.len() / row.len() };
    // The largest id is below the number of centres, or there is none.
    let end = ids.iter().fold(0, |m, &id| m.max(id as usize + 1));
    assert!(end <= count, "centre {} of {count}", end.wrapping_sub(1));
    run(isa, Gathered { row, centres, ids, out });
}

/// acc += alpha x.
#[inline]
pub(super) fn axpy<T: Real>(isa: Isa, acc: &mut [T], alpha: T, x: &[T]) {
    assert_eq!(acc.len(), x.len(), "rows of different length");
    run(isa, Axpy { acc, alpha, x });
}

/// IN `ids`, each below the number of centres; OUT `out`, as many.
struct Gathered<'a, T> {
    row: &'a [T],
    centres: &'a [T],
    ids: &'a [u32],
    out: &'a mut [T],
}

/// Centres that share the loads of the row: with two sums each, enough to hide the latency of an addition.
const SHARED: usize = 4;

impl<T: Real> Operation<T> for Gathered<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let dim = self.row.len();
        let n = self.ids.len();
        if n > 1 {
            for &id in self.ids {
                prefetch(&self.centres[id as usize * dim..][..dim]);
            }
        }
        let mut done = 0;
        while done < n {
            // As even a split as there is: 5 is 3 + 2.
            let batches = (n - done).div_ceil(SHARED);
            let size = (n - done).div_ceil(batches);
            let (ids, out) = (&self.ids[done..done + size], &mut self.out[done..done + size]);
            // SAFETY: V is available, and the ids are below the number of centres.
            unsafe {
                match size {
                    1 => together::<V, 1>(self.row, self.centres, ids, out),
                    2 => together::<V, 2>(self.row, self.centres, ids, out),
                    3 => together::<V, 3>(self.row, self.centres, ids, out),
                    _ => together::<V, SHARED>(self.row, self.centres, ids, out),
                }
            }
            done += size;
        }
    }
}

/// The distances to `B` centres side by side.
/// # Safety
/// The CPU has the instruction set of `V`; the ids are below the number of centres.
#[inline(always)]
unsafe fn together<V: Simd, const B: usize>(row: &[V::Elem], centres: &[V::Elem], ids: &[u32], out: &mut [V::Elem]) {
    let dim = row.len();
    let y = row.as_ptr();
    // SAFETY: ids are below the number of centres, so each pointer starts `dim` numbers; reads stay below `dim`.
    unsafe {
        let mu: [_; B] = std::array::from_fn(|b| centres.as_ptr().add(ids[b] as usize * dim));
        let zero = V::splat(V::Elem::ZERO);
        let mut sums = [[zero; 2]; B];
        let mut d = 0;
        while d + 2 * V::LANES <= dim {
            let (y0, y1) = (V::load(y.add(d)), V::load(y.add(d + V::LANES)));
            for b in 0..B {
                let (d0, d1) = (y0.sub(V::load(mu[b].add(d))), y1.sub(V::load(mu[b].add(d + V::LANES))));
                sums[b] = [d0.fma(d0, sums[b][0]), d1.fma(d1, sums[b][1])];
            }
            d += 2 * V::LANES;
        }
        if d + V::LANES <= dim {
            let y0 = V::load(y.add(d));
            for b in 0..B {
                let d0 = y0.sub(V::load(mu[b].add(d)));
                sums[b][0] = d0.fma(d0, sums[b][0]);
            }
            d += V::LANES;
        }
        if d < dim {
            let y1 = V::load_partial(y.add(d), dim - d);
            for b in 0..B {
                let d1 = y1.sub(V::load_partial(mu[b].add(d), dim - d));
                sums[b][1] = d1.fma(d1, sums[b][1]);
            }
        }
        let mut lanes = [zero; SHARED];
        for b in 0..B {
            lanes[b] = sums[b][0].add(sums[b][1]);
        }
        out.copy_from_slice(&V::sum4(lanes)[..B]);
    }
}

/// IN OUT `acc`; IN `x`, as long.
struct Axpy<'a, T> {
    acc: &'a mut [T],
    alpha: T,
    x: &'a [T],
}

impl<T: Real> Operation<T> for Axpy<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let n = self.acc.len().min(self.x.len());
        let (acc, x) = (self.acc.as_mut_ptr(), self.x.as_ptr());
        // SAFETY: V is available, and both pointers are good for n numbers.
        unsafe {
            let alpha = V::splat(self.alpha);
            let mut d = 0;
            while d + V::LANES <= n {
                alpha.fma(V::load(x.add(d)), V::load(acc.add(d))).store(acc.add(d));
                d += V::LANES;
            }
            if d < n {
                let rest = alpha.fma(V::load_partial(x.add(d), n - d), V::load_partial(acc.add(d), n - d));
                rest.store_partial(acc.add(d), n - d);
            }
        }
    }
}
