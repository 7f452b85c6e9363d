//! Alias tables: draws from a discrete distribution in constant time.
//!
//! Walker's method (1977) divides n outcomes with probabilities p_i among n slots of equal width 1/n. Slot i holds a
//! threshold t_i and an alias a_i: with probability t_i it yields i, otherwise a_i, and
//!
//! ```text
//! n p_i = t_i + sum_{j: a_j = i} (1 - t_j)
//! ```
//!
//! so one draw takes one random number and one slot. Building costs O(n) and no scratch memory beyond the scaled
//! weights: a sweep with one pointer to the next light outcome (n p <= 1) and one to the current heavy one, as in
//! Huebschle-Schneider and Sanders, "Parallel weighted random sampling" (2022), section 3; the result is as in Vose
//! (1991). The 64 random bits of a draw are multiplied by n: the high word is the slot, the low word the coin, with a
//! bias below n / 2^64.
//!
//! [`AliasTable`] is one distribution. [`AliasRows`] has one per row of a sparse matrix, such as the similarities S of
//! clusters, and stores a slot with its alias's id in 12 bytes, so that a draw is a single memory access.

use crate::error::{Error, Result};
use crate::memory::{filled, par_collected, reserve};
use crate::rng::Rng;
use rayon::prelude::*;

/// Number of rows per parallel task of a build.
const ROWS_A_TASK: usize = 256;

/// A distribution over 0..n that can be sampled in constant time; 16 bytes per outcome. See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct AliasTable {
    /// Threshold in units of 2^-64, and the alias.
    slots: Vec<(u64, usize)>,
}

impl AliasTable {
    /// The distribution in proportion to `weights`. Refuses an empty list, weights that are negative, NaN or infinite,
    /// and weights that are all zero. An outcome of weight zero is never drawn.
    pub fn new(weights: &[f64]) -> Result<Self> {
        if weights.is_empty() {
            return Err(bad_weights("empty".into(), "at least one number"));
        }
        check(weights.iter().copied())?;
        let mut scaled = weights.to_vec();
        if !scale(&mut scaled) {
            return Err(bad_weights("0 for every entry".into(), "positive for at least one entry"));
        }
        let mut slots: Vec<(u64, usize)> = (0..scaled.len()).map(|i| (u64::MAX, i)).collect();
        sweep(&scaled, |i, threshold, alias| slots[i] = ((threshold * 2f64.powi(64)) as u64, alias));
        Ok(Self { slots })
    }

    /// Draws one outcome.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> usize {
        let (slot, coin) = split(rng.bits(), self.slots.len());
        let (threshold, alias) = self.slots[slot];
        if coin < threshold { slot } else { alias }
    }
}

/// One slot of a row: yields the first of `ids` if the coin is below `threshold` (in units of 2^-32), otherwise the
/// second. The array lets the choice be an index, without a branch to mispredict.
#[derive(Debug, Clone, Copy)]
struct Slot {
    threshold: u32,
    ids: [u32; 2],
}

/// An alias table for each row of a sparse matrix; 12 bytes per entry and 8 per row. See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct AliasRows {
    offsets: Vec<usize>,
    slots: Vec<Slot>,
}

