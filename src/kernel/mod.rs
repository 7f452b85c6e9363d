//! The arithmetic that the time goes into: distances one by one and in dense blocks, selection of the nearest, sums.
//!
//! The module `reference` holds the plain twins that say what each kernel computes; [`dispatch`] chooses the instruction
//! set, and [`simd`] is what a kernel's body knows of it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod buffer;
mod dense;
mod dispatch;
mod distance;
mod exp;
mod pack;
#[cfg(test)]
pub(crate) mod reference;
mod select;
mod simd;
#[cfg(test)]
mod tests;

pub(crate) use block::{Centres, RowBlock, block_rows};
pub(crate) use dispatch::prefetch;

use crate::real::Real;
use dispatch::{Element, Isa};
use exp::Exponential;

/// Kernels for one floating-point type, each at the best instruction set of the machine.
pub trait Kernel: Element + Exponential {
    /// |a - b|^2, by differences.
    #[inline]
    fn squared_distance(a: &[Self], b: &[Self]) -> Self
    where
        Self: Real,
    {
        distance::squared_distance(Isa::best(), a, b)
    }

    /// |row - centre|^2, by differences, for each of `ids` (IN), into `out` (OUT). `centres` is M x D. Panics at an id that
    /// is not below M.
    #[inline]
    fn gathered_distances(row: &[Self], centres: &[Self], ids: &[u32], out: &mut [Self])
    where
        Self: Real,
    {
        distance::gathered_distances(Isa::best(), row, centres, ids, out);
    }

    /// acc += alpha x.
    #[inline]
    fn axpy(acc: &mut [Self], alpha: Self, x: &[Self])
    where
        Self: Real,
    {
        distance::axpy(Isa::best(), acc, alpha, x);
    }

    /// acc += alpha x, in `f64`.
    #[inline]
    fn add_scaled(acc: &mut [f64], alpha: f64, x: &[Self])
    where
        Self: Real,
    {
        distance::add_scaled(Isa::best(), acc, alpha, x);
    }

    /// Each of `xs` (IN OUT), none of them above 0, becomes its exponential; what would be subnormal becomes 0.
    #[inline]
    fn exp_neg(xs: &mut [Self])
    where
        Self: Real,
    {
        exp::exp_neg(Isa::best(), xs);
    }
}

impl Kernel for f32 {}
impl Kernel for f64 {}
