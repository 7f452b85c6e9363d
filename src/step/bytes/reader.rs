//! Reading lists by cluster, entries of S and orders from bytes that may be damaged.

use crate::bytes::Reader;
use crate::error::Result;
use crate::step::by_cluster::ByCluster;
use crate::step::groups::Sequence;
use crate::step::similarity::PairCounts;

impl Reader<'_> {
    fn offsets(&mut self) -> Result<Vec<usize>> {
        let lengths = self.ids(usize::MAX)?;
        let ends = lengths.iter().scan(0, |end, &length| {
            *end += length as usize;
            Some(*end)
        });
        Ok(std::iter::once(0).chain(ends).collect())
    }

    pub(super) fn pairs(&mut self, clusters: usize) -> Result<PairCounts> {
        let (row_of, offsets, ids) = (self.ids(clusters)?, self.offsets()?, self.ids(clusters)?);
        let (counts, distances, shifts): (Vec<f32>, Vec<f64>, Vec<f64>) = (self.reals()?, self.reals()?, self.reals()?);
        let bound = self.size()?;
        let rows = offsets.len() - 1;
        let none = row_of.is_empty() && rows == 0;
        self.check(none || (row_of.len() == clusters && rows == clusters), "rows of S are missing")?;
        self.check(offsets[rows] == ids.len() && counts.len() == ids.len(), "entries of S are missing")?;
        self.check(distances.is_empty() || distances.len() == ids.len(), "distances of S are missing")?;
        self.check(shifts.is_empty() || shifts.len() == rows, "shifts of S are missing")?;
        self.check(counts.iter().all(|x| x.is_finite() && *x >= 0.0), "an entry of S is negative or not finite")?;
        self.check(distances.iter().all(|x| x.is_finite()), "a distance of S is not finite")?;
        Ok(PairCounts { row_of, offsets, ids, counts, distances, shifts, bound })
    }

    pub(super) fn by_cluster(&mut self) -> Result<ByCluster> {
        let offsets = self.offsets()?;
        let entries = self.ids(offsets[offsets.len() - 1])?;
        self.check(entries.len() == offsets[offsets.len() - 1], "rows are missing")?;
        ByCluster::of_lists(offsets.windows(2).map(|w| entries[w[0]..w[1]].to_vec()))
    }

    /// A permutation of 0..n, or an empty list.
    pub(super) fn sequence(&mut self, n: usize) -> Result<Sequence> {
        let clusters = self.ids(n)?;
        let mut seen = vec![false; if clusters.is_empty() { 0 } else { n }];
        clusters.iter().for_each(|&c| seen[c as usize] = true);
        self.check(seen.iter().all(|&x| x) && clusters.len() <= n, "an order has gaps")?;
        Sequence::of(clusters)
    }
}
