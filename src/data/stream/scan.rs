//! The single pass over the rows: the distance to the reference point, the importance, the key, and whether that is
//! small enough.

use crate::data::{BLOCK, Dataset, Sampled, importance};
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::filled;
use crate::observer::Observer;
use crate::parallel::map_blocks;
use crate::rng::Keys;
use std::ops::Range;

/// Number of rows whose distances are measured at a time.
const BATCH: usize = 64;
/// Number of sums used in the search for non-finite values.
const LANES: usize = 16;

/// The distances of a block's rows to its reference point.
#[derive(Debug, Clone)]
pub(super) struct Measured<T> {
    pub distances: Vec<T>,
    /// sum w.
    pub weight: f64,
    /// sum w d^2.
    pub moment: f64,
}

/// Measures the distances of `rows` of `data`, the first of which has number `first_row`, from `point`, with weights in
/// units of `unit`. Refuses values that are not finite.
pub(super) fn measure<T: Real>(
    data: &Dataset<'_, T>,
    rows: Range<usize>,
    first_row: u64,
    point: &[T],
    unit: f64,
) -> Result<Measured<T>> {
    let ids: [u32; BATCH] = std::array::from_fn(|i| i as u32);
    let mut distances = filled(T::ZERO, rows.len(), "distances")?;
    let (mut weight, mut moment, mut buffer, mut row) = (0.0, 0.0, Vec::new(), Vec::new());
    for (i, out) in distances.chunks_mut(BATCH).enumerate() {
        let start = rows.start + i * BATCH;
        // The point takes the role of the row, and the rows that of the centers.
        let values = data.range(start..start + out.len(), &mut buffer);
        T::gathered_distances(point, values, &ids[..out.len()], out);
        for (n, distance) in (start..).zip(out.iter()) {
            // Non-finite values have non-finite distances, and so have rows too far away for `T`.
            let distance = match distance.is_finite() {
                true => distance.to_f64(),
                false => wide_distance(data.row(n, &mut row), point, first_row + n as u64)?,
            };
            let share = data.weight(n) / unit;
            weight += share;
            moment += share * distance;
        }
    }
    Ok(Measured { distances, weight, moment })
}

/// [`measure`] for each block, from its own point. The error is that of the first bad row.
pub(super) fn measure_blocks<'p, T: Real>(
    data: &Dataset<'_, T>,
    first_row: u64,
    point: impl Fn(usize) -> &'p [T] + Sync,
    unit: f64,
    observer: &dyn Observer,
) -> Result<Vec<Measured<T>>> {
    let blocks = map_blocks(data.rows(), BLOCK, observer, |i, rows| measure(data, rows, first_row, point(i), unit))?;
    blocks.into_iter().collect()
}

/// The squared distance of `row` (number `number` of the stream) in `f64`; refuses values that are not finite.
#[cold]
fn wide_distance<T: Real>(row: &[T], point: &[T], number: u64) -> Result<f64> {
    check_finite(row, row.len(), number)?;
    Ok(row.iter().zip(point).map(|(x, p)| (x.to_f64() - p.to_f64()).powi(2)).sum())
}

/// Refuses values that are not finite, in rows of `dim` values, the first of which has number `first_row`.
pub(super) fn check_finite<T: Real>(values: &[T], dim: usize, first_row: u64) -> Result<()> {
    // x * 0 is 0 or NaN; several sums are faster than one, and faster than examining each value.
    let (lanes, rest) = values.as_chunks::<LANES>();
    let mut sums = [T::ZERO; LANES];
    for lane in lanes {
        sums.iter_mut().zip(lane).for_each(|(sum, &x)| *sum += x * T::ZERO);
    }
    if sums.iter().all(|x| x.is_finite()) && rest.iter().all(|x| x.is_finite()) {
        return Ok(());
    }
    let i = values.iter().position(|x| !x.is_finite()).unwrap_or(0);
    let (row, column) = (first_row + (i / dim) as u64, i % dim);
    Err(Error::NotFiniteRow { row, column, value: values[i].to_string() })
}

/// How keys are computed, and the bound up to which they count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draw {
    pub keys: Keys,
    pub bound: f64,
}

impl Draw {
    /// The rows of a block with small enough keys. `rows` of `data` were measured from `point`.
    pub(super) fn candidates<T: Real>(
        self,
        data: &Dataset<'_, T>,
        rows: Range<usize>,
        first_row: u64,
        distances: &[T],
        point: &[T],
        mean_distance: f64,
    ) -> Vec<Sampled> {
        let mut found = Vec::new();
        for (n, distance) in rows.zip(distances) {
            let (row, weight) = (first_row + n as u64, data.weight(n));
            if weight > 0.0 {
                let distance = match distance.is_finite() {
                    true => distance.to_f64(),
                    false => wide_distance(data.row(n, &mut Vec::new()), point, row).unwrap_or(f64::INFINITY),
                };
                let importance = importance(distance, mean_distance);
                let key = self.keys.unit(row) / (weight * importance);
                if key <= self.bound {
                    found.push(Sampled { key, row, weight, importance });
                }
            }
        }
        found
    }

    /// [`candidates`](Self::candidates) for each block, with its own point and mean distance.
    pub(super) fn candidates_of_blocks<'p, T: Real>(
        self,
        data: &Dataset<'_, T>,
        first_row: u64,
        measured: &[Measured<T>],
        reference: impl Fn(usize) -> (&'p [T], f64) + Sync,
        observer: &dyn Observer,
    ) -> Result<Vec<Vec<Sampled>>> {
        map_blocks(data.rows(), BLOCK, observer, |i, rows| {
            let (point, mean_distance) = reference(i);
            self.candidates(data, rows, first_row, &measured[i].distances, point, mean_distance)
        })
    }
}
