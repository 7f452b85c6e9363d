//! Properties of any input, as functions of bytes: the targets of `cargo fuzz` (see `fuzz/README.md`), which the tests
//! call, too.

pub mod fits;
#[cfg(feature = "files")]
pub mod model_files;
#[cfg(test)]
mod replay;
pub mod shard_bytes;

use dgmm::Run;

/// One thread, so that failures are reproducible.
fn run() -> Run<'static> {
    Run { threads: Some(1), ..Run::default() }
}
