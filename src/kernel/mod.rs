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
mod differences;
mod dispatch;
mod distance;
mod exp;
mod gathered;
mod hard;
pub(crate) mod int8;
mod moments;
mod pack;
mod probes;
mod real;
#[cfg(test)]
pub(crate) mod reference;
mod scored;
mod select;
mod simd;
mod soft;
mod sums;
#[cfg(test)]
mod tests;

pub(crate) use block::{Centers, NearestScratch, RowBlock, block_rows};
pub(crate) use buffer::Buffer;
pub(crate) use dispatch::{prefetch, prefetch_far};
pub(crate) use gathered::{Kept, Look, Part, Posteriors};
pub(crate) use hard::{CenterSums, Join};
pub(crate) use moments::Columns;
pub(crate) use pack::Table;
pub(crate) use probes::Probes;
pub(crate) use soft::{ROOM, SoftBlock, SoftScratch, SoftTotals, soft_rows};
pub(crate) use sums::{Move, Share};

#[doc(hidden)]
pub use real::Family;
pub use real::Real;
pub(crate) use real::for_both;

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

    /// |row - center|^2, by differences, for each of `ids` (IN), into `out` (OUT). `centers` is M x D. Panics at an id that
    /// is not below M.
    #[inline]
    fn gathered_distances(row: &[Self], centers: &[Self], ids: &[u32], out: &mut [Self])
    where
        Self: Real,
    {
        distance::gathered_distances(Isa::best(), row, centers, ids, out);
    }

    /// The distances of rows to the centers they belong to, and the centers' sums; returns sum w d. See [`Join`].
    fn join(join: Join<'_, Self>) -> f64
    where
        Self: Real,
    {
        hard::join(Isa::best(), join)
    }

    /// sums[place] += weight rows[row] for each of `shares`, in order. `sums` (IN OUT) and `rows` have `dim` numbers per row.
    #[inline]
    fn add_rows(sums: &mut [Self], rows: &[Self], dim: usize, shares: &[Share<Self>])
    where
        Self: Real,
    {
        sums::add_rows(Isa::best(), sums, rows, dim, shares);
    }

    /// to[m.to] += from[m.from] - m.mass centers[m.from] for each of `moves`, in order. `to` (IN OUT), `from` and `centers`
    /// have `dim` numbers per row.
    #[inline]
    fn settle(to: &mut [Self], from: &[Self], centers: &[Self], dim: usize, moves: &[Move<Self>])
    where
        Self: Real,
    {
        sums::settle(Isa::best(), to, from, centers, dim, moves);
    }

    /// The posteriors of rows in lanes. See [`Posteriors`].
    #[inline]
    fn posteriors(posteriors: Posteriors<'_, Self>)
    where
        Self: Real,
    {
        gathered::posteriors(Isa::best(), posteriors);
    }

    /// sums[place] += weight (values[row] - centers[cluster]) for each of `parts`, in order. `sums` (IN OUT), `values` and
    /// `centers` have `dim` numbers per row.
    #[inline]
    fn add_parts(sums: &mut [Self], values: &[Self], centers: &[Self], dim: usize, parts: &[Part<Self>])
    where
        Self: Real,
    {
        gathered::add_parts(Isa::best(), sums, values, centers, dim, parts);
    }

    /// sum_d p_d (row_d - mu_d)^2 for each of `ids` (IN), into `out` (OUT). `precisions` is M x D as `centers` is, or has one
    /// number per column. Panics at an id that is not below M.
    #[inline]
    fn weighted_distances(row: &[Self], centers: &[Self], precisions: &[Self], ids: &[u32], out: &mut [Self])
    where
        Self: Real,
    {
        scored::weighted_distances(Isa::best(), row, centers, precisions, ids, out);
    }

    /// For each of `parts`, in order: sums[place] += weight r with r = values[row] - centers[cluster], and weight r^2 in the
    /// columns behind, or their sum where there is one. `sums` (IN OUT) has `stride` numbers per place.
    #[inline]
    fn add_moments(
        sums: &mut [Self],
        stride: usize,
        values: &[Self],
        centers: &[Self],
        dim: usize,
        parts: &[Part<Self>],
    ) where
        Self: Real,
    {
        scored::add_moments(Isa::best(), sums, stride, values, centers, dim, parts);
    }

    /// Rows `ids` of `table` less `origin`, where there is one, row after row, into `out` (OUT).
    #[inline]
    fn gather(table: Table<'_, Self>, ids: &[u32], origin: Option<&[Self]>, out: &mut [Self])
    where
        Self: Real,
    {
        pack::gather(Isa::best(), table, ids, origin, out);
    }

    /// Takes `rows` with their weights (1 where there are none) into sums and bounds of their `columns` (IN OUT).
    fn add_columns(rows: &[Self], weights: Option<&[f64]>, columns: &mut Columns)
    where
        Self: Real,
    {
        moments::add_columns(Isa::best(), rows, weights, columns);
    }

    /// sum w (x - mean)^2 of each column of `rows`, added to `scatter` (IN OUT).
    fn add_scatter(rows: &[Self], weights: Option<&[f64]>, mean: &[f64], scatter: &mut [f64])
    where
        Self: Real,
    {
        moments::add_scatter(Isa::best(), rows, weights, mean, scatter);
    }

    /// Moves a center (IN OUT) `step` times the way to sum / mass. Returns sum_d (mean - old)^2 - (new - mean)^2.
    #[inline]
    fn move_center(center: &mut [Self], sum: &[f64], mass: f64, step: f64) -> f64
    where
        Self: Real,
    {
        sums::move_center(Isa::best(), center, sum, mass, step)
    }

    /// acc += alpha x, in `f64`.
    #[inline]
    fn add_scaled(acc: &mut [f64], alpha: f64, x: &[Self])
    where
        Self: Real,
    {
        sums::add_scaled(Isa::best(), acc, alpha, x);
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
