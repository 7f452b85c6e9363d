//! Converts arrays, errors and events between the two languages.

use dgmm::{Dataset, Error, Event, Metric, Model, Real, Result, Run};
use ndarray::{Array2, ArrayView1, ArrayView2};
use numpy::{Element, IntoPyArray, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyKeyboardInterrupt, PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::io;
use std::path::PathBuf;

/// A number type that both the core and NumPy support.
pub(crate) trait Number: Real + Element {}
impl<T: Real + Element> Number for T {}

/// A float32 or float64 matrix, borrowed from NumPy.
#[derive(FromPyObject)]
pub(crate) enum Rows<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

/// Weights, borrowed from NumPy.
pub(crate) type Weights<'py> = Option<PyReadonlyArray1<'py, f64>>;

/// Evaluates an expression that is generic in the matrix's number type.
macro_rules! by_dtype {
    ($rows:expr, $x:ident => $body:expr) => {
        match $rows {
            $crate::convert::Rows::Single($x) => $body,
            $crate::convert::Rows::Double($x) => $body,
        }
    };
}
pub(crate) use by_dtype;

/// Rows and weights as the core's data set.
pub(crate) fn dataset<'a, T: Real>(
    rows: ArrayView2<'a, T>,
    weights: Option<ArrayView1<'_, f64>>,
) -> Result<Dataset<'a, T>> {
    let data = Dataset::new(rows)?;
    match weights {
        Some(weights) => data.weighted(weights),
        None => Ok(data),
    }
}

/// The same for a part of the rows, whose weights may all be 0.
pub(crate) fn part<'a, T: Real>(
    rows: ArrayView2<'a, T>,
    weights: Option<ArrayView1<'_, f64>>,
) -> Result<Dataset<'a, T>> {
    let data = Dataset::new(rows)?;
    match weights {
        Some(weights) => data.weighted_part(weights),
        None => Ok(data),
    }
}

