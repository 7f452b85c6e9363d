//! D-GMM's search: a point looks at its K(n) and at R clusters drawn from a row of the similarity S.
//!
//! The row is that of the cluster that was nearest at the last E-step. p(c) is S's row without the members of K(n) (the
//! paper's denominator sums over K(n) where it must sum over the rest): draws from the whole row's alias table, members
//! and repeats rejected. Rejections are bounded, then uniform draws fill up: a row may have fewer than R usable entries.
//! With H + R >= M every cluster is looked at. Cost: O(N (H + R) D), whatever M is.

use super::{Block, Scratch, Search, draw_distinct, keep_nearest};
use crate::alias::AliasRows;
use crate::em::members::{ByCluster, Sets};
use crate::em::statistics::ShardRows;
use crate::params::SimilarityKind;
use crate::real::Real;
use crate::rng::Rng;
use crate::similarity::{ROW_BOUND, SparseRows, similarity};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Sampled {
    clusters: usize,
    truncation: usize,
    /// R, or what is left of the clusters beside K(n).
    proposals: usize,
    kind: SimilarityKind,
    rows: SparseRows<[f64; 1]>,
    tables: Option<AliasRows>,
}

impl Sampled {
    pub fn new(clusters: usize, truncation: usize, proposals: usize, kind: SimilarityKind) -> Self {
        let proposals = proposals.min(clusters - truncation);
        Self { clusters, truncation, proposals, kind, rows: SparseRows::default(), tables: None }
    }

    /// Completes `ids`, which begins with K(n), by R others.
    #[inline]
    fn propose(&self, ids: &mut [u32], rng: &mut Rng) {
        let mut filled = self.truncation;
        if let Some(tables) = &self.tables
            && ids.len() < self.clusters
        {
            let row = ids[0] as usize;
            for _ in 0..3 * self.proposals {
                let Some(c) = tables.draw(row, rng) else { break };
                if !ids[..filled].contains(&c) {
                    ids[filled] = c;
                    filled += 1;
                    if filled == ids.len() {
                        return;
                    }
                }
            }
        }
        draw_distinct(ids, filled, self.clusters, rng);
    }
}

impl<T: Real> Search<T> for Sampled {
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
        let (h, width) = (self.truncation, self.truncation + self.proposals);
        let mut rng = block.rng();
        scratch.ids.resize(width, 0);
        scratch.distances.resize(width, T::ZERO);
        for (r, n) in block.rows.clone().enumerate() {
            let set = r * h..(r + 1) * h;
            scratch.ids[..h].copy_from_slice(&old[set.clone()]);
            self.propose(&mut scratch.ids, &mut rng);
            let row = block.data.local(n, block.origin, &mut scratch.row);
            T::gathered_distances(row, block.centres.values, &scratch.ids, &mut scratch.distances);
            keep_nearest(&scratch.ids, &scratch.distances, &mut members[set.clone()], &mut distances[set]);
        }
        (block.rows.len() * width) as u64
    }

    fn learns(&self) -> bool {
        self.kind != SimilarityKind::Uniform && self.proposals > 0
    }

    fn learn(&mut self, shard: &ShardRows<'_, T>, sets: &Sets<T>, by_cluster: &ByCluster, first: bool) {
        if !Search::<T>::learns(self) {
            return;
        }
        let rows = similarity(self.kind, shard, sets, by_cluster, self.clusters);
        self.rows = if first { rows } else { self.rows.merge(&rows, ROW_BOUND) };
        self.tables = Some(self.rows.alias_rows());
    }
}
