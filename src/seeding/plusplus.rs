//! k-means++ (Arthur and Vassilvitskii, 2007): the next center is row n with probability
//!
//! ```text
//! p(n) = w_n d(n, C)^2 / sum_i w_i d(i, C)^2        (the first: w_n / W)
//! ```
//!
//! where C is the set of centers so far. Each new center costs one pass of N distances, in parallel over fixed blocks
//! whose sums are added in order; O(N M D) in all, with one number per row in the data's type. If every row coincides
//! with a center (fewer distinct rows than clusters), the remaining centers are rows not chosen yet, drawn in
//! proportion to their weights.

use super::random::weighted_order;
use super::{Seeds, check_clusters};
use crate::data::{BLOCK, Dataset, draw_by_weight, pick};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{filled, reserve, reserve_set};
use crate::observer::Observer;
use crate::parallel::{Run, block, sum_blocks};
use crate::rng::{Stage, stream};
use rayon::prelude::*;
use std::collections::HashSet;

/// `clusters` rows chosen by k-means++ (Arthur and Vassilvitskii, 2007), each in proportion to its weight times its
/// squared distance to the nearest center so far. If every row coincides with a center, the remaining centers are rows
/// not chosen yet, drawn in proportion to their weights.
///
/// ```
/// use dgmm::{Dataset, Run, seeding::kmeans_plus_plus};
/// let x = ndarray::array![[0.0], [0.0], [5.0], [9.0]];
/// let mut seeds = kmeans_plus_plus(&Dataset::new(x.view())?, 3, 7, &Run::default())?;
/// seeds.indices.sort();
/// assert_eq!(seeds.indices[1..], [2, 3]);
/// assert_eq!(seeds.evaluations, 4 * 2);
/// # Ok::<(), dgmm::Error>(())
/// ```
pub fn kmeans_plus_plus<T: Real>(data: &Dataset<'_, T>, clusters: usize, seed: u64, run: &Run<'_>) -> Result<Seeds<T>> {
    check_clusters(data, clusters)?;
    run.install(|| {
        data.moments(run.observer)?;
        seed_plus_plus(data, clusters, 1, seed, run.observer)
    })
}

