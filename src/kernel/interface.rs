//! What the rest of the crate sees of the kernels. (First version: plain loops behind the final signatures.)

use super::reference;
use crate::real::Real;

/// Kernels for one floating-point type, each at the best instruction set of the machine.
pub trait Kernel: Sized {
    /// |a - b|^2, by differences.
    fn squared_distance(a: &[Self], b: &[Self]) -> Self;
    /// |row - centre|^2, by differences, for each of `ids` (IN), into `out` (OUT). `centres` is M x D.
    fn gathered_distances(row: &[Self], centres: &[Self], ids: &[u32], out: &mut [Self]);
    /// acc += alpha x.
    fn axpy(acc: &mut [Self], alpha: Self, x: &[Self]);
    /// See [`RowBlock::nearest`].
    #[doc(hidden)]
    fn block_nearest(block: &RowBlock<Self>, centres: &Centres<'_, Self>, h: usize, ids: &mut [u32], dist: &mut [Self])
    where
        Self: Real;
    /// See [`RowBlock::distances`].
    #[doc(hidden)]
    fn block_distances(block: &RowBlock<Self>, centres: &Centres<'_, Self>, out: &mut [Self])
    where
        Self: Real;
}

/// Centres as rows, with their squared norms beside them.
#[derive(Debug, Clone)]
pub struct Centres<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) dim: usize,
    pub(crate) norms: Vec<T>,
}

impl<'a, T: Real> Centres<'a, T> {
    pub(crate) fn new(values: &'a [T], dim: usize) -> Self {
        let norms = values.chunks_exact(dim).map(|c| c.iter().map(|&x| x * x).sum()).collect();
        Self { values, dim, norms }
    }

    pub(crate) fn len(&self) -> usize {
        self.norms.len()
    }
}

/// A block of rows laid out for the dense kernels; reused from block to block.
#[derive(Debug, Default)]
pub struct RowBlock<T> {
    pub(crate) packed: Vec<T>,
    pub(crate) rows: usize,
    pub(crate) dim: usize,
}

impl<T: Real> RowBlock<T> {
    /// Takes in `rows` (row after row, `dim` columns), less `origin` where there is one.
    pub(crate) fn load(&mut self, rows: &[T], dim: usize, origin: Option<&[T]>) {
        self.rows = rows.len() / dim;
        self.dim = dim;
        self.packed.clear();
        self.packed.extend_from_slice(rows);
        if let Some(origin) = origin {
            for row in self.packed.chunks_exact_mut(dim) {
                for (x, &o) in row.iter_mut().zip(origin) {
                    *x -= o;
                }
            }
        }
    }

    /// For each row its `h` nearest centres, nearest first (equal ones: lower index first), and their squared distances by
    /// |y|^2 - 2 y.mu + |mu|^2, at least 0. `ids` and `dist` are rows x h (OUT). h is at most the number of centres.
    pub(crate) fn nearest(&self, centres: &Centres<'_, T>, h: usize, ids: &mut [u32], dist: &mut [T]) {
        T::block_nearest(self, centres, h, ids, dist);
    }

    /// All squared distances, rows x M, into `out` (OUT).
    pub(crate) fn distances(&self, centres: &Centres<'_, T>, out: &mut [T]) {
        T::block_distances(self, centres, out);
    }
}

macro_rules! plain {
    ($t:ty) => {
        impl Kernel for $t {
            fn squared_distance(a: &[Self], b: &[Self]) -> Self {
                reference::squared_distance(a, b)
            }
            fn gathered_distances(row: &[Self], centres: &[Self], ids: &[u32], out: &mut [Self]) {
                let dim = row.len();
                for (o, &c) in out.iter_mut().zip(ids) {
                    let start = c as usize * dim;
                    *o = reference::squared_distance(row, &centres[start..start + dim]);
                }
            }
            fn axpy(acc: &mut [Self], alpha: Self, x: &[Self]) {
                reference::axpy(acc, alpha, x);
            }
            fn block_nearest(b: &RowBlock<Self>, c: &Centres<'_, Self>, h: usize, ids: &mut [u32], dist: &mut [Self]) {
                for (r, row) in b.packed.chunks_exact(b.dim).enumerate() {
                    for (k, (id, d)) in reference::nearest(row, c.values, h).into_iter().enumerate() {
                        (ids[r * h + k], dist[r * h + k]) = (id, d);
                    }
                }
            }
            fn block_distances(b: &RowBlock<Self>, c: &Centres<'_, Self>, out: &mut [Self]) {
                for (row, out) in b.packed.chunks_exact(b.dim).zip(out.chunks_exact_mut(c.len())) {
                    for (o, mu) in out.iter_mut().zip(c.values.chunks_exact(c.dim)) {
                        *o = reference::squared_distance(row, mu);
                    }
                }
            }
        }
    };
}
plain!(f32);
plain!(f64);
