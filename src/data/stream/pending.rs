//! The rows of an incomplete block.

use crate::data::Dataset;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::{copied, reserve};
use ndarray::ArrayView1;
use std::ops::Range;

const HELD: &str = "rows of a stream";

/// Rows with weights.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pending<T> {
    pub values: Vec<T>,
    pub weights: Vec<f64>,
}

impl<T: Real> Pending<T> {
    pub(super) fn none() -> Self {
        Self { values: Vec::new(), weights: Vec::new() }
    }

    pub(super) fn copied(&self) -> Result<Self> {
        Ok(Self { values: copied(&self.values, HELD)?, weights: copied(&self.weights, HELD)? })
    }

    pub(super) fn rows(&self) -> usize {
        self.weights.len()
    }

    /// Appends some rows of `data`.
    pub(super) fn extend(&mut self, data: &Dataset<'_, T>, rows: Range<usize>) -> Result<()> {
        reserve(&mut self.values, rows.len() * data.dim(), HELD)?;
        reserve(&mut self.weights, rows.len(), HELD)?;
        self.values.extend_from_slice(data.range(rows.clone(), &mut Vec::new()));
        self.weights.extend(rows.map(|n| data.weight(n)));
        Ok(())
    }

    pub(super) fn dataset(&self, dim: usize) -> Result<Dataset<'_, T>> {
        Dataset::from_slice(&self.values, dim)?.weighted_part(ArrayView1::from(&self.weights))
    }
}
