//! Which clusters a group of points looks at.

use crate::alias::AliasRows;
use crate::data::Dataset;
use crate::em::members::ByCluster;
use crate::real::Real;
use crate::rng::Rng;
use crate::similarity::{ROW_BOUND, SparseRows};
use rayon::prelude::*;

/// Of a list, the share that goes to the strongest neighbours: 3 of 4.
const STRONG: (usize, usize) = (3, 4);
/// Candidates drawn uniformly.
const UNIFORM: usize = 2;

/// Rows of S for the grouped engine: the neighbours of each cluster, strongest first, and alias tables to draw them.
#[derive(Debug)]
pub(super) struct NeighbourRows {
    offsets: Vec<usize>,
    ids: Vec<u32>,
    tables: AliasRows,
}

impl NeighbourRows {
    /// Counts, for each group, the members of its points' sets. `members` is N x H, nearest first.
    pub fn count<T: Real>(
        data: &Dataset<'_, T>,
        groups: &ByCluster,
        members: &[u32],
        h: usize,
        clusters: usize,
    ) -> Self {
        let sparse = SparseRows::build(clusters, ROW_BOUND, |c, dense| {
            for &n in groups.of(c) {
                let n = n as usize;
                let w = data.weight(n);
                members[n * h..(n + 1) * h].iter().filter(|&&j| j != c as u32).for_each(|&j| dense.add(j, [1.0], w));
            }
            0.0
        });
        Self::from_sparse(&sparse)
    }

    fn from_sparse(sparse: &SparseRows<[f64; 1]>) -> Self {
        let tables = sparse.alias_rows();
        let sorted: Vec<Vec<u32>> = (0..sparse.len())
            .into_par_iter()
            .with_min_len(256)
            .map(|c| {
                let (ids, values) = sparse.row(c);
                let mut order: Vec<(f64, u32)> = values.iter().zip(ids).map(|(v, &j)| (v[0], j)).collect();
                order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                order.into_iter().map(|(_, j)| j).collect()
            })
            .collect();
        Self { offsets: sparse.offsets.clone(), ids: sorted.concat(), tables }
    }

    /// The neighbours of cluster `c`, strongest first.
    pub fn row(&self, c: usize) -> &[u32] {
        &self.ids[self.offsets[c]..self.offsets[c + 1]]
    }

    /// Fills `list` (OUT) with at most `size` different clusters: `c`, its strongest neighbours, draws from its
    /// neighbours' rows, a few uniform ones. At least `least` of them, which must not exceed the number of clusters.
    /// `slots` (IN OUT, all zero before) gets 1 + the place in the list for each cluster that is in it.
    pub fn propose(&self, c: u32, size: usize, least: usize, rng: &mut Rng, list: &mut Vec<u32>, slots: &mut [u32]) {
        let clusters = slots.len();
        list.clear();
        let mut take = |j: u32, list: &mut Vec<u32>| {
            let slot = &mut slots[j as usize];
            if *slot == 0 {
                list.push(j);
                *slot = list.len() as u32;
            }
        };
        take(c, list);
        if size >= clusters {
            (0..clusters as u32).for_each(|j| take(j, list));
            return;
        }
        let strong = (size * STRONG.0 / STRONG.1).max(least);
        for &j in self.row(c as usize) {
            if list.len() >= strong {
                break;
            }
            take(j, list);
        }
        for _ in 0..2 * (size - list.len().min(size)) {
            if list.len() + UNIFORM >= size {
                break;
            }
            let Some(j) = self.tables.draw(c as usize, rng) else { break };
            if let Some(k) = self.tables.draw(j as usize, rng) {
                take(k, list);
            }
        }
        for _ in 0..UNIFORM {
            take(rng.below(clusters) as u32, list);
        }
        while list.len() < least {
            take(rng.below(clusters) as u32, list);
        }
    }
}
