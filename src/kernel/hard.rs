//! Rows with known nearest centers: their distances to these by differences, and the sums of each center's rows, in one
//! pass, so that each row is read once for both.
#![allow(unsafe_code)]

use super::dispatch::{Isa, Operation, run};
use super::distance::{center, together};
use super::simd::Simd;
use crate::kernel::Real;

/// Number of rows whose distances are computed side by side.
const SIDE: usize = 4;

/// Sums over the rows of each center, M x D and M, in `f64` regardless of the type of the rows.
#[derive(Debug, Default, Clone)]
pub struct CenterSums {
    /// sum w y.
    pub sums: Vec<f64>,
    /// sum w.
    pub mass: Vec<f64>,
}

/// IN `rows`, `labels` and `weights` (1 if none), one per row; OUT `distances`, |row - its center|^2; IN OUT `sums`, if
/// wanted, to which the rows are added in order.
pub struct Join<'a, T> {
    /// Rows, row-major.
    pub rows: &'a [T],
    /// Number of columns.
    pub dim: usize,
    /// Centers, M x D.
    pub centers: &'a [T],
    /// The center of each row.
    pub labels: &'a [u32],
    /// The weight of each row.
    pub weights: Option<&'a [f64]>,
    /// Squared distances.
    pub distances: &'a mut [T],
    /// Sums to which the rows are added.
    pub sums: Option<&'a mut CenterSums>,
}

/// Performs `join`; returns sum w d. Panics if a label has no center.
pub(super) fn join<T: Real>(isa: Isa, join: Join<'_, T>) -> f64 {
    let rows = join.labels.len();
    assert!(join.rows.len() == rows * join.dim && join.distances.len() == rows, "rows x dim numbers, rows distances");
    assert!(join.weights.is_none_or(|w| w.len() == rows), "one weight a row");
    run(isa, join)
}

impl<T: Real> Operation<T> for Join<'_, T> {
    type Output = f64;

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) -> f64 {
        let dim = self.dim;
        let (rows, centers) = (self.rows, self.centers);
        let row = |r: usize| rows[r * dim..(r + 1) * dim].as_ptr();
        let mut labels = self.labels.chunks_exact(SIDE);
        let mut distances = self.distances.chunks_exact_mut(SIDE);
        let mut r = 0;
        for (c, d) in labels.by_ref().zip(distances.by_ref()) {
            let mu = [0, 1, 2, 3].map(|i| center(centers, dim, c[i]));
            // SAFETY: V is available, and `row` and `center` have checked that there are `dim` numbers.
            d.copy_from_slice(&unsafe { together::<V, SIDE>([row(r), row(r + 1), row(r + 2), row(r + 3)], mu, dim) });
            r += SIDE;
        }
        for (&c, d) in labels.remainder().iter().zip(distances.into_remainder()) {
            // SAFETY: as above.
            *d = unsafe { together::<V, 1>([row(r)], [center(centers, dim, c)], dim)[0] };
            r += 1;
        }
        let weight = |r: usize| self.weights.map_or(1.0, |w| w[r]);
        if let Some(CenterSums { sums, mass }) = self.sums {
            for (r, (&c, row)) in self.labels.iter().zip(rows.chunks_exact(dim)).enumerate() {
                let c = c as usize;
                mass[c] += weight(r);
                // SAFETY: V is available.
                unsafe { add::<V>(&mut sums[c * dim..(c + 1) * dim], weight(r), row) };
            }
        }
        self.distances.iter().enumerate().map(|(r, d)| weight(r) * d.to_f64()).sum()
    }
}

/// acc += w row, of the same length. Written with vectors because the compiler would otherwise add number by number.
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
unsafe fn add<V: Simd>(acc: &mut [f64], w: f64, row: &[V::Elem]) {
    let lanes = V::Wide::LANES;
    let (mut wide, mut rows) = (acc.chunks_exact_mut(lanes), row.chunks_exact(lanes));
    for (acc, x) in wide.by_ref().zip(rows.by_ref()) {
        let to = acc.as_mut_ptr();
        // SAFETY: V is available, and both chunks have as many numbers as a wide vector has lanes.
        unsafe { V::Wide::splat(w).fma(V::load_wide(x.as_ptr()), V::Wide::load(to)).store(to) };
    }
    wide.into_remainder().iter_mut().zip(rows.remainder()).for_each(|(a, x)| *a += w * x.to_f64());
}
