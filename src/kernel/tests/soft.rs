//! Rows shared among all centers.

use super::{everywhere, loaded, numbers};
use crate::kernel::block::Centers;
use crate::kernel::dispatch::Isa;
use crate::kernel::hard::CenterSums;
use crate::kernel::soft::{ROOM, SoftBlock, SoftScratch, SoftTotals};
use crate::kernel::{Real, reference};
use proptest::prelude::*;

/// Rows, centers and how they are shared.
struct Case<'a, T> {
    rows: &'a [T],
    centers: Centers<'a, T>,
    squared: bool,
    scale: T,
    weights: Option<&'a [f64]>,
}

impl<T: Real> Case<'_, T> {
    fn sums(&self) -> CenterSums {
        CenterSums { sums: vec![0.5; self.centers.values.len()], mass: vec![0.25; self.centers.len()] }
    }

    /// The label and value of each row, sums and totals.
    fn share(&self, isa: Isa, wide: bool) -> (Vec<(u32, T)>, CenterSums, SoftTotals) {
        let &Case { squared, scale, weights, ref centers, .. } = self;
        let (block, count) = (loaded(isa, self.rows, centers.dim, None), self.rows.len() / centers.dim);
        // What follows the rows must not matter.
        let rows: Vec<T> = self.rows.iter().copied().chain([T::INFINITY; ROOM]).collect();
        let (mut sums, mut scratch) = (self.sums(), SoftScratch::default());
        let (mut labels, mut nearest) = (vec![u32::MAX; count], vec![-T::ONE; count]);
        let mut run = |sums: Option<&mut CenterSums>| {
            let (rows, labels, nearest) = (&rows[..], &mut labels[..], &mut nearest[..]);
            let soft = SoftBlock { block: &block, rows, centers, squared, scale, wide, weights, labels, nearest, sums };
            soft.share(&mut scratch).unwrap()
        };
        let totals = run(Some(&mut sums));
        assert_eq!(run(None), totals, "without sums, in used memory");
        (labels.into_iter().zip(nearest).collect(), sums, totals)
    }

    /// Compares with the plain twin: values up to `error`, and posteriors up to the effect of that error.
    fn agrees(&self, isa: Isa, wide: bool, error: f64) {
        let (nearest, sums, totals) = self.share(isa, wide);
        let mut plain = self.sums();
        let (expected, expected_totals) =
            reference::share(self.rows, &self.centers, self.squared, self.scale, self.weights, &mut plain);
        for ((c, v), (expected_c, expected_v)) in nearest.iter().zip(&expected) {
            let apart = (v.to_f64() - expected_v.to_f64()).abs();
            assert!(apart <= error, "value {v}, not {expected_v}");
            assert!(c == expected_c || apart > 0.0 || self.squared, "label {c}, not {expected_c}");
        }
        // The mass that rounding can move: by the error in the exponent, and by what only one of them neglects.
        let (rows, m) = (expected.len() as f64, plain.mass.len() as f64);
        let moved = 8.0 * error * self.scale.to_f64().abs() + 64.0 * T::EPSILON.to_f64();
        let moved = rows * (moved + 2.0 * m * T::NEGLIGIBLE.to_f64());
        let close = |a: f64, b: f64, size: f64, what: &str| {
            assert!((a - b).abs() <= moved * size, "{what}: {a}, not {b} (up to {})", moved * size);
        };
        sums.mass.iter().zip(&plain.mass).for_each(|(&a, &b)| close(a, b, 1.0, "mass"));
        sums.sums.iter().zip(&plain.sums).for_each(|(&a, &b)| close(a, b, 1.0, "sum"));
        let size = 1.0 / self.scale.to_f64().abs();
        close(totals.log, expected_totals.log, 1.0, "log");
        close(totals.nearest, expected_totals.nearest, size, "nearest");
        close(totals.mean, expected_totals.mean, 30.0 * size, "mean");
    }
}

