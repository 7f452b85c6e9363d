//! AFK-MC2 (Bachem, Lucic, Hassani and Krause, "Fast and provably good seedings for k-means", NIPS 2016): k-means++
//! without a pass over the data for each center.
//!
//! The first center c1 is drawn by weight. Each further center is the last state of a Markov chain of length m with the
//! target distribution of k-means++, w d(x, C)^2, and with proposals that do not depend on the state,
//!
//! ```text
//! q(x) = 1/2 w_x d(x, c1)^2 / sum w d(., c1)^2 + 1/2 w_x / W
//! ```
//!
//! so the chain moves from x to y with probability min(1, (w_y d(y, C)^2 q(x)) / (w_x d(x, C)^2 q(y))). q contains a
//! factor w, so the weights cancel. From d(x, C) = 0 the chain always moves.
//!
//! A chain that ends at distance 0 (duplicate rows, or almost as many clusters as rows) would repeat a center. In that
//! case up to max(m, 16) rows that were not tried before are drawn by weight, without replacement. The first of them
//! that coincides with no center is chosen; if there is none, a row that coincides with one but was not chosen yet. M
//! different rows are therefore always found, at bounded cost.
//!
//! Cost: O(N D + m M^2 D), that is, N + m sum_{c=1}^{M-1} c distance evaluations. The proposals of all chains are drawn
//! in advance. For a batch of chains, the distances of the proposals to all centers so far are one product of dense
//! blocks; the centers found within the batch are then compared one by one. Memory: one number per row in the data's
//! type, and about 40 bytes per proposal, of which 2^18 (or m, if larger) are drawn at a time.

use super::chosen::{Chosen, Spare};
use super::{Seeds, check_clusters};
use crate::data::{Dataset, Importance, Moments, draw_by_weight, gather};
use crate::error::{Error, Result, at_least_one};
use crate::kernel::Real;
use crate::observer::Observer;
use crate::parallel::Run;
use crate::rng::{Rng, Stage, stream};

/// Proposals drawn at a time, which bounds the memory of long chains.
const DRAWS: usize = 1 << 18;
/// Proposals gathered at a time, unless a single chain has more.
const BATCH: usize = 4096;
/// Minimum number of rows tried after a chain that ended on a center.
const TRIES: usize = 16;

/// What each random stream of the seeding is used for; part of the value-stability promise.
mod use_of {
    pub(super) const FIRST: u64 = 0;
    pub(super) const PROPOSALS: u64 = 1;
    pub(super) const COINS: u64 = 2;
    pub(super) const SPARE: u64 = 3;
}

/// `clusters` rows chosen by AFK-MC2 (Bachem et al., 2016) with chains of `chain_length`. Longer chains come closer to
/// the distribution of [k-means++](super::kmeans_plus_plus), without its pass over the data for each center.
///
/// When a chain ends on a row that coincides with a center, a few other rows are tried, so centers repeat only if the
/// data has hardly as many distinct rows. The indices are always different.
///
/// ```
/// use dgmm::{Dataset, Run, seeding::afkmc2};
/// let x = ndarray::Array2::from_shape_fn((1000, 2), |(n, d)| ((n % 10) * 100 + (n * (d + 3)) % 7) as f32);
/// let seeds = afkmc2(&Dataset::new(x.view())?, 10, 5, 7, &Run::default())?;
/// assert_eq!(seeds.centers.dim(), (10, 2));
/// assert_eq!(seeds.evaluations, 1000 + 5 * 45);
/// # Ok::<(), dgmm::Error>(())
/// ```
pub fn afkmc2<T: Real>(
    data: &Dataset<'_, T>,
    clusters: usize,
    chain_length: usize,
    seed: u64,
    run: &Run<'_>,
) -> Result<Seeds<T>> {
    check_clusters(data, clusters)?;
    check_chain_length(chain_length)?;
    run.install(|| {
        let moments = data.moments(run.observer)?;
        seed_afkmc2(data, &moments, clusters, chain_length, seed, run.observer)
    })
}

/// Refuses chains without a step, and chains too long to wait for.
pub(crate) fn check_chain_length(length: usize) -> Result<()> {
    const MOST: usize = 1 << 24;
    at_least_one("chain_length", length)?;
    if length > MOST { Err(Error::bad("chain_length", length, format!("at most {MOST}"))) } else { Ok(()) }
}

