//! Clustering whose cost does not grow with the number of clusters.

pub mod alias;
pub mod coreset;
mod data;
mod error;
mod importance;
mod kernel;
mod observer;
pub mod parallel;
mod real;
pub mod rng;
pub mod seeding;

pub use data::{Dataset, Moments};
pub use error::{Error, Result};
pub use observer::{Event, Observer, Silent};
pub use parallel::Run;
pub use real::Real;
