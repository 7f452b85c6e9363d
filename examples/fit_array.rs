//! Fits a D-GMM to an array in memory and applies the model to rows that it has not seen.
//!
//! ```text
//! cargo run --release --example fit_array
//! ```

use dgmm::{Dataset, Dgmm, Result, Run};
use ndarray::{Array2, s};

/// `rows` rows of two columns, each around one of `clusters` random points.
fn points(rows: usize, clusters: usize) -> Array2<f32> {
    let mut state = 1u64;
    let mut uniform = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let places = Array2::from_shape_fn((clusters, 2), |_| 30.0 * uniform());
    Array2::from_shape_fn((rows, 2), |(n, d)| (places[[n % clusters, d]] + 1.2 * (uniform() - 0.5)) as f32)
}

/// Runs the example.
pub fn main() -> Result<()> {
    let x = points(21_000, 50);
    let (seen, unseen) = (x.slice(s![..20_000, ..]), x.slice(s![20_000.., ..]));

    let data = Dataset::new(seen)?;
    let fit = Dgmm::params(50).truncation(5).n_init(3).seed(7).fit(&data)?;

    let report = &fit.report;
    println!("{} iterations, converged: {}", report.iterations.len(), report.converged);
    println!("F = {:.4}, s2 = {:.4}", report.lower_bound, fit.model.variance());
    println!("error per row: {:.4}", report.inertia / data.total_weight());
    println!("distance evaluations: {:?}", report.evaluations);

    let unseen = Dataset::new(unseen)?;
    let run = Run::default();
    let labels = fit.model.predict(&unseen, &run)?;
    let error = fit.model.quantization_error(&unseen, &run)? / unseen.total_weight();
    println!(
        "the first of {} unseen rows are in clusters {:?}; their error per row: {error:.4}",
        unseen.rows(),
        &labels[..5]
    );
    Ok(())
}
