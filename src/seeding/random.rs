//! Random rows: M different rows, each drawn in proportion to its weight among those not drawn yet.
//!
//! Efraimidis and Spirakis (2006): row n gets the key e_n / w_n with e_n from the exponential distribution. The rows
//! with the M smallest keys, in order of their keys, are such a sample: among independent exponential clocks, clock n
//! rings first with probability w_n / sum w, and the others are memoryless. O(N) for the keys, in parallel, and O(M log
//! M) to sort; at most 16 bytes of memory per row.

use super::{Seeds, check_clusters};
use crate::data::{BLOCK, Dataset};
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::reserve;
use crate::observer::Observer;
use crate::parallel::{Run, map_blocks};
use crate::rng::{Stage, stream};
use rayon::prelude::*;

/// `clusters` different rows, drawn in proportion to their weights, without replacement.
///
/// ```
/// use dgmm::{Dataset, Run, seeding::random_rows};
/// let x = ndarray::array![[0.0], [1.0], [2.0]];
/// let data = Dataset::new(x.view())?.weighted(ndarray::array![1.0, 0.0, 5.0].view())?;
/// let mut seeds = random_rows(&data, 2, 7, &Run::default())?;
/// seeds.indices.sort();
/// assert_eq!(seeds.indices, [0, 2]);
/// # Ok::<(), dgmm::Error>(())
/// ```
pub fn random_rows<T: Real>(data: &Dataset<'_, T>, clusters: usize, seed: u64, run: &Run<'_>) -> Result<Seeds<T>> {
    check_clusters(data, clusters)?;
    run.install(|| {
        data.moments(run.observer)?;
        seed_random(data, clusters, seed, run.observer)
    })
}

/// [`random_rows`] for data known to be finite, in the caller's thread pool.
pub(crate) fn seed_random<T: Real>(
    data: &Dataset<'_, T>,
    clusters: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Seeds<T>> {
    let indices = weighted_order(data, clusters, seed, 0, |_| false, observer)?;
    Seeds::of_rows(data, indices, 0)
}

/// The first `count` rows of positive weight that are not `excluded`, in the order in which they are drawn without
/// replacement; all of them if there are fewer. `use_of` separates the random streams of different uses.
pub(super) fn weighted_order<T: Real>(
    data: &Dataset<'_, T>,
    count: usize,
    seed: u64,
    use_of: u64,
    excluded: impl Fn(usize) -> bool + Sync,
    observer: &dyn Observer,
) -> Result<Vec<usize>> {
    let blocks = map_blocks(data.rows(), BLOCK, observer, |i, rows| {
        let mut rng = stream(seed, Stage::Seeding, use_of, i as u64);
        let mut keys = Vec::with_capacity(rows.len());
        for n in rows {
            // Drawn for every row, so that a row's number does not depend on other rows' weights.
            let clock = -(1.0 - rng.unit()).ln();
            let weight = data.weight(n);
            if weight > 0.0 && !excluded(n) {
                keys.push((clock / weight, n));
            }
        }
        smallest(&mut keys, count);
        keys
    })?;
    let mut keys = Vec::new();
    reserve(&mut keys, blocks.iter().map(Vec::len).sum(), "draws")?;
    blocks.iter().for_each(|block| keys.extend_from_slice(block));
    smallest(&mut keys, count);
    keys.par_sort_unstable_by(by_key);
    Ok(keys.into_iter().map(|(_, n)| n).collect())
}

fn by_key(a: &(f64, usize), b: &(f64, usize)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// Keeps the `count` smallest keys, in any order.
fn smallest(keys: &mut Vec<(f64, usize)>, count: usize) {
    if count < keys.len() {
        keys.select_nth_unstable_by(count, by_key);
        keys.truncate(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use ndarray::{Array2, array};

    #[test]
    fn pairs_are_drawn_as_often_as_successive_sampling_says() {
        let x = Array2::<f32>::zeros((4, 1));
        let w = [1.0, 2.0, 0.0, 5.0];
        let data = Dataset::new(x.view()).unwrap().weighted(array![1.0, 2.0, 0.0, 5.0].view()).unwrap();
        let trials = 20_000;
        let mut counts = [[0usize; 4]; 4];
        for seed in 0..trials {
            let drawn = weighted_order(&data, 2, seed, 0, |_| false, &Silent).unwrap();
            counts[drawn[0]][drawn[1]] += 1;
        }
        let mut chi2 = 0.0;
        for i in 0..4 {
            for j in 0..4 {
                let p = if i == j { 0.0 } else { w[i] / 8.0 * w[j] / (8.0 - w[i]) };
                let expected = p * trials as f64;
                if expected == 0.0 {
                    assert_eq!(counts[i][j], 0);
                } else {
                    chi2 += (counts[i][j] as f64 - expected).powi(2) / expected;
                }
            }
        }
        assert!(chi2 < 25.7, "chi-square {chi2} with 5 degrees of freedom");
    }

    #[test]
    fn a_shorter_sample_is_the_beginning_of_a_longer_one() {
        let x = Array2::<f32>::zeros((5000, 1));
        let data = Dataset::new(x.view()).unwrap();
        let order = |count| weighted_order(&data, count, 3, 0, |n| n % 2 == 0, &Silent).unwrap();
        let all = order(5000);
        assert_eq!(all.len(), 2500);
        assert_eq!(order(37), all[..37]);
    }
}
