//! Data for the benches, and how they print what was fitted.

#![allow(dead_code)] // each bench uses some of it

use dgmm::rng::{Stage, stream};
use dgmm::{Dataset, Model, Run, random_rows};
use ndarray::Array2;

/// Threads of every bench that uses several.
pub const THREADS: usize = 2;

pub fn run() -> Run<'static> {
    Run { threads: Some(THREADS), ..Run::default() }
}

/// `rows` points of unit spread around 2,000 centers of spread 2: clusters that overlap, as in real data.
pub fn overlapping(rows: usize, dim: usize) -> Array2<f32> {
    const CENTERS: usize = 2000;
    let mut rng = stream(1, Stage::Sample, 0, 0);
    let centers: Vec<f32> = (0..CENTERS * dim).map(|_| 2.0 * rng.normal() as f32).collect();
    Array2::from_shape_fn((rows, dim), |(n, d)| {
        centers[(n * 7919 % CENTERS) * dim + d] + (rng.unit() as f32 - 0.5) * 3.5
    })
}

/// Random rows as centers: the cheapest start, for benches of what comes after it.
pub fn start(data: &Dataset<'_, f32>, clusters: usize) -> Array2<f32> {
    random_rows(data, clusters, 1, &run()).expect("there are enough rows").centers
}

/// The exact quantization error a row.
pub fn error_a_row(model: &Model<f32>, data: &Dataset<'_, f32>) -> f64 {
    model.quantization_error(data, &run()).expect("the widths agree") / data.total_weight()
}
