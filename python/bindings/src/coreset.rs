//! Coresets of rows in chunks. The builders live here between calls.

use crate::border::run;
use crate::convert::{Number, Rows, Weights, raised, rows, sent};
use dgmm::coreset::{self, Coreset};
use dgmm::{Dataset, Result, Run};
use ndarray::{ArrayView1, ArrayView2};
use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Points, weights and row numbers.
type Drawn<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>);

/// A value for one of the two number types.
enum Kind<S, D> {
    Single(S),
    Double(D),
}

/// Evaluates an expression that is generic in the number type.
macro_rules! either {
    ($kind:expr, $inner:ident => $body:expr) => {
        match $kind {
            Kind::Single($inner) => $body,
            Kind::Double($inner) => $body,
        }
    };
}

/// The same with rows, which must be of that type.
macro_rules! with_rows {
    ($kind:expr, $x:expr, ($inner:ident, $rows:ident) => $body:expr) => {
        match ($kind, $x) {
            (Kind::Single($inner), Rows::Single($rows)) => $body,
            (Kind::Double($inner), Rows::Double($rows)) => $body,
            _ => Err(other_type()),
        }
    };
}

fn other_type() -> PyErr {
    PyTypeError::new_err("all rows of a stream must be of one type")
}

/// Processes a chunk of rows and weights, detached from Python.
fn with_chunk<T: Number>(
    py: Python<'_>,
    values: ArrayView2<'_, T>,
    weights: Option<ArrayView1<'_, f64>>,
    threads: Option<usize>,
    work: impl FnOnce(&Dataset<'_, T>, &Run<'_>) -> Result<()> + Send,
) -> PyResult<()> {
    run(py, None, move |observer| {
        let data = Dataset::new(values)?;
        let data = match weights {
            Some(weights) => data.weighted_part(weights)?,
            None => data,
        };
        work(&data, &Run { threads, observer })
    })
}

fn drawn<T: Number>(py: Python<'_>, coreset: Coreset<T>) -> Drawn<'_> {
    (coreset.points.into_pyarray(py).into_any(), coreset.weights.into_pyarray(py), rows(py, coreset.indices))
}

/// Builds a coreset in one pass.
#[pyclass(module = "dgmm._core")]
pub(crate) struct CoresetBuilder(Kind<coreset::CoresetBuilder<f32>, coreset::CoresetBuilder<f64>>);

#[pymethods]
impl CoresetBuilder {
    #[new]
    fn new(size: usize, seed: u64, first_row: u64, single: bool) -> PyResult<Self> {
        Ok(Self(match single {
            true => Kind::Single(started(size, seed, first_row)?),
            false => Kind::Double(started(size, seed, first_row)?),
        }))
    }

    /// Whether its rows are of float32.
    #[getter]
    fn single(&self) -> bool {
        matches!(self.0, Kind::Single(_))
    }

    #[getter]
    fn size(&self) -> usize {
        either!(&self.0, builder => builder.size())
    }

    #[getter]
    fn seed(&self) -> u64 {
        either!(&self.0, builder => builder.seed())
    }

    #[getter]
    fn rows_seen(&self) -> u64 {
        either!(&self.0, builder => builder.rows_seen())
    }

    #[getter]
    fn next_row(&self) -> u64 {
        either!(&self.0, builder => builder.next_row())
    }

    fn add<'py>(
        &mut self,
        py: Python<'py>,
        x: Rows<'py>,
        sample_weight: Weights<'py>,
        n_threads: Option<usize>,
    ) -> PyResult<()> {
        let weights = sample_weight.as_ref().map(|w| w.as_array());
        with_rows!(&mut self.0, &x, (builder, x) => {
            with_chunk(py, x.as_array(), weights, n_threads, move |data, run| builder.add(data, run))
        })
    }

    fn merge(&mut self, py: Python<'_>, other: &Self) -> PyResult<()> {
        match (&mut self.0, &other.0) {
            (Kind::Single(a), Kind::Single(b)) => run(py, None, move |_| a.merge(b.copied()?)),
            (Kind::Double(a), Kind::Double(b)) => run(py, None, move |_| a.merge(b.copied()?)),
            _ => Err(other_type()),
        }
    }

    fn result<'py>(&self, py: Python<'py>) -> PyResult<Drawn<'py>> {
        either!(&self.0, builder => Ok(drawn(py, run(py, None, move |_| builder.result())?)))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = either!(&self.0, builder => run(py, None, move |_| Ok(builder.to_bytes()))?);
        sent(py, 0, || bytes)
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, content: &[u8]) -> PyResult<Self> {
        // The seventh byte is the width of a number.
        Ok(Self(match content.get(6) {
            Some(4) => Kind::Single(run(py, None, move |_| coreset::CoresetBuilder::from_bytes(content))?),
            _ => Kind::Double(run(py, None, move |_| coreset::CoresetBuilder::from_bytes(content))?),
        }))
    }
}

fn started<T: Number>(size: usize, seed: u64, first_row: u64) -> PyResult<coreset::CoresetBuilder<T>> {
    coreset::CoresetBuilder::new(size, seed).and_then(|builder| builder.starting_at(first_row)).map_err(raised)
}

/// The first of two passes.
#[pyclass(module = "dgmm._core")]
pub(crate) struct FirstPass(Kind<coreset::FirstPass<f32>, coreset::FirstPass<f64>>);

#[pymethods]
impl FirstPass {
    #[new]
    fn new(single: bool) -> Self {
        Self(if single { Kind::Single(coreset::FirstPass::new()) } else { Kind::Double(coreset::FirstPass::new()) })
    }

    /// Whether its rows are of float32.
    #[getter]
    fn single(&self) -> bool {
        matches!(self.0, Kind::Single(_))
    }

    fn add<'py>(
        &mut self,
        py: Python<'py>,
        x: Rows<'py>,
        sample_weight: Weights<'py>,
        n_threads: Option<usize>,
    ) -> PyResult<()> {
        let weights = sample_weight.as_ref().map(|w| w.as_array());
        with_rows!(&mut self.0, &x, (pass, x) => {
            with_chunk(py, x.as_array(), weights, n_threads, move |data, run| pass.add(data, run))
        })
    }

    fn second_pass(&self, size: usize, seed: u64) -> PyResult<SecondPass> {
        Ok(SecondPass(match &self.0 {
            Kind::Single(pass) => Kind::Single(pass.second_pass(size, seed).map_err(raised)?),
            Kind::Double(pass) => Kind::Double(pass.second_pass(size, seed).map_err(raised)?),
        }))
    }
}

/// The second of two passes.
#[pyclass(module = "dgmm._core")]
pub(crate) struct SecondPass(Kind<coreset::SecondPass<f32>, coreset::SecondPass<f64>>);

#[pymethods]
impl SecondPass {
    fn add<'py>(
        &mut self,
        py: Python<'py>,
        x: Rows<'py>,
        sample_weight: Weights<'py>,
        n_threads: Option<usize>,
    ) -> PyResult<()> {
        let weights = sample_weight.as_ref().map(|w| w.as_array());
        with_rows!(&mut self.0, &x, (pass, x) => {
            with_chunk(py, x.as_array(), weights, n_threads, move |data, run| pass.add(data, run))
        })
    }

    fn result<'py>(&self, py: Python<'py>) -> PyResult<Drawn<'py>> {
        either!(&self.0, pass => Ok(drawn(py, run(py, None, move |_| pass.result())?)))
    }
}
