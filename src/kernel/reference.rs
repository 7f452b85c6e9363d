//! Plain twins of the fast kernels: what they compute, written to be read.

use crate::real::Real;

/// |a - b|^2, by differences.
pub(crate) fn squared_distance<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).map(|(&x, &y)| (x - y) * (x - y)).sum()
}

/// acc += alpha x.
pub(crate) fn axpy<T: Real>(acc: &mut [T], alpha: T, x: &[T]) {
    for (a, &v) in acc.iter_mut().zip(x) {
        *a += alpha * v;
    }
}

/// The `h` nearest of `centres` to `row`, nearest first; of equally near ones the lower index first.
pub(crate) fn nearest<T: Real>(row: &[T], centres: &[T], h: usize) -> Vec<(u32, T)> {
    let mut all: Vec<(u32, T)> =
        centres.chunks_exact(row.len()).enumerate().map(|(c, mu)| (c as u32, squared_distance(row, mu))).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    all.truncate(h);
    all
}

/// |mu|^2 of each row.
pub(crate) fn squared_norms<T: Real>(values: &[T], dim: usize) -> Vec<T> {
    values.chunks_exact(dim).map(|mu| mu.iter().map(|&x| x * x).sum()).collect()
}

/// Rows less the origin, in tiles of `tile` rows: `[tile][column][row of the tile]`, the last row repeated to fill up.
pub(crate) fn packed<T: Real>(rows: &[T], dim: usize, origin: Option<&[T]>, tile: usize) -> Vec<T> {
    let count = rows.len() / dim;
    let mut out = Vec::new();
    for first in (0..count).step_by(tile) {
        for d in 0..dim {
            for r in first..first + tile {
                let x = rows[r.min(count - 1) * dim + d];
                out.push(origin.map_or(x, |o| x - o[d]));
            }
        }
    }
    out
}

/// exp(x) for x <= 0, 0 where that would be subnormal.
pub(crate) fn exp_neg<T: Real>(xs: &mut [T]) {
    for x in xs {
        *x = if *x < T::LEAST { T::ZERO } else { x.exp() };
    }
}
