//! The arithmetic where the time goes: distances one by one and in dense blocks, selection of the nearest, sums.
//!
//! The module `reference` has plain twins that define what each kernel computes; [`dispatch`] chooses the instruction
//! set, and [`simd`] is the interface of the kernels' bodies to it.

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

/// Kernels for one floating-point type, each run with the best instruction set of the machine.
pub trait Kernel: Element + Exponential {
    /// |a - b|^2, by differences.
    #[inline]
    fn squared_distance(a: &[Self], b: &[Self]) -> Self
    where
        Self: Real,
    {
        distance::squared_distance(Isa::best(), a, b)
    }

    /// row - center|^2, by differences, for each of `ids` (IN), to `out` (OUT). `centers` is M x D. Panics if an id is not below M.
    #[inline]
    fn gathered_distances(row: &[Self], centers: &[Self], ids: &[u32], out: &mut [Self])
    where
        Self: Real,
    {
        distance::gathered_distances(Isa::best(), row, centers, ids, out);
    }

    /// The distances of rows to the centers they are assigned to, and the sums of each center's rows; returns sum w d.
    /// See [`Join`].
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

    /// sum_d p_d (row_d - mu_d)^2 for each of `ids` (IN), to `out` (OUT). `precisions` is M x D like `centers`, or has
    /// one number per column. Panics if an id is not below M.
    #[inline]
    fn weighted_distances(row: &[Self], centers: &[Self], precisions: &[Self], ids: &[u32], out: &mut [Self])
    where
        Self: Real,
    {
        scored::weighted_distances(Isa::best(), row, centers, precisions, ids, out);
    }

    /// For each of `parts`, in order, with r = values[row] - centers[cluster]: sums[place] += weight r, followed by
    /// weight r^2 for each column, or their sum if there is room for only one. `sums` (IN OUT) has `stride` numbers per
    /// place.
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

    /// Multiplies each of `x` (IN OUT) by its precision p, one for all or one for each, and writes -p/2 to each of
    /// `squares` (OUT). Returns sum p x^2, in `f64`.
    #[inline]
    fn weigh(x: &mut [Self], squares: &mut [Self], precisions: &[Self]) -> f64
    where
        Self: Real,
    {
        scored::weigh(Isa::best(), x, squares, precisions)
    }

    /// Copies rows `ids` of `table`, less `origin` if there is one, to `out` (OUT).
    #[inline]
    fn gather(table: Table<'_, Self>, ids: &[u32], origin: Option<&[Self]>, out: &mut [Self])
    where
        Self: Real,
    {
        pack::gather(Isa::best(), table, ids, origin, out);
    }

    /// Adds `rows` with their weights (1 if none) to the sums and bounds of the `columns` (IN OUT).
    fn add_columns(rows: &[Self], weights: Option<&[f64]>, columns: &mut Columns)
    where
        Self: Real,
    {
        moments::add_columns(Isa::best(), rows, weights, columns);
    }

    /// Adds sum w (x - mean)^2 of each column of `rows` to `scatter` (IN OUT).
    fn add_scatter(rows: &[Self], weights: Option<&[f64]>, mean: &[f64], scatter: &mut [f64])
    where
        Self: Real,
    {
        moments::add_scatter(Isa::best(), rows, weights, mean, scatter);
    }

    /// Moves a center (IN OUT) by `step` times its distance from sum / mass. Returns sum_d (mean - old)^2 - (new -
    /// mean)^2.
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

    /// Replaces each of `xs` (IN OUT), none of them above 0, by its exponential; subnormal results become 0.
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
