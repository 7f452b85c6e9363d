//! The quick fuzzing profile: the corpus and its mutations, with any toolchain and in the same order each time.

use super::{fits, shard_bytes};
use crate::common::Random;
use std::fs;
use std::path::Path;

/// The inputs that `cargo fuzz` has kept for a target; empty in a packaged crate.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = root.join("fuzz/corpus").join(target);
    if !root.join("fuzz").exists() {
        return Vec::new();
    }
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 10, "only {} inputs of {target}", files.len());
    files.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// An input with a few changes: bytes flipped, overwritten, removed, duplicated, or taken from another.
fn mutated(inputs: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut below = |end: usize| (random.bits() % end.max(1) as u64) as usize;
    let mut bytes = inputs[below(inputs.len())].clone();
    for _ in 0..1 + below(4) {
        let (at, length) = (below(bytes.len()), 1 + below(16));
        let end = (at + length).min(bytes.len());
        match below(6) {
            0 if at < end => bytes[at] ^= 1 << below(8),
            1 if at < end => bytes[at] = [0, 1, 127, 128, 255][below(5)],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let other = &inputs[below(inputs.len())];
                let from = below(other.len());
                let piece = other[from..(from + length).min(other.len())].to_vec();
                bytes.splice(at..end, piece);
            }
        }
    }
    bytes
}

/// Checks the seeds, the corpus and `count` mutations of them.
fn replay(target: &str, seeds: Vec<Vec<u8>>, count: usize, check: fn(&[u8])) {
    let inputs = [seeds, corpus(target)].concat();
    let mut random = Random(7);
    inputs.iter().for_each(|input| check(input));
    for _ in 0..count {
        let input = mutated(&inputs, &mut random);
        // If the check panics, show its input.
        let shown = Shown(&input);
        check(&input);
        std::mem::forget(shown);
    }
}

struct Shown<'a>(&'a [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        eprintln!("the input: {:?}", self.0);
    }
}

#[test]
fn any_bytes_of_a_shard_are_refused_or_harmless() {
    replay("shard_bytes", shard_bytes::seeds(), 4000, shard_bytes::check);
}

#[test]
fn any_small_table_is_fitted_or_refused() {
    replay("fits", fits::seeds(), 3000, fits::check);
}

#[cfg(feature = "files")]
#[test]
fn any_file_is_a_model_or_refused() {
    use super::model_files;
    replay("model_files", model_files::seeds(), 3000, model_files::check);
}
