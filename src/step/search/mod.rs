//! The E-step of one shard, with one file or folder per search: [`exhaustive`] and [`neighbors`] process the rows
//! [block](blocks) by block; [`lloyd`], for k-means, and [`soft`], for exact GMM, do so in one pass over [`segments`];
//! [`pointwise`] and [`grouped`] process the rows cluster by cluster.

mod accumulate;
pub(crate) mod blocks;
mod distance_check;
mod exhaustive;
pub(crate) mod grouped;
pub(crate) mod lloyd;
mod neighbors;
pub(crate) mod pointwise;
pub(crate) mod score_check;
mod segments;
pub(crate) mod soft;

pub(crate) use exhaustive::Exhaustive;
pub(crate) use neighbors::Neighbors;

use super::groups::{Partial, Pool};
use super::round::{Phase, Round};
use crate::data::Dataset;
use crate::kernel::Real;
use crate::model::Model;
use crate::model::score::Scores;
use crate::observer::Observer;

/// The input of a step.
pub(crate) struct Task<'a, T: Real> {
    pub round: &'a Round<T>,
    /// The rows of the shard.
    pub data: &'a Dataset<'a, T>,
    /// The scores by which rows choose among the clusters.
    pub scores: &'a Scores<T>,
    /// The seed of the shard's random streams.
    pub seed: u64,
    pub observer: &'a dyn Observer,
}

impl<T: Real> Task<'_, T> {
    pub fn model(&self) -> &Model<T> {
        &self.round.model
    }

    /// Whether a row belongs to its nearest cluster only.
    pub fn hard(&self) -> bool {
        self.round.phase == Phase::Hard
    }
}

/// Memory reused from step to step.
#[derive(Debug)]
pub(crate) struct Scratch<T> {
    /// Squared distance of each row to its nearest member, as of the last step.
    pub nearest: Vec<T>,
    /// The row of each entry of `nearest`; if empty, entries are in row order.
    pub order: Vec<u32>,
    pub sets: blocks::Sets<T>,
    pub lloyd: lloyd::Lloyd<T>,
    pub soft: soft::Soft<T>,
    pub grouped: Pool<grouped::Worker<T>>,
    pub pointwise: Pool<pointwise::Worker<T>>,
    pub partials: Pool<Partial<T>>,
}

impl<T> Default for Scratch<T> {
    fn default() -> Self {
        Self {
            nearest: Vec::new(),
            order: Vec::new(),
            sets: blocks::Sets::default(),
            lloyd: lloyd::Lloyd::default(),
            soft: soft::Soft::default(),
            grouped: Pool::default(),
            pointwise: Pool::default(),
            partials: Pool::default(),
        }
    }
}

/// Writes the H = `members.len()` nearest of the candidates `ids` with distances `d`, nearest first (ties: in the order
/// of the candidates), to `members` and `distances` (OUT). There must be at least H candidates.
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
    }
}
