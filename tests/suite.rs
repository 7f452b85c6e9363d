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
mod order;
mod promises;
mod properties;
mod regressions;
#[cfg(feature = "serde")]
mod serialize;
mod shards;
mod structure;
mod value_stability;
