//! Models in files, behind the feature `files`: [`Model::save`] and [`Model::load`].
//!
//! The format is safetensors, the same that the Python package writes and reads: text metadata (`format`,
//! `format_version`, `estimator`, `settings`, `attributes`, `crc32`) and the arrays `cluster_centers_` (M x D) and
//! `variance_` (1, F64). Where a model counts its coordinates from an origin, `origin` (D) is kept too, so that a model
//! that was saved here answers to the bit as before. Reading checks everything and runs nothing.

use crate::error::{Error, Result};
use crate::model::Model;
use crate::real::Real;
use ndarray::ArrayView2;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use std::collections::HashMap;
use std::fs;
use std::path::Path;

const FORMAT: &str = "dgmm";
const VERSION: u64 = 1;
const CENTERS: &str = "cluster_centers_";
const VARIANCE: &str = "variance_";
const ORIGIN: &str = "origin";

impl<T: Real> Model<T> {
    /// Writes the model to a file, which [`load`](Self::load) and Python's `dgmm.load` read. The file is put in place when
    /// it is complete; one that is there is replaced.
    ///
    /// ```
    /// use dgmm::{Dataset, Model, Run};
    /// let path = std::env::temp_dir().join(format!("dgmm-{}.safetensors", std::process::id()));
    /// let model = Model::new(ndarray::array![[0.0f32, 0.0], [4.0, 0.0]].view(), 1.0)?;
    /// model.save(&path)?;
    /// let again = Model::<f32>::load(&path)?;
    /// assert_eq!(again.centers(), model.centers());
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), dgmm::Error>(())
    /// ```
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let centers = bytes(self.centers().iter().copied());
        let variance = self.variance().to_le_bytes();
        let origin = bytes(self.origin().unwrap_or_default().iter().copied());
        let damaged = |reason: safetensors::SafeTensorError| damaged(path, &reason.to_string());
        let mut arrays = vec![
            (CENTERS, TensorView::new(dtype::<T>(), vec![self.clusters(), self.dim()], &centers).map_err(damaged)?),
            (VARIANCE, TensorView::new(Dtype::F64, vec![1], &variance).map_err(damaged)?),
        ];
        if !origin.is_empty() {
            arrays.push((ORIGIN, TensorView::new(dtype::<T>(), vec![self.dim()], &origin).map_err(damaged)?));
        }
        let mut metadata: HashMap<String, String> = [
            ("format", FORMAT.to_owned()),
            ("format_version", VERSION.to_string()),
            ("dgmm_version", env!("CARGO_PKG_VERSION").to_owned()),
            // What a model does not know of its fit has the package's defaults.
            ("estimator", "DGMM".to_owned()),
            ("settings", format!("{{\"n_clusters\": {}}}", self.clusters())),
            ("attributes", "{}".to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .into();
        let views = arrays.iter().map(|(name, view)| ((*name).to_owned(), view));
        metadata.insert("crc32".to_owned(), checksum(&metadata, views));
        let content = serialize(arrays, Some(metadata)).map_err(damaged)?;
        let mut part = path.as_os_str().to_owned();
        part.push(format!(".{}.part", std::process::id()));
        fs::write(&part, content).and_then(|()| fs::rename(&part, path)).map_err(|reason| {
            let _ = fs::remove_file(&part);
            Error::File { path: path.display().to_string(), reason: reason.to_string() }
        })
    }

    /// Reads a model that [`save`](Self::save) or Python's `est.save` has written, of the type `T`.
    ///
    /// Fails if the file cannot be read, is damaged or cut off, is of a newer format, or holds something else or another
    /// type.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let content = fs::read(path)
            .map_err(|reason| Error::File { path: path.display().to_string(), reason: reason.to_string() })?;
        let unreadable = |reason: safetensors::SafeTensorError| damaged(path, &reason.to_string());
        let (_, header) = SafeTensors::read_metadata(&content).map_err(unreadable)?;
        let metadata = header.metadata().clone().unwrap_or_default();
        check_version(path, &metadata)?;
        let file = SafeTensors::deserialize(&content).map_err(unreadable)?;
        let arrays = file.tensors();
        if metadata.get("crc32") != Some(&checksum(&metadata, arrays.iter().map(|(name, view)| (name.clone(), view)))) {
            return Err(damaged(path, "its checksum is not that of its contents"));
        }
        let array = |name: &str| arrays.iter().find(|(key, _)| key == name).map(|(_, view)| view);
        let (rows, columns, centers) = matrix(path, array(CENTERS))?;
        let variance = match array(VARIANCE) {
            Some(view) if view.dtype() == Dtype::F64 && view.shape() == [1] => {
                f64::from_le_bytes(view.data().try_into().expect("one number of eight bytes"))
            }
            _ => return Err(foreign(path, format!("{VARIANCE} must be one F64"))),
        };
        let unusable = |error: Error| foreign(path, error.to_string());
        let view =
            ArrayView2::from_shape((rows, columns), &centers).map_err(|error| foreign(path, error.to_string()))?;
        let checked = Self::new(view, variance).map_err(unusable)?;
        match array(ORIGIN) {
            None => Ok(checked),
            Some(origin) if origin.dtype() == dtype::<T>() && origin.shape() == [columns] => {
                let origin: Vec<T> = numbers(origin.data());
                if origin.iter().all(|x| x.is_finite()) {
                    Ok(Self::from_origin(view, Some(origin), variance))
                } else {
                    Err(foreign(path, format!("{ORIGIN} must be finite")))
                }
            }
            Some(_) => Err(foreign(path, format!("{ORIGIN} must have a number for each of {columns} columns"))),
        }
    }
}

