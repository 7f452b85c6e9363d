//! The sums of rows with known sets: O(N H D), with memory for at most an eighth of N H D numbers.
//!
//! The rows of a portion are cut into segments and, if these are few, their columns into slices, depending only on the
//! sizes of the problem. A task sums one slice of one segment in the order of the rows, and segments merge in order, so
//! the sums do not depend on the number of threads.

use super::blocks::Sets;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::{Real, prefetch};
use crate::memory::filled;
use crate::model::Model;
use crate::model::score::Lift;
use crate::observer::Observer;
use crate::step::statistics::Statistics;
use rayon::prelude::*;
use std::ops::Range;

/// Minimum number of positions per cluster in a segment, on average.
const PLACES_A_CLUSTER: usize = 64;
/// Maximum number of segments of a shard, and the desired number of tasks.
const TASKS: usize = 16;
/// Bytes of sums that are assumed to fit in a second-level cache ...
const NEAR: usize = 1 << 20;
/// ... and the number of rows by which they are otherwise prefetched.
const AHEAD: usize = 2;
/// The number of columns of a slice is a multiple of this.
const SLICE: usize = 16;

/// Adds the sums of the rows of a portion, given their sets.
pub(super) fn accumulate<T: Real>(
    statistics: &mut Statistics<T>,
    portion: &Portion<'_, T>,
    sets: &Sets<T>,
    observer: &dyn Observer,
) -> Result<()> {
    let (dim, stride, clusters) = (statistics.dim, statistics.width(), statistics.clusters());
    let rows = portion.rows.len();
    let segments = (rows * sets.h / (PLACES_A_CLUSTER * clusters)).clamp(1, TASKS);
    let size = rows.div_ceil(segments).max(1);
    let width = dim.div_ceil(TASKS / segments).next_multiple_of(SLICE).min(dim);
    let slices = dim.div_ceil(width);
    // Slice by slice in blocks of TASKS, so that few partial sums wait at a time.
    let tasks: Vec<(usize, usize)> =
        (0..slices).flat_map(|slice| (0..rows.div_ceil(size)).map(move |segment| (slice, segment))).collect();
    for tasks in tasks.chunks(TASKS) {
        let parts: Vec<SliceSums> = tasks
            .par_iter()
            .map(|&(slice, segment)| {
                let columns = slice * width..((slice + 1) * width).min(dim);
                let rows = segment * size..((segment + 1) * size).min(rows);
                portion.add_up(rows, columns, sets, observer)
            })
            .collect::<Result<_>>()?;
        for (&(slice, _), part) in tasks.iter().zip(&parts) {
            let start = slice * width;
            add(&mut statistics.sums, stride, start, &part.sums, width.min(dim - start));
            match portion.moments {
                None => (),
                Some(Lift::Norm) => add(&mut statistics.sums, stride, dim, &part.squares, 1),
                Some(Lift::Squares) => {
                    add(&mut statistics.sums, stride, dim + start, &part.squares, width.min(dim - start));
                }
            }
            if slice == 0 {
                statistics.mass.iter_mut().zip(&part.mass).for_each(|(a, b)| *a += b);
            }
        }
    }
    Ok(())
}

/// Adds the `width` numbers per cluster of `part` to those of `sums` from `start` on, where each cluster has `stride`
/// numbers.
fn add(sums: &mut [f64], stride: usize, start: usize, part: &[f64], width: usize) {
    let own = sums.par_chunks_mut(stride).zip(part.par_chunks(width));
    own.with_min_len(256).for_each(|(sum, part)| {
        sum[start..start + width].iter_mut().zip(part).for_each(|(a, b)| *a += b);
    });
}

/// Sums of some rows in some columns.
struct SliceSums {
    /// sum w q y, M x columns.
    sums: Vec<f64>,
    /// sum w q (y - mu)^2, if needed: M x columns, or summed over the columns.
    squares: Vec<f64>,
    /// sum w q.
    mass: Vec<f64>,
}

/// Some rows of a shard, with their weights and origin.
#[derive(Debug, Clone)]
pub(crate) struct Portion<'a, T: Real> {
    pub data: &'a Dataset<'a, T>,
    pub model: &'a Model<T>,
    /// The second moments to compute.
    pub moments: Option<Lift>,
    pub rows: Range<usize>,
}

impl<T: Real> Portion<'_, T> {
    /// The weight of the `r`-th of the rows.
    pub fn weight(&self, r: usize) -> f64 {
        self.data.weight(self.rows.start + r)
    }

    /// The sums over some of the rows in some of the columns.
    fn add_up(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        sets: &Sets<T>,
        observer: &dyn Observer,
    ) -> Result<SliceSums> {
        let (width, clusters, dim) = (columns.len(), self.model.clusters(), self.data.dim());
        let (mut sums, mut mass) = (filled(0.0, clusters * width, "sums")?, filled(0.0, clusters, "sums")?);
        let extra = self.moments.map_or(0, |lift| lift.columns(width));
        let mut squares = filled(0.0, clusters * extra, "sums")?;
        let (mut local, centers) = (Vec::new(), self.model.local_centers());
        let far = size_of_val(sums.as_slice()) > NEAR;
        for (i, r) in rows.enumerate() {
            if i % 256 == 0 && observer.cancelled() {
                return Err(Error::Cancelled);
            }
            if far && let Some(ahead) = sets.members.get((r + AHEAD) * sets.h..(r + AHEAD + 1) * sets.h) {
                ahead.iter().for_each(|&c| prefetch(&sums[c as usize * width..(c as usize + 1) * width]));
            }
            let places = r * sets.h..(r + 1) * sets.h;
            let row = &self.data.local(self.rows.start + r, self.model.origin(), &mut local)[columns.clone()];
            let w = self.weight(r);
            for (&c, &q) in sets.members[places.clone()].iter().zip(&sets.posterior[places]) {
                if q > T::ZERO {
                    let (c, wq) = (c as usize, w * q.to_f64());
                    mass[c] += wq;
                    T::add_scaled(&mut sums[c * width..(c + 1) * width], wq, row);
                    if let Some(lift) = self.moments {
                        let center = &centers[c * dim..][columns.clone()];
                        add_squares(lift, &mut squares[c * extra..(c + 1) * extra], wq, row, center);
                    }
                }
            }
        }
        Ok(SliceSums { sums, squares, mass })
    }
}

/// sums += weight (row - center)^2, for each column or summed over all.
fn add_squares<T: Real>(lift: Lift, sums: &mut [f64], weight: f64, row: &[T], center: &[T]) {
    let squares = row.iter().zip(center).map(|(y, mu)| (y.to_f64() - mu.to_f64()).powi(2));
    match lift {
        Lift::Norm => sums[0] += weight * squares.sum::<f64>(),
        Lift::Squares => sums.iter_mut().zip(squares).for_each(|(sum, square)| *sum += weight * square),
    }
}
