//! Plain twins of the fast kernels: the same computations, written for clarity.

use super::block::Centers;
use super::gathered::Part;
use super::hard::CenterSums;
use super::int8::{LANES, LaneBest, List, Rows, Visits};
use super::soft::SoftTotals;
use super::sums::{Move, Share};
use crate::kernel::Real;

/// |a - b|^2, by differences.
pub(crate) fn squared_distance<T: Real>(a: &[T], b: &[T]) -> T {
    a.iter().zip(b).map(|(&x, &y)| (x - y) * (x - y)).sum()
}

/// sums[place] += weight rows[row] for each share.
pub(crate) fn add_rows<T: Real>(sums: &mut [T], rows: &[T], dim: usize, shares: &[Share<T>]) {
    for share in shares {
        for d in 0..dim {
            sums[share.place as usize * dim + d] += share.weight * rows[share.row as usize * dim + d];
        }
    }
}

/// sums[place] += weight (values[row] - centers[cluster]) for each part.
pub(crate) fn add_parts<T: Real>(sums: &mut [T], values: &[T], centers: &[T], dim: usize, parts: &[Part<T>]) {
    for part in parts {
        for d in 0..dim {
            let apart = values[part.row as usize * dim + d] - centers[part.cluster as usize * dim + d];
            sums[part.place as usize * dim + d] += part.weight * apart;
        }
    }
}

/// sum_d p_d (a_d - b_d)^2.
pub(crate) fn weighted_distance<T: Real>(a: &[T], b: &[T], p: &[T]) -> T {
    a.iter().zip(b).zip(p).map(|((&x, &y), &p)| p * (x - y) * (x - y)).sum()
}

/// Rows followed by their squared norms, or by the squares of their numbers.
pub(crate) fn lifted<T: Real>(rows: &[T], dim: usize, extra: usize) -> Vec<T> {
    let squares = |row: &[T]| row.iter().map(|&x| x * x).collect::<Vec<T>>();
    let behind = |row: &[T]| if extra == dim { squares(row) } else { vec![squares(row).into_iter().sum()] };
    rows.chunks_exact(dim).flat_map(|row| [row.to_vec(), behind(row)].concat()).collect()
}

/// p x of each number, then -p/2 for each of `squares` columns, and sum p x^2.
pub(crate) fn weigh<T: Real>(x: &[T], squares: usize, p: &[T]) -> (Vec<T>, Vec<T>, f64) {
    let p = |d: usize| p[d % p.len()];
    (
        (0..x.len()).map(|d| p(d) * x[d]).collect(),
        (0..squares).map(|d| T::from_f64(-0.5) * p(d)).collect(),
        (0..x.len()).map(|d| p(d).to_f64() * x[d].to_f64() * x[d].to_f64()).sum(),
    )
}

/// [`add_parts`], with second moments after the sums: of each column, or of all together.
pub(crate) fn add_moments<T: Real>(
    sums: &mut [T],
    stride: usize,
    values: &[T],
    centers: &[T],
    dim: usize,
    parts: &[Part<T>],
) {
    for part in parts {
        let sum = &mut sums[part.place as usize * stride..][..stride];
        for d in 0..dim {
            let apart = values[part.row as usize * dim + d] - centers[part.cluster as usize * dim + d];
            sum[d] += part.weight * apart;
            sum[if stride == 2 * dim { dim + d } else { dim }] += part.weight * apart * apart;
        }
    }
}

/// From the sorted distances of one row: exp(scale (d - the nearest d)) of each, 0 if negligible; their sum; and the
/// sum of them times d - the nearest d.
pub(crate) fn posterior<T: Real>(distances: &[T], scale: T) -> (Vec<T>, T, T) {
    let apart = distances.iter().map(|&d| d - distances[0]);
    let share = |x: T| if x < T::NEGLIGIBLE { T::ZERO } else { x };
    let shares: Vec<T> = apart.clone().map(|x| share((x * scale).exp())).collect();
    let spread = shares.iter().zip(apart).map(|(&q, x)| q * x).sum();
    (shares.clone(), shares.into_iter().sum(), spread)
}

