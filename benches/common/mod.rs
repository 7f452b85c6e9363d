//! Data for the benches, and how they print what was fitted.

#![allow(dead_code)] // each bench uses some of it

use dgmm::{Dataset, Model, Run};
use ndarray::Array2;

/// Number of threads in every bench with several threads.
pub const THREADS: usize = 2;

pub fn run() -> Run<'static> {
    Run { threads: Some(THREADS), ..Run::default() }
}

/// Uniform numbers in [0, 1), from SplitMix64 (Steele, Lea and Flood, 2014).
fn uniform(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 40) as f32 / (1u64 << 24) as f32
    }
}

/// `rows` rows with unit spread around 2,000 centers with spread 2: overlapping clusters, as in real data.
pub fn overlapping(rows: usize, dim: usize) -> Array2<f32> {
    const CENTERS: usize = 2000;
    let mut unit = uniform(1);
    let centers: Vec<f32> = (0..CENTERS * dim).map(|_| 7.0 * (unit() - 0.5)).collect();
    Array2::from_shape_fn((rows, dim), |(n, d)| centers[(n * 7919 % CENTERS) * dim + d] + (unit() - 0.5) * 3.5)
}

/// The exact quantization error per row.
pub fn error_per_row(model: &Model<f32>, data: &Dataset<'_, f32>) -> f64 {
    model.quantization_error(data, &run()).expect("the widths agree") / data.total_weight()
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
