//! The checks that the tests of the crate make too.

#[path = "../../tests/fuzzing/mod.rs"]
mod fuzzing;

pub use fuzzing::{fits, model_files, shard_bytes};
