//! The rows to fit: their moments, samples of them, and the nearest of given centers.

pub mod coreset;
mod dataset;
mod directions;
mod distinct;
mod moments;
mod nearest;
mod priority;
mod sampling;
pub mod stream;

pub use dataset::Dataset;
pub use moments::Moments;

pub(crate) use dataset::{BLOCK, compare};
pub(crate) use directions::inverse_length;
pub(crate) use distinct::DistinctRows;
pub(crate) use nearest::nearest_centers;
pub(crate) use priority::{PrioritySample, Sampled, importance};
pub(crate) use sampling::{Importance, draw_by_weight, gather, pick, sample_rows};
