//! 8-bit products without special instructions: correct on every machine, but slow.

use super::{LANES, LaneBest, List, Rows, Visits};

/// See [`scan`](super::scan).
pub(super) fn scan(list: List<'_>, rows: &Rows, visits: Visits<'_>, best: &mut LaneBest) {
    for (&row, &base) in visits.rows.iter().zip(visits.bases) {
        let y = rows.row(row);
        let (values, vectors) = (&mut best.values[row as usize].0, &mut best.vectors[row as usize].0);
        let mus = list.values.chunks_exact(LANES * y.len()).zip(list.constants.chunks_exact(LANES));
        for ((mu, constants), vector) in mus.zip(list.first..) {
            let mut sums = [0i32; LANES];
            for (y, mu) in y.chunks_exact(4).zip(mu.chunks_exact(4 * LANES)) {
                for (sum, mu) in sums.iter_mut().zip(mu.chunks_exact(4)) {
                    *sum += y.iter().zip(mu).map(|(&y, &mu)| i32::from(y) * i32::from(mu)).sum::<i32>();
                }
            }
            for lane in 0..LANES {
                let value = ((constants[lane] + sums[lane]) as f32).mul_add(list.unit, base);
                if value < values[lane] {
                    (values[lane], vectors[lane]) = (value, vector);
                }
            }
        }
    }
}