impl AliasRows {
    /// The tables for a matrix in compressed row form: row r has columns `ids[offsets[r]..offsets[r + 1]]` with these
    /// `weights`. Entries of weight zero are left out, and a row with no others is empty. Refuses weights that are
    /// negative, NaN or infinite. Rows are built independently, in parallel, so the result does not depend on the
    /// number of threads.
    ///
    /// # Panics
    /// If `offsets` is empty, decreases, or does not end at the number of entries.
    pub fn new(offsets: &[usize], ids: &[u32], weights: &[f32]) -> Result<Self> {
        assert!(
            ids.len() == weights.len() && offsets.last() == Some(&ids.len()),
            "offsets end at the number of entries"
        );
        check(weights.iter().map(|&w| f64::from(w)))?;
        let count = |o: &[usize]| weights[o[0]..o[1]].iter().filter(|&&w| w > 0.0).count();
        let counts = par_collected(offsets.par_windows(2).map(count), "S")?;
        let mut starts = Vec::new();
        reserve(&mut starts, offsets.len(), "S")?;
        starts.push(0);
        starts.extend(counts.iter().scan(0, |sum, n| {
            *sum += n;
            Some(*sum)
        }));
        let mut slots = filled(Slot { threshold: 0, ids: [0; 2] }, starts[starts.len() - 1], "S")?;
        let mut tasks = Vec::with_capacity(counts.len().div_ceil(ROWS_A_TASK));
        let mut rest = slots.as_mut_slice();
        for (old, counts) in offsets.windows(ROWS_A_TASK + 1).step_by(ROWS_A_TASK).zip(counts.chunks(ROWS_A_TASK)) {
            let (own, others) = rest.split_at_mut(counts.iter().sum());
            tasks.push((old, counts, own));
            rest = others;
        }
        let whole = counts.len() / ROWS_A_TASK * ROWS_A_TASK;
        tasks.push((&offsets[whole..], &counts[whole..], rest));
        tasks.into_par_iter().for_each(|(offsets, counts, mut slots)| {
            let mut scaled = Vec::new();
            for (o, &count) in offsets.windows(2).zip(counts) {
                let (own, others) = slots.split_at_mut(count);
                fill_row(&ids[o[0]..o[1]], &weights[o[0]..o[1]], own, &mut scaled);
                slots = others;
            }
        });
        Ok(Self { offsets: starts, slots })
    }

    #[inline]
    fn slots_of(&self, row: usize) -> &[Slot] {
        &self.slots[self.offsets[row]..self.offsets[row + 1]]
    }

    /// Draws a column of the row in proportion to its weight; `None` if the row is empty.
    #[inline]
    pub fn draw(&self, row: usize, rng: &mut Rng) -> Option<u32> {
        let slots = self.slots_of(row);
        if slots.is_empty() {
            return None;
        }
        let (slot, coin) = split(rng.bits(), slots.len());
        let Slot { threshold, ids } = &slots[slot];
        Some(ids[usize::from((coin >> 32) as u32 >= *threshold)])
    }
}

/// Builds one row's slots from its entries of positive weight.
fn fill_row(ids: &[u32], weights: &[f32], slots: &mut [Slot], scaled: &mut Vec<f64>) {
    scaled.clear();
    let positive = ids.iter().zip(weights).filter(|&(_, &w)| w > 0.0);
    for (slot, (&id, &w)) in slots.iter_mut().zip(positive) {
        *slot = Slot { threshold: u32::MAX, ids: [id; 2] };
        scaled.push(f64::from(w));
    }
    scale(scaled);
    sweep(scaled, |i, threshold, alias| {
        let other = slots[alias].ids[0];
        slots[i].threshold = (threshold * 2f64.powi(32)).round() as u32;
        slots[i].ids[1] = other;
    });
}

/// The slot (high word) and the coin (low word) of a draw from `n` slots.
#[inline]
fn split(bits: u64, n: usize) -> (usize, u64) {
    let product = u128::from(bits) * n as u128;
    ((product >> 64) as usize, product as u64)
}

/// Scales weights to a mean of 1; `false` if none is positive. Dividing by the largest first keeps sums finite.
fn scale(weights: &mut [f64]) -> bool {
    let largest = weights.iter().copied().fold(0.0, f64::max);
    if largest == 0.0 {
        return false;
    }
    weights.iter_mut().for_each(|w| *w /= largest);
    let factor = weights.len() as f64 / weights.iter().sum::<f64>();
    weights.iter_mut().for_each(|w| *w *= factor);
    true
}

