//! The checks that the crate's tests also run.

#[path = "../../tests/fuzzing/mod.rs"]
mod fuzzing;

pub use fuzzing::{fits, model_files, shard_bytes};
