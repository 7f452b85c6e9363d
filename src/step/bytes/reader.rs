//! Numbers and arrays from bytes that may be damaged.

use super::{MAGIC, VERSION};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::step::by_cluster::ByCluster;
use crate::step::groups::Sequence;
use crate::step::similarity::PairCounts;

/// Bytes while they are read.
pub(super) struct Reader<'a> {
    what: &'static str,
    pub(super) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], what: &'static str, kind: u8, width: usize) -> Result<Self> {
        let mut reader = Self { what, rest: bytes };
        if reader.take(4)? != MAGIC {
            return Err(reader.bad("they do not begin as those of dgmm do"));
        }
        match [reader.byte()?, reader.byte()?, reader.byte()?] {
            [version, ..] if version != VERSION => {
                Err(reader.bad(&format!("they are of version {version}, not {VERSION}")))
            }
            [_, other, _] if other != kind => Err(reader.bad("they hold something else")),
            [_, _, other] if usize::from(other) != width => {
                Err(reader.bad(&format!("their numbers have {other} bytes, not {width}")))
            }
            _ => Ok(reader),
        }
    }

    pub(super) fn bad(&self, reason: &str) -> Error {
        Error::BadBytes { what: self.what, reason: reason.into() }
    }

    pub(super) fn check(&self, right: bool, reason: &str) -> Result<()> {
        if right { Ok(()) } else { Err(self.bad(reason)) }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else { return Err(self.bad("they are cut off")) };
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn flag(&mut self) -> Result<bool> {
        Ok(self.byte()? != 0)
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    pub(super) fn size(&mut self) -> Result<usize> {
        usize::try_from(self.number()?).map_err(|_| self.bad("a number is too large"))
    }

    pub(super) fn real(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn array(&mut self, width: usize) -> Result<&'a [u8]> {
        let len = self.size()?.checked_mul(width).ok_or_else(|| self.bad("an array is too long"))?;
        self.take(len)
    }

    pub(super) fn reals<T: Real>(&mut self) -> Result<Vec<T>> {
        Ok(T::read_le(self.array(size_of::<T>())?))
    }

    /// Numbers below `bound`.
    pub(super) fn ids(&mut self, bound: usize) -> Result<Vec<u32>> {
        let (ids, _) = self.array(4)?.as_chunks();
        let ids: Vec<u32> = ids.iter().map(|&x| u32::from_le_bytes(x)).collect();
        self.check(ids.iter().all(|&x| (x as usize) < bound), "an index is out of range")?;
        Ok(ids)
    }

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

    /// All of 0..n in some order, or none of them.
    pub(super) fn sequence(&mut self, n: usize) -> Result<Sequence> {
        let clusters = self.ids(n)?;
        let mut seen = vec![false; if clusters.is_empty() { 0 } else { n }];
        clusters.iter().for_each(|&c| seen[c as usize] = true);
        self.check(seen.iter().all(|&x| x) && clusters.len() <= n, "an order has gaps")?;
        Ok(Sequence::of(clusters))
    }

    pub(super) fn end(self) -> Result<()> {
        self.check(self.rest.is_empty(), "something follows them")
    }
}