/// center += step (sum / mass - center); returns sum_d (mean - old)^2 - (new - mean)^2.
pub(crate) fn move_center<T: Real>(center: &mut [T], sum: &[f64], mass: f64, step: f64) -> f64 {
    let mut drop = 0.0;
    for (mu, s) in center.iter_mut().zip(sum) {
        let (mean, old) = (s / mass, mu.to_f64());
        let new = T::from_f64(mean + (step - 1.0) * (mean - old));
        let gain = (mean - old).powi(2) - (new.to_f64() - mean).powi(2);
        if gain > 0.0 {
            *mu = new;
            drop += gain;
        }
    }
    drop
}

/// to[m.to] += from[m.from] - m.mass centers[m.from] for each move.
pub(crate) fn settle<T: Real>(to: &mut [T], from: &[T], centers: &[T], dim: usize, moves: &[Move<T>]) {
    for m in moves {
        for d in 0..dim {
            let own = m.from as usize * dim + d;
            to[m.to as usize * dim + d] += from[own] - m.mass * centers[own];
        }
    }
}

/// row - its center|^2 of each row; the rows are added to the sums of their centers.
pub(crate) fn join<T: Real>(
    rows: &[T],
    centers: &[T],
    dim: usize,
    labels: &[u32],
    weights: Option<&[f64]>,
    to: &mut CenterSums,
) -> Vec<T> {
    let mut distances = Vec::new();
    for (r, (row, &c)) in rows.chunks_exact(dim).zip(labels).enumerate() {
        let (w, c) = (weights.map_or(1.0, |w| w[r]), c as usize);
        distances.push(squared_distance(row, &centers[c * dim..(c + 1) * dim]));
        to.mass[c] += w;
        to.sums[c * dim..(c + 1) * dim].iter_mut().zip(row).for_each(|(a, x)| *a += w * x.to_f64());
    }
    distances
}

/// For each column: sum w x, the smallest and the largest x, and sum w (x - mean)^2.
pub(crate) fn column_moments<T: Real>(rows: &[T], weights: Option<&[f64]>, mean: &[f64]) -> [Vec<f64>; 4] {
    let dim = mean.len();
    let column = |d: usize| rows.iter().skip(d).step_by(dim).map(|x| x.to_f64());
    let weight = |n: usize| weights.map_or(1.0, |w| w[n]);
    [
        (0..dim).map(|d| column(d).enumerate().fold(0.0, |s, (n, x)| s + weight(n) * x)).collect(),
        (0..dim).map(|d| column(d).fold(f64::INFINITY, f64::min)).collect(),
        (0..dim).map(|d| column(d).fold(f64::NEG_INFINITY, f64::max)).collect(),
        (0..dim)
            .map(|d| column(d).enumerate().fold(0.0, |s, (n, x)| s + weight(n) * ((x - mean[d]) * (x - mean[d]))))
            .collect(),
    ]
}

/// The `h` nearest of `centers` to `row`, nearest first (ties: lower index first).
pub(crate) fn nearest<T: Real>(row: &[T], centers: &[T], h: usize) -> Vec<(u32, T)> {
    let mut all: Vec<(u32, T)> =
        centers.chunks_exact(row.len()).enumerate().map(|(c, mu)| (c as u32, squared_distance(row, mu))).collect();
    all.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    all.truncate(h);
    all
}

/// |mu|^2 of each row.
pub(crate) fn squared_norms<T: Real>(values: &[T], dim: usize) -> Vec<T> {
    values.chunks_exact(dim).map(|mu| mu.iter().map(|&x| x * x).sum()).collect()
}

/// Rows less the origin, in tiles of `tile` rows, `[tile][column][row of the tile]`, padded with the last row.
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

