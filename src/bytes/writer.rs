//! Writing numbers and arrays.

use super::{MAGIC, VERSION, checksum};
use crate::kernel::Real;

/// Bytes being written.
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn new(what: u8, width: usize) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, what, width as u8]);
        Self(bytes)
    }

    pub(crate) fn byte(&mut self, x: u8) {
        self.0.push(x);
    }

    pub(crate) fn number(&mut self, x: u64) {
        self.0.extend(x.to_le_bytes());
    }

    pub(crate) fn real(&mut self, x: f64) {
        self.0.extend(x.to_le_bytes());
    }

    pub(crate) fn reals<T: Real>(&mut self, values: &[T]) {
        self.number(values.len() as u64);
        T::write_le(values, &mut self.0);
    }

    pub(crate) fn ids(&mut self, ids: &[u32]) {
        self.number(ids.len() as u64);
        self.0.extend(ids.iter().flat_map(|x| x.to_le_bytes()));
    }

    /// The bytes, followed by a checksum.
    pub(crate) fn sealed(mut self) -> Vec<u8> {
        let seal = checksum(&self.0);
        self.number(seal);
        self.0
    }
}
