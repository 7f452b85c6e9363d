//! Candidate lists of groups, drawn from S, and the co-occurrence counts that groups collect for S.

use crate::error::Result;
use crate::memory::{filled, reserve};
use crate::rng::Rng;
use crate::step::similarity::{Beside, Entry, PairCounts, ROW_BOUND, Similarity, add_up};

/// Share of a list that goes to the strongest neighbors: 3 of 4.
const STRONG: (usize, usize) = (3, 4);
/// Number of neighbors whose rows of S a list draws from.
const HOPS: usize = 3;
/// Minimum number of candidates that no row of the group holds.
const NEW: usize = 12;
/// Candidates drawn uniformly.
const UNIFORM: usize = 2;

/// Co-occurrence counts from the E-step of some groups: one row for each part of a group.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The leader of each row, and where the row ends.
    rows: Vec<(u32, usize)>,
    ids: Vec<u32>,
    counts: Vec<f32>,
}

impl Seen {
    /// Adds a row: how often each cluster of `list` was seen, except for the leader.
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

/// Co-occurrence counts of all groups, in order, in the rows of their `leaders`.
pub(super) fn counts(seen: &[Seen], leaders: Vec<u32>) -> Result<PairCounts> {
    let mut rows: Vec<(u32, &[u32], &[f32])> = Vec::new();
    reserve(&mut rows, seen.iter().map(|s| s.rows.len()).sum(), "S")?;
    seen.iter().for_each(|s| rows.extend(s.rows()));
    // The parts of a group are consecutive.
    let mut first = filled(usize::MAX, leaders.len(), "S")?;
    for (i, row) in rows.iter().enumerate().rev() {
        first[row.0 as usize] = i;
    }
    let (rows, first) = (&rows, &first);
    let own = |c: usize| rows.get(first[c]..).unwrap_or_default().iter().take_while(move |r| r.0 as usize == c);
    PairCounts::build(leaders, ROW_BOUND, Beside::Nothing, || {
        |c: usize, entries: &mut Vec<Entry>| {
            let mut parts = 0;
            for (_, ids, counts) in own(c) {
                entries.extend(counts.iter().copied().zip(ids.iter().copied()));
                parts += 1;
            }
            if parts > 1 {
                add_up(entries);
            }
        }
    })
}

/// Extends `list` (IN OUT), which holds `c` and others, to up to `size` different clusters: the strongest neighbors of
/// `c`, draws from its neighbors' rows, and a few uniform draws. The list gets at least `least` clusters, which must
/// not exceed the number of clusters. `places` (IN OUT) has 1 + the position in the list for each listed cluster, 0 for
/// the others.
pub(super) fn propose(
    similarity: Option<&Similarity>,
    c: u32,
    size: usize,
    least: usize,
    rng: &mut Rng,
    list: &mut Vec<u32>,
    places: &mut [u32],
) {
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
    for &j in similarity.map_or(&[][..], |s| s.row(c as usize)) {
        if list.len() >= strong {
            break;
        }
        take(j, list);
    }
    let draw = |c: u32, rng: &mut Rng| similarity.and_then(|s| s.draw(c, rng));
    // A few neighbors' rows with several draws each, because rows are far apart in memory.
    for hop in 0..HOPS {
        let wanted = size.saturating_sub(UNIFORM + list.len()).div_ceil(HOPS - hop);
        let Some(j) = draw(c, rng).filter(|_| wanted > 0) else { break };
        let enough = list.len() + wanted;
        for _ in 0..2 * wanted {
            if list.len() >= enough {
                break;
            }
            if let Some(k) = draw(j, rng) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Stage, stream};

    #[test]
    fn the_parts_of_a_group_add_up_in_the_row_of_its_leader() {
        let (mut first, mut second) = (Seen::default(), Seen::default());
        first.push(2, &[2, 0], &[4.0, 1.0]);
        second.push(2, &[2, 1, 0], &[4.0, 3.0, 1.0]);
        second.push(0, &[0, 1, 2], &[9.0, 1.0, 0.0]);
        let counts = counts(&[first, second], vec![0, 1, 2, 2]).unwrap();
        let row = |c: usize| (&counts.ids[counts.range(c)], &counts.counts[counts.range(c)]);
        assert_eq!(row(0), (&[1][..], &[1.0][..]));
        assert_eq!(row(1), (&[][..], &[][..]));
        assert_eq!([row(2), row(3)], [(&[1, 0][..], &[3.0, 2.0][..]); 2]);
    }

    #[test]
    fn a_list_has_each_cluster_once_and_places_say_where() {
        let of = |c: usize, entries: &mut Vec<Entry>| entries.extend((1..9).map(|k| (k as f32, (c as u32 + k) % 40)));
        let similarity =
            Similarity::new(PairCounts::build((0..40).collect(), ROW_BOUND, Beside::Nothing, || of).unwrap()).unwrap();
        let sizes = [(12, 3), (1, 1), (40, 5), (6, 6), (39, 30)].into_iter().cycle();
        for ((c, (size, least)), known) in (0..40).zip(sizes).zip([true, true, true, false].into_iter().cycle()) {
            let (mut list, mut places) = (vec![c], vec![0; 40]);
            places[c as usize] = 1;
            let mut rng = stream(3, Stage::Proposals, 0, 0);
            propose(known.then_some(&similarity), c, size, least, &mut rng, &mut list, &mut places);
            assert!(list.len() >= least && list.len() <= (1 + NEW).max(size).max(least) + UNIFORM && list[0] == c);
            for j in 0..40u32 {
                let place = list.iter().position(|&k| k == j).map_or(0, |place| place as u32 + 1);
                assert_eq!(places[j as usize], place);
            }
        }
    }
}
