//! The search of vc-GMM (Hirschberger, Forster and Lücke, 2022): each row is compared with the G neighbors of each
//! member of its K(n) and, optionally, with one cluster drawn uniformly.
//!
//! The neighbors of c, including c itself, are the G clusters j with the smallest mean d_j(n) over the rows n whose
//! nearest cluster is c and with j in K(n): they are learned from the partition of the rows, never from distances
//! between centers. Cost: O(N H G D).

use super::accumulate::Portion;
use super::blocks::{Block, BlockScratch, BlockSearch, Sets};
use super::keep_nearest;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::collected;
use crate::step::by_cluster::ByCluster;
use crate::step::pairs::DenseRow;
use crate::step::similarity::{Beside, Entry, PairCounts, RowSource, Similarity};

/// Maximum number of neighbors counted per cluster; far more than any G.
const BOUND: usize = 256;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Neighbors<'a> {
    pub clusters: usize,
    pub truncation: usize,
    pub random: bool,
    /// The neighbors of each cluster, itself first; `None` before the first step.
    pub similarity: Option<&'a Similarity>,
}

impl<T: Real> BlockSearch<T> for Neighbors<'_> {
    fn truncation(&self) -> usize {
        self.truncation
    }

    fn search(
        &self,
        block: &Block<'_, T>,
        old: &[u32],
        members: &mut [u32],
        distances: &mut [T],
        scratch: &mut BlockScratch<T>,
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
                ids.extend_from_slice(self.similarity.map_or(&[], |s| s.row(c as usize)));
            }
            if self.random {
                ids.push(rng.below(self.clusters) as u32);
            }
            ids.sort_unstable();
            ids.dedup();
            scratch.distances.resize(ids.len(), T::ZERO);
            let row = block.row(n, &mut scratch.row);
            block.measure(row, ids, &mut scratch.distances);
            keep_nearest(ids, &scratch.distances, &mut members[set.clone()], &mut distances[set]);
            evaluations += ids.len() as u64;
        }
        evaluations
    }

    fn count(&self, portion: &Portion<'_, T>, sets: &Sets<T>) -> Result<PairCounts> {
        let labels = collected(sets.members.iter().step_by(sets.h).copied(), "labels")?;
        let by_cluster = ByCluster::new(&labels, self.clusters, |_| true)?;
        PairCounts::try_build(collected(0..self.clusters as u32, "S")?, BOUND, Beside::Distances, || {
            Ok(Rows { portion, sets, by_cluster: &by_cluster, dense: DenseRow::new(self.clusters)? })
        })
    }
}

/// For each cluster c and each j, over the rows of c that hold j: sum w, and sum w d_j.
struct Rows<'a, T: Real> {
    portion: &'a Portion<'a, T>,
    sets: &'a Sets<T>,
    by_cluster: &'a ByCluster,
    dense: DenseRow<2>,
}

impl<T: Real> RowSource for Rows<'_, T> {
    fn fill(&mut self, c: usize, entries: &mut Vec<Entry>) -> f64 {
        self.dense.clear();
        for &r in self.by_cluster.of(c) {
            let w = self.portion.weight(r as usize);
            for k in r as usize * self.sets.h..(r as usize + 1) * self.sets.h {
                self.dense.add(self.sets.members[k], [1.0, self.sets.distances[k].to_f64()], w);
            }
        }
        entries.extend(self.dense.entries());
        0.0
    }

    fn distance(&self, id: u32) -> f64 {
        self.dense.of(id)[1]
    }
}
