//! Distances with a precision for each column, by differences, and sums with second moments around a cluster's center.
#![allow(unsafe_code)]

use super::dispatch::{Isa, Operation, run};
use super::distance::center;
use super::gathered::Part;
use super::simd::Simd;
use crate::kernel::Real;

/// sum_d p_d (row_d - mu_d)^2 for each of `ids`, to `out`. `precisions` has those of each cluster (the length of
/// `centers`) or shared ones (one per column).
pub(super) fn weighted_distances<T: Real>(
    isa: Isa,
    row: &[T],
    centers: &[T],
    precisions: &[T],
    ids: &[u32],
    out: &mut [T],
) {
    assert_eq!(ids.len(), out.len(), "one distance per id");
    assert!([row.len(), centers.len()].contains(&precisions.len()), "precisions of columns");
    run(isa, Weighted { row, centers, precisions, ids, out });
}

/// For each of `parts`, in order, with r = values[row] - centers[cluster]: sums[place] += weight r, followed by weight
/// r^2 of each column, or their sum if there is room for only one number. `stride` is the number of numbers per place.
pub(super) fn add_moments<T: Real>(
    isa: Isa,
    sums: &mut [T],
    stride: usize,
    values: &[T],
    centers: &[T],
    dim: usize,
    parts: &[Part<T>],
) {
    assert!(stride == dim + 1 || stride == 2 * dim, "room for one second moment, or for all");
    run(isa, AddMoments { sums, stride, values, centers, dim, parts });
}

/// IN OUT `x`: each number is multiplied by its precision p, one for all or one for each; OUT `squares`: -p/2 for each
/// square by which rows are lifted. Returns sum p x^2.
pub(super) fn weigh<T: Real>(isa: Isa, x: &mut [T], squares: &mut [T], precisions: &[T]) -> f64 {
    assert!(precisions.len() == 1 || [x.len(), squares.len()] == [precisions.len(); 2], "precisions of columns");
    run(isa, Weigh { x, squares, precisions })
}

/// See [`weigh`].
struct Weigh<'a, T> {
    x: &'a mut [T],
    squares: &'a mut [T],
    precisions: &'a [T],
}

/// Number of sums taken side by side, because a center has many columns.
const LANES: usize = 8;

impl<T: Real> Operation<T> for Weigh<'_, T> {
    type Output = f64;

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) -> f64 {
        let half = T::from_f64(-0.5);
        let mut sums = [0.0; LANES];
        let weigh = |x: &mut T, p: T, sum: &mut f64| {
            *sum += p.to_f64() * x.to_f64() * x.to_f64();
            *x = p * *x;
        };
        let (whole, rest) = self.x.as_chunks_mut::<LANES>();
        if let &[p] = self.precisions {
            self.squares.fill(half * p);
            whole.iter_mut().for_each(|x| (0..LANES).for_each(|k| weigh(&mut x[k], p, &mut sums[k])));
            rest.iter_mut().zip(&mut sums).for_each(|(x, sum)| weigh(x, p, sum));
        } else {
            let (weights, last) = self.precisions.as_chunks::<LANES>();
            self.squares.iter_mut().zip(self.precisions).for_each(|(square, &p)| *square = half * p);
            let whole = whole.iter_mut().zip(weights);
            whole.for_each(|(x, p)| (0..LANES).for_each(|k| weigh(&mut x[k], p[k], &mut sums[k])));
            rest.iter_mut().zip(last).zip(&mut sums).for_each(|((x, &p), sum)| weigh(x, p, sum));
        }
        sums.iter().sum()
    }
}

/// IN `ids`, checked against the number of centers; OUT `out`, of the same length.
struct Weighted<'a, T> {
    row: &'a [T],
    centers: &'a [T],
    precisions: &'a [T],
    ids: &'a [u32],
    out: &'a mut [T],
}

