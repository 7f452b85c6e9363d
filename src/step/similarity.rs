//! The similarity S of the clusters: which clusters to compare with rows near a given cluster.
//!
//! S has at most [`ROW_BOUND`] entries per row, the strongest. A step collects [`PairCounts`], which merge; the next
//! round has [`Similarity`], rows with alias tables to draw from. A dense S would have M^2 entries.

use super::alias::AliasRows;
use crate::error::{Error, Result};
use crate::memory::{collected, filled, reserve};
use crate::rng::Rng;
use rayon::prelude::*;
use std::ops::Range;

/// Maximum number of entries per row of S.
pub(crate) const ROW_BOUND: usize = 64;
/// Number of rows that one task builds.
const ROWS_A_TASK: usize = 256;

/// An entry of a row under construction: strength and cluster.
pub(crate) type Entry = (f32, u32);

/// Counts for S from a step: for each cluster, how often, or how strongly, other clusters were seen together with it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PairCounts {
    /// The row of each cluster: clusters that form one group share the row of the group's leader.
    pub row_of: Vec<u32>,
    pub offsets: Vec<usize>,
    /// Strongest first (ties: lower index first).
    pub ids: Vec<u32>,
    pub counts: Vec<f32>,
    /// For vc-GMM: sum w d over the counted rows. Otherwise empty.
    pub distances: Vec<f64>,
    /// The shift of each row in the log domain (the paper's kernel). Otherwise empty.
    pub shifts: Vec<f64>,
    /// Maximum number of entries per row.
    pub bound: usize,
}

/// Builds rows of counts. `fill` adds the entries of a row, each cluster once, to an empty vector and returns the row's
/// shift; `distance` returns the distance sum of a cluster in the last row.
pub(crate) trait RowSource {
    fn fill(&mut self, row: usize, entries: &mut Vec<Entry>) -> f64;
    fn distance(&self, _id: u32) -> f64 {
        0.0
    }
}

impl<F: FnMut(usize, &mut Vec<Entry>)> RowSource for F {
    fn fill(&mut self, row: usize, entries: &mut Vec<Entry>) -> f64 {
        self(row, entries);
        0.0
    }
}

/// What rows hold in addition to the counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    Nothing,
    Distances,
    Shifts,
}

impl PairCounts {
    /// No counts.
    pub fn none() -> Self {
        let (row_of, offsets) = (Vec::new(), vec![0]);
        let (ids, counts, distances, shifts) = Default::default();
        Self { row_of, offsets, ids, counts, distances, shifts, bound: ROW_BOUND }
    }

    /// A copy, or an error if memory runs out.
    pub fn copied(&self) -> Result<Self> {
        Ok(Self {
            row_of: copied(&self.row_of)?,
            offsets: copied(&self.offsets)?,
            ids: copied(&self.ids)?,
            counts: copied(&self.counts)?,
            distances: copied(&self.distances)?,
            shifts: copied(&self.shifts)?,
            bound: self.bound,
        })
    }

    /// Builds a row for each of `row_of` in parallel, with at most `bound` entries each.
    pub fn build<S: RowSource>(
        row_of: Vec<u32>,
        bound: usize,
        beside: Beside,
        source: impl Fn() -> S + Sync + Send,
    ) -> Result<Self> {
        Self::try_build(row_of, bound, beside, || Ok(source()))
    }