/// [`afkmc2`] for data with known moments, in the caller's thread pool.
pub(crate) fn seed_afkmc2<T: Real>(
    data: &Dataset<'_, T>,
    moments: &Moments,
    clusters: usize,
    chain_length: usize,
    seed: u64,
    observer: &dyn Observer,
) -> Result<Seeds<T>> {
    let first = draw_by_weight(data, &mut stream(seed, Stage::Seeding, use_of::FIRST, 0));
    let mut chosen = Chosen::new(data, moments, clusters, first)?;
    if clusters == 1 {
        return chosen.finish();
    }
    let proposal = Importance::new(data, data.row(first, &mut Vec::new()), observer)?;
    chosen.evaluations += data.rows() as u64;
    let mut rng = stream(seed, Stage::Seeding, use_of::PROPOSALS, 0);
    let mut coins = stream(seed, Stage::Seeding, use_of::COINS, 0);
    let mut spare = Spare::new(seed, use_of::SPARE, chain_length.max(TRIES));
    while chosen.indices.len() < clusters {
        let chains = (DRAWS / chain_length).clamp(1, clusters - chosen.indices.len());
        let proposals = proposal.draw(chains * chain_length, &mut rng, observer)?;
        let mut rest = proposals.as_slice();
        while !rest.is_empty() {
            let size = batch_size(chosen.indices.len(), chain_length) * chain_length;
            let (now, later) = rest.split_at(size.min(rest.len()));
            run_batch(now, chain_length, &proposal, &mut coins, &mut chosen, &mut spare, observer)?;
            rest = later;
        }
    }
    chosen.finish()
}

/// Number of chains whose proposals are compared with the `centers` together. Larger batches make better blocks, but
/// each new center is compared one by one with the rest of its batch. This affects only the speed.
fn batch_size(centers: usize, chain_length: usize) -> usize {
    (centers / 16).clamp(8, 64).min(BATCH / chain_length).max(1)
}

/// Runs the chains of `proposals` one after another and adds the end of each to the centers.
fn run_batch<T: Real>(
    proposals: &[usize],
    chain_length: usize,
    proposal: &Importance<'_, '_, T>,
    coins: &mut Rng,
    chosen: &mut Chosen<'_, '_, T>,
    spare: &mut Spare,
    observer: &dyn Observer,
) -> Result<()> {
    let mut batch = Batch::new(chosen, proposals, observer)?;
    let mut row = Vec::new();
    for (i, rows) in proposals.chunks_exact(chain_length).enumerate() {
        chosen.evaluations += (chain_length * chosen.indices.len()) as u64;
        let distances = &batch.distances[i * chain_length..][..chain_length];
        let end = run_chain(rows, distances, proposal, coins);
        let new = distances[end] > T::ZERO && !chosen.contains(rows[end]);
        let next = if new { rows[end] } else { spare.next(chosen, observer)? };
        chosen.push(next);
        batch.add_center(chosen.data.row(next, &mut row), (i + 1) * chain_length);
    }
    Ok(())
}

/// Position in `rows` at which the chain over these proposals ends; `distances` are their squared distances to the
/// centers.
fn run_chain<T: Real>(rows: &[usize], distances: &[T], proposal: &Importance<'_, '_, T>, coins: &mut Rng) -> usize {
    let mut at = 0;
    for to in 1..rows.len() {
        // Drawn even if not needed, so that each chain's coins have a fixed position in the stream.
        let coin = coins.unit();
        let (here, there) = (distances[at].to_f64(), distances[to].to_f64());
        let odds = there / here * (proposal.density(rows[at]) / proposal.density(rows[to]));
        if here == 0.0 || coin < odds {
            at = to;
        }
    }
    at
}

/// The proposals of a few chains, with their distances to the centers so far.
struct Batch<T> {
    rows: Vec<T>,
    distances: Vec<T>,
}

impl<T: Real> Batch<T> {
    fn new(chosen: &Chosen<'_, '_, T>, proposals: &[usize], observer: &dyn Observer) -> Result<Self> {
        let rows = gather(chosen.data, proposals)?;
        let distances = chosen.distances(&rows, observer)?;
        Ok(Self { rows, distances })
    }

