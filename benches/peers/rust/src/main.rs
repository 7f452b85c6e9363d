//! Fits with libraries that have no Python interface: fastkmeans-rs and linfa.
//!
//!     peers LIBRARY ROWS.f32 COLUMNS CLUSTERS SEED CENTERS.f32
//!
//! Rows and centers are plain little-endian f32 files. Prints the seconds of the fit, without reading and writing.

use fastkmeans_rs::{FastKMeans, KMeansConfig};
use linfa::DatasetBase;
use linfa::traits::Fit;
use linfa_clustering::{KMeans, KMeansInit};
use ndarray::Array2;
use rand_xoshiro::Xoshiro256Plus;
use rand_xoshiro::rand_core::SeedableRng;
use std::error::Error;
use std::time::Instant;

const ITERATIONS: usize = 10;

fn read(path: &str, columns: usize) -> Result<Array2<f32>, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let values: Vec<f32> = bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    Ok(Array2::from_shape_vec((values.len() / columns, columns), values)?)
}

fn fit(library: &str, rows: Array2<f32>, clusters: usize, seed: u64) -> Result<(f64, Array2<f32>), Box<dyn Error>> {
    match library {
        "fastkmeans-rs" => {
            let config = KMeansConfig::new(clusters).with_seed(seed).with_max_iters(ITERATIONS);
            let mut kmeans = FastKMeans::with_config(config.with_tol(-1.0).with_max_points_per_centroid(None));
            let clock = Instant::now();
            kmeans.train(&rows.view())?;
            let seconds = clock.elapsed().as_secs_f64();
            Ok((seconds, kmeans.centroids().ok_or("no centers")?.clone()))
        }
        "linfa" => {
            let data = DatasetBase::from(rows);
            let params = KMeans::params_with_rng(clusters, Xoshiro256Plus::seed_from_u64(seed))
                .n_runs(1)
                .max_n_iterations(ITERATIONS as u64)
                .tolerance(1e-12)
                .init_method(KMeansInit::KMeansPara);
            let clock = Instant::now();
            let model = match params.fit(&data) {
                Ok(model) => model,
                Err(error) => return Err(format!("linfa gives no centers: {error}").into()),
            };
            Ok((clock.elapsed().as_secs_f64(), model.centroids().clone()))
        }
        other => Err(format!("unknown library {other}").into()),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [library, input, columns, clusters, seed, output] = &arguments[..] else {
        return Err("usage: peers LIBRARY ROWS.f32 COLUMNS CLUSTERS SEED CENTERS.f32".into());
    };
    let (seconds, centers) = fit(library, read(input, columns.parse()?)?, clusters.parse()?, seed.parse()?)?;
    let bytes: Vec<u8> = centers.iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(output, bytes)?;
    println!("{seconds}");
    Ok(())
}
