//! Coarse cells: the data cut into regions, a few levels deep, so that a point need only look at the centers of its own.

use super::seed_afkmc2;
use crate::data::Dataset;
use crate::em::expectation::Task;
use crate::em::lloyd::k_means_step;
use crate::em::maximization::maximize;
use crate::em::members::ByCluster;
use crate::error::{Error, Result};
use crate::importance::gather;
use crate::kernel::{Centers, RowBlock, block_rows};
use crate::model::Model;
use crate::observer::Observer;
use crate::real::Real;
use crate::rng::{Stage, stream};
use crate::search::State;
use ndarray::{ArrayView1, ArrayView2};
use rayon::prelude::*;

/// Rows a part that a cell is divided into is learned from.
const SAMPLE_A_PART: usize = 64;
/// Iterations of k-means on that sample, and the length of the chains before them.
const ITERATIONS: u64 = 4;
const CHAIN_LENGTH: usize = 40;
/// How far centers move in them, in parts of the way to their mean: fewer iterations are needed.
const STEP_LENGTH: f64 = 1.6;

/// Some rows of the data, and how many of something is to be found among them.
#[derive(Debug)]
pub(crate) struct Cell<T> {
    /// Indices of the rows, ascending.
    pub rows: Vec<u32>,
    /// How many centers it shall get.
    pub share: usize,
    /// Its own coarse center, counted from the origin.
    pub center: Vec<T>,
}

/// What cells are cut from.
pub(crate) struct Ground<'a, T: Real> {
    pub data: &'a Dataset<'a, T>,
    pub origin: Option<&'a [T]>,
    pub seed: u64,
    pub observer: &'a dyn Observer,
}

impl<T: Real> Ground<'_, T> {
    /// Rows `rows`, with their weights, copied: at most `most` of them, drawn uniformly from those of positive weight.
    pub fn sample(&self, rows: &[u32], most: usize, salt: u64) -> (Vec<T>, Vec<f64>) {
        let present = |n: &&u32| self.data.weight(**n as usize) > 0.0;
        let mut chosen: Vec<usize> = rows.iter().filter(present).map(|&n| n as usize).collect();
        if chosen.len() > most {
            let mut rng = stream(self.seed, Stage::Cells, 0, salt);
            // The first `most` steps of a shuffle; then ascending, for locality.
            for i in 0..most {
                let j = i + rng.below(chosen.len() - i);
                chosen.swap(i, j);
            }
            chosen.truncate(most);
            chosen.sort_unstable();
        }
        (gather(self.data, &chosen), chosen.iter().map(|&n| self.data.weight(n)).collect())
    }

    /// Cuts a cell into at most `parts`, and divides its share among them in proportion to sqrt(n sse). Returns the parts
    /// and the number of distance evaluations.
    pub fn split(&self, cell: &Cell<T>, parts: usize, salt: u64) -> Result<(Vec<Cell<T>>, u64)> {
        let dim = self.data.dim();
        let (values, weights) = self.sample(&cell.rows, SAMPLE_A_PART * parts, salt);
        let sample = view(&values, dim)?.weighted(ArrayView1::from(&weights))?;
        let parts = parts.min(sample.rows());
        let seed = stream(self.seed, Stage::Cells, 1, salt).bits();
        let (coarse, mut evaluations) = self.k_means(&sample, parts, CHAIN_LENGTH, ITERATIONS, seed)?;
        let (labels, distances) = self.nearest(&cell.rows, coarse.local_centers())?;
        evaluations += (cell.rows.len() * parts) as u64;
        let lists = ByCluster::new(&labels, parts, |_| true);
        let mut sizes = Vec::with_capacity(parts);
        let mut pulls = Vec::with_capacity(parts);
        for part in 0..parts {
            let (mut count, mut weight, mut sse) = (0, 0.0, 0.0);
            for &i in lists.of(part) {
                let w = self.data.weight(cell.rows[i as usize] as usize);
                count += usize::from(w > 0.0);
                weight += w;
                sse += w * distances[i as usize].to_f64();
            }
            sizes.push(count);
            pulls.push((weight * sse).sqrt());
        }
        let shares = divide(cell.share, &sizes, &pulls);
        let cut = |part: usize| Cell {
            rows: lists.of(part).iter().map(|&i| cell.rows[i as usize]).collect(),
            share: shares[part],
            center: coarse.local_centers()[part * dim..(part + 1) * dim].to_vec(),
        };
        Ok(((0..parts).map(cut).filter(|c| !c.rows.is_empty()).collect(), evaluations))
    }

    /// `iterations` of k-means on a sample, from AFK-MC2's centers.
    pub fn k_means(
        &self,
        sample: &Dataset<'_, T>,
        clusters: usize,
        chain_length: usize,
        iterations: u64,
        seed: u64,
    ) -> Result<(Model<T>, u64)> {
        let moments = sample.moments(self.observer)?;
        let seeds = seed_afkmc2(sample, &moments, clusters, chain_length, seed, self.observer)?;
        let variance = moments.variance().max(f64::MIN_POSITIVE);
        let mut model = Model::from_origin(seeds.centers.view(), self.origin.map(<[T]>::to_vec), variance);
        let task = Task { data: sample, hard: true, seed, observer: self.observer };
        let mut search = k_means_step(sample.rows(), clusters, sample.dim());
        let mut state = State::forgetful(sample.rows());
        let mut evaluations = seeds.evaluations;
        for iteration in 0..iterations {
            let statistics = search.step(&task, &model, &mut state, iteration, true)?;
            evaluations += statistics.evaluations;
            maximize(&mut model, &statistics, f64::MIN_POSITIVE, STEP_LENGTH);
        }
        Ok((model, evaluations))
    }

    /// For each of the rows the nearest of `centers` (counted from the origin), and how far it is.
    pub fn nearest(&self, rows: &[u32], centers: &[T]) -> Result<(Vec<u32>, Vec<T>)> {
        let dim = self.data.dim();
        let centers = Centers::new(centers, dim);
        let mut labels = vec![0u32; rows.len()];
        let mut distances = vec![T::ZERO; rows.len()];
        let size = block_rows::<T>(dim);
        (rows.par_chunks(size), labels.par_chunks_mut(size), distances.par_chunks_mut(size))
            .into_par_iter()
            .map_init(RowBlock::default, |block, (rows, labels, distances)| {
                if self.observer.cancelled() {
                    return Err(Error::Cancelled);
                }
                block.load_gathered(self.data.values(), dim, rows, self.origin);
                block.nearest(&centers, 1, labels, distances);
                Ok(())
            })
            .collect::<Result<()>>()?;
        Ok((labels, distances))
    }
}