/// exp(x) for x <= 0; subnormal results become 0.
pub(crate) fn exp_neg<T: Real>(xs: &mut [T]) {
    for x in xs {
        *x = if *x < T::LEAST { T::ZERO } else { x.exp() };
    }
}

/// [`int8::scan`](super::int8::scan), directly from the definition of the layout: row by row, vector by vector, lane by
/// lane.
pub(crate) fn scan(list: List<'_>, rows: &Rows, visits: Visits<'_>, best: &mut LaneBest) {
    for (&row, &base) in visits.rows.iter().zip(visits.bases) {
        let y = rows.row(row);
        for (i, &constant) in list.constants.iter().enumerate() {
            let (vector, lane) = (i / LANES, i % LANES);
            let at = |d: usize| list.values[vector * LANES * y.len() + (d / 4 * LANES + lane) * 4 + d % 4];
            let sum: i32 = constant + (0..y.len()).map(|d| i32::from(y[d]) * i32::from(at(d))).sum::<i32>();
            let value = (sum as f32).mul_add(list.unit, base);
            if value < best.values[row as usize].0[lane] {
                best.values[row as usize].0[lane] = value;
                best.vectors[row as usize].0[lane] = list.first + vector as u32;
            }
        }
    }
}

/// [`SoftBlock::share`](super::soft::SoftBlock::share): each row's value for each center, |y - mu|^2 or, if not
/// `squared`, `norms` - 2 y.mu; the index of the smallest (ties: the first); the [posterior]; and the row added to the
/// centers' sums by its posterior.
pub(crate) fn share<T: Real>(
    rows: &[T],
    centers: &Centers<'_, T>,
    squared: bool,
    scale: T,
    weights: Option<&[f64]>,
    to: &mut CenterSums,
) -> (Vec<(u32, T)>, SoftTotals) {
    let (dim, mut totals, mut nearest) = (centers.dim, SoftTotals::default(), Vec::new());
    for (r, row) in rows.chunks_exact(dim).enumerate() {
        let value = |(c, mu): (usize, &[T])| match squared {
            true => squared_distance(row, mu),
            false => centers.norms[c] - mu.iter().zip(row).map(|(&m, &y)| (m + m) * y).sum::<T>(),
        };
        let values: Vec<T> = centers.values.chunks_exact(dim).enumerate().map(value).collect();
        let mut c = 0;
        (0..values.len()).for_each(|i| c = if values[i] < values[c] { i } else { c });
        let share = |v: &T| match ((*v - values[c]) * scale).exp() {
            q if q < T::NEGLIGIBLE => 0.0,
            q => q.to_f64(),
        };
        let shares: Vec<f64> = values.iter().map(share).collect();
        let (total, w) = (shares.iter().sum::<f64>(), weights.map_or(1.0, |w| w[r]));
        nearest.push((c as u32, values[c]));
        totals.nearest += w * values[c].to_f64();
        totals.log += w * total.ln();
        for (c, (q, v)) in shares.iter().zip(&values).enumerate() {
            let part = w * q / total;
            totals.mean += part * v.to_f64();
            to.mass[c] += part;
            to.sums[c * dim..(c + 1) * dim].iter_mut().zip(row).for_each(|(a, y)| *a += part * y.to_f64());
        }
    }
    (nearest, totals)
}

/// Rows `ids`, times their factors if there are any, less the origin if there is one.
pub(crate) fn gathered<T: Real>(
    values: &[T],
    dim: usize,
    factors: Option<&[T]>,
    ids: &[u32],
    origin: Option<&[T]>,
) -> Vec<T> {
    let number = |id: usize, d: usize| {
        let x = factors.map_or(values[id * dim + d], |f| values[id * dim + d] * f[id]);
        origin.map_or(x, |o| x - o[d])
    };
    ids.iter().flat_map(|&id| (0..dim).map(move |d| number(id as usize, d)).collect::<Vec<_>>()).collect()
}
