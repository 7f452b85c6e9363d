//! Reading numbers and arrays from bytes that may be damaged.

use super::{MAGIC, VERSION, checksum};
use crate::error::{Error, Result};
use crate::kernel::Real;

/// Bytes being read.
pub(crate) struct Reader<'a> {
    what: &'static str,
    /// What has not been read yet.
    pub(crate) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Checks that `bytes` have the header of a [`Writer`](super::Writer) with this content and numeric type.
    pub(crate) fn new(bytes: &'a [u8], what: &'static str, kind: u8, width: usize) -> Result<Self> {
        let mut reader = Self { what, rest: bytes };
        if reader.take(4)? != MAGIC {
            return Err(reader.bad("they do not begin like bytes of dgmm"));
        }
        match [reader.byte()?, reader.byte()?, reader.byte()?] {
            [version, ..] if version != VERSION => {
                Err(reader.bad(&format!("they have version {version}, not {VERSION}")))
            }
            [_, other, _] if other != kind => Err(reader.bad("they hold something else")),
            [_, _, other] if usize::from(other) != width => {
                Err(reader.bad(&format!("their numbers have {other} bytes, not {width}")))
            }
            _ => Ok(reader),
        }
    }

    /// [`new`](Self::new) for bytes that end with the checksum of [`Writer::sealed`](super::Writer::sealed).
    pub(crate) fn sealed(bytes: &'a [u8], what: &'static str, kind: u8, width: usize) -> Result<Self> {
        let mut reader = Self::new(bytes, what, kind, width)?;
        let Some((rest, seal)) = reader.rest.split_last_chunk() else { return Err(reader.bad("they are cut off")) };
        let content = &bytes[..bytes.len() - seal.len()];
        reader.check(checksum(content) == u64::from_le_bytes(*seal), "their checksum does not match their content")?;
        reader.rest = rest;
        Ok(reader)
    }

    pub(crate) fn bad(&self, reason: &str) -> Error {
        Error::BadBytes { what: self.what, reason: reason.into() }
    }

    pub(crate) fn check(&self, right: bool, reason: &str) -> Result<()> {
        if right { Ok(()) } else { Err(self.bad(reason)) }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else { return Err(self.bad("they are cut off")) };
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn flag(&mut self) -> Result<bool> {
        Ok(self.byte()? != 0)
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub(crate) fn size(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| self.bad("a number is too large"))
    }

    pub(crate) fn real(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn array(&mut self, width: usize) -> Result<&'a [u8]> {
        let len = self.size()?.checked_mul(width).ok_or_else(|| self.bad("an array is too long"))?;
        self.take(len)
    }

    pub(crate) fn reals<T: Real>(&mut self) -> Result<Vec<T>> {
        Ok(T::read_le(self.array(size_of::<T>())?))
    }

    /// Numbers below `bound`.
    pub(crate) fn ids(&mut self, bound: usize) -> Result<Vec<u32>> {
        let (ids, _) = self.array(4)?.as_chunks();
        let ids: Vec<u32> = ids.iter().map(|&x| u32::from_le_bytes(x)).collect();
        self.check(ids.iter().all(|&x| (x as usize) < bound), "an index is out of range")?;
        Ok(ids)
    }

    /// Checks that nothing follows.
    pub(crate) fn end(self) -> Result<()> {
        self.check(self.rest.is_empty(), "more bytes follow")
    }
}
