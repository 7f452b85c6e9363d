//! Coarse cells: the data is cut into regions, on one or a few levels, so that each row is compared only with the
//! centers of its own region.

use super::kmeans::{KMeansStart, k_means};
use crate::data::{Dataset, nearest_centers, sample_rows};
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::{collected, par_collected};
use crate::observer::Observer;
use crate::rng::{Stage, stream};
use crate::step::{ByCluster, Level};
use ndarray::{ArrayView1, ArrayView2};
use rayon::prelude::*;

/// Rows sampled for each part that a cell is split into.
const SAMPLE_A_PART: usize = 64;
/// Settings of k-means on that sample.
const K_MEANS: KMeansStart = KMeansStart { chain_length: 40, iterations: 4 };

/// A cell: a subset of the rows, and the number of centers allotted to it.
#[derive(Debug)]
pub(crate) struct Cell<T> {
    /// Indices of the rows, ascending.
    pub rows: Vec<u32>,
    /// Number of centers to place in the cell.
    pub share: usize,
    /// The cell's coarse center, relative to the origin.
    pub center: Vec<T>,
}

/// The cells of the last level, in order, and the levels above them.
pub(crate) struct CellTree<T> {
    pub cells: Vec<Cell<T>>,
    pub levels: Vec<Level<T>>,
    /// Distance evaluations spent.
    pub evaluations: u64,
}

/// Cuts data into cells.
pub(crate) struct Splitter<'a, T: Real> {
    pub data: &'a Dataset<'a, T>,
    pub origin: Option<&'a [T]>,
    pub seed: u64,
    pub observer: &'a dyn Observer,
}

impl<T: Real> Splitter<'_, T> {
    /// A copy of at most `most` of the `rows`, with their weights.
    pub fn sample(&self, rows: &[u32], most: usize, salt: u64) -> Result<(Vec<T>, Vec<f64>)> {
        sample_rows(self.data, rows, most, || stream(self.seed, Stage::Cells, 0, salt))
    }

    /// Cuts all rows into cells and divides `share` centers among them. On each level a cell is split into
    /// `parts(level, share of the cell)`.
    pub fn cut(
        &self,
        share: usize,
        levels: usize,
        parts: impl Fn(usize, usize) -> usize + Sync,
    ) -> Result<CellTree<T>> {
        let dim = self.data.dim();
        let rows = par_collected((0..self.data.rows()).into_par_iter().map(|n| n as u32), "rows by cell")?;
        let mut cells = vec![Cell { rows, share, center: vec![T::ZERO; dim] }];
        let mut tree = Vec::new();
        let mut evaluations = 0;
        for level in 0..levels {
            let split: Vec<(Vec<Cell<T>>, u64)> = cells
                .par_iter()
                .enumerate()
                .map(|(i, cell)| self.split(cell, parts(level, cell.share), (level as u64) << 32 | i as u64))
                .collect::<Result<_>>()?;
            let mut starts = vec![0];
            cells.clear();
            for (parts, count) in split {
                cells.extend(parts);
                starts.push(cells.len() as u32);
                evaluations += count;
            }
            tree.push(Level { centers: centers_of(&cells), starts });
        }
        if tree.is_empty() {
            tree.push(Level { centers: centers_of(&cells), starts: vec![0, 1] });
        }
        Ok(CellTree { cells, levels: tree, evaluations })
    }

    /// Splits a cell into at most `parts` and divides its share among them in proportion to sqrt(n sse). Returns the
    /// parts and the number of distance evaluations.
    fn split(&self, cell: &Cell<T>, parts: usize, salt: u64) -> Result<(Vec<Cell<T>>, u64)> {
        let dim = self.data.dim();
        let (values, weights) = self.sample(&cell.rows, SAMPLE_A_PART * parts, salt)?;
        let sample = view(&values, dim)?.weighted(ArrayView1::from(&weights))?;
        let parts = parts.min(sample.rows());
        let seed = stream(self.seed, Stage::Cells, 1, salt).bits();
        let (coarse, mut evaluations) = k_means(&sample, parts, self.origin, K_MEANS, seed, self.observer)?;
        let centers = coarse.local_centers();
        let (labels, distances) = nearest_centers(self.data, &cell.rows, centers, self.origin, 1, self.observer)?;
        evaluations += (cell.rows.len() * parts) as u64;
        let lists = ByCluster::new(&labels, parts, |_| true)?;
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
        let cut = |part: usize| {
            let rows = collected(lists.of(part).iter().map(|&i| cell.rows[i as usize]), "rows by cell")?;
            Ok(Cell { rows, share: shares[part], center: centers[part * dim..(part + 1) * dim].to_vec() })
        };
        let kept = (0..parts).filter(|&part| !lists.of(part).is_empty());
        Ok((kept.map(cut).collect::<Result<_>>()?, evaluations))
    }
}

/// The centers of the cells, row after row.
pub(crate) fn centers_of<T: Real>(cells: &[Cell<T>]) -> Vec<T> {
    cells.iter().flat_map(|cell| cell.center.iter().copied()).collect()
}

/// A dataset of unweighted rows over `values`.
pub(crate) fn view<T: Real>(values: &[T], dim: usize) -> Result<Dataset<'_, T>> {
    Dataset::new(ArrayView2::from_shape((values.len() / dim, dim), values).expect("whole rows"))
}

/// Divides `total` among parts in proportion to `pulls`. Each part gets at most its size, and at least 1 unless it is
/// empty. The sizes must sum to at least `total`, and at most `total` parts may be nonempty.
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
            // What rounding leaves over goes to the largest fractions.
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