    /// [`build`](Self::build) from a source that allocates memory.
    pub fn try_build<S: RowSource>(
        row_of: Vec<u32>,
        bound: usize,
        beside: Beside,
        source: impl Fn() -> Result<S> + Sync + Send,
    ) -> Result<Self> {
        let rows = row_of.len();
        let tasks: Vec<Self> = (0..rows.div_ceil(ROWS_A_TASK))
            .into_par_iter()
            .map_init(&source, |source, task| {
                let source = source.as_mut().map_err(|reason| reason.clone())?;
                let mut part = Self { bound, ..Self::none() };
                let mut entries = Vec::new();
                for row in task * ROWS_A_TASK..((task + 1) * ROWS_A_TASK).min(rows) {
                    entries.clear();
                    let shift = source.fill(row, &mut entries);
                    part.push_row(&mut entries);
                    match beside {
                        Beside::Nothing => (),
                        Beside::Distances => part.distances.extend(entries.iter().map(|e| source.distance(e.1))),
                        Beside::Shifts => part.shifts.push(shift),
                    }
                }
                Ok(part)
            })
            .collect::<Result<_>>()?;
        let total = tasks.iter().map(|t| t.ids.len()).sum();
        let mut all = Self { row_of, bound, ..Self::none() };
        reserve(&mut all.offsets, rows, "S")?;
        reserve(&mut all.shifts, tasks.iter().map(|t| t.shifts.len()).sum(), "S")?;
        reserve(&mut all.ids, total, "S")?;
        reserve(&mut all.counts, total, "S")?;
        reserve(&mut all.distances, tasks.iter().map(|t| t.distances.len()).sum(), "S")?;
        for part in tasks {
            let base = all.ids.len();
            all.offsets.extend(part.offsets[1..].iter().map(|end| base + end));
            all.ids.extend(part.ids);
            all.counts.extend(part.counts);
            all.distances.extend(part.distances);
            all.shifts.extend(part.shifts);
        }
        Ok(all)
    }

    /// Appends a row with the strongest of `entries`, in the order in which they were added.
    fn push_row(&mut self, entries: &mut Vec<Entry>) {
        entries.retain(|e| e.0 > 0.0);
        entries.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        entries.truncate(self.bound);
        self.ids.extend(entries.iter().map(|e| e.1));
        self.counts.extend(entries.iter().map(|e| e.0));
        self.offsets.push(self.ids.len());
    }

    /// Number of rows: the number of clusters, or 0 without counts.
    pub fn rows(&self) -> usize {
        self.row_of.len()
    }

    /// The range of the row of cluster `c`.
    pub fn range(&self, c: usize) -> Range<usize> {
        let row = self.row_of[c] as usize;
        self.offsets[row]..self.offsets[row + 1]
    }

    /// The sum of both counts. If they disagree on which clusters share a row, each cluster gets its own.
    pub fn merge(self, other: Self) -> Result<Self> {
        if self.rows() == 0 || other.rows() == 0 {
            return Ok(if self.rows() == 0 { other } else { self });
        }
        let shared = self.row_of == other.row_of;
        let row_of = if shared { copied(&self.row_of)? } else { collected(0..self.rows() as u32, "S")? };
        let beside = match () {
            () if !self.shifts.is_empty() => Beside::Shifts,
            () if !(self.distances.is_empty() && other.distances.is_empty()) => Beside::Distances,
            () => Beside::Nothing,
        };
        let bound = self.bound;
        Self::build(row_of, bound, beside, || MergedRows { parts: [&self, &other], shared, distances: Vec::new() })
    }
}

/// A copy, or an error if memory runs out.
fn copied<T: Copy>(numbers: &[T]) -> Result<Vec<T>> {
    collected(numbers.iter().copied(), "S")
}

/// The sum of the rows of two counts.
struct MergedRows<'a> {
    parts: [&'a PairCounts; 2],
    shared: bool,
    /// Distance sums of the last row, by cluster, ascending.
    distances: Vec<(u32, f64)>,
}

impl RowSource for MergedRows<'_> {
    fn fill(&mut self, row: usize, entries: &mut Vec<Entry>) -> f64 {
        let Self { parts, shared, distances } = self;
        let shift = parts.iter().filter_map(|p| p.shifts.get(row)).fold(f64::INFINITY, |a, &b| a.min(b));
        distances.clear();
        for part in parts {
            let range = if *shared { part.offsets[row]..part.offsets[row + 1] } else { part.range(row) };
            let scale = part.shifts.get(row).map_or(1.0, |own| (shift - own).exp() as f32);
            let (ids, counts) = (&part.ids[range.clone()], &part.counts[range.clone()]);
            entries.extend(counts.iter().zip(ids).map(|(count, &id)| (count * scale, id)));
            if let Some(sums) = part.distances.get(range) {
                distances.extend(ids.iter().copied().zip(sums.iter().copied()));
            }
        }
        add_up(entries);
        distances.sort_by_key(|e| e.0);
        distances.dedup_by(|later, first| {
            later.0 == first.0 && {
                first.1 += later.1;
                true
            }
        });
        shift
    }

    fn distance(&self, id: u32) -> f64 {
        self.distances.binary_search_by_key(&id, |e| e.0).map_or(0.0, |i| self.distances[i].1)
    }
}

