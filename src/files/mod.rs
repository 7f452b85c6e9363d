//! Model files, with the feature `files`: [`Model::save`] and [`Model::load`], based on [`write()`] and [`read`].
//!
//! The format is safetensors: a JSON header and plain arrays, so reading checks everything and executes nothing. The
//! Python package writes and reads the same files through this module:
//!
//! | metadata | text |
//! |---|---|
//! | `format`, `format_version` | `dgmm`; `1`, or `2` with a `metric` |
//! | `metric` | `cosine` if the model compares directions; absent if it is Euclidean |
//! | `dgmm_version` | the version that wrote the file, for information |
//! | `crc32` | checksum of everything else, 8 hexadecimal digits |
//! | `estimator`, `settings`, `attributes` | what Python knows about the fit, in JSON; defaults if it was saved from Rust |
//!
//! Arrays: `cluster_centers_` (M x D, F32 or F64), `variance_` (1, F64) and what the metadata refer to. If the
//! coordinates of a model are relative to an origin, `origin` (D) is stored too, so that it gives the same answers to
//! the bit. If clusters differ in variance or weight, the metadata `covariance_type` and `weights` say how, and
//! `covariances_` (F64, as [`Shape`](crate::Shape) lists them) and `weights_` (M, F64) have the values.
//!
//! # Writers, readers and failures
//! A file is first written next to its target as `NAME.<16 letters and digits>.part`, synced to disk, and then put in
//! place. Readers see the old file or the new one, regardless of concurrent writers and failures; the last writer wins.
//! A symbolic link stays, and its target is replaced. The permissions of a replaced file are kept. A process that is
//! killed leaves its `.part` file behind, which does no harm; saving to the same path removes those older than a day.

mod format;
mod replace;
mod shape;
mod tensor;
#[cfg(test)]
mod tests;

use format::METRIC;
pub use format::{Contents, read, write};
pub use tensor::{Tensor, Values};

use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::model::Model;
use crate::observer::Silent;
use crate::options::Metric;
use ndarray::ArrayView2;
use std::any::Any;
use std::io;
use std::path::Path;

const CENTERS: &str = "cluster_centers_";
const VARIANCE: &str = "variance_";
const ORIGIN: &str = "origin";

impl<T: Real> Model<T> {
    /// Writes the model to a file, which [`load`](Self::load) and Python's `dgmm.load` read. The file is put in place
    /// once it is complete and on disk, replacing an existing one. See [`files`](crate::files) for details.
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
        let mut contents = Contents::default();
        // The model does not know these settings of its fit; they get the package's defaults.
        let mut settings = format!("{{\"n_clusters\": {}", self.clusters());
        if self.metric() != Metric::Euclidean {
            settings += &format!(", \"metric\": \"{}\"", self.metric().name());
            contents.metadata.insert(METRIC.to_owned(), self.metric().name().to_owned());
        }
        settings += "}";
        for (key, value) in [("estimator", "DGMM"), ("settings", &settings), ("attributes", "{}")] {
            contents.metadata.insert(key.to_owned(), value.to_owned());
        }
        let (clusters, dim) = (self.clusters(), self.dim());
        let centers = values(self.centers().into_raw_vec_and_offset().0);
        contents.tensors.insert(CENTERS.to_owned(), Tensor::new(vec![clusters, dim], centers)?);
        let variance = Values::F64(vec![self.variance()].into());
        contents.tensors.insert(VARIANCE.to_owned(), Tensor::new(vec![1], variance)?);
        if let Some(shape) = self.shape() {
            shape::add(&mut contents, shape, (clusters, dim))?;
        }
        if let Some(origin) = self.origin() {
            contents.tensors.insert(ORIGIN.to_owned(), Tensor::new(vec![dim], values(origin.to_vec()))?);
        }
        write(path, &contents, &Silent)
    }

    /// Reads a model written by [`save`](Self::save) or Python's `est.save`, with numbers of type `T`.
    ///
    /// Fails if the file cannot be read, is damaged or truncated, has a newer format, or holds something else or
    /// another type.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let Contents { metadata, mut tensors } = read(path, &Silent)?;
        let shape_of = |clusters, dim, tensors: &mut _| shape::take(path, &metadata, tensors, (clusters, dim));
        let metric = metadata.get(METRIC).map_or(Ok(Metric::Euclidean), |name| name.parse());
        let metric: Metric = metric.map_err(|e| foreign(path, e.to_string()))?;
        let mut take = |name: &str| tensors.remove(name).map(Tensor::into_parts);
        let (shape, centers) = take(CENTERS).ok_or_else(|| foreign(path, format!("{CENTERS} is missing")))?;
        let found = centers.type_name();
        let (Some(centers), &[rows, columns]) = (numbers::<T>(centers), &shape[..]) else {
            let wanted = type_name::<T>();
            let reason = format!("{CENTERS} is {found} of shape {shape:?}; it must be a matrix of {wanted}");
            return Err(foreign(path, reason));
        };
        let variance = match take(VARIANCE) {
            Some((shape, Values::F64(value))) if shape == [1] => value[0],
            _ => return Err(foreign(path, format!("{VARIANCE} must be one F64"))),
        };
        let view = ArrayView2::from_shape((rows, columns), &centers).map_err(|e| foreign(path, e.to_string()))?;
        let checked = Self::with_metric(view, variance, metric).map_err(|e| foreign(path, e.to_string()))?;
        let mut model = match take(ORIGIN).map(|(shape, origin)| (shape, numbers::<T>(origin))) {
            None => checked,
            Some((shape, Some(origin)))
                if metric == Metric::Euclidean && shape == [columns] && origin.iter().all(|x| x.is_finite()) =>
            {
                Self::from_origin(view, Some(origin), variance)?
            }
            _ => {
                return Err(foreign(path, format!("{ORIGIN} must have a finite number for each of {columns} columns")));
            }
        };
        shape_of(rows, columns, &mut tensors)?.into_iter().for_each(|shape| model.set_shape(shape));
        Ok(model)
    }
}

fn type_name<T: Real>() -> &'static str {
    values(Vec::<T>::new()).type_name()
}

/// Converts numbers to the values of a file, without a copy.
fn values<T: Real>(numbers: Vec<T>) -> Values<'static> {
    let numbers: Box<dyn Any> = Box::new(numbers);
    match numbers.downcast::<Vec<f32>>() {
        Ok(single) => Values::F32((*single).into()),
        Err(other) => Values::F64((*other.downcast::<Vec<f64>>().expect("f32 or f64")).into()),
    }
}

/// The numbers, without a copy, if they have this type.
fn numbers<T: Real>(values: Values<'static>) -> Option<Vec<T>> {
    let numbers: Box<dyn Any> = match values {
        Values::F32(single) => Box::new(single.into_owned()),
        Values::F64(double) => Box::new(double.into_owned()),
        _ => return None,
    };
    numbers.downcast::<Vec<T>>().ok().map(|numbers| *numbers)
}

fn failed(path: &Path, reason: io::Error) -> Error {
    Error::File { path: path.into(), source: reason.into() }
}

fn damaged(path: &Path, reason: String) -> Error {
    Error::DamagedFile { path: path.into(), reason }
}

fn foreign(path: &Path, reason: String) -> Error {
    Error::ForeignFile { path: path.into(), reason }
}
