//! Running statistics of a stream: an approximate mean, from the first rows of each block, and the mean squared
//! distance to it.

use super::scan::Measured;
use crate::data::{BLOCK, Dataset, Moments};
use crate::error::Result;
use crate::kernel::Real;
use crate::observer::Observer;
use crate::parallel::map_blocks;

/// Number of rows at the start of a block that contribute to the reference point.
const HEAD: usize = 256;

/// See the [module](self). Weights are in units of `unit`.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// Moments of the first rows of all blocks.
    pub heads: Moments,
    /// sum w of all rows.
    pub weight: f64,
    /// sum w d^2 of all rows, with the distance of each to the point of its block.
    pub moment: f64,
    /// The unit of weights, which keeps their sums in range; 0 before the first weight.
    pub unit: f64,
}

impl Seen {
    pub(super) fn none(dim: usize) -> Self {
        Self { heads: Moments::empty(dim), weight: 0.0, moment: 0.0, unit: 0.0 }
    }

    /// The reference points of all blocks of `data`.
    pub(super) fn points<T: Real>(&mut self, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<Vec<Vec<T>>> {
        for start in (0..data.rows()).step_by(BLOCK) {
            self.learn_unit(&head(data, start)?);
        }
        let unit = self.unit();
        let heads = map_blocks(data.rows(), BLOCK, observer, |_, rows| moments(&head(data, rows.start)?, unit))?;
        let mut row = Vec::new();
        heads
            .into_iter()
            .enumerate()
            .map(|(i, head)| Ok(self.next_point(&head?, data.row(i * BLOCK, &mut row))))
            .collect()
    }

    /// The reference point of a single block.
    pub(super) fn point<T: Real>(&mut self, block: &Dataset<'_, T>) -> Result<Vec<T>> {
        let head = head(block, 0)?;
        self.learn_unit(&head);
        Ok(self.next_point(&moments(&head, self.unit())?, block.row(0, &mut Vec::new())))
    }

    /// The mean of the first rows of all blocks; `otherwise` if no row has weight.
    fn next_point<T: Real>(&mut self, head: &Moments, otherwise: &[T]) -> Vec<T> {
        self.heads.merge(head);
        match self.heads.weight > 0.0 {
            true => self.heads.mean.iter().map(|&x| T::from_f64(x)).collect(),
            false => otherwise.to_vec(),
        }
    }

    /// The mean squared distance of all rows up to the end of this block.
    pub(super) fn mean_distance<T>(&mut self, block: &Measured<T>) -> f64 {
        self.weight += block.weight;
        self.moment += block.moment;
        if self.weight > 0.0 { self.moment / self.weight } else { 0.0 }
    }

    /// The unit of weights; 1 before the first weight.
    pub(super) fn unit(&self) -> f64 {
        if self.unit == 0.0 { 1.0 } else { self.unit }
    }

    fn learn_unit<T: Real>(&mut self, head: &Dataset<'_, T>) {
        // Weights counted before the first positive weight among the first rows of a block are converted.
        if self.unit == 0.0 && head.positive_rows() > 0 {
            self.unit = head.weight_unit();
            self.weight /= self.unit;
            self.moment /= self.unit;
        }
    }

    /// Merges the statistics of another builder.
    pub(super) fn merge(&mut self, mut other: Self) {
        if self.heads.mean.is_empty() {
            *self = other;
            return;
        }
        let scale = other.unit() / self.unit();
        other.heads.weight *= scale;
        other.heads.scatter *= scale;
        self.heads.merge(&other.heads);
        self.weight += scale * other.weight;
        self.moment += scale * other.moment;
        if self.unit == 0.0 && other.unit > 0.0 {
            self.unit = 1.0;
        }
    }
}

/// The first rows of the block that begins at `start`.
fn head<'a, T: Real>(data: &'a Dataset<'_, T>, start: usize) -> Result<Dataset<'a, T>> {
    data.slice(start..data.rows().min(start + HEAD))
}

fn moments<T: Real>(head: &Dataset<'_, T>, unit: f64) -> Result<Moments> {
    let rows = 0..head.rows();
    Ok(if unit == 1.0 { head.block_moments(rows) } else { head.in_weights_of(unit)?.block_moments(rows) })
}