/// Values as unweighted rows.
pub(crate) fn view<T: Real>(values: &[T], dim: usize) -> Result<Dataset<'_, T>> {
    Dataset::new(ArrayView2::from_shape((values.len() / dim, dim), values).expect("whole rows"))
}

/// Divides `total` over parts in proportion to `pulls`, each getting at most its size, and at least 1 where it has any.
/// The sizes must sum to at least `total`, and no more parts may have rows than `total`.
fn divide(total: usize, sizes: &[usize], pulls: &[f64]) -> Vec<usize> {
    let mut shares: Vec<usize> = sizes.iter().map(|&s| s.min(1)).collect();
    let mut left = total.saturating_sub(shares.iter().sum());
    while left > 0 {
        let open = |i: &usize| shares[*i] < sizes[*i];
        let free: Vec<usize> = (0..sizes.len()).filter(open).collect();
        if free.is_empty() {
            break;
        }
        let sum: f64 = free.iter().map(|&i| pulls[i]).sum();
        let mut wants: Vec<(f64, usize)> = free
            .iter()
            .map(|&i| (if sum > 0.0 { left as f64 * pulls[i] / sum } else { left as f64 / free.len() as f64 }, i))
            .collect();
        let before = left;
        for &(want, i) in &wants {
            let add = (want as usize).min(sizes[i] - shares[i]).min(left);
            shares[i] += add;
            left -= add;
        }
        if left == before || left < free.len() {
            // What rounding leaves goes to the largest fractions.
            wants.sort_by(|a, b| b.0.fract().total_cmp(&a.0.fract()).then(a.1.cmp(&b.1)));
            for &(_, i) in &wants {
                if left > 0 && shares[i] < sizes[i] {
                    shares[i] += 1;
                    left -= 1;
                }
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shares_sum_to_the_total_and_fit_the_sizes(
            parts in prop::collection::vec((0usize..50, 0.0f64..9.0), 1..20),
            extra in 0.0f64..1.0,
        ) {
            let (sizes, pulls): (Vec<usize>, Vec<f64>) = parts.into_iter().unzip();
            let (least, most) = (sizes.iter().filter(|&&s| s > 0).count(), sizes.iter().sum::<usize>());
            let total = least + ((most - least) as f64 * extra) as usize;
            let shares = divide(total, &sizes, &pulls);
            prop_assert_eq!(shares.iter().sum::<usize>(), total);
            prop_assert!(shares.iter().zip(&sizes).all(|(a, b)| a <= b && (*a > 0) == (*b > 0)));
        }
    }
}