/// Calls `set(slot, threshold, alias)` for every slot with an alias other than itself; the others yield themselves.
fn sweep(scaled: &[f64], mut set: impl FnMut(usize, f64, usize)) {
    let next = |from: usize, heavy: bool| (from..scaled.len()).find(|&i| (scaled[i] > 1.0) == heavy);
    let mut light = next(0, false);
    let Some(mut heavy) = next(0, true) else { return };
    let mut left = scaled[heavy];
    loop {
        if left > 1.0 {
            let Some(i) = light else { return };
            set(i, scaled[i], heavy);
            left -= 1.0 - scaled[i];
            light = next(i + 1, false);
        } else {
            let Some(j) = next(heavy + 1, true) else { break };
            set(heavy, left, j);
            left = scaled[j] - (1.0 - left);
            heavy = j;
        }
    }
    // Rounding may leave light outcomes with no heavy one to fill them: harmless unless their weight is zero.
    while let Some(i) = light {
        if scaled[i] == 0.0 {
            set(i, 0.0, heavy);
        }
        light = next(i + 1, false);
    }
}

fn check(weights: impl Iterator<Item = f64>) -> Result<()> {
    for (i, w) in weights.enumerate() {
        if !(w.is_finite() && w >= 0.0) {
            return Err(bad_weights(format!("{w} at entry {i}"), "finite and at least 0"));
        }
    }
    Ok(())
}

