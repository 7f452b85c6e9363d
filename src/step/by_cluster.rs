//! Rows, or positions in their sets, sorted by the cluster that they hold.

use crate::error::Result;
use crate::memory::{append, collected, copied, filled, reserve};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Name of this memory in messages.
const WHAT: &str = "rows by cluster";

/// Positions (row * H + slot), sorted by the cluster they hold, rows ascending within a cluster.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ByCluster {
    offsets: Vec<u32>,
    entries: Vec<u32>,
}

impl ByCluster {
    /// Counting sort of the positions for which `keep` holds. The result does not depend on the number of threads.
    pub fn new(members: &[u32], clusters: usize, keep: impl Fn(usize) -> bool + Sync) -> Result<Self> {
        let parts = rayon::current_num_threads().min(members.len() / clusters.max(1 << 14) + 1);
        let size = members.len().div_ceil(parts).max(1);
        let mut counts: Vec<Vec<u32>> = members
            .par_chunks(size)
            .enumerate()
            .map(|(p, part)| {
                let mut count = filled(0u32, clusters, WHAT)?;
                for (i, &c) in part.iter().enumerate() {
                    count[c as usize] += u32::from(keep(p * size + i));
                }
                Ok(count)
            })
            .collect::<Result<_>>()?;
        let mut offsets = Vec::new();
        reserve(&mut offsets, clusters + 1, WHAT)?;
        let mut total = 0u32;
        for c in 0..clusters {
            offsets.push(total);
            for count in &mut counts {
                let n = count[c];
                count[c] = total;
                total += n;
            }
        }
        offsets.push(total);
        // Relaxed stores to disjoint positions: plain moves on every machine, without unsafe code.
        let entries: Vec<AtomicU32> = collected((0..total as usize).map(|_| AtomicU32::new(0)), WHAT)?;
        members.par_chunks(size).zip(&mut counts).enumerate().for_each(|(p, (part, next))| {
            for (i, &c) in part.iter().enumerate() {
                if keep(p * size + i) {
                    let place = &mut next[c as usize];
                    entries[*place as usize].store((p * size + i) as u32, Ordering::Relaxed);
                    *place += 1;
                }
            }
        });
        Ok(Self { offsets, entries: entries.into_iter().map(AtomicU32::into_inner).collect() })
    }

    /// From the positions that each cluster holds, in the given order.
    pub fn of_lists(lists: impl IntoIterator<Item = Vec<u32>>) -> Result<Self> {
        let (mut offsets, mut entries) = (vec![0], Vec::new());
        for list in lists {
            append(&mut entries, &list, WHAT)?;
            reserve(&mut offsets, 1, WHAT)?;
            offsets.push(entries.len() as u32);
        }
        Ok(Self { offsets, entries })
    }

    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        Ok(Self { offsets: copied(&self.offsets, WHAT)?, entries: copied(&self.entries, WHAT)? })
    }

    /// The rows of a range only, renumbered from its start.
    pub fn slice(&self, rows: Range<usize>) -> Result<Self> {
        let rows = rows.start as u32..rows.end as u32;
        let (mut offsets, mut entries) = (Vec::new(), Vec::new());
        reserve(&mut offsets, self.offsets.len(), WHAT)?;
        offsets.push(0);
        for c in 0..self.clusters() {
            let own = self.of(c);
            let below = |end: u32| own.partition_point(|&n| n < end);
            let own = &own[below(rows.start)..below(rows.end)];
            reserve(&mut entries, own.len(), WHAT)?;
            entries.extend(own.iter().map(|n| n - rows.start));
            offsets.push(entries.len() as u32);
        }
        Ok(Self { offsets, entries })
    }

    /// The positions that hold cluster `c`.
    pub fn of(&self, c: usize) -> &[u32] {
        &self.entries[self.places(c)]
    }

    /// The range of cluster `c` within the entries.
    pub fn places(&self, c: usize) -> Range<usize> {
        self.offsets[c] as usize..self.offsets[c + 1] as usize
    }

    /// All positions, cluster after cluster.
    pub fn entries(&self) -> &[u32] {
        &self.entries
    }

    /// All positions, cluster after cluster.
    pub fn into_entries(self) -> Vec<u32> {
        self.entries
    }

    /// Number of clusters.
    pub fn clusters(&self) -> usize {
        self.offsets.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::with_threads;

    #[test]
    fn places_are_sorted_by_cluster_and_stay_in_order_for_every_number_of_threads() {
        let members: Vec<u32> = (0..100_000u32).map(|i| i.wrapping_mul(2_654_435_761) >> 25).collect();
        let sort =
            |threads| with_threads(Some(threads), || ByCluster::new(&members, 128, |i| i % 3 != 0)).unwrap().unwrap();
        let one = sort(1);
        for c in 0..128 {
            let plain: Vec<u32> = (0..100_000u32).filter(|&i| i % 3 != 0 && members[i as usize] == c as u32).collect();
            assert_eq!(one.of(c), plain);
        }
        for threads in [2, 3, 7] {
            assert_eq!(sort(threads).entries, one.entries);
        }
    }
}
