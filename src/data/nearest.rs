//! The nearest of given centers for each of some rows, with the blocked kernel.

use super::Dataset;
use crate::error::{Error, Result};
use crate::kernel::{Centers, Real, RowBlock, block_rows};
use crate::memory::filled;
use crate::observer::Observer;
use rayon::prelude::*;

/// For each of the `rows` of the data the `k` nearest of the `centers` and their squared distances. Both are relative
/// to `origin`. If |y|^2 - 2 y.mu + |mu|^2 has lost its digits, differences decide. O(rows x centers x D).
pub(crate) fn nearest_centers<T: Real>(
    data: &Dataset<'_, T>,
    rows: &[u32],
    centers: &[T],
    origin: Option<&[T]>,
    k: usize,
    observer: &dyn Observer,
) -> Result<(Vec<u32>, Vec<T>)> {
    let dim = data.dim();
    let centers = Centers::new(centers, dim);
    let mut labels = filled(0u32, rows.len() * k, "labels")?;
    let mut distances = filled(T::ZERO, rows.len() * k, "distances")?;
    let size = block_rows::<T>(dim);
    (rows.par_chunks(size), labels.par_chunks_mut(size * k), distances.par_chunks_mut(size * k))
        .into_par_iter()
        .map_init(RowBlock::default, |block, (rows, labels, distances)| {
            if observer.cancelled() {
                return Err(Error::Cancelled);
            }
            block.load_gathered(data.table(), rows, origin);
            block.nearest(&centers, k, labels, distances);
            for (i, (labels, distances)) in labels.chunks_mut(k).zip(distances.chunks_mut(k)).enumerate() {
                if block.has_lost_digits(i, distances[k - 1]) {
                    centers.measure_nearest(block.row(i), labels, distances);
                }
            }
            Ok(())
        })
        .collect::<Result<()>>()?;
    Ok((labels, distances))
}