fn bad_weights(value: String, allowed: &str) -> Error {
    Error::BadParameter { name: "weights", value, allowed: allowed.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Stage, stream};
    use proptest::prelude::*;

    fn shapes() -> Vec<Vec<f64>> {
        let mut skewed = vec![1e-3; 50];
        skewed[17] = 1e6;
        vec![
            vec![2.5],
            vec![1.0; 10],
            vec![0.0, 1.0, 0.0, 0.0, 3.0, 0.0],
            (0..100).map(|i| (i % 7) as f64 * 0.3).collect(),
            (1..40).map(|i| 1.0 / (i as f64).powi(2)).collect(),
            skewed,
            vec![1e300, 2e300, 0.0, 1e308, 1.7e308],
        ]
    }

    /// Mean plus 5 standard deviations of chi-square, over cells with an expectation of at least 5; the others must be
    /// rare.
    fn fits(weights: &[f64], counts: &[usize]) {
        let draws: usize = counts.iter().sum();
        let largest = weights.iter().copied().fold(0.0, f64::max);
        let total: f64 = weights.iter().map(|w| w / largest).sum();
        let (mut chi2, mut cells) = (0.0, 0);
        for (w, &c) in weights.iter().zip(counts) {
            let expected = w / largest / total * draws as f64;
            assert!(*w > 0.0 || c == 0, "an outcome of weight 0 was drawn");
            if expected >= 5.0 {
                (chi2, cells) = (chi2 + (c as f64 - expected).powi(2) / expected, cells + 1);
            } else {
                assert!((c as f64) < expected + 25.0);
            }
        }
        let df = (cells - 1) as f64;
        assert!(chi2 <= df + 5.0 * (2.0 * df).sqrt() + 1e-9, "chi-square {chi2} with {df} degrees of freedom");
    }

    #[test]
    fn draws_of_a_table_fit_the_weights() {
        for (k, weights) in shapes().into_iter().enumerate() {
            let table = AliasTable::new(&weights).unwrap();
            let mut rng = stream(11, Stage::Sample, k as u64, 0);
            let mut counts = vec![0; weights.len()];
            (0..200_000).for_each(|_| counts[table.draw(&mut rng)] += 1);
            fits(&weights, &counts);
        }
    }

    #[test]
    fn draws_of_rows_fit_the_weights() {
        let shapes: Vec<Vec<f64>> = shapes().into_iter().take(6).chain([vec![], vec![0.0; 3]]).collect();
        let mut offsets = vec![0];
        shapes.iter().for_each(|s| offsets.push(offsets[offsets.len() - 1] + s.len()));
        let ids: Vec<u32> = shapes.iter().flat_map(|s| (0..s.len() as u32).map(|i| i * 10)).collect();
        let weights: Vec<f32> = shapes.iter().flatten().map(|&w| w as f32).collect();
        let rows = AliasRows::new(&offsets, &ids, &weights).unwrap();
        let mut rng = stream(12, Stage::Proposals, 0, 0);
        for (r, weights) in shapes.iter().enumerate() {
            let drawable = weights.iter().filter(|&&w| w > 0.0).count();
            assert_eq!(rows.slots_of(r).len(), drawable);
            if drawable == 0 {
                assert_eq!(rows.draw(r, &mut rng), None);
                continue;
            }
            let mut counts = vec![0; weights.len()];
            (0..200_000).for_each(|_| counts[rows.draw(r, &mut rng).unwrap() as usize / 10] += 1);
            fits(weights, &counts);
        }
    }

    #[test]
    fn a_seed_keeps_its_meaning() {
        let mut rng = stream(1, Stage::Proposals, 2, 3);
        let table = AliasTable::new(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        let drawn: Vec<usize> = (0..12).map(|_| table.draw(&mut rng)).collect();
        assert_eq!(drawn, [3, 1, 3, 3, 1, 3, 3, 2, 3, 1, 3, 3]);
        let mut rng = stream(1, Stage::Proposals, 2, 3);
        let rows = AliasRows::new(&[0, 4], &[0, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!(drawn.iter().all(|&d| rows.draw(0, &mut rng) == Some(d as u32)));
    }

    #[test]
    fn weights_without_a_distribution_are_refused() {
        for bad in [vec![], vec![0.0, 0.0], vec![1.0, -1.0], vec![f64::NAN], vec![1.0, f64::INFINITY]] {
            assert!(matches!(AliasTable::new(&bad), Err(Error::BadParameter { name: "weights", .. })), "{bad:?}");
        }
        let e = AliasRows::new(&[0, 2], &[0, 1], &[1.0, f32::NAN]).unwrap_err();
        assert_eq!(e.to_string(), "weights is NaN at entry 1; it must be finite and at least 0");
    }

    #[test]
    fn rows_beyond_one_task_are_all_built() {
        for rows in [1usize, 255, 256, 257, 1000] {
            let offsets: Vec<usize> = (0..=rows).map(|r| r * 2).collect();
            let ids: Vec<u32> = (0..2 * rows as u32).collect();
            let table = AliasRows::new(&offsets, &ids, &vec![1.0; 2 * rows]).unwrap();
            let first = |r: usize| table.slots_of(r).iter().map(|s| s.ids[0]);
            assert!((0..rows).all(|r| first(r).eq([2 * r as u32, 2 * r as u32 + 1])));
        }
    }

    proptest! {
        #[test]
        fn the_slots_hold_exactly_the_weights(weights in prop::collection::vec(prop_oneof![Just(0.0), 1e-6..1.0, 1.0..1e6], 1..200)) {
            prop_assume!(weights.iter().any(|&w| w > 0.0));
            let total: f64 = weights.iter().sum();
            let n = weights.len() as f64;
            let table = AliasTable::new(&weights).unwrap();
            let mut mass = vec![0.0; weights.len()];
            for (i, &(threshold, alias)) in table.slots.iter().enumerate() {
                let t = threshold as f64 / 2f64.powi(64);
                mass[i] += t / n;
                mass[alias] += (1.0 - t) / n;
            }
            prop_assert!(mass.iter().zip(&weights).all(|(m, w)| (m - w / total).abs() < 1e-12));

            let narrow: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
            let ids: Vec<u32> = (0..weights.len() as u32).collect();
            let rows = AliasRows::new(&[0, weights.len()], &ids, &narrow).unwrap();
            let mut mass = vec![0.0; weights.len()];
            for s in &rows.slots {
                let t = f64::from(s.threshold) / 2f64.powi(32);
                mass[s.ids[0] as usize] += t / rows.slots.len() as f64;
                mass[s.ids[1] as usize] += (1.0 - t) / rows.slots.len() as f64;
            }
            prop_assert!(mass.iter().zip(&weights).all(|(m, w)| (m - w / total).abs() < 1e-6));
        }
    }
}
