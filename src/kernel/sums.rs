//! Sums of rows: into f64, of a block's rows into several sums at once, of sums that move to another origin, and
//! centers that move to the mean that their sum gives.
#![allow(unsafe_code)]

use super::dispatch::{Isa, Operation, run};
use super::simd::Simd;
use crate::kernel::Real;

/// The share of a row in one of several sums.
#[derive(Debug, Clone, Copy)]
pub struct Share<T> {
    /// Index of the row.
    pub row: u32,
    /// Index of the sum.
    pub place: u32,
    /// The share.
    pub weight: T,
}

/// A sum to be added to another.
#[derive(Debug, Clone, Copy)]
pub struct Move<T> {
    /// Index of the sum.
    pub from: u32,
    /// Index of the sum to which it is added.
    pub to: u32,
    /// The total weight of its rows.
    pub mass: T,
}

/// acc += alpha x, in `f64` regardless of `T`.
#[inline]
pub(super) fn add_scaled<T: Real>(isa: Isa, acc: &mut [f64], alpha: f64, x: &[T]) {
    assert_eq!(acc.len(), x.len(), "rows of different length");
    run(isa, AddScaled { acc, alpha, x });
}

/// sums[place] += weight rows[row] for each share, in order. Both have rows of `dim` numbers.
pub(super) fn add_rows<T: Real>(isa: Isa, sums: &mut [T], rows: &[T], dim: usize, shares: &[Share<T>]) {
    run(isa, AddRows { sums, rows, dim, shares });
}

/// to[m.to] += from[m.from] - m.mass centers[m.from] for each move, in order: sums relative to one point become
/// relative to the center. All have rows of `dim` numbers.
pub(super) fn settle<T: Real>(isa: Isa, to: &mut [T], from: &[T], centers: &[T], dim: usize, moves: &[Move<T>]) {
    run(isa, Settle { to, from, centers, dim, moves });
}

/// Moves a center (IN OUT) by `step` times its distance from the mean of its rows, sum / mass. Returns
/// sum_d (mean - old)^2 - (new - mean)^2.
pub(super) fn move_center<T: Real>(isa: Isa, center: &mut [T], sum: &[f64], mass: f64, step: f64) -> f64 {
    assert_eq!(center.len(), sum.len(), "rows of different length");
    run(isa, MoveCenter { center, sum, mass, step })
}

/// IN OUT `acc`; IN `x`, as long.
struct AddScaled<'a, T> {
    acc: &'a mut [f64],
    alpha: f64,
    x: &'a [T],
}

impl<T: Real> Operation<T> for AddScaled<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        // Element by element, compiled for the instruction set: each sum is independent of the others.
        for (a, &x) in self.acc.iter_mut().zip(self.x) {
            *a += self.alpha * x.to_f64();
        }
    }
}

/// IN OUT `center`; IN the rest. See [`move_center`].
struct MoveCenter<'a, T> {
    center: &'a mut [T],
    sum: &'a [f64],
    mass: f64,
    step: f64,
}

impl<T: Real> Operation<T> for MoveCenter<'_, T> {
    type Output = f64;

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) -> f64 {
        // Several sums side by side, so that the compiler vectorizes them.
        const SIDE: usize = 8;
        let further = self.step - 1.0;
        let mut drops = [0.0; SIDE];
        for (center, sum) in self.center.chunks_mut(SIDE).zip(self.sum.chunks(SIDE)) {
            for ((mu, sum), drop) in center.iter_mut().zip(sum).zip(&mut drops) {
                let (mean, old) = (sum / self.mass, mu.to_f64());
                // Exactly the mean if this is a plain EM step.
                let new = T::from_f64(mean + further * (mean - old));
                let gain = (mean - old) * (mean - old) - (new.to_f64() - mean) * (new.to_f64() - mean);
                // With a step beyond the mean, rounding can lead farther away than before: then the center stays.
                *mu = if gain > 0.0 { new } else { *mu };
                *drop += gain.max(0.0);
            }
        }
        drops.iter().sum()
    }
}

/// IN OUT `sums`; IN the rest. See [`add_rows`].
struct AddRows<'a, T> {
    sums: &'a mut [T],
    rows: &'a [T],
    dim: usize,
    shares: &'a [Share<T>],
}

impl<T: Real> Operation<T> for AddRows<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let dim = self.dim;
        for share in self.shares {
            let row = &self.rows[share.row as usize * dim..][..dim];
            let sum = &mut self.sums[share.place as usize * dim..][..dim];
            let (x, acc) = (row.as_ptr(), sum.as_mut_ptr());
            // SAFETY: V is available, and both pointers are good for `dim` numbers.
            unsafe {
                let weight = V::splat(share.weight);
                let mut d = 0;
                while d + V::LANES <= dim {
                    weight.fma(V::load(x.add(d)), V::load(acc.add(d))).store(acc.add(d));
                    d += V::LANES;
                }
                if d < dim {
                    let n = dim - d;
                    let rest = weight.fma(V::load_partial(x.add(d), n), V::load_partial(acc.add(d), n));
                    rest.store_partial(acc.add(d), n);
                }
            }
        }
    }
}

/// IN OUT `to`; IN the rest. See [`settle`].
struct Settle<'a, T> {
    to: &'a mut [T],
    from: &'a [T],
    centers: &'a [T],
    dim: usize,
    moves: &'a [Move<T>],
}

impl<T: Real> Operation<T> for Settle<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let dim = self.dim;
        for m in self.moves {
            let from = self.from[m.from as usize * dim..][..dim].as_ptr();
            let center = self.centers[m.from as usize * dim..][..dim].as_ptr();
            let to = self.to[m.to as usize * dim..][..dim].as_mut_ptr();
            // SAFETY: V is available, and the three pointers are good for `dim` numbers.
            unsafe {
                let less = V::splat(-m.mass);
                let mut d = 0;
                while d + V::LANES <= dim {
                    let own = less.fma(V::load(center.add(d)), V::load(from.add(d)));
                    own.add(V::load(to.add(d))).store(to.add(d));
                    d += V::LANES;
                }
                if d < dim {
                    let n = dim - d;
                    let own = less.fma(V::load_partial(center.add(d), n), V::load_partial(from.add(d), n));
                    own.add(V::load_partial(to.add(d), n)).store_partial(to.add(d), n);
                }
            }
        }
    }
}
