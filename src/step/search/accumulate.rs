//! The sums of rows whose sets are known: O(N H D), and never more memory for it than an eighth of N H D numbers.
//!
//! The rows of a portion are cut into segments and, where these are few, their columns into slices, by the sizes of the
//! problem alone. A task adds up one slice of one segment in the order of the rows; segments merge in their order. So the
//! sums do not depend on the number of threads.

use super::blocks::Sets;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::kernel::{Real, prefetch};
use crate::memory::filled;
use crate::observer::Observer;
use crate::step::statistics::Statistics;
use rayon::prelude::*;
use std::ops::Range;

/// Places a cluster has in a segment, on average, at least.
const PLACES_A_CLUSTER: usize = 64;
/// Segments of a shard at most, and tasks wanted.
const TASKS: usize = 16;
/// Bytes of sums up to which a second-level cache is taken to hold them ...
const NEAR: usize = 1 << 20;
/// ... and rows ahead that they are asked for otherwise.
const AHEAD: usize = 2;
/// Columns of a slice, of which it has a multiple.
const SLICE: usize = 16;

/// Adds the sums of the rows of a portion, given their sets.
pub(super) fn accumulate<T: Real>(
    statistics: &mut Statistics<T>,
    portion: &Portion<'_, T>,
    sets: &Sets<T>,
    observer: &dyn Observer,
) -> Result<()> {
    let (dim, clusters) = (statistics.dim, portion.clusters);
    let rows = portion.rows.len();
    let segments = (rows * sets.h / (PLACES_A_CLUSTER * clusters)).clamp(1, TASKS);
    let size = rows.div_ceil(segments).max(1);
    let width = dim.div_ceil(TASKS / segments).next_multiple_of(SLICE).min(dim);
    let slices = dim.div_ceil(width);
    // Slice after slice in blocks of TASKS, so that few partial sums wait at a time.
    let tasks: Vec<(usize, usize)> =
        (0..slices).flat_map(|slice| (0..rows.div_ceil(size)).map(move |segment| (slice, segment))).collect();
    for tasks in tasks.chunks(TASKS) {
        let parts: Vec<(Vec<f64>, Vec<f64>)> = tasks
            .par_iter()
            .map(|&(slice, segment)| {
                let columns = slice * width..((slice + 1) * width).min(dim);
                let rows = segment * size..((segment + 1) * size).min(rows);
                portion.add_up(rows, columns, sets, observer)
            })
            .collect::<Result<_>>()?;
        for (&(slice, _), (sums, mass)) in tasks.iter().zip(&parts) {
            let start = slice * width;
            let own = statistics.sums.par_chunks_mut(dim).zip(sums.par_chunks(width.min(dim - start)));
            own.with_min_len(256).for_each(|(sum, part)| {
                sum[start..start + part.len()].iter_mut().zip(part).for_each(|(a, b)| *a += b);
            });
            if slice == 0 {
                statistics.mass.iter_mut().zip(mass).for_each(|(a, b)| *a += b);
            }
        }
    }
    Ok(())
}

/// Some rows of a shard and how to read them.
#[derive(Debug, Clone)]
pub(crate) struct Portion<'a, T: Real> {
    pub data: &'a Dataset<'a, T>,
    pub origin: Option<&'a [T]>,
    pub rows: Range<usize>,
    pub clusters: usize,
}

impl<T: Real> Portion<'_, T> {
    /// The weight of row `r` of them.
    pub fn weight(&self, r: usize) -> f64 {
        self.data.weight(self.rows.start + r)
    }

    /// sum w q y over some of the rows, in some of the columns (M x columns), and sum w q (M).
    fn add_up(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        sets: &Sets<T>,
        observer: &dyn Observer,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let (width, clusters) = (columns.len(), self.clusters);
        let (mut sums, mut mass) = (filled(0.0, clusters * width, "sums")?, filled(0.0, clusters, "sums")?);
        let mut local = Vec::new();
        let far = size_of_val(sums.as_slice()) > NEAR;
        for (i, r) in rows.enumerate() {
            if i % 256 == 0 && observer.cancelled() {
                return Err(Error::Cancelled);
            }
            if far && let Some(ahead) = sets.members.get((r + AHEAD) * sets.h..(r + AHEAD + 1) * sets.h) {
                ahead.iter().for_each(|&c| prefetch(&sums[c as usize * width..(c as usize + 1) * width]));
            }
            let places = r * sets.h..(r + 1) * sets.h;
            let row = &self.data.local(self.rows.start + r, self.origin, &mut local)[columns.clone()];
            let w = self.weight(r);
            for (&c, &q) in sets.members[places.clone()].iter().zip(&sets.posterior[places]) {
                if q > T::ZERO {
                    let (c, wq) = (c as usize, w * q.to_f64());
                    mass[c] += wq;
                    T::add_scaled(&mut sums[c * width..(c + 1) * width], wq, row);
                }
            }
        }
        Ok((sums, mass))
    }
}
