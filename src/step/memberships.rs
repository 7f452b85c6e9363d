//! What a shard remembers about its rows between steps.

use super::by_cluster::ByCluster;
use super::groups::Sequence;
use super::round::Round;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::{append, copied, filled, resize};
use crate::rng::{Rng, Stage, stream};
use rayon::prelude::*;

/// K(n), the clusters that each row of a shard keeps. It stays with the shard from step to step and can be
/// [moved](Self::to_bytes) with it.
///
/// A new one is empty: the first step fills it, from the cells of the seeding or at random, as the round specifies.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Memberships {
    /// Number of members per row.
    pub(crate) kept: usize,
    /// Rows x kept, nearest first after a step; empty before the first step.
    pub(crate) members: Vec<u32>,
    /// The cell of each row from the seeding, if known before the first step.
    pub(crate) cells: Option<ByCluster>,
    /// The order in which the pointwise search processes the clusters.
    pub(crate) sequence: Sequence,
    /// The members before clusters were moved, in case the move is undone.
    pub(crate) saved: Vec<u32>,
}

impl Memberships {
    /// Empty memberships.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Memberships before the first E-step, with rows assigned to these cells.
    pub(crate) fn in_cells(cells: ByCluster) -> Self {
        Self { cells: Some(cells), ..Self::default() }
    }

    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        const WHAT: &str = "clusters of the rows";
        Ok(Self {
            kept: self.kept,
            members: copied(&self.members, WHAT)?,
            cells: self.cells.as_ref().map(ByCluster::copied).transpose()?,
            sequence: self.sequence.copied()?,
            saved: copied(&self.saved, WHAT)?,
        })
    }

    /// The nearest member of each row, as of the last step; empty before the first step.
    #[must_use]
    pub fn labels(&self) -> Vec<u32> {
        self.nearest().collect()
    }

    /// [`labels`](Self::labels) as an iterator.
    pub(crate) fn nearest(&self) -> impl Iterator<Item = u32> + '_ {
        self.members.iter().step_by(self.kept.max(1)).copied()
    }

    /// Refuses the memberships of a different shard or round.
    pub(crate) fn check<T: Real>(&self, round: &Round<T>, rows: usize) -> Result<()> {
        let (clusters, kept) = (round.model.clusters(), self.kept);
        let own_rows = self.members.len() / kept.max(1);
        let fits = self.members.is_empty() || (own_rows, kept) == (rows, round.search.kept());
        let known = self.members.iter().chain(&self.saved).all(|&c| (c as usize) < clusters);
        let savable = [0, self.members.len()].contains(&self.saved.len());
        let ordered = [0, clusters].contains(&self.sequence.clusters.len());
        let placed = self.cells.as_ref().is_none_or(|cells| {
            let lists = round.cells.as_ref().map_or(0, |cells| cells.lists.len());
            cells.entries().len() == rows && (cells.clusters() == lists || lists == 0)
        });
        if fits && known && savable && ordered && placed {
            return Ok(());
        }
        Err(Error::MembershipsMismatch { rows: own_rows, kept, expected: (rows, round.search.kept()) })
    }

    /// Makes room for `kept` members for each of `rows` rows; the search sets them.
    pub(crate) fn make_room(&mut self, rows: usize, kept: usize) -> Result<()> {
        resize(&mut self.members, rows * kept, 0, "clusters of the rows")?;
        self.kept = kept;
        Ok(())
    }

    /// The paper's initialization: each K(n) has `h` distinct clusters, drawn uniformly.
    pub(crate) fn draw_uniform(&mut self, rows: usize, h: usize, clusters: usize, seed: u64) -> Result<()> {
        const ROWS: usize = 4096;
        self.make_room(rows, h)?;
        self.members.par_chunks_mut(ROWS * h).enumerate().for_each(|(block, chunk)| {
            let mut rng = stream(seed, Stage::Start, 0, block as u64);
            chunk.chunks_exact_mut(h).for_each(|set| draw_distinct(set, clusters, &mut rng));
        });
        Ok(())
    }

    /// The farthest member in the set of row `n`.
    pub(crate) fn last_of(&self, n: usize) -> Option<u32> {
        self.members.get(n * self.kept..(n + 1) * self.kept)?.last().copied()
    }

    /// Puts cluster `c`, which now sits on row `n`, into that row's set in place of its farthest member.
    pub(crate) fn adopt(&mut self, n: usize, c: u32) {
        let kept = self.kept;
        if let Some(set) = self.members.get_mut(n * kept..(n + 1) * kept)
            && !set.contains(&c)
        {
            set[kept - 1] = c;
        }
    }
}

impl Memberships {
    /// Saves the members, for [`restore`](Self::restore).
    pub(crate) fn save(&mut self) -> Result<()> {
        self.saved.clear();
        // A single member is found again among all clusters.
        let members = if self.kept > 1 { &self.members[..] } else { &[] };
        append(&mut self.saved, members, "clusters of the rows")
    }

    /// Restores the saved members, if any.
    pub(crate) fn restore(&mut self) {
        let saved = std::mem::take(&mut self.saved);
        if !saved.is_empty() {
            self.members = saved;
        }
    }

    /// Follows moves of clusters, the first of each of `pairs` next to the second. Sets that hold a moved cluster now
    /// have it last, because it is gone; sets that hold its new neighbor get it in place of their farthest member.
    pub(crate) fn follow(&mut self, pairs: &[(u32, u32)], clusters: usize) -> Result<()> {
        const NONE: u32 = u32::MAX;
        let kept = self.kept;
        if kept < 2 || self.members.is_empty() {
            return Ok(());
        }
        let (mut gone, mut comes) =
            (filled(false, clusters, "moved clusters")?, filled(NONE, clusters, "moved clusters")?);
        for &(moved, beside) in pairs {
            gone[moved as usize] = true;
            comes[beside as usize] = moved;
        }
        self.members.par_chunks_exact_mut(kept).with_min_len(1024).for_each(|set| {
            // Members that stay come first, in their order.
            for last in (0..kept).rev() {
                if gone[set[last] as usize] {
                    set[last..].rotate_left(1);
                }
            }
            let new = set[..kept - 1].iter().map(|&c| comes[c as usize]).find(|&c| c != NONE);
            if let Some(new) = new {
                let place = set.iter().position(|&c| c == new).unwrap_or(kept - 1);
                set[place] = set[kept - 1];
                set[kept - 1] = new;
            }
        });
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sets_follow_clusters_that_were_moved_and_can_be_restored() {
        let members = vec![0, 1, 2, 3, 4, 5, 4, 0, 2, 5, 3, 1, 4, 5, 3];
        let mut memberships = Memberships { kept: 3, members: members.clone(), ..Memberships::default() };
        memberships.save().unwrap();
        // 0 is now next to 4, and 5 next to 3.
        memberships.follow(&[(0, 4), (5, 3)], 6).unwrap();
        assert_eq!(memberships.members, [1, 2, 0, 3, 4, 5, 4, 2, 0, 3, 1, 5, 4, 3, 0]);
        memberships.restore();
        assert_eq!((&memberships.members, memberships.saved.len()), (&members, 0));
        memberships.restore();
        assert_eq!(memberships.members, members);
    }

    proptest! {
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