/// [`kmeans_plus_plus`] for data known to be finite, in the caller's thread pool. With more than one trial it is
/// greedy: of that many draws, the one that leaves the smallest error becomes the next center.
pub(crate) fn seed_plus_plus<T: Real>(
    data: &Dataset<'_, T>,
    clusters: usize,
    trials: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Seeds<T>> {
    let mut rng = stream(seed, Stage::Seeding, 0, 0);
    let mut indices = Vec::new();
    reserve(&mut indices, clusters, "centers")?;
    indices.push(draw_by_weight(data, &mut rng));
    let mut nearest = filled(T::INFINITY, data.rows(), "distances")?;
    let mut evaluations = 0;
    let mut last = Vec::new();
    while indices.len() < clusters {
        let sums = add_center(data, data.row(indices[indices.len() - 1], &mut last), &mut nearest, observer)?;
        evaluations += data.rows() as u64;
        let total: f64 = sums.iter().sum();
        if total == 0.0 {
            let mut chosen = HashSet::new();
            reserve_set(&mut chosen, indices.len(), "centers")?;
            chosen.extend(indices.iter().copied());
            let missing = clusters - indices.len();
            indices.extend(weighted_order(data, missing, seed, 1, |n| chosen.contains(&n), observer)?);
            break;
        }
        let mut best = draw(data, &nearest, &sums, rng.unit() * total);
        if trials > 1 {
            let mut least = error_with(data, best, &nearest, observer)?;
            for _ in 1..trials {
                let other = draw(data, &nearest, &sums, rng.unit() * total);
                let error = error_with(data, other, &nearest, observer)?;
                if error < least {
                    (best, least) = (other, error);
                }
            }
            evaluations += (trials * data.rows()) as u64;
        }
        indices.push(best);
    }
    Seeds::of_rows(data, indices, evaluations)
}

/// Lowers `nearest` (IN OUT) to the distance to `center` where that is less. Returns the sum of masses of each block.
fn add_center<T: Real>(
    data: &Dataset<'_, T>,
    center: &[T],
    nearest: &mut [T],
    observer: &dyn Observer,
) -> Result<Vec<f64>> {
    let update = |(i, nearest): (usize, &mut [T])| {
        if observer.cancelled() {
            return Err(Error::Cancelled);
        }
        let rows = block(i, BLOCK, data.rows());
        let (mut sum, mut nearest) = (0.0, nearest.iter_mut());
        data.for_rows(rows, |n, row| {
            let new = T::squared_distance(row, center);
            let d = nearest.next().expect("one per row");
            if new < *d {
                *d = new;
            }
            sum += mass(data, n, *d);
        });
        Ok(sum)
    };
    nearest.par_chunks_mut(BLOCK).enumerate().map(update).collect()
}

/// The sum of masses left if row `center` becomes a center, too.
fn error_with<T: Real>(data: &Dataset<'_, T>, center: usize, nearest: &[T], observer: &dyn Observer) -> Result<f64> {
    let mut chosen = Vec::new();
    let center = data.row(center, &mut chosen);
    sum_blocks(data.rows(), BLOCK, observer, |_, rows| {
        let mut sum = 0.0;
        data.for_rows(rows, |n, row| {
            let new = T::squared_distance(row, center);
            sum += mass(data, n, if new < nearest[n] { new } else { nearest[n] });
        });
        sum
    })
}

/// Weights relative to their sum, which keeps products within the range of `f64`.
#[inline]
fn mass<T: Real>(data: &Dataset<'_, T>, n: usize, distance: T) -> f64 {
    data.weight(n) / data.total_weight() * distance.to_f64()
}

/// The row at `target` in the cumulative mass: first the block, then the row within it.
fn draw<T: Real>(data: &Dataset<'_, T>, nearest: &[T], sums: &[f64], target: f64) -> usize {
    let (b, before) = pick(sums.iter().copied(), target).expect("the total mass is positive");
    let rows = block(b, BLOCK, data.rows());
    let masses = rows.clone().map(|n| mass(data, n, nearest[n]));
    rows.start + pick(masses, target - before).expect("the block's mass is positive").0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::parallel::with_threads;
    use ndarray::{Array1, Array2, array};

    #[test]
    fn greedy_trials_find_separate_groups_more_often_than_single_draws() {
        let x = Array2::from_shape_fn((600, 1), |(n, _)| (n % 12 * 100) as f64 + (n * 7 % 61) as f64);
        let data = Dataset::new(x.view()).unwrap();
        let complete = |trials| {
            let groups = |seed| {
                let seeds =
                    with_threads(Some(1), || seed_plus_plus(&data, 12, trials, seed, &Silent)).unwrap().unwrap();
                seeds.indices.iter().map(|n| n % 12).collect::<HashSet<_>>().len()
            };
            (0..40).filter(|&seed| groups(seed) == 12).count()
        };
        assert!(complete(5) > complete(1) + 5, "{} against {}", complete(5), complete(1));
    }

    #[test]
    fn the_second_center_follows_weight_times_squared_distance() {
        let x = array![[0.0], [1.0], [2.0], [4.0], [4.0]];
        let w = [1.0, 3.0, 0.0, 1.0, 2.0];
        let data = Dataset::new(x.view()).unwrap().weighted(Array1::from(w.to_vec()).view()).unwrap();
        let trials = 20_000;
        let mut counts = [[0usize; 5]; 5];
        for seed in 0..trials {
            let s = seed_plus_plus(&data, 2, 1, seed, &crate::observer::Silent).unwrap();
            counts[s.indices[0]][s.indices[1]] += 1;
        }
        let (mut chi2, mut cells) = (0.0, 0.0);
        for (i, counts) in counts.iter().enumerate() {
            let d2 = |j: usize| w[j] * f64::powi(x[[i, 0]] - x[[j, 0]], 2);
            let total: f64 = (0..5).map(d2).sum();
            for (j, &count) in counts.iter().enumerate() {
                let expected = trials as f64 * w[i] / 7.0 * d2(j) / total;
                if expected == 0.0 {
                    assert_eq!(count, 0);
                } else {
                    (chi2, cells) = (chi2 + (count as f64 - expected).powi(2) / expected, cells + 1.0);
                }
            }
        }
        assert!(chi2 < cells + 5.0 * (2.0f64 * cells).sqrt(), "chi-square {chi2} over {cells} cells");
    }

    #[test]
    fn far_groups_each_get_a_center() {
        // 20 tight groups; the last is in a different block from the first.
        let x = Array2::from_shape_fn((5000, 2), |(n, d)| (n / 250) as f32 * 100.0 + ((n * 7 + d) % 5) as f32 * 1e-3);
        let data = Dataset::new(x.view()).unwrap();
        let s = kmeans_plus_plus(&data, 20, 1, &Run::default()).unwrap();
        let groups: HashSet<usize> = s.indices.iter().map(|n| n / 250).collect();
        assert_eq!(groups.len(), 20);
    }
}
