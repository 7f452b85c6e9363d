//! Which clusters a group of points looks at: rows of S, and lists drawn from them.

use crate::alias::AliasRows;
use crate::rng::Rng;
use crate::similarity::ROW_BOUND;
use rayon::prelude::*;
use std::ops::Range;

/// Of a list, the share that goes to the strongest neighbors: 3 of 4.
const STRONG: (usize, usize) = (3, 4);
/// Neighbors whose rows a list draws from.
const HOPS: usize = 3;
/// Candidates, at least, that nobody in the group holds.
const NEW: usize = 12;
/// Candidates drawn uniformly.
const UNIFORM: usize = 2;
/// Clusters whose rows one task makes.
const ROWS_A_TASK: usize = 256;

/// Where each of some rows ends, and the rows' entries.
type Entries = (Vec<usize>, Vec<(f32, u32)>);

/// Rows of S: the neighbors of each cluster, strongest first, and alias tables to draw from them all. Clusters whose
/// points form one group share a row, that of their leader.
#[derive(Debug)]
pub(super) struct NeighborRows {
    leaders: Vec<u32>,
    offsets: Vec<usize>,
    ids: Vec<u32>,
    counts: Vec<f32>,
    tables: AliasRows,
}

/// What the E-step of some groups saw of S: a row for each part of a group.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The leader of each row, and where the row ends.
    rows: Vec<(u32, usize)>,
    ids: Vec<u32>,
    counts: Vec<f32>,
}

impl Seen {
    /// Adds a row: of the clusters `list`, how often each was seen, except for the leader.
    pub fn push(&mut self, leader: u32, list: &[u32], counts: &[f32]) {
        for (&j, &count) in list.iter().zip(counts) {
            if count > 0.0 && j != leader {
                self.ids.push(j);
                self.counts.push(count);
            }
        }
        self.rows.push((leader, self.ids.len()));
    }

    /// The rows, each with its leader.
    fn rows(&self) -> impl Iterator<Item = (u32, &[u32], &[f32])> {
        let starts = std::iter::once(0).chain(self.rows.iter().map(|r| r.1));
        self.rows.iter().zip(starts).map(|(&(c, end), start)| (c, &self.ids[start..end], &self.counts[start..end]))
    }
}

impl NeighborRows {
    /// Nothing seen yet.
    pub fn empty(clusters: usize) -> Self {
        Self::build((0..clusters as u32).collect(), |_, _| ())
    }

    /// The rows that an E-step saw, in order, for the leaders of `clusters`; a leader without any keeps its old row.
    pub fn renewed(&self, seen: &[Seen], leaders: Vec<u32>) -> Self {
        let mut rows: Vec<(u32, &[u32], &[f32])> = Vec::with_capacity(leaders.len());
        seen.iter().for_each(|s| rows.extend(s.rows()));
        // The parts of a group come one after the other.
        let mut first = vec![usize::MAX; leaders.len()];
        for (i, row) in rows.iter().enumerate().rev() {
            first[row.0 as usize] = i;
        }
        let own = |c: usize| rows.get(first[c]..).unwrap_or_default().iter().take_while(move |r| r.0 as usize == c);
        let led = leaders.clone();
        Self::build(leaders, |c, row| {
            let mut parts = 0;
            for (_, ids, counts) in own(c) {
                row.extend(counts.iter().copied().zip(ids.iter().copied()));
                parts += 1;
            }
            if parts > 1 {
                add_up(row);
            }
            if parts == 0 && led[c] as usize == c {
                let old = self.range(c);
                row.extend(self.counts[old.clone()].iter().copied().zip(self.ids[old].iter().copied()));
            }
        })
    }

    /// Makes the rows in parallel; `fill` adds the entries of a row, each cluster once, to an empty vector.
    fn build(leaders: Vec<u32>, fill: impl Fn(usize, &mut Vec<(f32, u32)>) + Sync) -> Self {
        let clusters = leaders.len();
        let strongest_first = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        let tasks: Vec<Entries> = (0..clusters.div_ceil(ROWS_A_TASK))
            .into_par_iter()
            .map(|task| {
                let (mut ends, mut entries, mut row) = (Vec::new(), Vec::new(), Vec::new());
                for c in task * ROWS_A_TASK..((task + 1) * ROWS_A_TASK).min(clusters) {
                    row.clear();
                    fill(c, &mut row);
                    row.retain(|e: &(f32, u32)| e.0 > 0.0);
                    row.sort_unstable_by(strongest_first);
                    row.truncate(ROW_BOUND);
                    entries.extend_from_slice(&row);
                    ends.push(entries.len());
                }
                (ends, entries)
            })
            .collect();
        let mut offsets = Vec::with_capacity(clusters + 1);
        offsets.push(0);
        let total = tasks.iter().map(|t| t.1.len()).sum();
        let (mut ids, mut counts) = (Vec::with_capacity(total), Vec::with_capacity(total));
        for (ends, entries) in tasks {
            let base = ids.len();
            offsets.extend(ends.iter().map(|end| base + end));
            ids.extend(entries.iter().map(|e| e.1));
            counts.extend(entries.iter().map(|e| e.0));
        }
        let tables = AliasRows::new(&offsets, &ids, &counts).expect("counts are positive and finite");
        Self { leaders, offsets, ids, counts, tables }
    }

