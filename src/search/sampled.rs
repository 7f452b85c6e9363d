//! D-GMM's search: a point looks at its K(n) and at R clusters drawn from a row of the similarity S.
//!
//! The row is that of the cluster that was nearest at the last E-step. Co-occurrence is counted in the row of the nearest
//! cluster only (S_cj: points of cluster c with j in K(n)), which proposes as well as all pairs do and is cheaper. p(c) is S's row without the members of K(n) (the
//! paper's denominator sums over K(n) where it must sum over the rest): draws from the whole row's alias table, members
//! and repeats rejected. Rejections are bounded, then uniform draws fill up: a row may have fewer than R usable entries.
//! With H + R >= M every cluster is looked at. Cost: O(N (H + R) D), whatever M is.

use super::{Block, Learns, Scratch, Search, draw_distinct, keep_nearest};
use crate::alias::AliasRows;
use crate::em::members::{ByCluster, Sets};
use crate::em::statistics::ShardRows;
use crate::kernel::prefetch;
use crate::params::SimilarityKind;
use crate::real::Real;
use crate::rng::Rng;
use crate::similarity::{ROW_BOUND, SparseRows, similarity};

/// Bytes of centres up to which a second-level cache is taken to hold them.
const NEAR: usize = 1 << 20;

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
        let (centres, dim) = (block.centres.values, block.data.dim());
        let mut rng = block.rng();
        let Scratch { ids, next, distances: d, row, .. } = scratch;
        d.resize(width, T::ZERO);
        let far = size_of_val(centres) > NEAR;
        // One row ahead: its candidates' centres are on their way while this row's distances are taken.
        let mut look_ahead = |r: usize, ids: &mut Vec<u32>| {
            ids.resize(width, 0);
            if let (Some(tables), Some(&row)) = (&self.tables, old.get((r + 2) * h))
                && far
            {
                tables.prefetch(row as usize);
            }
            if let Some(set) = old.get(r * h..(r + 1) * h) {
                ids[..h].copy_from_slice(set);
                self.propose(ids, &mut rng);
                if far {
                    ids.iter().for_each(|&c| prefetch(&centres[c as usize * dim..(c as usize + 1) * dim]));
                }
            }
        };
        look_ahead(0, next);
        for (r, n) in block.rows.clone().enumerate() {
            std::mem::swap(ids, next);
            look_ahead(r + 1, next);
            let set = r * h..(r + 1) * h;
            T::gathered_distances(block.data.local(n, block.origin, row), centres, ids, d);
            keep_nearest(ids, d, &mut members[set.clone()], &mut distances[set]);
        }
        (block.rows.len() * width) as u64
    }

    fn learns(&self) -> Option<Learns> {
        match self.kind {
            _ if self.proposals == 0 => None,
            SimilarityKind::Uniform => None,
            SimilarityKind::Cooccurrence => Some(Learns::FromNearest),
            SimilarityKind::Posterior | SimilarityKind::Kernel => Some(Learns::FromAll),
        }
    }

    fn learn(&mut self, shard: &ShardRows<'_, T>, sets: &Sets<T>, by_cluster: &ByCluster, first: bool) {
        let rows = similarity(self.kind, shard, sets, by_cluster, self.clusters);
        self.rows = if first { rows } else { self.rows.merge(&rows, ROW_BOUND) };
        self.tables = Some(self.rows.alias_rows());
    }
}
