//! Clustering whose cost does not grow with the number of clusters.

mod data;
mod error;
mod kernel;
mod observer;
pub mod parallel;
mod real;
pub mod rng;

pub use data::{Dataset, Moments};
pub use error::{Error, Result};
pub use observer::{Event, Observer, Silent};
pub use real::Real;
