//! A part of the data over which a step is taken.

use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::observer::Observer;
use crate::options::Metric;
use std::borrow::Cow;

/// Rows with their weights, and the number of the first in all of the data.
///
/// Where the data are cut determines the random draws of the rows, so the same cuts give the same bits, no matter where
/// and in which order the steps are taken.
///
/// ```
/// use dgmm::{Dataset, step::Shard};
/// let values: Vec<f32> = (0..20).map(|i| i as f32).collect();
/// let data = Dataset::from_slice(&values, 2)?;
/// let shards = Shard::cut(&data, 4)?;
/// assert_eq!(shards.iter().map(|s| (s.first_row(), s.rows())).collect::<Vec<_>>(), [(0, 4), (4, 4), (8, 2)]);
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Shard<'a, T: Real> {
    data: Cow<'a, Dataset<'a, T>>,
    first_row: u64,
}

impl<'a, T: Real> Shard<'a, T> {
    /// `data` as the part of a larger data set that begins at `first_row`. At most 2^32 - 1 rows.
    pub fn new(data: Dataset<'a, T>, first_row: u64) -> Result<Self> {
        check_rows(data.rows())?;
        Ok(Self { data: Cow::Owned(data), first_row })
    }

    /// All of `data` as one shard.
    pub(crate) fn whole(data: &'a Dataset<'a, T>) -> Self {
        Self { data: Cow::Borrowed(data), first_row: 0 }
    }

    /// `data` cut into shards of `rows` rows; the last may be shorter.
    pub fn cut(data: &'a Dataset<'a, T>, rows: usize) -> Result<Vec<Self>> {
        let rows = rows.clamp(1, u32::MAX as usize);
        if data.rows() <= rows {
            return Ok(vec![Self::whole(data)]);
        }
        let starts = (0..data.rows()).step_by(rows);
        starts.map(|start| Self::new(data.slice(start..(start + rows).min(data.rows()))?, start as u64)).collect()
    }

    /// The shard in the form that the metric uses; no work if its rows are [directions](Dataset::directions) already.
    pub(crate) fn for_metric(&self, metric: Metric, observer: &dyn Observer) -> Result<Shard<'_, T>> {
        let data = match self.data.metric() == metric {
            true => Cow::Borrowed(&*self.data),
            false => Cow::Owned(self.data.for_metric(metric, self.first_row, observer)?),
        };
        Ok(Shard { data, first_row: self.first_row })
    }

    /// The rows.
    pub fn data(&self) -> &Dataset<'a, T> {
        &self.data
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.data.rows()
    }

    /// The number of the first row in all of the data.
    pub fn first_row(&self) -> u64 {
        self.first_row
    }
}

/// Rows of a shard are indexed with 32 bits.
fn check_rows(rows: usize) -> Result<()> {
    let allowed = "below 2^32 in a shard";
    if u32::try_from(rows).is_err() { Err(Error::bad("the number of rows", rows, allowed)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_than_can_be_numbered_are_refused() {
        assert!(check_rows(u32::MAX as usize).is_ok());
        let error = check_rows(1 << 32).unwrap_err().to_string();
        assert!(error.starts_with("the number of rows is 4294967296; it must be below 2^32"), "{error}");
    }
}
