//! Draws one coreset and fits several numbers of clusters to it: drawing reads all the data, while each fit is nearly
//! free.
//!
//! ```text
//! cargo run --release --example reuse_coreset
//! ```

use dgmm::{Dataset, Dgmm, Result, Run, lightweight_coreset};
use ndarray::Array2;
use std::time::Instant;

/// Approximately normal numbers: sums of uniform numbers from a linear congruential generator.
fn noise() -> impl FnMut() -> f64 {
    let mut state = 1u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0
}

/// Runs the example.
pub fn main() -> Result<()> {
    let mut noise = noise();
    let places = Array2::from_shape_fn((64, 8), |_| 4.0 * noise());
    let x = Array2::from_shape_fn((50_000, 8), |(n, d)| (places[[n % 64, d]] + noise()) as f32);
    let data = Dataset::new(x.view())?;
    let run = Run::default();

    let clock = Instant::now();
    let coreset = lightweight_coreset(&data, 4000, 7, &run)?;
    println!("{} of {} rows in {:.0} ms", coreset.weights.len(), data.rows(), clock.elapsed().as_secs_f64() * 1e3);

    // Weighted rows are data like any other. The error on them estimates the error on all rows, which is printed next
    // to it.
    let small = coreset.dataset()?;
    println!("{:>4} {:>12} {:>12} {:>6}", "M", "on coreset", "on all rows", "ms");
    for clusters in [8, 16, 32, 64, 128] {
        let clock = Instant::now();
        let fit = Dgmm::params(clusters).seed(7).fit(&small)?;
        let milliseconds = clock.elapsed().as_secs_f64() * 1e3;
        let on_coreset = fit.model.quantization_error(&small, &run)? / small.total_weight();
        let on_all = fit.model.quantization_error(&data, &run)? / data.total_weight();
        println!("{clusters:>4} {on_coreset:>12.3} {on_all:>12.3} {milliseconds:>6.0}");
    }
    Ok(())
}
