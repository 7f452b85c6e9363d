//! All integration tests.

mod bytes;
mod common;
mod exactness;
mod examples;
#[cfg(feature = "files")]
mod files;
mod order;
mod promises;
mod properties;
mod regressions;
mod shards;
mod value_stability;