    /// Where the row of cluster `c` stands: that of its leader.
    fn range(&self, c: usize) -> Range<usize> {
        let leader = self.leaders[c] as usize;
        self.offsets[leader]..self.offsets[leader + 1]
    }

    /// The neighbors of cluster `c`, strongest first.
    pub fn row(&self, c: usize) -> &[u32] {
        &self.ids[self.range(c)]
    }

    /// A neighbor of cluster `c`, in proportion to S.
    fn draw(&self, c: u32, rng: &mut Rng) -> Option<u32> {
        self.tables.draw(self.leaders[c as usize] as usize, rng)
    }

    /// Adds to `list` (IN OUT), which holds `c` and others, up to `size` different clusters: the strongest neighbors of
    /// `c`, draws from its neighbors' rows, a few uniform ones. At least `least` in all, which must not exceed the number
    /// of clusters. `places` (IN OUT) has 1 + the place in the list of each cluster that is in it, 0 for the others.
    pub fn propose(&self, c: u32, size: usize, least: usize, rng: &mut Rng, list: &mut Vec<u32>, places: &mut [u32]) {
        let clusters = places.len();
        let mut take = |j: u32, list: &mut Vec<u32>| {
            let place = &mut places[j as usize];
            if *place == 0 {
                list.push(j);
                *place = list.len() as u32;
            }
        };
        if size >= clusters {
            (0..clusters as u32).for_each(|j| take(j, list));
            return;
        }
        let size = size.max(list.len() + NEW);
        let strong = size * STRONG.0 / STRONG.1;
        for &j in self.row(c as usize) {
            if list.len() >= strong {
                break;
            }
            take(j, list);
        }
        // A few neighbors' rows, each for several draws: they are far from one another in memory.
        for hop in 0..HOPS {
            let wanted = size.saturating_sub(UNIFORM + list.len()).div_ceil(HOPS - hop);
            let Some(j) = self.draw(c, rng).filter(|_| wanted > 0) else { break };
            let enough = list.len() + wanted;
            for _ in 0..2 * wanted {
                if list.len() >= enough {
                    break;
                }
                if let Some(k) = self.draw(j, rng) {
                    take(k, list);
                }
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

/// Adds up the entries of each cluster.
fn add_up(row: &mut Vec<(f32, u32)>) {
    row.sort_unstable_by_key(|e| e.1);
    row.dedup_by(|later, first| {
        let same = later.1 == first.1;
        if same {
            first.0 += later.0;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Stage, stream};

    fn rows(of: &[&[(f32, u32)]]) -> NeighborRows {
        NeighborRows::build((0..of.len() as u32).collect(), |c, row| row.extend_from_slice(of[c]))
    }

    #[test]
    fn rows_are_renewed_where_there_were_points_shared_in_a_group_and_kept_elsewhere() {
        let old = rows(&[&[(1.0, 1)], &[(2.0, 0), (5.0, 2)], &[], &[(3.0, 1)]]);
        let (mut first, mut second) = (Seen::default(), Seen::default());
        first.push(2, &[2, 0], &[4.0, 1.0]);
        second.push(2, &[2, 1, 0], &[4.0, 3.0, 1.0]);
        second.push(0, &[0, 1, 2], &[9.0, 1.0, 0.0]);
        let new = old.renewed(&[first, second], vec![0, 1, 2, 2]);
        assert_eq!((new.row(0), new.row(1)), (&[1][..], &[2, 0][..]));
        assert_eq!((new.row(2), new.row(3)), (&[1, 0][..], &[1, 0][..]));
        assert_eq!(new.counts, [1.0, 5.0, 2.0, 3.0, 2.0]);
    }

    #[test]
    fn a_list_has_each_cluster_once_and_places_say_where() {
        let of: Vec<Vec<(f32, u32)>> = (0..40).map(|c| (1..9).map(|k| (k as f32, (c + k) % 40)).collect()).collect();
        let rows = rows(&of.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for (c, (size, least)) in (0..40).zip([(12, 3), (1, 1), (40, 5), (6, 6), (39, 30)].into_iter().cycle()) {
            let (mut list, mut places) = (vec![c], vec![0; 40]);
            places[c as usize] = 1;
            rows.propose(c, size, least, &mut stream(3, Stage::Proposals, 0, 0), &mut list, &mut places);
            assert!(list.len() >= least && list.len() <= (1 + NEW).max(size).max(least) + UNIFORM && list[0] == c);
            for j in 0..40u32 {
                let place = list.iter().position(|&k| k == j).map_or(0, |place| place as u32 + 1);
                assert_eq!(places[j as usize], place);
            }
        }
    }
}
