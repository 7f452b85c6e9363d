//! Distances by differences, one pair or a few gathered centers at a time.
//!
//! row - mu|^2 is summed in the same order whichever other centers are measured with it: two vectors of partial sums over the columns, then one tree over the lanes. [`squared_distance`] equals a gather of one to the last bit.
#![allow(unsafe_code)]

use super::dispatch::{Isa, Operation, prefetch_at, run};
use super::simd::Simd;
use crate::kernel::Real;

/// |a - b|^2.
#[inline]
pub(super) fn squared_distance<T: Real>(isa: Isa, a: &[T], b: &[T]) -> T {
    assert_eq!(a.len(), b.len(), "rows of different length");
    run(isa, Pair { a, b })
}

/// row - center|^2 for each of `ids`, to `out`.
#[inline]
pub(super) fn gathered_distances<T: Real>(isa: Isa, row: &[T], centers: &[T], ids: &[u32], out: &mut [T]) {
    assert_eq!(ids.len(), out.len(), "one distance an id");
    run(isa, Gathered { row, centers, ids, out });
}

struct Pair<'a, T> {
    a: &'a [T],
    b: &'a [T],
}

impl<T: Real> Operation<T> for Pair<'_, T> {
    type Output = T;

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) -> T {
        let dim = self.a.len().min(self.b.len());
        // SAFETY: V is available, and both have `dim` numbers.
        unsafe { together::<V, 1>([self.a.as_ptr()], [self.b.as_ptr()], dim)[0] }
    }
}

/// IN `ids`, checked against the number of centers; OUT `out`, of the same length.
struct Gathered<'a, T> {
    row: &'a [T],
    centers: &'a [T],
    ids: &'a [u32],
    out: &'a mut [T],
}

/// Number of centers that share the loads of the row: with two sums each, enough to hide the latency of an addition.
const SHARED: usize = 4;
/// Bytes of centers that are assumed to fit in the second-level cache.
const NEAR: usize = 1 << 20;

impl<T: Real> Operation<T> for Gathered<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let Self { row, centers, ids, out } = self;
        let dim = row.len();
        if ids.len() > 1 && size_of_val(centers) > NEAR {
            for &id in ids {
                prefetch_at(centers.as_ptr().wrapping_add(id as usize * dim), dim);
            }
        }
        let mut done = 0;
        while done < ids.len() {
            let left = ids.len() - done;
            // An even split rather than a last batch of one: 5 is 3 + 2.
            let size = if left <= SHARED || left > 6 { left.min(SHARED) } else { 3 };
            let (ids, out) = (&ids[done..done + size], &mut out[done..done + size]);
            let (at, y) = (|b| center(centers, dim, ids[b]), row.as_ptr());
            // SAFETY: V is available, and `at` has checked each center.
            unsafe {
                match size {
                    1 => out.copy_from_slice(&together::<V, 1>([y], [at(0)], dim)[..1]),
                    2 => out.copy_from_slice(&together::<V, 2>([y; 2], [at(0), at(1)], dim)[..2]),
                    3 => out.copy_from_slice(&together::<V, 3>([y; 3], [at(0), at(1), at(2)], dim)[..3]),
                    _ => out.copy_from_slice(&together::<V, SHARED>([y; 4], [at(0), at(1), at(2), at(3)], dim)),
                }
            }
            done += size;
        }
    }
}

/// Pointer to center `id`; panics if there is no such center.
#[inline(always)]
pub(super) fn center<T>(centers: &[T], dim: usize, id: u32) -> *const T {
    // A row has fewer than 2^32 numbers, so the product cannot overflow.
    let start = u64::from(id) * dim as u32 as u64;
    if dim > u32::MAX as usize || start + dim as u64 > centers.len() as u64 {
        out_of_range(centers.len(), dim, id);
    }
    centers.as_ptr().wrapping_add(start as usize)
}

#[cold]
#[inline(never)]
fn out_of_range(len: usize, dim: usize, id: u32) -> ! {
    panic!("center {id} of {}", len.checked_div(dim).unwrap_or(0));
}

/// The distances of `B` pairs of a row and a center, side by side, then zeros.
/// # Safety
/// The CPU has the instruction set of `V`; each of `y` and `mu` is good for `dim` numbers.
#[inline(always)]
pub(super) unsafe fn together<V: Simd, const B: usize>(
    y: [*const V::Elem; B],
    mu: [*const V::Elem; B],
    dim: usize,
) -> [V::Elem; SHARED] {
    // SAFETY: the caller's; reads stay below `dim`. If all rows are the same, the compiler loads them once.
    unsafe {
        let zero = V::splat(V::Elem::ZERO);
        let mut sums = [[zero; 2]; B];
        let mut d = 0;
        while d + 2 * V::LANES <= dim {
            for b in 0..B {
                let d0 = V::load(y[b].add(d)).sub(V::load(mu[b].add(d)));
                let d1 = V::load(y[b].add(d + V::LANES)).sub(V::load(mu[b].add(d + V::LANES)));
                sums[b] = [d0.fma(d0, sums[b][0]), d1.fma(d1, sums[b][1])];
            }
            d += 2 * V::LANES;
        }
        if d + V::LANES <= dim {
            for b in 0..B {
                let d0 = V::load(y[b].add(d)).sub(V::load(mu[b].add(d)));
                sums[b][0] = d0.fma(d0, sums[b][0]);
            }
            d += V::LANES;
        }
        if d < dim {
            for b in 0..B {
                let d1 = V::load_partial(y[b].add(d), dim - d).sub(V::load_partial(mu[b].add(d), dim - d));
                sums[b][1] = d1.fma(d1, sums[b][1]);
            }
        }
        let mut lanes = [zero; SHARED];
        for b in 0..B {
            lanes[b] = sums[b][0].add(sums[b][1]);
        }
        V::sum4(lanes)
    }
}