fn check_version(path: &Path, metadata: &HashMap<String, String>) -> Result<()> {
    if metadata.get("format").map(String::as_str) != Some(FORMAT) {
        return Err(foreign(path, "its metadata have no format=dgmm".into()));
    }
    let text = metadata.get("format_version").map_or("", String::as_str);
    match text.parse::<u64>() {
        Ok(version) if version > VERSION => {
            Err(Error::NewerFile { path: path.display().to_string(), version, newest: VERSION })
        }
        Ok(version) if version > 0 => Ok(()),
        _ => Err(foreign(path, format!("format_version is {text:?}; it must be a positive number"))),
    }
}

/// Rows, columns and values of the centers.
fn matrix<T: Real>(path: &Path, view: Option<&TensorView<'_>>) -> Result<(usize, usize, Vec<T>)> {
    let view = view.ok_or_else(|| foreign(path, format!("{CENTERS} is missing")))?;
    match *view.shape() {
        [rows, columns] if view.dtype() == dtype::<T>() => Ok((rows, columns, numbers(view.data()))),
        ref shape => {
            let (found, wanted) = (view.dtype(), dtype::<T>());
            Err(foreign(path, format!("{CENTERS} is {found:?} of shape {shape:?}; it must be a matrix of {wanted:?}")))
        }
    }
}

fn damaged(path: &Path, reason: &str) -> Error {
    Error::DamagedFile { path: path.display().to_string(), reason: reason.to_owned() }
}

fn foreign(path: &Path, reason: String) -> Error {
    Error::ForeignFile { path: path.display().to_string(), reason }
}

fn dtype<T: Real>() -> Dtype {
    if size_of::<T>() == 4 { Dtype::F32 } else { Dtype::F64 }
}

/// Little-endian bytes; widening to `f64` and back is exact.
fn bytes<T: Real>(values: impl Iterator<Item = T>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for x in values.map(T::to_f64) {
        match dtype::<T>() {
            Dtype::F32 => bytes.extend((x as f32).to_le_bytes()),
            _ => bytes.extend(x.to_le_bytes()),
        }
    }
    bytes
}

fn numbers<T: Real>(bytes: &[u8]) -> Vec<T> {
    let wide = |chunk: &[u8]| match *chunk {
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        _ => f64::from_le_bytes(chunk.try_into().expect("eight bytes a number")),
    };
    bytes.chunks_exact(size_of::<T>()).map(|chunk| T::from_f64(wide(chunk))).collect()
}

/// CRC-32 of the metadata but for itself, and of the names, types, shapes and bytes of the arrays, by name.
fn checksum<'a>(
    metadata: &HashMap<String, String>,
    arrays: impl Iterator<Item = (String, &'a TensorView<'a>)>,
) -> String {
    let mut entries: Vec<_> = metadata.iter().filter(|(key, _)| *key != "crc32").collect();
    entries.sort();
    let mut arrays: Vec<_> = arrays.collect();
    arrays.sort_by(|a, b| a.0.cmp(&b.0));
    let mut crc = Crc::new();
    for (key, value) in entries {
        crc.add(format!("{key}\0{value}\0").as_bytes());
    }
    for (name, view) in arrays {
        crc.add(format!("{name}\0{:?}{:?}\0", view.dtype(), view.shape()).as_bytes());
        crc.add(view.data());
    }
    format!("{:08x}", !crc.state)
}

/// The checksum of zip files and zlib.
struct Crc {
    table: [u32; 256],
    state: u32,
}

impl Crc {
    fn new() -> Self {
        let step = |x: u32| if x & 1 == 1 { 0xEDB8_8320 ^ (x >> 1) } else { x >> 1 };
        Self { table: std::array::from_fn(|i| (0..8).fold(i as u32, |x, _| step(x))), state: !0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.state = self.table[((self.state ^ u32::from(byte)) & 0xFF) as usize] ^ (self.state >> 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zlib() {
        let mut crc = Crc::new();
        crc.add(b"1234");
        crc.add(b"56789");
        assert_eq!(!crc.state, 0xCBF4_3926);
    }

    #[test]
    fn numbers_come_back_to_the_bit() {
        let double = [0.1f64, -0.0, f64::MIN_POSITIVE, 1e300];
        let back: Vec<f64> = numbers(&bytes(double.into_iter()));
        assert!(back.iter().zip(double).all(|(a, b)| a.to_bits() == b.to_bits()));
        let single = [0.1f32, -0.0, 1e-44, 3e38];
        let back: Vec<f32> = numbers(&bytes(single.into_iter()));
        assert!(back.iter().zip(single).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
}
