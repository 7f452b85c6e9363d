//! An order of the clusters that puts neighbors next to each other, so that consecutive rows have much in common.

use crate::error::Result;
use crate::memory::{collected, filled, reserve};
use crate::step::groups::{Sequence, by_member};

/// Name of this memory in messages.
const WHAT: &str = "an order of the clusters";
/// Number of rows of a cluster whose sets give its neighbors.
const ASKED: usize = 4;

/// The order from the rows' sets of `h`, nearest first: depth-first, from a cluster to those that a few of its rows
/// hold.
pub(super) fn by_neighbors(members: &[u32], h: usize, clusters: usize) -> Result<Sequence> {
    let all = collected(0..clusters as u32, WHAT)?;
    let groups = by_member(members, h, 0, &all)?;
    let (mut sequence, mut ahead) = (Vec::new(), Vec::new());
    reserve(&mut sequence, clusters, WHAT)?;
    let mut taken = filled(false, clusters, WHAT)?;
    for first in all {
        ahead.push(first);
        while let Some(c) = ahead.pop() {
            reserve(&mut ahead, ASKED * h, WHAT)?;
            if std::mem::replace(&mut taken[c as usize], true) {
                continue;
            }
            sequence.push(c);
            // The nearest are pushed last and so visited first.
            for k in (1..h).rev() {
                let points = groups.of(c as usize).iter().take(ASKED);
                let held = points.map(|&n| members[n as usize * h + k]);
                ahead.extend(held.filter(|&j| !taken[j as usize]));
            }
        }
    }
    Sequence::of(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cluster_has_a_position_and_neighbors_are_adjacent() {
        // Cluster c belongs to family c % 7; its three rows hold others of the family. Clusters 63 to 69 have no rows.
        let members: Vec<u32> = (0..63 * 3).flat_map(|n| [n % 63, (n + 7) % 63, (n + 14) % 63]).collect();
        let Sequence { clusters, ranks } = by_neighbors(&members, 3, 70).unwrap();
        let mut sorted = clusters.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..70).collect::<Vec<u32>>());
        clusters.iter().zip(0..).for_each(|(&c, rank)| assert_eq!(ranks[c as usize], rank));
        for family in clusters[..63].chunks(9) {
            assert!(family.iter().all(|c| c % 7 == family[0] % 7), "{family:?}");
        }
    }
}
