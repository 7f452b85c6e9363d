//! Serialization of coreset builders, to store them or to move them to another machine. A checksum detects any damage.

use super::pending::Pending;
use super::ranges::Ranges;
use super::seen::Seen;
use super::{CoresetBuilder, MOST_ROWS};
use crate::bytes::{Reader, Writer};
use crate::data::{BLOCK, PrioritySample, Sampled};
use crate::error::Result;
use crate::kernel::Real;

const KIND: u8 = b'C';

impl<T: Real> CoresetBuilder<T> {
    /// Serializes the builder: 32 bytes and the values for each row of the coreset, and at most 2,048 more rows.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut sample = self.sample.clone();
        // Without memory for the keys, all rows are written, which is more than needed.
        let _ = sample.trim();
        let mut out = Writer::new(KIND, size_of::<T>());
        [sample.size as u64, sample.dim as u64, self.seed, self.next_row].iter().for_each(|&x| out.number(x));
        out.number(self.rows.0.len() as u64);
        for range in &self.rows.0 {
            out.number(range.start);
            out.number(range.end);
        }
        let Seen { heads, weight, moment, unit } = &self.seen;
        [*unit, *weight, *moment, heads.weight, heads.scatter].iter().for_each(|&x| out.real(x));
        out.reals(&heads.mean);
        out.reals(&self.pending.weights);
        out.reals(&self.pending.values);
        out.real(sample.bound);
        out.number(sample.rows.len() as u64);
        for row in &sample.rows {
            out.number(row.row);
            [row.key, row.weight, row.importance].iter().for_each(|&x| out.real(x));
        }
        out.reals(&sample.values);
        out.sealed()
    }

    /// The builder serialized by [`to_bytes`](Self::to_bytes); it continues exactly as the original would.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::sealed(bytes, "a coreset builder", KIND, size_of::<T>())?;
        let (size, dim) = (reader.size()?, reader.size()?);
        let (seed, next_row) = (reader.number()?, reader.number()?);
        reader.check(size > 0 && next_row <= MOST_ROWS, "a number is out of range")?;
        let rows = read_ranges(&mut reader)?;
        reader.check((dim == 0) == rows.0.is_empty(), "the numbers of the rows are missing")?;
        let mut seen = Seen::none(dim);
        (seen.unit, seen.weight, seen.moment) = (reader.real()?, reader.real()?, reader.real()?);
        (seen.heads.weight, seen.heads.scatter, seen.heads.mean) = (reader.real()?, reader.real()?, reader.reals()?);
        let known = [seen.unit, seen.weight, seen.heads.weight].iter().all(|x| *x >= 0.0);
        reader.check(known && seen.heads.mean.len() == dim, "the mean is cut off")?;
        let pending: Pending<T> = Pending { weights: reader.reals()?, values: reader.reals()? };
        let whole = pending.weights.len().checked_mul(dim) == Some(pending.values.len());
        reader.check(whole && pending.rows() < BLOCK, "rows are cut off")?;
        reader.check(pending.rows() as u64 <= next_row, "rows have no numbers")?;
        let good = pending.weights.iter().all(|w| w.is_finite() && *w >= 0.0);
        reader.check(good && pending.values.iter().all(|x| x.is_finite()), "a row is not finite")?;
        let sample = read_sample(&mut reader, size, dim)?;
        reader.end()?;
        Ok(Self { seed, next_row, rows, seen, pending, sample })
    }
}

fn read_ranges(reader: &mut Reader<'_>) -> Result<Ranges> {
    let (mut rows, mut end) = (Vec::new(), None);
    for _ in 0..reader.size()? {
        let range = reader.number()?..reader.number()?;
        let ascending = range.start < range.end && range.end <= MOST_ROWS && end.is_none_or(|end| end < range.start);
        reader.check(ascending, "the numbers of the rows are out of order")?;
        end = Some(range.end);
        rows.push(range);
    }
    Ok(Ranges(rows))
}

fn read_sample<T: Real>(reader: &mut Reader<'_>, size: usize, dim: usize) -> Result<PrioritySample<T>> {
    let bound = reader.real()?;
    let mut rows = Vec::new();
    for _ in 0..reader.size()? {
        let (row, key) = (reader.number()?, reader.real()?);
        let (weight, importance) = (reader.real()?, reader.real()?);
        let good = key >= 0.0 && weight > 0.0 && weight.is_finite() && importance > 0.0 && importance.is_finite();
        reader.check(good && row < MOST_ROWS, "a row of the sample is out of range")?;
        rows.push(Sampled { key, row, weight, importance });
    }
    let values: Vec<T> = reader.reals()?;
    reader.check(rows.len().checked_mul(dim) == Some(values.len()) && bound >= 0.0, "the sample is cut off")?;
    reader.check(values.iter().all(|x| x.is_finite()), "a row is not finite")?;
    Ok(PrioritySample { bound, rows, values, ..PrioritySample::new(size, dim) })
}
