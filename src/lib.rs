//! Clustering whose cost does not grow with the number of clusters.

pub mod alias;
mod canonical;
pub mod coreset;
mod data;
mod em;
mod error;
mod fit;
mod importance;
mod kernel;
mod model;
mod observer;
pub mod parallel;
mod params;
#[cfg(feature = "python")]
mod python;
mod real;
mod report;
pub mod rng;
mod search;
pub mod seeding;
mod similarity;

pub use coreset::{Coreset, lightweight_coreset};
pub use data::{Dataset, Moments};
pub use error::{Error, Result};
pub use fit::Fit;
pub use model::Model;
pub use observer::{Event, Observer, Silent};
pub use parallel::Run;
pub use params::{Dgmm, Engine, ExactGmm, Init, KMeans, Params, SimilarityKind, Stop, VcGmm};
pub use real::Real;
pub use report::{Evaluations, Iteration, Report, Seconds};
pub use seeding::{Seeds, afkmc2, kmeans_plus_plus, random_rows};
