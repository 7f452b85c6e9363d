//! Files of strings and arrays, which are written from and read into NumPy's memory without a copy.

use crate::border::run;
use dgmm::files::{self, Contents, Tensor, Values};
use ndarray::{ArrayD, IxDyn};
use numpy::{Element, IntoPyArray, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// An array of a type that a file can hold, borrowed from NumPy.
#[derive(FromPyObject)]
pub(crate) enum Array<'py> {
    F32(PyReadonlyArrayDyn<'py, f32>),
    F64(PyReadonlyArrayDyn<'py, f64>),
    I32(PyReadonlyArrayDyn<'py, i32>),
    I64(PyReadonlyArrayDyn<'py, i64>),
    U32(PyReadonlyArrayDyn<'py, u32>),
    U64(PyReadonlyArrayDyn<'py, u64>),
}

impl Array<'_> {
    fn tensor(&self) -> PyResult<Tensor<'_>> {
        let (shape, values) = match self {
            Self::F32(array) => (array.shape(), Values::F32(in_order(array)?)),
            Self::F64(array) => (array.shape(), Values::F64(in_order(array)?)),
            Self::I32(array) => (array.shape(), Values::I32(in_order(array)?)),
            Self::I64(array) => (array.shape(), Values::I64(in_order(array)?)),
            Self::U32(array) => (array.shape(), Values::U32(in_order(array)?)),
            Self::U64(array) => (array.shape(), Values::U64(in_order(array)?)),
        };
        Tensor::new(shape.to_vec(), values).map_err(crate::convert::raised)
    }
}

fn in_order<'a, T: Element + Clone>(array: &'a PyReadonlyArrayDyn<'_, T>) -> PyResult<Cow<'a, [T]>> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("an array for a file must be in C order"));
    }
    Ok(array.as_slice()?.into())
}

/// Writes strings and arrays to a file, which is moved into place when it is complete.
#[pyfunction]
pub(crate) fn write_file(
    py: Python<'_>,
    path: PathBuf,
    metadata: BTreeMap<String, String>,
    tensors: BTreeMap<String, Array<'_>>,
) -> PyResult<()> {
    let tensors = tensors.iter().map(|(name, array)| Ok((name.clone(), array.tensor()?))).collect::<PyResult<_>>()?;
    let contents = Contents { metadata, tensors };
    run(py, None, |observer| files::write(path, &contents, observer))
}

type Parts<'py> = (BTreeMap<String, String>, Bound<'py, PyDict>);

/// The strings and arrays of a file, if it is complete and its version is known.
#[pyfunction]
pub(crate) fn read_file(py: Python<'_>, path: PathBuf) -> PyResult<Parts<'_>> {
    let contents = run(py, None, |observer| files::read(path, observer))?;
    let arrays = PyDict::new(py);
    for (name, tensor) in contents.tensors {
        arrays.set_item(name, array(py, tensor)?)?;
    }
    Ok((contents.metadata, arrays))
}

fn array<'py>(py: Python<'py>, tensor: Tensor<'static>) -> PyResult<Bound<'py, PyAny>> {
    let (shape, values) = tensor.into_parts();
    match values {
        Values::F32(values) => shaped(py, shape, values),
        Values::F64(values) => shaped(py, shape, values),
        Values::I32(values) => shaped(py, shape, values),
        Values::I64(values) => shaped(py, shape, values),
        Values::U32(values) => shaped(py, shape, values),
        Values::U64(values) => shaped(py, shape, values),
        other => Err(PyValueError::new_err(format!("NumPy has no type for {}", other.type_name()))),
    }
}

fn shaped<'py, T: Element + Clone>(
    py: Python<'py>,
    shape: Vec<usize>,
    values: Cow<'static, [T]>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = ArrayD::from_shape_vec(IxDyn(&shape), values.into_owned());
    Ok(array.map_err(|error| PyValueError::new_err(error.to_string()))?.into_pyarray(py).into_any())
}