/// Sums the entries of each cluster.
pub(crate) fn add_up(entries: &mut Vec<Entry>) {
    // A stable sort, so that the sums are in the order of the parts.
    entries.sort_by_key(|e| e.1);
    entries.dedup_by(|later, first| {
        let same = later.1 == first.1;
        if same {
            first.0 += later.0;
        }
        same
    });
}

/// S in a round: the neighbors of each cluster, strongest first, and alias tables to draw from them.
#[derive(Debug, Clone)]
pub(crate) struct Similarity {
    pub counts: PairCounts,
    tables: AliasRows,
}

impl Similarity {
    /// S from its counts. The counts of a damaged round may overflow.
    pub fn new(counts: PairCounts) -> Result<Self> {
        let tables = AliasRows::new(&counts.offsets, &counts.ids, &counts.counts).map_err(|reason| match reason {
            Error::BadParameter { .. } => Error::NotFiniteModel,
            other => other,
        })?;
        Ok(Self { counts, tables })
    }

    /// S from the counts of a step; a cluster without rows keeps its old row.
    pub fn renewed(old: Option<&Self>, seen: PairCounts) -> Result<Self> {
        let missing = |row: usize| seen.offsets[row] == seen.offsets[row + 1] && seen.row_of[row] as usize == row;
        let Some(old) = old.filter(|_| (0..seen.rows()).any(missing)) else { return Self::new(seen) };
        let mut rows = PairCounts { row_of: copied(&seen.row_of)?, bound: seen.bound, ..PairCounts::none() };
        reserve(&mut rows.offsets, seen.rows(), "S")?;
        let most = seen.ids.len() + old.counts.ids.len();
        reserve(&mut rows.ids, most, "S")?;
        reserve(&mut rows.counts, most, "S")?;
        for row in 0..seen.rows() {
            let (from, range) = match missing(row) {
                true => (&old.counts, old.counts.range(row)),
                false => (&seen, seen.offsets[row]..seen.offsets[row + 1]),
            };
            rows.ids.extend_from_slice(&from.ids[range.clone()]);
            rows.counts.extend_from_slice(&from.counts[range]);
            rows.offsets.push(rows.ids.len());
        }
        Self::new(rows)
    }

