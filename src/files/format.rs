//! The file format: safetensors, with metadata that have the format, its version and a checksum of everything else.

use super::replace::{Disk, System, check, replace};
use super::tensor::{CHUNK, Number, Tensor, Values, collect, entries, reserved};
use super::{damaged, failed, foreign};
use crate::error::{Error, Result};
use crate::observer::Observer;
use crc32fast::Hasher;
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

const FORMAT: &str = "dgmm";
const VERSION: u64 = 2;
/// The metadata key that only version 2 has: the metric, if it is not Euclidean. Files without it have version 1, so
/// that older readers accept them.
pub(super) const METRIC: &str = "metric";
const CHECKSUM: &str = "crc32";
/// The key of the metadata in the header, among the arrays.
const METADATA: &str = "__metadata__";
/// Size in bytes of the header's length, which comes first.
const LENGTH: u64 = 8;
/// Maximum size of a header in bytes, as in other readers of the format.
const LONGEST_HEADER: u64 = 100_000_000;

/// The contents of a file: texts and arrays, each by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contents<'a> {
    /// The texts.
    pub metadata: BTreeMap<String, String>,
    /// The arrays.
    pub tensors: BTreeMap<String, Tensor<'a>>,
}

/// Writes a file, which is put in place once it is complete and on disk; see [`Model::save`](crate::Model::save).
///
/// `format`, `format_version`, `dgmm_version` and `crc32` are added to the metadata. The observer can cancel.
///
/// ```
/// use dgmm::{Silent, files::{self, Contents, Tensor, Values}};
/// let path = std::env::temp_dir().join(format!("dgmm-any-{}.safetensors", std::process::id()));
/// let mut contents = Contents::default();
/// contents.metadata.insert("made by".into(), "hand".into());
/// contents.tensors.insert("primes".into(), Tensor::new(vec![3], Values::I64(vec![2, 3, 5].into()))?);
/// files::write(&path, &contents, &Silent)?;
/// let back = files::read(&path, &Silent)?;
/// assert_eq!(back.metadata["made by"], "hand");
/// assert_eq!(back.tensors, contents.tensors);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), dgmm::Error>(())
/// ```
pub fn write(path: impl AsRef<Path>, contents: &Contents<'_>, observer: &dyn Observer) -> Result<()> {
    write_to(path.as_ref(), contents, observer, &System)
}

pub(super) fn write_to(path: &Path, contents: &Contents<'_>, observer: &dyn Observer, disk: &dyn Disk) -> Result<()> {
    let mut metadata = contents.metadata.clone();
    let version = env!("CARGO_PKG_VERSION");
    let number = if contents.metadata.contains_key(METRIC) { VERSION } else { 1 };
    for (key, value) in [("format", FORMAT), ("format_version", &number.to_string()), ("dgmm_version", version)] {
        metadata.insert(key.to_owned(), value.to_owned());
    }
    metadata.insert(CHECKSUM.to_owned(), checksum(&metadata, &contents.tensors, observer)?);
    let mut tensors: Vec<_> = contents.tensors.iter().collect();
    // Wide types first, so that everything is aligned.
    tensors.sort_by_key(|(name, tensor)| (std::cmp::Reverse(tensor.values().size()), *name));
    let header = header(&metadata, &tensors)?;
    replace(path, observer, disk, |sink| {
        sink.add(&(header.len() as u64).to_le_bytes())?;
        header.chunks(CHUNK).try_for_each(|part| sink.add(part))?;
        tensors.iter().try_for_each(|(_, tensor)| tensor.values().for_each_chunk(&mut |bytes| sink.add(bytes)))
    })
}

/// The JSON header, padded with spaces so that what follows is aligned.
fn header(metadata: &BTreeMap<String, String>, tensors: &[(&String, &Tensor<'_>)]) -> Result<Vec<u8>> {
    let mut entries = serde_json::Map::new();
    let mut end = 0;
    for &(name, tensor) in tensors {
        let (values, start) = (tensor.values(), end);
        end += values.len() * values.size();
        let entry = json!({ "dtype": values.type_name(), "shape": tensor.shape(), "data_offsets": [start, end] });
        entries.insert(name.clone(), entry);
    }
    if entries.insert(METADATA.to_owned(), json!(metadata)).is_some() {
        let allowed = "a name other than that of the metadata".to_owned();
        return Err(Error::BadParameter { name: "name", value: METADATA.to_owned(), allowed });
    }
    let mut bytes = serde_json::Value::Object(entries).to_string().into_bytes();
    bytes.resize(bytes.len().next_multiple_of(LENGTH as usize), b' ');
    Ok(bytes)
}

/// Reads a file written by [`write()`], [`Model::save`](crate::Model::save) or Python's `est.save`.
///
/// Fails if the file cannot be read, is damaged, truncated or something else, or has a newer format. Nothing is
/// allocated that exceeds the size of the file.
pub fn read(path: impl AsRef<Path>, observer: &dyn Observer) -> Result<Contents<'static>> {
    let path = path.as_ref();
    let kind = fs::metadata(path).map_err(|reason| failed(path, reason))?.file_type();
    // Opening a pipe would wait for a writer. Folders are handled below, by the system's error.
    if !kind.is_file() && !kind.is_dir() {
        return Err(foreign(path, "it is not a regular file".into()));
    }
    let mut source = Source { file: File::open(path).map_err(|reason| failed(path, reason))?, path, observer };
    let (start, header) = source.header()?;
    let metadata: BTreeMap<String, String> = header.metadata().clone().into_iter().flatten().collect();
    check_version(path, &metadata)?;
    let infos: BTreeMap<_, _> = header.tensors().into_iter().collect();
    let mut crc = begun(&metadata);
    let mut tensors = BTreeMap::new();
    for (name, info) in infos {
        let tensor = source.tensor(start, &name, info, &mut crc)?;
        tensors.insert(name, tensor);
    }
    if metadata.get(CHECKSUM) != Some(&text(crc)) {
        return Err(damaged(path, "its checksum does not match its contents".into()));
    }
    Ok(Contents { metadata, tensors })
}

/// An open file.
struct Source<'a> {
    file: File,
    path: &'a Path,
    observer: &'a dyn Observer,
}

