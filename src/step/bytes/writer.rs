//! Numbers and arrays to bytes.

use super::{MAGIC, VERSION};
use crate::kernel::Real;
use crate::step::by_cluster::ByCluster;
use crate::step::similarity::PairCounts;

/// Bytes while they are written.
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn new(what: u8, width: usize) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, what, width as u8]);
        Self(bytes)
    }

    pub(super) fn byte(&mut self, x: u8) {
        self.0.push(x);
    }

    pub(super) fn number(&mut self, x: u64) {
        self.0.extend(x.to_le_bytes());
    }

    pub(super) fn real(&mut self, x: f64) {
        self.0.extend(x.to_le_bytes());
    }

    pub(super) fn reals<T: Real>(&mut self, values: &[T]) {
        self.number(values.len() as u64);
        T::write_le(values, &mut self.0);
    }

    pub(super) fn ids(&mut self, ids: &[u32]) {
        self.number(ids.len() as u64);
        self.0.extend(ids.iter().flat_map(|x| x.to_le_bytes()));
    }

    /// Rising numbers, as the differences between them.
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
