//! Model files: saved models come back to the bit, from either language, and nothing else is accepted as a model.

use crate::common::blobs;
use dgmm::{Dataset, Dgmm, Error, Model, Real, Run};
use ndarray::{Array2, array};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const FROM_PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/from_python.safetensors");
const FROM_RUST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/from_rust.safetensors");

/// A file that is removed with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("dgmm-test-{}-{name}.safetensors", std::process::id())))
    }

    fn holding(name: &str, content: &[u8]) -> Self {
        let scratch = Self::new(name);
        fs::write(&scratch.0, content).unwrap();
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn comes_back<T: Real>(x: Array2<T>, name: &str) {
    let data = Dataset::new(x.view()).unwrap();
    let model = Dgmm::params(12).seed(3).fit(&data).unwrap().model;
    let file = Scratch::new(name);
    model.save(&file.0).unwrap();
    let again = Model::<T>::load(&file.0).unwrap();
    let run = Run::default();
    assert_eq!(again.predict(&data, &run).unwrap(), model.predict(&data, &run).unwrap());
    let (old, new) = (model.log_density(&data, &run).unwrap(), again.log_density(&data, &run).unwrap());
    assert!(old.iter().zip(&new).all(|(a, b)| a.to_bits() == b.to_bits()));
    assert_eq!(again.centers(), model.centers());
    assert_eq!(again.variance().to_bits(), model.variance().to_bits());
}

#[test]
fn a_saved_model_answers_to_the_bit_also_far_from_the_origin() {
    let x = blobs::<f64>(600, 5, 12, 1);
    comes_back(x.mapv(|v| v as f32), "f32");
    comes_back(x.mapv(|v| (v + 1e3) as f32), "f32-far");
    comes_back(x.mapv(|v| v + 1e6), "f64-far");
}

#[test]
fn a_file_written_by_python_gives_the_labels_of_python() {
    let content = fs::read(FROM_PYTHON).unwrap();
    let file = SafeTensors::deserialize(&content).unwrap();
    let labels = file.tensor("labels_").unwrap();
    let labels: Vec<u32> = labels.data().chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
    // The rows that tests/python/make_fixture.py fits.
    let x =
        Array2::from_shape_fn((200, 3), |(n, d)| ((n * (d + 7) % 16) as f32) / 16.0 + (8 * (n / (d + 2) % 3)) as f32);
    let model = Model::<f32>::load(FROM_PYTHON).unwrap();
    assert_eq!(model.predict(&Dataset::new(x.view()).unwrap(), &Run::default()).unwrap(), labels);
}

#[test]
fn a_file_of_an_earlier_version_is_read() {
    let model = Model::<f32>::load(FROM_RUST).unwrap();
    assert_eq!((model.clusters(), model.dim()), (20, 2));
}

fn error(path: &Path) -> Error {
    Model::<f32>::load(path).unwrap_err()
}

#[test]
fn a_missing_file_is_reported_as_missing() {
    let absent = error(Path::new("no/such/file"));
    assert!(matches!(&absent, Error::File { source, .. } if source.kind() == ErrorKind::NotFound), "{absent}");
    assert!(std::error::Error::source(&absent).is_some());
    let model = Model::new(array![[1.0f32]].view(), 1.0).unwrap();
    assert!(matches!(model.save("no/such/folder/model.safetensors"), Err(Error::File { .. })));
}

#[test]
fn files_of_another_type_are_refused() {
    let said = Model::<f64>::load(FROM_RUST).unwrap_err().to_string();
    assert!(said.contains("cluster_centers_ is F32") && said.contains("matrix of F64"), "{said}");
}

#[test]
fn a_file_truncated_anywhere_is_damaged() {
    let content = fs::read(FROM_RUST).unwrap();
    for length in (0..content.len()).step_by(7) {
        let file = Scratch::holding(&format!("cut-{length}"), &content[..length]);
        assert!(matches!(error(&file.0), Error::DamagedFile { .. }), "{length}");
    }
}

#[test]
fn foreign_and_newer_files_are_refused() {
    let view = TensorView::new(Dtype::F32, vec![1], &[0; 4]).unwrap();
    let with = |name: &str, pairs: &[(&str, &str)]| {
        let metadata = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let file = Scratch::holding(name, &serialize([("w", &view)], Some(metadata)).unwrap());
        error(&file.0)
    };
    assert!(matches!(with("foreign", &[]), Error::ForeignFile { .. }));
    assert!(matches!(with("odd", &[("format", "dgmm"), ("format_version", "one")]), Error::ForeignFile { .. }));
    let deep = TensorView::new(Dtype::F32, vec![1; 40], &[0; 4]).unwrap();
    let known = [("format", "dgmm"), ("format_version", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let deep = Scratch::holding("deep", &serialize([("w", &deep)], Some(known.into())).unwrap());
    assert!(matches!(error(&deep.0), Error::ForeignFile { .. }));
    let newer = with("newer", &[("format", "dgmm"), ("format_version", "3")]);
    assert!(matches!(newer, Error::NewerFile { version: 3, newest: 2, .. }), "{newer}");
    let pickle = Scratch::holding("pickle", b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.");
    assert!(matches!(error(&pickle.0), Error::DamagedFile { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_changed_byte_is_noticed_or_changes_nothing(at: prop::sample::Index, flip in 1u8..) {
        let mut content = fs::read(FROM_RUST).unwrap();
        let whole = Model::<f32>::load(FROM_RUST).unwrap();
        let at = at.index(content.len());
        content[at] ^= flip;
        let file = Scratch::holding(&format!("flip-{at}-{flip}"), &content);
        if let Ok(model) = Model::<f32>::load(&file.0) {
            prop_assert_eq!(model.centers(), whole.centers());
            prop_assert_eq!(model.variance().to_bits(), whole.variance().to_bits());
        }
    }
}
