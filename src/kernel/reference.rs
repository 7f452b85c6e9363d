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
