//! Which clusters a point looks at: the one thing in which k-means, exact GMM, vc-GMM and D-GMM differ. D-GMM's own searches
//! go hand in hand with the order in which they take the points: see [`sampled`](crate::sampled) and
//! [`grouped`](crate::grouped).

mod exhaustive;
mod neighbors;

pub(crate) use exhaustive::Exhaustive;
pub(crate) use neighbors::Neighbors;

use crate::data::Dataset;
use crate::em::members::{ByCluster, Sets};
use crate::em::statistics::ShardRows;
use crate::kernel::{Centers, RowBlock};
use crate::real::Real;
use crate::rng::{Rng, Stage, stream};
use rayon::prelude::*;
use std::ops::Range;

/// A block of rows in an E-step and all that a search may know about it.
pub(crate) struct Block<'a, T: Real> {
    pub data: &'a Dataset<'a, T>,
    pub rows: Range<usize>,
    pub origin: Option<&'a [T]>,
    pub centers: &'a Centers<'a, T>,
    pub seed: u64,
    pub iteration: u64,
    pub index: u64,
}

impl<T: Real> Block<'_, T> {
    /// The block's own stream of random numbers.
    pub fn rng(&self) -> Rng {
        stream(self.seed, Stage::Proposals, self.iteration, self.index)
    }
}

/// Buffers that a worker keeps from block to block.
#[derive(Debug, Default)]
pub(crate) struct Scratch<T> {
    pub block: RowBlock<T>,
    pub ids: Vec<u32>,
    pub distances: Vec<T>,
    pub row: Vec<T>,
}

/// A way to find, for each point, H clusters near it.
pub(crate) trait Search<T: Real>: Send + Sync {
    /// H.
    fn truncation(&self) -> usize;

    /// Rows that one call of [`search`](Self::search) gets.
    fn block_rows(&self, _dim: usize) -> usize {
        256
    }

    /// For each row of the block, H clusters into `members` and their squared distances into `distances` (OUT, rows x H;
    /// nearest first unless H = M), given what the last E-step kept in `old` (IN). Never drops an old member for one
    /// that is farther. Returns the number of distance evaluations.
    fn search(
        &self,
        block: &Block<'_, T>,
        old: &[u32],
        members: &mut [u32],
        distances: &mut [T],
        scratch: &mut Scratch<T>,
    ) -> u64;

    /// Whether [`learn`](Self::learn) does anything.
    fn learns(&self) -> bool {
        false
    }

    /// Takes in the truncated sets of a shard, by the nearest cluster of each. The search stays as it is until
    /// [`turn`](Self::turn).
    fn learn(&mut self, _shard: &ShardRows<'_, T>, _sets: &Sets<T>, _by_cluster: &ByCluster) {}

    /// All shards have been taken in: from now on what was learned counts.
    fn turn(&mut self) {}
}

/// What a fit remembers of each point between iterations.
#[derive(Debug)]
pub(crate) struct State<T> {
    /// Members kept a point: H, or 1 (the nearest) where the search is exhaustive.
    pub kept: usize,
    /// N x kept, nearest first after an E-step.
    pub members: Vec<u32>,
    /// Squared distance to the nearest member, N: row after row, or in `order` where there is one.
    pub nearest: Vec<T>,
    /// The rows in the order of `nearest`.
    pub order: Option<Vec<u32>>,
}

impl<T: Real> State<T> {
    /// The start of a search that forgets: nothing but room for labels.
    pub fn forgetful(rows: usize) -> Self {
        Self { kept: 1, members: vec![0; rows], nearest: vec![T::ZERO; rows], order: None }
    }

    /// The paper's start: each K(n) has H distinct clusters drawn uniformly.
    pub fn uniform(rows: usize, h: usize, clusters: usize, seed: u64) -> Self {
        const ROWS: usize = 4096;
        let mut members = vec![0u32; rows * h];
        members.par_chunks_mut(ROWS * h).enumerate().for_each(|(block, chunk)| {
            let mut rng = stream(seed, Stage::Start, 0, block as u64);
            chunk.chunks_exact_mut(h).for_each(|set| draw_distinct(set, clusters, &mut rng));
        });
        Self::of_sets(members, h)
    }