fn shares_agree<T: Real>(isa: Isa, dim: usize, count: usize, m: usize, seed: u64) {
    let (rows, mu) = (numbers::<T>(count * dim, seed), numbers::<T>(m * dim, seed + 1));
    let some: Vec<f64> = (0..count).map(|i| 0.3 * (i % 5) as f64).collect();
    let error = 16.0 * T::EPSILON.to_f64() * 4.0 * dim as f64;
    for (sharpness, weights) in [(0.5, None), (5.0, Some(&some[..])), (60.0, None)] {
        let scale = T::from_f64(-sharpness / (dim as f64).sqrt());
        let centers = Centers::with_isa(isa, &mu, dim);
        Case { rows: &rows, centers, squared: true, scale, weights }.agrees(isa, false, error);
        let centers = Centers { norms: numbers(m, seed + 2), ..Centers::with_isa(isa, &mu, dim) };
        Case { rows: &rows, centers, squared: false, scale, weights }.agrees(isa, true, error);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn shared_rows_agree_with_their_twin(
        dim in 1usize..130, rows in 1usize..75, m in 1usize..200, seed in 1u64..1000,
    ) {
        everywhere!(shares_agree(dim, rows, m, seed));
    }
}

fn tight<T: Real>(isa: Isa, dim: usize) {
    // Rows around two dozen centers that are far from 0 relative to the distances; every third row is elsewhere.
    let (m, count) = (24, 70);
    let mu: Vec<T> = numbers::<T>(m * dim, 1).iter().map(|&x| x + T::from_f64(4.0)).collect();
    let noise = numbers::<T>(count * dim, 2);
    let place = |n: usize, d: usize| match n % 3 {
        0 => mu[(n * 7 % m) * dim + d] + T::from_f64(3.0) * noise[n * dim + d],
        _ => mu[(n * 7 % m) * dim + d] + T::from_f64(1e-5) * noise[n * dim + d],
    };
    let rows: Vec<T> = (0..count * dim).map(|i| place(i / dim, i % dim)).collect();
    let case = Case {
        rows: &rows,
        centers: Centers::with_isa(isa, &mu, dim),
        squared: true,
        scale: T::from_f64(-1e9),
        weights: None,
    };
    let (nearest, sums, totals) = case.share(isa, false);
    let mut plain = case.sums();
    let (expected, expected_totals) = reference::share(&rows, &case.centers, true, case.scale, None, &mut plain);
    for (n, (&(c, v), &(expected_c, expected_v))) in nearest.iter().zip(&expected).enumerate() {
        if n % 3 != 0 {
            assert_eq!(c, expected_c);
            approx::assert_relative_eq!(v.to_f64(), expected_v.to_f64(), max_relative = 1e-4);
        }
    }
    approx::assert_relative_eq!(totals.nearest, expected_totals.nearest, max_relative = 1e-4);
    sums.mass.iter().zip(&plain.mass).for_each(|(a, b)| approx::assert_relative_eq!(a, b, max_relative = 1e-3));
}

#[test]
fn small_distances_keep_their_digits() {
    for dim in [1, 5, 16, 33] {
        everywhere!(tight(dim));
    }
}

fn ties<T: Real>(isa: Isa, dim: usize) {
    // Centers 1, 3, 5, ... are all the same and nearest.
    let one = numbers::<T>(dim, 3);
    let far: Vec<T> = one.iter().map(|&x| x + T::from_f64(8.0)).collect();
    let mu: Vec<T> = (0..90).flat_map(|c| if c % 2 == 1 { one.clone() } else { far.clone() }).collect();
    let rows: Vec<T> = numbers::<T>(37 * dim, 9).iter().zip(one.iter().cycle()).map(|(&x, &o)| o + x).collect();
    let case = Case {
        rows: &rows,
        centers: Centers::with_isa(isa, &mu, dim),
        squared: true,
        scale: T::from_f64(-2.0),
        weights: None,
    };
    let (nearest, sums, totals) = case.share(isa, false);
    assert!(nearest.iter().all(|&(c, _)| c == 1));
    for (c, mass) in sums.mass.iter().enumerate() {
        let expected = if c % 2 == 1 { 37.0 / 45.0 } else { 0.0 };
        approx::assert_relative_eq!(*mass, 0.25 + expected, max_relative = 1e-6);
    }
    approx::assert_relative_eq!(totals.log, 37.0 * 45.0_f64.ln(), max_relative = 1e-6);
}

#[test]
fn equal_centers_have_equal_shares_and_the_first_is_the_label() {
    for dim in [2, 7, 16] {
        everywhere!(ties(dim));
    }
}

#[test]
fn sums_of_many_shares_keep_their_digits() {
    // As many centers as rows have shares in, all equal: `f32` sums of 20,000 ones and halves would be off.
    let (m, dim) = (20_001, 3);
    let mu = vec![1.0_f32; m * dim];
    let rows = [0.3_f32; 3 * 3];
    let case = Case {
        rows: &rows,
        centers: Centers::new(&mu, dim),
        squared: true,
        scale: -1.0,
        weights: Some(&[1.0, 0.0, 2.0]),
    };
    let (_, sums, totals) = case.share(Isa::best(), true);
    approx::assert_relative_eq!(sums.mass.iter().sum::<f64>() - 0.25 * m as f64, 3.0, max_relative = 1e-9);
    approx::assert_relative_eq!(totals.log, 3.0 * (m as f64).ln(), max_relative = 1e-12);
}
