//! Sums over the columns of many rows, in f64: each column on its own, in the order of the rows, so that the bits do
//! not depend on the instruction set.
#![allow(unsafe_code)]

use super::dispatch::{Isa, Operation, run};
use super::simd::Simd;
use crate::kernel::Real;

/// Adds rows, each with one number per column, to the `columns` (IN OUT), with the given weights or weight 1.
pub(super) fn add_columns<T: Real>(isa: Isa, rows: &[T], weights: Option<&[f64]>, columns: &mut Columns) {
    run(isa, AddColumns { rows, weights, columns });
}

/// Adds sum w (x - mean)^2 of each column to `scatter` (IN OUT).
pub(super) fn add_scatter<T: Real>(isa: Isa, rows: &[T], weights: Option<&[f64]>, mean: &[f64], scatter: &mut [f64]) {
    run(isa, AddScatter { rows, weights, mean, scatter });
}

/// One number per column in each field.
#[derive(Debug, Clone)]
pub struct Columns {
    /// sum w x.
    pub sum: Vec<f64>,
    /// The smallest x.
    pub min: Vec<f64>,
    /// The largest x.
    pub max: Vec<f64>,
    /// 0 as long as all x are finite, NaN from the first that is not.
    pub finite: Vec<f64>,
}

impl Columns {
    /// The state before the first row.
    pub fn new(dim: usize) -> Self {
        Self {
            sum: vec![0.0; dim],
            min: vec![f64::INFINITY; dim],
            max: vec![f64::NEG_INFINITY; dim],
            finite: vec![0.0; dim],
        }
    }
}

/// IN OUT `columns`. See [`add_columns`].
struct AddColumns<'a, T> {
    rows: &'a [T],
    weights: Option<&'a [f64]>,
    columns: &'a mut Columns,
}

impl<T: Real> Operation<T> for AddColumns<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let Columns { sum, min, max, finite } = self.columns;
        let dim = sum.len();
        let (sum, min, max, finite) = (&mut sum[..dim], &mut min[..dim], &mut max[..dim], &mut finite[..dim]);
        for (n, row) in self.rows.chunks_exact(dim).enumerate() {
            let w = self.weights.map_or(1.0, |w| w[n]);
            for d in 0..dim {
                let x = row[d].to_f64();
                sum[d] += w * x;
                min[d] = if x < min[d] { x } else { min[d] };
                max[d] = if x > max[d] { x } else { max[d] };
                finite[d] += x * 0.0;
            }
        }
    }
}

/// IN OUT `scatter`. See [`add_scatter`].
struct AddScatter<'a, T> {
    rows: &'a [T],
    weights: Option<&'a [f64]>,
    mean: &'a [f64],
    scatter: &'a mut [f64],
}

impl<T: Real> Operation<T> for AddScatter<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let dim = self.mean.len();
        let (mean, scatter) = (&self.mean[..dim], &mut self.scatter[..dim]);
        for (n, row) in self.rows.chunks_exact(dim).enumerate() {
            let w = self.weights.map_or(1.0, |w| w[n]);
            for d in 0..dim {
                let apart = row[d].to_f64() - mean[d];
                scatter[d] += w * (apart * apart);
            }
        }
    }
}