    /// Before a first look, which will find sets of `h`.
    pub fn unknown(h: usize) -> Self {
        Self { kept: h, members: Vec::new(), nearest: Vec::new(), order: None }
    }

    /// The start from given sets of `h`.
    pub fn of_sets(members: Vec<u32>, h: usize) -> Self {
        let nearest = vec![T::ZERO; members.len() / h];
        Self { kept: h, members, nearest, order: None }
    }

    /// The row that `nearest[i]` is of.
    pub fn row_of(&self, i: usize) -> usize {
        self.order.as_ref().map_or(i, |order| order[i] as usize)
    }

    /// Puts cluster `c`, which now sits on row `n`, into that row's set in the place of its farthest member.
    pub fn adopt(&mut self, n: usize, c: u32) {
        let set = &mut self.members[n * self.kept..(n + 1) * self.kept];
        if !set.contains(&c) {
            set[self.kept - 1] = c;
        }
    }

    /// The nearest member of each point.
    pub fn labels(&self) -> Vec<u32> {
        self.members.iter().step_by(self.kept).copied().collect()
    }
}

/// Fills `set` (OUT) with different clusters, drawn uniformly. There must be enough of them.
pub(crate) fn draw_distinct(set: &mut [u32], clusters: usize, rng: &mut Rng) {
    debug_assert!(set.len() <= clusters);
    for i in 0..set.len() {
        // Few are left when the set nearly exhausts the clusters: walk on from the draw instead of drawing again.
        let mut c = rng.below(clusters) as u32;
        while set[..i].contains(&c) {
            c = (c + 1) % clusters as u32;
        }
        set[i] = c;
    }
}

/// Of the candidates `ids` with distances `d`, the H = `members.len()` nearest, nearest first (equal ones in the order of
/// the candidates), into `members` and `distances` (OUT). There must be at least H candidates.
#[inline]
pub(crate) fn keep_nearest<T: Real>(ids: &[u32], d: &[T], members: &mut [u32], distances: &mut [T]) {
    let h = members.len();
    for (k, (&id, &x)) in ids.iter().zip(d).enumerate() {
        let mut place = k.min(h);
        if place == h {
            if x >= distances[h - 1] {
                continue;
            }
            place = h - 1;
        }
        while place > 0 && x < distances[place - 1] {
            (members[place], distances[place]) = (members[place - 1], distances[place - 1]);
            place -= 1;
        }
        (members[place], distances[place]) = (id, x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keep_nearest_is_a_stable_sort_cut_short(d in prop::collection::vec(0u8..20, 1..30), h in 1usize..9) {
            let h = h.min(d.len());
            let ids: Vec<u32> = (0..d.len() as u32).map(|i| i * 3 + 1).collect();
            let d: Vec<f32> = d.into_iter().map(f32::from).collect();
            let (mut members, mut distances) = (vec![0; h], vec![0.0; h]);
            keep_nearest(&ids, &d, &mut members, &mut distances);
            let mut plain: Vec<(u32, f32)> = ids.iter().copied().zip(d.iter().copied()).collect();
            plain.sort_by(|a, b| a.1.total_cmp(&b.1));
            for k in 0..h {
                prop_assert_eq!((members[k], distances[k]), plain[k]);
            }
        }

        #[test]
        fn drawn_sets_have_distinct_clusters_in_range(clusters in 1usize..40, h in 1usize..40, seed in 0u64..99) {
            let mut set = vec![0; h.min(clusters)];
            draw_distinct(&mut set, clusters, &mut stream(seed, Stage::Start, 0, 0));
            set.sort_unstable();
            set.dedup();
            prop_assert_eq!(set.len(), h.min(clusters));
            prop_assert!(set.iter().all(|&c| (c as usize) < clusters));
        }
    }
}