    /// The neighbors for vc-GMM: the `neighbors` clusters nearest to the rows of each cluster, by mean distance; itself
    /// first.
    pub fn nearest(seen: &PairCounts, neighbors: usize) -> Result<Self> {
        let mut lists = PairCounts { row_of: copied(&seen.row_of)?, ..PairCounts::none() };
        reserve(&mut lists.offsets, seen.rows(), "S")?;
        reserve(&mut lists.ids, seen.ids.len() + seen.rows(), "S")?;
        for c in 0..seen.rows() {
            let range = seen.range(c);
            let mean = |k: usize| seen.distances.get(k).unwrap_or(&0.0) / f64::from(seen.counts[k]);
            let mut order: Vec<usize> = range.filter(|&k| seen.ids[k] != c as u32).collect();
            order.sort_unstable_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(seen.ids[a].cmp(&seen.ids[b])));
            lists.ids.push(c as u32);
            lists.ids.extend(order.iter().take(neighbors - 1).map(|&k| seen.ids[k]));
            lists.offsets.push(lists.ids.len());
        }
        lists.counts = filled(1.0, lists.ids.len(), "S")?;
        Self::new(lists)
    }

    /// The neighbors of cluster `c`, strongest first.
    pub fn row(&self, c: usize) -> &[u32] {
        &self.counts.ids[self.counts.range(c)]
    }

    /// Draws a neighbor of cluster `c` in proportion to S; `None` if it has none.
    #[inline]
    pub fn draw(&self, c: u32, rng: &mut Rng) -> Option<u32> {
        self.tables.draw(self.counts.row_of[c as usize] as usize, rng)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[&[Entry]]) -> PairCounts {
        PairCounts::build((0..of.len() as u32).collect(), ROW_BOUND, Beside::Nothing, || {
            |row: usize, entries: &mut Vec<Entry>| entries.extend_from_slice(of[row])
        })
        .unwrap()
    }

    #[test]
    fn counts_that_overflow_are_an_error() {
        let infinite = Similarity::new(counts(&[&[(f32::INFINITY, 1)], &[(2.0, 0)]]));
        assert_eq!(infinite.unwrap_err(), Error::NotFiniteModel);
    }

    #[test]
    fn rows_with_counts_are_renewed_and_others_kept() {
        let old = Similarity::new(counts(&[&[(1.0, 1)], &[(2.0, 0), (5.0, 2)], &[], &[(3.0, 1)]])).unwrap();
        let mut seen = counts(&[&[(1.0, 1)], &[], &[(3.0, 1), (2.0, 0)], &[]]);
        seen.row_of = vec![0, 1, 2, 2];
        let new = Similarity::renewed(Some(&old), seen).unwrap();
        assert_eq!((new.row(0), new.row(1)), (&[1][..], &[2, 0][..]));
        assert_eq!((new.row(2), new.row(3)), (&[1, 0][..], &[1, 0][..]));
        assert_eq!(new.counts.counts, [1.0, 5.0, 2.0, 3.0, 2.0]);
    }

    #[test]
    fn counts_add_up_and_clusters_that_shared_a_row_in_one_part_only_get_their_own() {
        let one = counts(&[&[(1.0, 1), (4.0, 2)], &[(2.0, 0)], &[]]);
        let sum = one.clone().merge(counts(&[&[(5.0, 1)], &[], &[(1.0, 0)]])).unwrap();
        assert_eq!((sum.ids, sum.counts), (vec![1, 2, 0, 0], vec![6.0, 4.0, 2.0, 1.0]));
        let mut grouped = counts(&[&[(5.0, 1)], &[], &[]]);
        grouped.row_of = vec![0, 0, 2];
        let sum = one.clone().merge(grouped).unwrap();
        assert_eq!((&sum.ids[..], &sum.row_of[..]), (&[1, 2, 1, 0][..], &[0, 1, 2][..]));
        assert_eq!(one.clone().merge(PairCounts::none()).unwrap(), one);
        assert_eq!(PairCounts::none().merge(one.clone()).unwrap(), one);
    }

    #[test]
    fn rows_keep_the_strongest_and_the_first_of_equals_and_no_zeros() {
        let strengths = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 0.0];
        for (bound, kept) in [(3, vec![5, 7, 4]), (6, vec![5, 7, 4, 8, 2, 0]), (64, vec![5, 7, 4, 8, 2, 0, 6, 1, 3])] {
            let rows = PairCounts::build((0..300).collect(), bound, Beside::Nothing, || {
                |_: usize, entries: &mut Vec<Entry>| entries.extend((0..10).map(|j| (strengths[j], j as u32)))
            })
            .unwrap();
            assert!((0..300).all(|c| rows.ids[rows.range(c)] == kept), "{bound} per row");
        }
    }

    #[test]
    fn neighbors_are_ranked_by_their_mean_distance_over_all_parts() {
        // Rows of cluster 0 that hold another cluster at this distance.
        let part = |others: [(u32, f64); 2]| PairCounts {
            row_of: (0..4).collect(),
            offsets: vec![0, 3, 3, 3, 3],
            ids: vec![0, others[0].0, others[1].0],
            counts: vec![2.0, 1.0, 1.0],
            distances: vec![1.0, others[0].1, others[1].1],
            shifts: Vec::new(),
            bound: 256,
        };
        let seen = part([(1, 5.0), (2, 3.0)]).merge(part([(2, 3.0), (3, 1.0)])).unwrap();
        let similarity = Similarity::nearest(&seen, 2).unwrap();
        assert_eq!([0, 1, 2, 3].map(|c| similarity.row(c)), [&[0, 3][..], &[1], &[2], &[3]]);
    }
}