impl<T: Real> Operation<T> for Weighted<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let (dim, y) = (self.row.len(), self.row.as_ptr());
        let shared = self.precisions.len() == dim;
        for (ids, out) in self.ids.chunks(SIDE).zip(self.out.chunks_mut(SIDE)) {
            // If fewer are left, the last is measured more than once.
            let id = |b: usize| ids[b.min(ids.len() - 1)];
            let mu = std::array::from_fn(|b| center(self.centers, dim, id(b)));
            let p = std::array::from_fn(|b| center(self.precisions, dim, if shared { 0 } else { id(b) }));
            // SAFETY: V is available, and `center` has checked that there are `dim` numbers.
            out.copy_from_slice(&unsafe { weighted::<V>(y, mu, p, dim) }[..ids.len()]);
        }
    }
}

/// Number of centers measured side by side: enough to hide the latency of an addition.
const SIDE: usize = 4;

/// sum_d p_d (y_d - mu_d)^2 for each `mu`, in an order of columns that does not depend on its position.
/// # Safety
/// The CPU has the instruction set of `V`; the pointers are good for `dim` numbers.
#[inline(always)]
unsafe fn weighted<V: Simd>(
    y: *const V::Elem,
    mu: [*const V::Elem; SIDE],
    p: [*const V::Elem; SIDE],
    dim: usize,
) -> [V::Elem; SIDE] {
    // SAFETY: the caller's; reads stay below `dim`.
    unsafe {
        let zero = V::splat(V::Elem::ZERO);
        let mut sums = [zero; SIDE];
        let mut d = 0;
        while d + V::LANES <= dim {
            let row = V::load(y.add(d));
            for b in 0..SIDE {
                let apart = row.sub(V::load(mu[b].add(d)));
                sums[b] = apart.fma(V::load(p[b].add(d)).fma(apart, zero), sums[b]);
            }
            d += V::LANES;
        }
        if d < dim {
            let n = dim - d;
            let row = V::load_partial(y.add(d), n);
            for b in 0..SIDE {
                let apart = row.sub(V::load_partial(mu[b].add(d), n));
                sums[b] = apart.fma(V::load_partial(p[b].add(d), n).fma(apart, zero), sums[b]);
            }
        }
        V::sum4(sums)
    }
}

/// IN OUT `sums`; IN the rest. See [`add_moments`].
struct AddMoments<'a, T> {
    sums: &'a mut [T],
    stride: usize,
    values: &'a [T],
    centers: &'a [T],
    dim: usize,
    parts: &'a [Part<T>],
}

impl<T: Real> Operation<T> for AddMoments<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let (dim, stride) = (self.dim, self.stride);
        let one = stride != 2 * dim;
        for part in self.parts {
            let (y, mu) = (center(self.values, dim, part.row), center(self.centers, dim, part.cluster));
            let (sum, squares) = self.sums[part.place as usize * stride..][..stride].split_at_mut(dim);
            let (sum, square) = (sum.as_mut_ptr(), squares.as_mut_ptr());
            // SAFETY: V is available; `y`, `mu` and `sum` are good for `dim` numbers, and so is `square` unless it has one.
            unsafe {
                let (weight, zero) = (V::splat(part.weight), V::splat(T::ZERO));
                let mut total = zero;
                let mut d = 0;
                while d + V::LANES <= dim {
                    let rest = V::load(y.add(d)).sub(V::load(mu.add(d)));
                    let share = weight.fma(rest, zero);
                    share.add(V::load(sum.add(d))).store(sum.add(d));
                    if one {
                        total = share.fma(rest, total);
                    } else {
                        share.fma(rest, V::load(square.add(d))).store(square.add(d));
                    }
                    d += V::LANES;
                }
                if d < dim {
                    let n = dim - d;
                    let rest = V::load_partial(y.add(d), n).sub(V::load_partial(mu.add(d), n));
                    let share = weight.fma(rest, zero);
                    share.add(V::load_partial(sum.add(d), n)).store_partial(sum.add(d), n);
                    if one {
                        total = share.fma(rest, total);
                    } else {
                        share.fma(rest, V::load_partial(square.add(d), n)).store_partial(square.add(d), n);
                    }
                }
                if one {
                    squares[0] += V::sum4([total, zero, zero, zero])[0];
                }
            }
        }
    }
}