    /// Updates the distances of proposals `from`.. (those of the chains still to run) with a new center.
    fn add_center(&mut self, center: &[T], from: usize) {
        let dim = center.len();
        for (d, row) in self.distances[from..].iter_mut().zip(self.rows[from * dim..].chunks_exact(dim)) {
            let new = T::squared_distance(row, center);
            if new < *d {
                *d = new;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use ndarray::{Array1, Array2, array};

    /// The algorithm as published, one center and one distance at a time, from the same random numbers.
    fn reference<T: Real>(data: &Dataset<'_, T>, clusters: usize, m: usize, seed: u64) -> Vec<usize> {
        let first = draw_by_weight(data, &mut stream(seed, Stage::Seeding, use_of::FIRST, 0));
        let q = Importance::new(data, data.given_row(first), &Silent).unwrap();
        let mut rng = stream(seed, Stage::Seeding, use_of::PROPOSALS, 0);
        let proposals = q.draw(m * (clusters - 1), &mut rng, &Silent).unwrap();
        let mut coins = stream(seed, Stage::Seeding, use_of::COINS, 0);
        let mut indices = vec![first];
        for chain in proposals.chunks(m) {
            let distance = |n: usize| {
                let to = |&c: &usize| {
                    data.given_row(n)
                        .iter()
                        .zip(data.given_row(c))
                        .map(|(a, b)| (a.to_f64() - b.to_f64()).powi(2))
                        .sum::<f64>()
                };
                indices.iter().map(to).fold(f64::INFINITY, f64::min)
            };
            let mass = |n: usize| data.weight(n) * q.density(n);
            let mut x = chain[0];
            for &y in &chain[1..] {
                let accept = data.weight(y) * distance(y) * mass(x) / (data.weight(x) * distance(x) * mass(y));
                let coin = coins.unit();
                if distance(x) == 0.0 || coin < accept {
                    x = y;
                }
            }
            assert!(distance(x) > 0.0, "the reference does not handle a chain that ends on a center");
            indices.push(x);
        }
        indices
    }

    fn noise(rows: usize, dim: usize, seed: u64) -> Array2<f64> {
        let mut rng = stream(seed, Stage::Sample, 0, 0);
        Array2::from_shape_fn((rows, dim), |_| rng.normal())
    }

    #[test]
    fn batches_choose_what_the_sequential_algorithm_chooses() {
        let x = noise(4000, 5, 1);
        let w = Array1::from_shape_fn(4000, |n| (n % 4) as f64 * 0.5);
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        for (clusters, m) in [(2, 1), (10, 1), (300, 5), (700, 8), (3, 5000)] {
            let seeds = afkmc2(&data, clusters, m, 8, &Run::default()).unwrap();
            assert_eq!(seeds.indices, reference(&data, clusters, m, 8), "{clusters} clusters, chains of {m}");
            assert_eq!(seeds.evaluations, 4000 + (m * clusters * (clusters - 1) / 2) as u64);
        }
    }

    #[test]
    fn batches_choose_the_same_in_f32_far_from_zero() {
        let x = noise(3000, 7, 2).mapv(|v| (v * 10.0) as f32 + 1e5);
        let data = Dataset::new(x.view()).unwrap();
        assert_eq!(afkmc2(&data, 250, 5, 3, &Run::default()).unwrap().indices, reference(&data, 250, 5, 3));
    }

    /// Total variation between the distribution of the second center given the first and that of k-means++.
    fn distance_to_plus_plus(m: usize) -> f64 {
        let x = array![[0.0], [1.0], [2.0], [4.0], [4.5], [9.0]];
        let w = array![4.0, 3.0, 0.0, 1.0, 2.0, 0.5];
        let data = Dataset::new(x.view()).unwrap().weighted(w.view()).unwrap();
        let moments = data.moments(&Silent).unwrap();
        let mut counts = [[0.0f64; 6]; 6];
        for seed in 0..30_000 {
            let s = seed_afkmc2(&data, &moments, 2, m, seed, &Silent).unwrap().indices;
            counts[s[0]][s[1]] += 1.0;
        }
        let mut apart = 0.0;
        for i in 0..6 {
            let d2 = |j: usize| w[j] * f64::powi(x[[i, 0]] - x[[j, 0]], 2);
            let total: f64 = (0..6).map(d2).sum();
            apart += (0..6).map(|j| (counts[i][j] / 3e4 - w[i] / 10.5 * d2(j) / total).abs()).sum::<f64>();
        }
        apart / 2.0
    }

    #[test]
    fn longer_chains_approach_the_distribution_of_k_means_plus_plus() {
        let [short, middle, long] = [1, 10, 200].map(distance_to_plus_plus);
        // 30,000 draws over 25 cells deviate by about 0.01 from their own distribution.
        assert!(short > 0.08 && middle < 0.03 && long < 0.015, "total variation {short}, {middle}, {long}");
    }
}
