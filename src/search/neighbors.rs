//! vc-GMM's search (Hirschberger, Forster and Lücke, 2022): a point looks at the G neighbors of each member of its K(n),
//! and, if asked for, at one cluster drawn uniformly.
//!
//! The neighbors of c, c among them, are the G clusters j with the smallest mean d_j(n) over the points n that have c as
//! the nearest and j in K(n): learned from the points' partition, never from distances between centers.
//! Cost: O(N H G D).

use super::{Block, Scratch, Search, keep_nearest};
use crate::em::members::{ByCluster, Sets};
use crate::em::statistics::ShardRows;
use crate::real::Real;
use crate::similarity::SparseRows;

/// Neighbors a cluster may be compared with; far more than any G.
const BOUND: usize = 256;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Neighbors {
    clusters: usize,
    truncation: usize,
    neighbors: usize,
    random: bool,
    /// sum w over the points of c that hold j, and sum w d_j over them, in the shards of this E-step so far.
    sums: Option<SparseRows<[f64; 2]>>,
    /// M x (up to G), flat, with the bounds of each row.
    lists: Vec<u32>,
    offsets: Vec<usize>,
}

impl Neighbors {
    pub fn new(clusters: usize, truncation: usize, neighbors: usize, random: bool) -> Self {
        let (sums, lists, offsets) = (None, Vec::new(), vec![0; clusters + 1]);
        Self { clusters, truncation, neighbors, random, sums, lists, offsets }
    }

    /// The G nearest of each cluster, itself first, from the sums of all shards.
    fn rank(&mut self, all: &SparseRows<[f64; 2]>) {
        self.lists.clear();
        self.offsets = vec![0];
        for c in 0..self.clusters {
            let (ids, sums) = all.row(c);
            let mean = |k: usize| sums[k][1] / sums[k][0];
            let mut order: Vec<usize> = (0..ids.len()).filter(|&k| ids[k] != c as u32).collect();
            order.sort_unstable_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(a.cmp(&b)));
            self.lists.push(c as u32);
            self.lists.extend(order.iter().take(self.neighbors - 1).map(|&k| ids[k]));
            self.offsets.push(self.lists.len());
        }
    }
}

impl<T: Real> Search<T> for Neighbors {
    fn truncation(&self) -> usize {
        self.truncation
    }

    fn search(
        &self,
        block: &Block<'_, T>,
        old: &[u32],
        members: &mut [u32],
        distances: &mut [T],
        scratch: &mut Scratch<T>,
    ) -> u64 {
        let h = self.truncation;
        let mut rng = block.rng();
        let mut evaluations = 0;
        for (r, n) in block.rows.clone().enumerate() {
            let set = r * h..(r + 1) * h;
            let ids = &mut scratch.ids;
            ids.clear();
            for &c in &old[set.clone()] {
                ids.push(c);
                ids.extend_from_slice(&self.lists[self.offsets[c as usize]..self.offsets[c as usize + 1]]);
            }
            if self.random {
                ids.push(rng.below(self.clusters) as u32);
            }
            ids.sort_unstable();
            ids.dedup();
            scratch.distances.resize(ids.len(), T::ZERO);
            let row = block.data.local(n, block.origin, &mut scratch.row);
            T::gathered_distances(row, block.centers.values, ids, &mut scratch.distances);
            keep_nearest(ids, &scratch.distances, &mut members[set.clone()], &mut distances[set]);
            evaluations += ids.len() as u64;
        }
        evaluations
    }

    fn learns(&self) -> bool {
        true
    }

    fn learn(&mut self, shard: &ShardRows<'_, T>, sets: &Sets<T>, by_cluster: &ByCluster) {
        let sums = SparseRows::build(self.clusters, BOUND, |c, dense| {
            for &place in by_cluster.of(c) {
                let w = shard.weight(place as usize / sets.h);
                sets.point(place).for_each(|k| dense.add(sets.members[k], [1.0, sets.distances[k].to_f64()], w));
            }
            0.0
        });
        self.sums = Some(match self.sums.take() {
            Some(before) => before.merge(&sums, BOUND),
            None => sums,
        });
    }

    fn turn(&mut self) {
        if let Some(sums) = self.sums.take() {
            self.rank(&sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Dataset;
    use ndarray::Array2;

    #[test]
    fn the_neighbors_are_those_of_all_shards_and_only_after_the_last() {
        let x = Array2::<f32>::zeros((4, 1));
        let data = Dataset::new(x.view()).unwrap();
        let mut search = Neighbors::new(4, 2, 2, false);
        // Points of cluster 0 that hold another one, which is so far away.
        for (rows, others) in [(0..2, [(1, 5.0), (2, 3.0)]), (2..4, [(2, 3.0), (3, 1.0)])] {
            let members: Vec<u32> = others.iter().flat_map(|&(j, _)| [0, j]).collect();
            let distances = others.iter().flat_map(|&(_, d)| [0.5_f32, d]).collect();
            let by_cluster = ByCluster::nearest(&members, 2, 4);
            let sets = Sets { h: 2, members, distances, posterior: Vec::new() };
            search.learn(&ShardRows { data: &data, origin: None, rows }, &sets, &by_cluster);
            assert!(search.lists.is_empty());
        }
        Search::<f32>::turn(&mut search);
        assert_eq!((&search.lists[..], &search.offsets[..]), (&[0, 3, 1, 2, 3][..], &[0, 2, 3, 4, 5][..]));
    }
}
