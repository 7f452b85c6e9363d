//! Small fits whose instructions `count.py` counts: `instructions SYSTEM`. Run directly, it only fits.

use dgmm::{Dataset, Dgmm, ExactGmm, KMeans, Params};
use std::env;

fn main() {
    let name = env::args().nth(1).unwrap_or_default();
    let all: [(&str, Params); 3] =
        [("kmeans", KMeans::params(50)), ("exact", ExactGmm::params(50)), ("dgmm", Dgmm::params(300))];
    let values: Vec<f32> = (0..160_000u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0 + (i / 16 % 97) as f32)
        .collect();
    let data = Dataset::from_slice(&values, 16).expect("good rows");
    for (_, params) in all.into_iter().filter(|one| name.starts_with('-') || name.is_empty() || one.0 == name) {
        let fit = params.threads(1).seed(1).max_iter(3).tol(0.0).fit(&data).expect("a good fit");
        println!("{}", fit.report.lower_bound);
    }
}
