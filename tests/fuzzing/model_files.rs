//! Model files are refused with a reason, or read; and what was read survives being written and read again.

use super::run;
use dgmm::files::{self, Contents};
use dgmm::{Dataset, Error, Model, Real, Silent};
use ndarray::array;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Files of this process.
fn path(name: &str) -> PathBuf {
    env::temp_dir().join(format!("dgmm-fuzz-{}-{name}.safetensors", process::id()))
}

/// Valid inputs to start from.
pub fn seeds() -> Vec<Vec<u8>> {
    let written = |save: &dyn Fn(&Path) -> dgmm::Result<()>| {
        let path = path("seed");
        save(&path).expect("it can be written");
        let bytes = fs::read(&path).expect("it was written");
        fs::remove_file(&path).expect("it was written");
        bytes
    };
    let narrow = Model::new(array![[0.0f32, 1.0], [4.0, -3.0]].view(), 0.5).expect("a good model");
    let wide = Model::new(array![[1e9f64], [1e9 + 4.0], [1e9 - 1.0]].view(), 2.0).expect("a good model");
    vec![
        written(&|path| narrow.save(path)),
        written(&|path| wide.save(path)),
        written(&|path| files::write(path, &Contents::default(), &Silent)),
    ]
}

/// CRC-32 as in zlib, by its definition.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: &u8| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// The input with a matching checksum, so that the code behind that check is reached; `None` if it has no place for
/// one.
fn with_its_checksum(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = usize::try_from(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)).ok()?;
    let end = length.checked_add(8)?;
    let (header, body) = (bytes.get(8..end)?, &bytes[end..]);
    let entries: BTreeMap<String, Value> = serde_json::from_slice(header).ok()?;
    let metadata: BTreeMap<String, String> = serde_json::from_value(entries.get("__metadata__")?.clone()).ok()?;
    let old = metadata.get("crc32").filter(|old| old.len() == 8)?;
    let mut covered: Vec<u8> = Vec::new();
    for (key, value) in metadata.iter().filter(|(key, _)| *key != "crc32") {
        covered.extend(format!("{key}\0{value}\0").into_bytes());
    }
    for (name, entry) in entries.iter().filter(|(name, _)| *name != "__metadata__") {
        let shape: Vec<usize> = serde_json::from_value(entry.get("shape")?.clone()).ok()?;
        let [from, to]: [usize; 2] = serde_json::from_value(entry.get("data_offsets")?.clone()).ok()?;
        covered.extend(format!("{name}\0{}{shape:?}\0", entry.get("dtype")?.as_str()?).into_bytes());
        covered.extend(body.get(from..to)?);
    }
    let place = header.windows(8).position(|word| word == old.as_bytes())? + 8;
    let mut repaired = bytes.to_vec();
    repaired[place..place + 8].copy_from_slice(format!("{:08x}", crc32(&covered)).as_bytes());
    Some(repaired)
}

/// The result, unless the file was refused for a legitimate reason.
fn read<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::DamagedFile { .. } | Error::ForeignFile { .. } | Error::NewerFile { .. }) => None,
        Err(other) => panic!("refused for another reason: {other}"),
    }
}

fn check_model<T: Real>(path: &Path) {
    let Some(model) = read(Model::<T>::load(path)) else { return };
    assert!(model.variance() > 0.0 && model.centers().iter().all(|x| x.is_finite()));
    let again = self::path("again");
    model.save(&again).expect("a model can be saved");
    assert_eq!(Model::<T>::load(&again).expect("what was saved is good"), model);
    let rows = model.centers();
    let data = Dataset::new(rows.view()).expect("centers are good rows");
    if let Ok(labels) = model.predict(&data, &run()) {
        assert!(labels.iter().all(|&c| (c as usize) < model.clusters()));
    }
}

/// `input` is a file.
pub fn check(input: &[u8]) {
    let path = path("input");
    for bytes in [Some(input.to_vec()), with_its_checksum(input)].into_iter().flatten() {
        fs::write(&path, bytes).expect("the folder can be written");
        if let Some(contents) = read(files::read(&path, &Silent)) {
            let again = self::path("again");
            files::write(&again, &contents, &Silent).expect("what was read can be written");
            assert_eq!(
                files::read(&again, &Silent).expect("what was written is good").tensors.len(),
                contents.tensors.len()
            );
        }
        check_model::<f32>(&path);
        check_model::<f64>(&path);
    }
}
