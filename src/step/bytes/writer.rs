//! Writing lists by cluster and entries of S.

use crate::bytes::Writer;
use crate::step::by_cluster::ByCluster;
use crate::step::similarity::PairCounts;

impl Writer {
    /// Ascending numbers, as the differences between them.
    fn offsets(&mut self, offsets: impl IntoIterator<Item = usize>) {
        let offsets: Vec<usize> = offsets.into_iter().collect();
        self.ids(&offsets.windows(2).map(|w| (w[1] - w[0]) as u32).collect::<Vec<_>>());
    }

    pub(super) fn pairs(&mut self, pairs: &PairCounts) {
        self.ids(&pairs.row_of);
        self.offsets(pairs.offsets.iter().copied());
        self.ids(&pairs.ids);
        self.reals(&pairs.counts);
        self.reals(&pairs.distances);
        self.reals(&pairs.shifts);
        self.number(pairs.bound as u64);
    }

    pub(super) fn by_cluster(&mut self, rows: &ByCluster) {
        self.offsets((0..rows.clusters()).map(|c| rows.places(c).start).chain([rows.entries().len()]));
        self.ids(rows.entries());
    }
}
