//! Serialization of numbers and arrays, to move them between processes and machines of any kind.
//!
//! A header names the content, its version and the numeric type. Arrays follow their lengths, and everything is
//! little-endian. An optional checksum at the end detects any damage.

mod reader;
mod writer;

pub(crate) use reader::Reader;
pub(crate) use writer::Writer;

use crate::rng::mix;

const MAGIC: [u8; 4] = *b"dgmm";
const VERSION: u8 = 3;

/// Eight bytes at a time, each mixed with all before it.
fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|&word| u64::from_le_bytes(word));
    words.fold(bytes.len() as u64, |sum, word| mix(sum.rotate_left(5) ^ word).wrapping_add(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_bytes_show_any_damage() {
        let mut out = Writer::new(b'X', 8);
        out.reals(&[1.0, 2.5, -3.0]);
        out.byte(7);
        let bytes = out.sealed();
        let read = |bytes: &[u8]| -> crate::error::Result<(Vec<f64>, u8)> {
            let mut reader = Reader::sealed(bytes, "numbers", b'X', 8)?;
            let read = (reader.reals()?, reader.byte()?);
            reader.end()?;
            Ok(read)
        };
        assert_eq!(read(&bytes).unwrap(), (vec![1.0, 2.5, -3.0], 7));
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read(&damaged).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err());
            assert!(read(&[&bytes[..length], &[0], &bytes[length..]].concat()).is_err());
        }
    }
}
