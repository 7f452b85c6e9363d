//! Fits a codebook, writes it to a file and reads it back; Python's `dgmm.load` reads the same file.
//!
//! ```text
//! cargo run --release --features files --example save_model -- model.safetensors
//! ```

use dgmm::{Dataset, KMeans, Model, Result, Run};
use ndarray::Array2;
use std::path::Path;

/// 200 rows around a grid of 5 x 4 points.
fn points() -> Array2<f32> {
    Array2::from_shape_fn((200, 2), |(n, d)| {
        let place = if d == 0 { n % 5 } else { n / 5 % 4 };
        100.0 + 8.0 * place as f32 + (n * (d + 7) % 16) as f32 / 16.0
    })
}

/// Runs the example with the given path.
pub fn save_and_load(path: &Path) -> Result<()> {
    let x = points();
    let data = Dataset::new(x.view())?;
    let fit = KMeans::params(20).n_init(3).seed(7).fit(&data)?;
    fit.model.save(path)?;

    let model = Model::<f32>::load(path)?;
    let labels = model.predict(&data, &Run::default())?;
    assert_eq!(labels, fit.model.predict(&data, &Run::default())?);
    println!("{} holds {} centers of {} columns", path.display(), model.clusters(), model.dim());
    Ok(())
}

/// Runs the example.
#[allow(dead_code)] // the tests call the function above
fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).unwrap_or_else(|| "model.safetensors".into());
    save_and_load(path.as_ref())
}