/// Labels in scikit-learn's type.
pub(crate) fn labels(py: Python<'_>, labels: Vec<u32>) -> Bound<'_, PyArray1<i32>> {
    labels.into_iter().map(u32::cast_signed).collect::<Vec<_>>().into_pyarray(py)
}

/// An uninitialized matrix that NumPy allocates; raises `MemoryError` if it cannot.
pub(crate) fn empty<T: Element>(py: Python<'_>, rows: usize, columns: usize) -> PyResult<Bound<'_, PyArray2<T>>> {
    let made = py.import("numpy")?.call_method1("empty", ((rows, columns), numpy::dtype::<T>(py)))?;
    Ok(made.cast_into()?)
}

/// For each row, the indices of some clusters and a value for each of them.
pub(crate) type Pairs<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyAny>);

pub(crate) fn pairs<T: Number>(py: Python<'_>, (ids, values): (Array2<u32>, Array2<T>)) -> PyResult<Pairs<'_>> {
    let wide = empty::<i64>(py, ids.nrows(), ids.ncols())?;
    wide.readwrite().as_array_mut().zip_mut_with(&ids, |wide, &id| *wide = i64::from(id));
    Ok((wide, values.into_pyarray(py).into_any()))
}

/// Row indices.
pub(crate) fn rows(py: Python<'_>, indices: Vec<usize>) -> Bound<'_, PyArray1<i64>> {
    indices.into_iter().map(|i| i as i64).collect::<Vec<_>>().into_pyarray(py)
}

/// The estimator's names of the arguments that errors mention.
#[derive(Clone, Copy)]
pub(crate) enum Names {
    Plain,
    Mixture,
}

impl Names {
    /// Converts an error of the core to a Python exception.
    pub(crate) fn raised(self, error: Error) -> PyErr {
        match (self, exception(error)) {
            (_, Ok(exception)) => exception,
            (Self::Plain, Err(error)) => PyValueError::new_err(error.python_message()),
            (Self::Mixture, Err(error)) => PyValueError::new_err(error.python_mixture_message()),
        }
    }
}

/// Converts an error of the core to a Python exception.
pub(crate) fn raised(error: Error) -> PyErr {
    Names::Plain.raised(error)
}

/// The exception if the system cannot start a thread, for lack of memory or because there are too many.
pub(crate) fn no_thread(error: &io::Error) -> PyErr {
    PyMemoryError::new_err(format!("not enough memory for a thread: {error}"))
}

/// The exception for an error that is not about an invalid argument.
fn exception(error: Error) -> std::result::Result<PyErr, Error> {
    Ok(match error {
        Error::Cancelled => PyKeyboardInterrupt::new_err(()),
        Error::OutOfMemory { .. } | Error::ThreadPool { .. } => PyMemoryError::new_err(error.to_string()),
        Error::File { path, source } => system_error(path, &source),
        Error::DamagedFile { .. } | Error::ForeignFile { .. } | Error::NewerFile { .. } => {
            ModelFileError::new_err(error.to_string())
        }
        other => return Err(other),
    })
}

/// Refuses work that needs more memory than the system can allocate at once.
pub(crate) fn check_room(bytes: usize, what: &'static str) -> PyResult<()> {
    let mut room = Vec::<u8>::new();
    let refused = room.try_reserve_exact(bytes).map_err(|_| raised(Error::OutOfMemory { what, bytes }));
    // Otherwise the compiler would remove the unused allocation.
    std::hint::black_box(&room);
    refused
}

/// The bytes that `make` writes, about `size` of them, as a Python object.
pub(crate) fn sent(py: Python<'_>, size: usize, make: impl FnOnce() -> Vec<u8>) -> PyResult<Bound<'_, PyBytes>> {
    // The buffer doubles while it is written.
    check_room(size.saturating_mul(3), "the bytes of an object")?;
    let bytes = make();
    PyBytes::new_with(py, bytes.len(), |room| {
        room.copy_from_slice(&bytes);
        Ok(())
    })
}

/// The centers of a model.
pub(crate) fn centers<'py, T: Number>(py: Python<'py>, model: &Model<T>) -> PyResult<Bound<'py, PyAny>> {
    check_room(model.clusters() * model.dim() * size_of::<T>(), "the centers")?;
    Ok(model.centers().into_pyarray(py).into_any())
}

/// An `OSError`, which Python turns into the class for its number, such as `FileNotFoundError`.
fn system_error(path: PathBuf, error: &io::Error) -> PyErr {
    let (said, path) = (error.to_string(), path.into_os_string());
    let said = said.split(" (os error ").next().unwrap_or_default().to_owned();
    // Errors without a number are ours: arguments from which no file can be made.
    let number = error.raw_os_error();
    if cfg!(windows) {
        return PyOSError::new_err((INVALID, said, path, number));
    }
    PyOSError::new_err((number.unwrap_or(INVALID), said, path))
}

/// EINVAL, which is the same on all systems.
const INVALID: i32 = 22;

pyo3::create_exception!(dgmm, ModelFileError, PyValueError, "A file does not hold a model that this version can read.");

/// stage, run, iteration, max_iter, lower_bound, change, variance, seconds.
type EventFields = (&'static str, usize, usize, usize, f64, f64, f64, f64);

/// An event as the arguments of the Python callback; values that a stage does not have are 0 or NaN.
pub(crate) fn event_fields(event: &Event) -> EventFields {
    const NONE: f64 = f64::NAN;
    match *event {
        Event::Coreset { .. } => ("coreset", 0, 0, 0, NONE, NONE, NONE, NONE),
        Event::Seeding { run, .. } => ("seeding", run, 0, 0, NONE, NONE, NONE, NONE),
        Event::Iteration { run, iteration, max_iter, lower_bound, change, variance, seconds } => {
            ("em", run, iteration, max_iter, lower_bound, change, variance, seconds)
        }
        _ => ("other", 0, 0, 0, NONE, NONE, NONE, NONE),
    }
}

/// The parameters of a model besides its centers: the variance; the metric and the variance; or the covariance type, the
/// variances and the weights.
#[derive(FromPyObject)]
pub(crate) enum Scale {
    Variance(f64),
    Named(String, f64),
    Shape(String, Numbers, Option<Numbers>),
}

/// Numbers that were copied from NumPy.
pub(crate) struct Numbers(Vec<f64>);

impl<'py> FromPyObject<'_, 'py> for Numbers {
    type Error = PyErr;

    fn extract(numbers: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let array: PyReadonlyArray1<'py, f64> = numbers.extract()?;
        let numbers = array.as_slice()?;
        check_room(size_of_val(numbers), "variances and weights")?;
        Ok(Self(numbers.to_vec()))
    }
}

impl Scale {
    /// The model of these centers.
    pub(crate) fn model<T: Number>(&self, centers: ArrayView2<'_, T>, run: &Run<'_>) -> Result<Model<T>> {
        match self {
            Self::Variance(variance) => Model::new_in(centers, *variance, Metric::Euclidean, run),
            Self::Named(metric, variance) => Model::new_in(centers, *variance, metric.parse()?, run),
            Self::Shape(kind, Numbers(variances), weights) => {
                let weights = weights.as_ref().map(|weights| &weights.0[..]);
                Model::mixture_in(centers, kind.parse()?, variances, weights, run)
            }
        }
    }
}