impl Source<'_> {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        check(self.observer)?;
        self.file.read_exact(bytes).map_err(|reason| match reason.kind() {
            io::ErrorKind::UnexpectedEof => damaged(self.path, "it ends too early".into()),
            _ => failed(self.path, reason),
        })
    }

    /// The header, and where the arrays start; checks that it describes everything that follows and nothing else.
    fn header(&mut self) -> Result<(u64, Metadata)> {
        let length = self.file.metadata().map_err(|reason| failed(self.path, reason))?.len();
        let mut word = [0; LENGTH as usize];
        self.fill(&mut word)?;
        let size = u64::from_le_bytes(word);
        if size > LONGEST_HEADER.min(length.saturating_sub(LENGTH)) {
            return Err(damaged(self.path, format!("it has {length} bytes but claims a header of {size}")));
        }
        let mut bytes = reserved(size as usize)?;
        bytes.resize(size as usize, 0);
        self.fill(&mut bytes)?;
        let header: Metadata =
            serde_json::from_slice(&bytes).map_err(|reason| damaged(self.path, format!("its header: {reason}")))?;
        let end = (header.data_len() as u64).checked_add(LENGTH + size);
        if end != Some(length) {
            return Err(damaged(self.path, "its length differs from that in its header".into()));
        }
        Ok((LENGTH + size, header))
    }

    /// One array; its description and bytes are added to the checksum.
    fn tensor(&mut self, start: u64, name: &str, info: &TensorInfo, crc: &mut Hasher) -> Result<Tensor<'static>> {
        let unusable = |reason: String| foreign(self.path, format!("the array {name:?} {reason}"));
        let shape = &info.shape;
        let count = entries(shape).ok_or_else(|| unusable(format!("has the impossible shape {shape:?}")))?;
        if !matches!(info.dtype, Dtype::F32 | Dtype::F64 | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64) {
            return Err(unusable(format!("has type {}, which no array of a model has", info.dtype)));
        }
        describe(crc, name, &info.dtype.to_string(), shape);
        let start = start + info.data_offsets.0 as u64;
        self.file.seek(SeekFrom::Start(start)).map_err(|reason| failed(self.path, reason))?;
        let values = match info.dtype {
            Dtype::F32 => Values::F32(self.numbers(count, crc)?.into()),
            Dtype::F64 => Values::F64(self.numbers(count, crc)?.into()),
            Dtype::I32 => Values::I32(self.numbers(count, crc)?.into()),
            Dtype::I64 => Values::I64(self.numbers(count, crc)?.into()),
            Dtype::U32 => Values::U32(self.numbers(count, crc)?.into()),
            _ => Values::U64(self.numbers(count, crc)?.into()),
        };
        Tensor::new(shape.clone(), values)
    }

    fn numbers<T: Number>(&mut self, count: usize, crc: &mut Hasher) -> Result<Vec<T>> {
        collect(count, &mut |bytes| {
            self.fill(bytes)?;
            crc.update(bytes);
            Ok(())
        })
    }
}

fn check_version(path: &Path, metadata: &BTreeMap<String, String>) -> Result<()> {
    let said = |key: &str| metadata.get(key).map_or("", String::as_str);
    if said("format") != FORMAT {
        return Err(foreign(path, "its metadata lack format=dgmm".into()));
    }
    let version = said("format_version");
    match version.parse::<u64>() {
        Ok(version) if version > VERSION => {
            let wrote = metadata.get("dgmm_version").map_or("of an unknown version", String::as_str).to_owned();
            Err(Error::NewerFile { path: path.into(), version, wrote, newest: VERSION })
        }
        Ok(1..) => Ok(()),
        _ => Err(foreign(path, format!("format_version is {version:?}; it must be a positive number"))),
    }
}

/// CRC-32 of the metadata except the checksum itself, and of the names, types, shapes and bytes of the arrays, by name.
fn checksum(
    metadata: &BTreeMap<String, String>,
    tensors: &BTreeMap<String, Tensor<'_>>,
    observer: &dyn Observer,
) -> Result<String> {
    let mut crc = begun(metadata);
    for (name, tensor) in tensors {
        describe(&mut crc, name, tensor.values().type_name(), tensor.shape());
        tensor.values().for_each_chunk(&mut |bytes| {
            check(observer)?;
            crc.update(bytes);
            Ok(())
        })?;
    }
    Ok(text(crc))
}

fn begun(metadata: &BTreeMap<String, String>) -> Hasher {
    let mut crc = Hasher::new();
    for (key, value) in metadata.iter().filter(|(key, _)| *key != CHECKSUM) {
        crc.update(format!("{key}\0{value}\0").as_bytes());
    }
    crc
}

fn describe(crc: &mut Hasher, name: &str, dtype: &str, shape: &[usize]) {
    crc.update(format!("{name}\0{dtype}{shape:?}\0").as_bytes());
}

fn text(crc: Hasher) -> String {
    format!("{:08x}", crc.finalize())
}
