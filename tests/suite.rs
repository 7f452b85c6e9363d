//! All integration tests.

mod balance;
mod bytes;
mod common;
mod cosine;
mod exactness;
mod examples;
#[cfg(feature = "files")]
mod files;
mod fuzzing;
mod mixtures;
mod observers;
mod order;
mod promises;
mod properties;
mod refine;
mod regressions;
mod samples;
#[cfg(feature = "serde")]
mod serialize;
mod shards;
mod structure;
mod tight;
mod value_stability;
