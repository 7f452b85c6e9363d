//! Every kernel against its plain twin, for each instruction set of the machine, in both precisions.

mod blocks;
mod soft;

use super::block::{Centers, RowBlock};
use super::dispatch::Isa;
use super::gathered::{Kept, Look, Part, Posteriors};
use super::hard::{self, CenterSums, Join};
use super::moments::Columns;
use super::sums::{Move, Share};
use super::{distance, exp, gathered, moments, pack, reference, scored, sums};
use crate::kernel::Real;
use crate::kernel::Table;
use proptest::prelude::*;

/// Numbers between -1 and 1 from a small generator.
fn numbers<T: Real>(n: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::from_f64((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    (0..n).map(|_| next()).collect()
}

/// Runs a check for each instruction set and type.
macro_rules! everywhere {
    ($check:ident($($arg:expr),*)) => {
        for isa in Isa::available() {
            $check::<f32>(isa, $($arg),*);
            $check::<f64>(isa, $($arg),*);
        }
    };
}
use everywhere;

/// Equal up to `scale` roundings of numbers of about `size`.
fn assert_close<T: Real>(a: T, b: T, size: f64, what: &str) {
    let error = (a.to_f64() - b.to_f64()).abs();
    assert!(error <= 16.0 * T::EPSILON.to_f64() * size, "{what}: {a} is not {b} ({error:e} off)");
}

fn loaded<T: Real>(isa: Isa, rows: &[T], dim: usize, origin: Option<&[T]>) -> RowBlock<T> {
    let mut block = RowBlock::with_isa(isa);
    block.load(rows, dim, origin);
    block
}

fn nearest<T: Real>(block: &RowBlock<T>, centers: &Centers<'_, T>, h: usize) -> (Vec<u32>, Vec<T>) {
    let (mut ids, mut dist) = (vec![u32::MAX; block.rows * h], vec![-T::ONE; block.rows * h]);
    block.nearest(centers, h, &mut ids, &mut dist);
    (ids, dist)
}

fn pairs_agree<T: Real>(isa: Isa, dim: usize, m: usize, seed: u64) {
    let (row, centers) = (numbers::<T>(dim, seed), numbers::<T>(m * dim, seed + 1));
    let ids: Vec<u32> = (0..m as u32).map(|i| (i * 7 + seed as u32) % m as u32).collect();
    let mut out = vec![T::ZERO; m];
    distance::gathered_distances(isa, &row, &centers, &ids, &mut out);
    for (&id, &d) in ids.iter().zip(&out) {
        let mu = &centers[id as usize * dim..][..dim];
        assert_close(d, reference::squared_distance(&row, mu), 4.0 * dim as f64, "gathered");
        assert_eq!(d, distance::squared_distance(isa, &row, mu), "a gather of one");
    }
}

fn joins_agree<T: Real>(isa: Isa, dim: usize, rows: usize, m: usize, seed: u64) {
    let (values, centers) = (numbers::<T>(rows * dim, seed), numbers::<T>(m * dim, seed + 1));
    let labels: Vec<u32> = (0..rows as u32).map(|i| (i * 7 + seed as u32) % m as u32).collect();
    let weights: Vec<f64> = (0..rows).map(|i| 0.3 * (i % 5) as f64).collect();
    for weights in [None, Some(weights.as_slice())] {
        let start = CenterSums { sums: vec![0.5; m * dim], mass: vec![0.25; m] };
        let (mut fast, mut plain) = (start.clone(), start);
        let expected = reference::join(&values, &centers, dim, &labels, weights, &mut plain);
        for wanted in [true, false] {
            let mut distances = vec![-T::ONE; rows];
            let sums = wanted.then_some(&mut fast);
            let (rows, centers, labels, out) = (&values[..], &centers[..], &labels[..], &mut distances[..]);
            let total = hard::join(isa, Join { rows, dim, centers, labels, weights, distances: out, sums });
            let pairs = distances.iter().zip(&expected).zip(rows.chunks_exact(dim)).zip(labels);
            for (((&d, &e), row), &c) in pairs {
                assert_close(d, e, 4.0 * dim as f64, "join");
                assert_eq!(d, distance::squared_distance(isa, row, &centers[c as usize * dim..][..dim]));
            }
            let weighted = |(r, d): (usize, &T)| weights.map_or(1.0, |w| w[r]) * d.to_f64();
            assert_eq!(total, distances.iter().enumerate().map(weighted).sum::<f64>());
        }
        assert_eq!(fast.mass, plain.mass);
        fast.sums.iter().zip(&plain.sums).for_each(|(&a, &b)| assert_close(a, b, rows as f64, "sums of a join"));
    }
}

fn sums_agree<T: Real>(isa: Isa, dim: usize, m: usize, seed: u64) {
    let (rows, centers, start) =
        (numbers::<T>(m * dim, seed), numbers::<T>(m * dim, seed + 1), numbers::<T>(m * dim, seed + 2));
    let weight = |i: u32| T::from_f64(0.3 * f64::from(i % 5));
    let other = |i: u32| (i * 7 + 3) % m as u32;
    let shares: Vec<Share<T>> =
        (0..m as u32 + 3).map(|i| Share { row: i % m as u32, place: other(i), weight: weight(i) }).collect();
    let (mut fast, mut plain) = (start.clone(), start.clone());
    sums::add_rows(isa, &mut fast, &rows, dim, &shares);
    reference::add_rows(&mut plain, &rows, dim, &shares);
    fast.iter().zip(&plain).for_each(|(&a, &b)| assert_close(a, b, 8.0, "add_rows"));
    let moves: Vec<Move<T>> = (0..m as u32).map(|i| Move { from: i, to: other(i), mass: weight(i) }).collect();
    let (mut fast, mut plain) = (start.clone(), start);
    sums::settle(isa, &mut fast, &rows, &centers, dim, &moves);
    reference::settle(&mut plain, &rows, &centers, dim, &moves);
    fast.iter().zip(&plain).for_each(|(&a, &b)| assert_close(a, b, 8.0, "settle"));
    let weights: Vec<f64> = (0..m as u32).map(|i| weight(i).to_f64()).collect();
    for weights in [None, Some(weights.as_slice())] {
        let mut columns = Columns::new(dim);
        moments::add_columns(isa, &rows, weights, &mut columns);
        let mean: Vec<f64> = columns.sum.iter().map(|s| s / m as f64).collect();
        let mut scatter = vec![0.0; dim];
        moments::add_scatter(isa, &rows, weights, &mean, &mut scatter);
        let [sum, min, max, apart] = reference::column_moments(&rows, weights, &mean);
        assert_eq!((columns.sum, columns.min, columns.max, scatter), (sum, min, max, apart));
        assert!(columns.finite.iter().all(|&x| x == 0.0));
    }
    let sum: Vec<f64> = rows[..dim].iter().map(|x| 3.7 * x.to_f64()).collect();
    for step in [1.0, 1.6] {
        let (mut fast, mut plain) = (centers[..dim].to_vec(), centers[..dim].to_vec());
        let drop = sums::move_center(isa, &mut fast, &sum, 3.7, step);
        let expected = reference::move_center(&mut plain, &sum, 3.7, step);
        assert_eq!(fast, plain, "moved centers");
        assert_close(drop, expected, 4.0 * dim as f64, "what a move gains");
    }
    let ids: Vec<u32> = (0..m as u32).map(other).collect();
    let mut out = vec![T::ZERO; m * dim];
    let factors = numbers::<T>(rows.len() / dim, seed + 9);
    for factors in [None, Some(&factors[..])] {
        for origin in [None, Some(&centers[..dim])] {
            pack::gather(isa, Table { values: &rows, dim, factors }, &ids, origin, &mut out);
            assert_eq!(out, reference::gathered(&rows, dim, factors, &ids, origin));
        }
    }
}

fn gathered_looks_agree<T: Real>(isa: Isa, dim: usize, rows: usize, width: usize, keep: usize, seed: u64) {
    let m = width + 3;
    let (values, centers) = (numbers::<T>(rows * dim, seed), numbers::<T>(m * dim, seed + 1));
    let numbers_of: Vec<u32> = (0..rows as u32).map(|r| (r * 5 + 2) % rows as u32).collect();
    // Different candidates for each row, each starting elsewhere.
    let candidates: Vec<u32> = (0..rows).flat_map(|r| (0..width).map(move |k| ((r * 7 + k) % m) as u32)).collect();
    let mut kept = Kept::with_isa(isa);
    let (rows_of, dim_size) = (&numbers_of[..], 4.0 * dim as f64);
    kept.find(Look { values: &values, dim, rows: rows_of, centers: &centers, candidates: &candidates, keep });
    let (tile, scale) = (kept.tile(), T::from_f64(-0.7));
    let (mut shares, mut total, mut spread) = (vec![T::ZERO; keep * tile], vec![T::ZERO; tile], vec![T::ZERO; tile]);
    for (r, &row) in rows_of.iter().enumerate() {
        let (lane, y) = (r % tile, &values[row as usize * dim..][..dim]);
        let (distances, slots) = kept.tile_lists(r / tile);
        let (shares, total, spread) = (&mut shares[..], &mut total[..], &mut spread[..]);
        gathered::posteriors(isa, Posteriors { distances, scale, shares, total, spread });
        let at = |k: usize| k * tile + lane;
        let center = |c: u32| &centers[c as usize * dim..][..dim];
        let mut plain: Vec<T> =
            candidates[r * width..(r + 1) * width].iter().map(|&c| reference::squared_distance(y, center(c))).collect();
        plain.sort_by(|a, b| a.total_cmp(b));
        let own: Vec<T> = (0..keep).map(|k| distances[at(k)]).collect();
        assert!(own.is_sorted());
        for k in 0..keep {
            assert_close(own[k], plain[k], dim_size, "the nearest of a row's own");
            let c = candidates[r * width + slots[at(k)].to_index() as usize];
            assert_close(own[k], reference::squared_distance(y, center(c)), dim_size, "the distance of the candidate");
        }
        let (q, sum, apart) = reference::posterior(&own, scale);
        (0..keep).for_each(|k| assert_close(shares[at(k)], q[k], 1.0, "posterior"));
        assert_close(total[lane], sum, keep as f64, "sum of the posterior");
        assert_close(spread[lane], apart, keep as f64, "spread");
    }
    let parts: Vec<Part<T>> = (0..candidates.len() as u32)
        .map(|i| Part { row: i % rows as u32, cluster: i % m as u32, place: (i * 3) % 4, weight: T::from_f64(0.1) })
        .collect();
    let start = numbers::<T>(4 * dim, seed + 2);
    let (mut fast, mut plain) = (start.clone(), start);
    gathered::add_parts(isa, &mut fast, &values, &centers, dim, &parts);
    reference::add_parts(&mut plain, &values, &centers, dim, &parts);
    fast.iter().zip(&plain).for_each(|(&a, &b)| assert_close(a, b, parts.len() as f64, "add_parts"));
}

fn scores_agree<T: Real>(isa: Isa, dim: usize, m: usize, seed: u64) {
    let (row, centers) = (numbers::<T>(dim, seed), numbers::<T>(m * dim, seed + 1));
    let precisions: Vec<T> = numbers::<T>(m * dim, seed + 2).into_iter().map(|p| p * p).collect();
    let ids: Vec<u32> = (0..m as u32).map(|i| (i * 7 + seed as u32) % m as u32).collect();
    for shared in [false, true] {
        let mut out = vec![T::ZERO; m];
        let given = if shared { &precisions[..dim] } else { &precisions[..] };
        scored::weighted_distances(isa, &row, &centers, given, &ids, &mut out);
        for (&id, &d) in ids.iter().zip(&out) {
            let own = id as usize * dim;
            let p = if shared { given } else { &given[own..own + dim] };
            let plain = reference::weighted_distance(&row, &centers[own..own + dim], p);
            assert_close(d, plain, 4.0 * dim as f64, "weighted");
        }
    }
    for (own, squares) in [(&precisions[..dim], dim), (&precisions[..1], 1), (&precisions[..1], dim)] {
        let (mut products, mut lifted) = (row.clone(), vec![T::ZERO; squares]);
        let norm = scored::weigh(isa, &mut products, &mut lifted, own);
        let (expected, halves, sum) = reference::weigh(&row, squares, own);
        assert_eq!((products, lifted), (expected, halves));
        approx::assert_relative_eq!(norm, sum, max_relative = 1e-12);
    }
    let rows = numbers::<T>(5 * dim, seed + 3);
    let parts: Vec<Part<T>> = (0..3 * m as u32)
        .map(|i| Part { row: i % 5, cluster: i % m as u32, place: (i * 3) % 4, weight: T::from_f64(0.1) })
        .collect();
    for stride in [dim + 1, 2 * dim] {
        let start = numbers::<T>(4 * stride, seed + 4);
        let (mut fast, mut plain) = (start.clone(), start);
        scored::add_moments(isa, &mut fast, stride, &rows, &centers, dim, &parts);
        reference::add_moments(&mut plain, stride, &rows, &centers, dim, &parts);
        let size = (parts.len() * dim) as f64;
        fast.iter().zip(&plain).for_each(|(&a, &b)| assert_close(a, b, size, "add_moments"));
    }
}

fn packing_agrees<T: Real>(isa: Isa, dim: usize, rows: usize, seed: u64) {
    let values = numbers::<T>(rows * dim, seed);
    let origin = numbers::<T>(dim, seed + 1);
    for extra in [1, dim] {
        let mut block = RowBlock::with_isa(isa);
        block.load_lifted(&values, dim, extra);
        let lifted = reference::lifted(&values, dim, extra);
        let plain = reference::packed(&lifted, dim + extra, None, block.tile());
        block.packed().iter().zip(&plain).for_each(|(&a, &b)| assert_close(a, b, dim as f64, "lifted"));
        assert!((0..rows.div_ceil(block.tile())).all(|t| block.tile_norms(t).iter().all(|&x| x == T::ZERO)));
    }
    for origin in [None, Some(&origin[..])] {
        let block = loaded(isa, &values, dim, origin);
        let plain = reference::packed(&values, dim, origin, block.tile());
        assert_eq!(block.packed(), plain);
        let ids: Vec<u32> = (0..rows as u32).map(|i| (i * 5 + 3) % rows as u32).collect();
        let mut gathered = RowBlock::with_isa(isa);
        gathered.load_gathered(Table::plain(&values, dim), &ids, origin);
        let mut picked = Vec::new();
        for (i, &id) in ids.iter().enumerate() {
            let row = &values[id as usize * dim..][..dim];
            picked.extend_from_slice(row);
            let shifted: Vec<T> = (0..dim).map(|d| origin.map_or(row[d], |o| row[d] - o[d])).collect();
            assert_eq!(gathered.row(i), shifted);
        }
        assert_eq!(gathered.packed(), reference::packed(&picked, dim, origin, gathered.tile()));
    }
    let centers = Centers::with_isa(isa, &values, dim);
    let plain = reference::squared_norms(&values, dim);
    assert_eq!(centers.len(), rows);
    centers.norms.iter().zip(&plain).for_each(|(&a, &b)| assert_close(a, b, dim as f64, "norm"));
}

fn blocks_agree<T: Real>(isa: Isa, dim: usize, rows: usize, m: usize, h: usize, seed: u64) {
    let (values, mu) = (numbers::<T>(rows * dim, seed), numbers::<T>(m * dim, seed + 1));
    let (block, centers) = (loaded(isa, &values, dim, None), Centers::with_isa(isa, &mu, dim));
    let size = 4.0 * dim as f64;
    let mut all = vec![-T::ONE; rows * m];
    block.distances(&centers, &mut all);
    for (row, all) in values.chunks_exact(dim).zip(all.chunks_exact(m)) {
        for (&d, mu) in all.iter().zip(mu.chunks_exact(dim)) {
            assert_close(d, reference::squared_distance(row, mu), size, "distances");
        }
    }
    let (ids, dist) = nearest(&block, &centers, h);
    for (r, row) in values.chunks_exact(dim).enumerate() {
        let (ids, dist) = (&ids[r * h..(r + 1) * h], &dist[r * h..(r + 1) * h]);
        for (k, (_, d)) in reference::nearest(row, &mu, h).into_iter().enumerate() {
            // The order of two that rounding cannot tell apart is arbitrary, but their distances are not.
            assert_close(dist[k], d, size, "nearest");
            assert_eq!(dist[k], all[r * m + ids[k] as usize], "the distance of the id");
        }
        assert!(dist.is_sorted());
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), h);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn pairs_and_gathers_agree_with_their_twins(dim in 1usize..130, m in 1usize..14, seed in 1u64..1000) {
        everywhere!(pairs_agree(dim, m, seed));
        everywhere!(sums_agree(dim, m, seed));
        everywhere!(scores_agree(dim, m, seed));
    }

    #[test]
    fn looks_at_gathered_candidates_agree_with_their_twins(
        dim in 1usize..150, rows in 1usize..75, width in 1usize..30, keep in 1usize..12, seed in 1u64..1000,
    ) {
        everywhere!(gathered_looks_agree(dim, rows, width, keep.min(width), seed));
    }

    #[test]
    fn joins_agree_with_their_twin(dim in 1usize..130, rows in 1usize..40, m in 1usize..9, seed in 1u64..1000) {
        everywhere!(joins_agree(dim, rows, m, seed));
    }

    #[test]
    fn packing_agrees_with_its_twin(dim in 1usize..130, rows in 1usize..75, seed in 1u64..1000) {
        everywhere!(packing_agrees(dim, rows, seed));
    }

    #[test]
    fn dense_blocks_agree_with_their_twins(
        dim in 1usize..130, rows in 1usize..75, m in 1usize..140, h in 1usize..12, seed in 1u64..1000,
    ) {
        everywhere!(blocks_agree(dim, rows, m, h.min(m), seed));
    }
}

fn exp_agrees<T: Real>(isa: Isa, _: ()) {
    let least = T::LEAST.to_f64();
    let mut xs: Vec<T> = (0..=20_000).map(|i| T::from_f64(least * f64::from(i) / 20_000.0)).collect();
    xs.extend((0..400).map(|i| T::from_f64(-1e-5 * f64::from(i * i))));
    let mut ys = xs.clone();
    exp::exp_neg(isa, &mut ys);
    let mut plain = xs.clone();
    reference::exp_neg(&mut plain);
    for ((&x, &y), &p) in xs.iter().zip(&ys).zip(&plain) {
        // In f64 for f32, so that the twin's own rounding does not count.
        let exact = if T::NAME == "float32" && p > T::ZERO { x.to_f64().exp() } else { p.to_f64() };
        let error = (y.to_f64() - exact).abs();
        assert!(error <= 3.0 * T::EPSILON.to_f64() * exact, "exp({x}) = {y}, not {exact:e}");
    }
    for n in 1..40 {
        for start in 0..17 {
            let mut part = xs[start * 31..][..n].to_vec();
            exp::exp_neg(isa, &mut part);
            assert_eq!(part, ys[start * 31..][..n], "depends on the position");
        }
    }
    let mut edge = [T::ZERO, -T::ZERO, -T::INFINITY, -T::MAX, T::LEAST + T::LEAST];
    exp::exp_neg(isa, &mut edge);
    assert_eq!(edge, [T::ONE, T::ONE, T::ZERO, T::ZERO, T::ZERO]);
}

#[test]
fn exp_agrees_with_its_twin_wherever_the_argument_stands() {
    everywhere!(exp_agrees(()));
}
