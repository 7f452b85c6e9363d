//! The parts of a fit over shards: summaries, rounds, memberships and statistics, which can be converted to bytes and back.
//!
//! They report their sizes to Python, by which engines decide where to process them.

use crate::border::{run, run_named};
use crate::convert::{Number, Rows, Weights, by_dtype, centers, check_room, labels, part, raised, sent};
use crate::fit::Settings;
use dgmm::step::{self as core, Merge, Merger, Shard};
use dgmm::{Result, Run};
use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// The position of the width of numbers in the bytes of all kinds.
const WIDTH_AT: usize = 6;

/// A value for one of the two number types.
pub(crate) enum Typed<A, B> {
    Single(A),
    Double(B),
}

/// Evaluates an expression that is generic in the number type.
macro_rules! by_type {
    ($value:expr, $x:ident => $body:expr) => {
        match $value {
            Typed::Single($x) => $body,
            Typed::Double($x) => $body,
        }
    };
}
pub(crate) use by_type;

pub(crate) fn mixed() -> PyErr {
    PyTypeError::new_err("the rows, the round and the statistics of a fit must be of one type, float32 or float64")
}

/// Reads bytes in the number type that their header names.
pub(crate) fn read<A, B>(
    bytes: &[u8],
    single: impl FnOnce(&[u8]) -> Result<A>,
    double: impl FnOnce(&[u8]) -> Result<B>,
) -> Result<Typed<A, B>> {
    match bytes.get(WIDTH_AT) {
        Some(8) => double(bytes).map(Typed::Double),
        _ => single(bytes).map(Typed::Single),
    }
}

/// How pickle restores the object: by its method `from_bytes`.
fn reduced<'py>(
    kind: Bound<'py, PyAny>,
    bytes: Bound<'py, PyBytes>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let py = kind.py();
    Ok((kind.get_type().getattr("from_bytes")?, PyTuple::new(py, [bytes])?))
}

type Reduced<'py> = PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>;

/// The round that is broadcast before a step.
#[pyclass(frozen, module = "dgmm._core")]
pub(crate) struct Round(pub(crate) Typed<core::Round<f32>, core::Round<f64>>);

#[pymethods]
impl Round {
    fn __sizeof__(&self) -> usize {
        let numbers = by_type!(&self.0, round => round.model().clusters() * round.model().dim());
        numbers * if matches!(self.0, Typed::Single(_)) { 4 } else { 8 }
    }

    /// The number of the iteration, from 0.
    #[getter]
    fn iteration(&self) -> u64 {
        by_type!(&self.0, round => round.iteration())
    }

    /// The centers that rows are compared with.
    #[getter]
    fn centers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        by_type!(&self.0, round => centers(py, round.model()))
    }

    /// The variance that all clusters share.
    #[getter]
    fn variance(&self) -> f64 {
        by_type!(&self.0, round => round.model().variance())
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        by_type!(&self.0, round => sent(py, self.__sizeof__(), || round.to_bytes()))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        check_room(data.len(), "a round")?;
        run(py, None, |observer| {
            let read = || read(data, core::Round::from_bytes, core::Round::from_bytes);
            Run { threads: Some(1), observer }.install(read)
        })
        .map(Self)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.clone().into_any(), slf.get().to_bytes(slf.py())?)
    }
}

/// The clusters that the rows of a shard keep.
#[pyclass(frozen, module = "dgmm._core")]
pub(crate) struct Memberships(core::Memberships, usize);

#[pymethods]
impl Memberships {
    fn __sizeof__(&self) -> usize {
        self.1
    }

    /// The nearest cluster of each row, as of the last step.
    fn labels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i32>>> {
        // At least as many bytes as the labels take.
        check_room(self.1, "labels")?;
        Ok(labels(py, self.0.labels()))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        sent(py, self.1, || self.0.to_bytes())
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        check_room(data.len(), "memberships")?;
        core::Memberships::from_bytes(data).map(|read| Self(read, data.len())).map_err(raised)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.clone().into_any(), slf.get().to_bytes(slf.py())?)
    }
}

/// Sums over the rows of one shard, or of several.
#[pyclass(frozen, module = "dgmm._core")]
pub(crate) struct Statistics(pub(crate) Typed<core::Statistics<f32>, core::Statistics<f64>>, usize);

#[pymethods]
impl Statistics {
    fn __sizeof__(&self) -> usize {
        self.1
    }

    /// The number of rows.
    #[getter]
    fn n_rows(&self) -> u64 {
        by_type!(&self.0, statistics => statistics.rows())
    }

    /// The sum of their weights.
    #[getter]
    fn weight(&self) -> f64 {
        by_type!(&self.0, statistics => statistics.weight())
    }

    /// The weighted sum of their squared distances to their nearest clusters.
    #[getter]
    fn inertia(&self) -> f64 {
        by_type!(&self.0, statistics => statistics.inertia())
    }

    /// The number of distances that were computed.
    #[getter]
    fn distance_evals(&self) -> u64 {
        by_type!(&self.0, statistics => statistics.evaluations())
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        by_type!(&self.0, statistics => sent(py, self.1, || statistics.to_bytes()))
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        check_room(data.len(), "statistics")?;
        let read = read(data, core::Statistics::from_bytes, core::Statistics::from_bytes);
        read.map(|read| Self(read, data.len())).map_err(raised)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.clone().into_any(), slf.get().to_bytes(slf.py())?)
    }
}

/// One step of EM over the rows of a shard; the given memberships stay unchanged.
#[pyfunction]
#[pyo3(signature = (x, sample_weight, first_row, round, memberships, n_threads))]
pub(crate) fn step<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    sample_weight: Weights<'py>,
    first_row: u64,
    round: &Round,
    memberships: Option<&Memberships>,
    n_threads: Option<usize>,
) -> PyResult<(Statistics, Memberships)> {
    let known = memberships.map(|m| &m.0);
    let rows = by_dtype!(&x, x => x.shape()[0]);
    let taken = |x: Rows<'py>| match (x, &round.0) {
        (Rows::Single(x), Typed::Single(round)) => {
            let (sums, kept) = step_as(py, &x, &sample_weight, first_row, round, known, n_threads)?;
            Ok((Typed::Single(sums), kept))
        }
        (Rows::Double(x), Typed::Double(round)) => {
            let (sums, kept) = step_as(py, &x, &sample_weight, first_row, round, known, n_threads)?;
            Ok((Typed::Double(sums), kept))
        }
        _ => Err(mixed()),
    };
    let (sums, kept) = taken(x)?;
    let (clusters, dim, each) = by_type!(&round.0, r => (r.model().clusters(), r.model().dim(), r.search().kept()));
    Ok((Statistics(sums, 8 * clusters * (dim + 1)), Memberships(kept, 4 * rows * each)))
}

fn step_as<'py, T: Number>(
    py: Python<'py>,
    x: &PyReadonlyArray2<'py, T>,
    weights: &Weights<'py>,
    first_row: u64,
    round: &core::Round<T>,
    known: Option<&core::Memberships>,
    threads: Option<usize>,
) -> PyResult<(core::Statistics<T>, core::Memberships)> {
    let (rows, weights) = (x.as_array(), weights.as_ref().map(|w| w.as_array()));
    run(py, None, move |observer| {
        let shard = Shard::new(part(rows, weights)?, first_row)?;
        let mut memberships = known.map_or_else(|| Ok(core::Memberships::new()), core::Memberships::copied)?;
        let statistics = core::step(round, &shard, &mut memberships, &Run { threads, observer })?;
        Ok((statistics, memberships))
    })
}

/// The summary of the rows of one or several shards, from which a fit starts.
#[pyclass(frozen, module = "dgmm._core")]
pub(crate) struct Summary(pub(crate) Typed<core::Summary<f32>, core::Summary<f64>>);

#[pymethods]
impl Summary {
    fn __sizeof__(&self) -> usize {
        by_type!(&self.0, summary => summary.size())
    }

    /// The number of rows.
    #[getter]
    fn n_rows(&self) -> u64 {
        by_type!(&self.0, summary => summary.rows())
    }

    /// The number of columns.
    #[getter]
    fn n_columns(&self) -> usize {
        by_type!(&self.0, summary => summary.dim())
    }

    /// The bytes of a number.
    #[getter]
    fn itemsize(&self) -> usize {
        if matches!(self.0, Typed::Single(_)) { 4 } else { 8 }
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        by_type!(&self.0, summary => sent(py, summary.size(), || summary.to_bytes()))
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        check_room(data.len(), "a summary")?;
        read(data, core::Summary::from_bytes, core::Summary::from_bytes).map(Self).map_err(raised)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.clone().into_any(), slf.get().to_bytes(slf.py())?)
    }
}

/// The summary of a shard for a fit of `n_rows` rows in total; None if that is unknown.
#[pyfunction]
pub(crate) fn summarize<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    sample_weight: Weights<'py>,
    first_row: u64,
    settings: Settings,
    n_rows: Option<usize>,
) -> PyResult<Summary> {
    let params = settings.params_in_shards()?;
    let (threads, names) = (settings.n_threads(), settings.names());
    let weights = sample_weight.as_ref().map(|w| w.as_array());
    macro_rules! summarized {
        ($x:expr) => {{
            let rows = $x.as_array();
            let sampling = match n_rows {
                Some(n_rows) => params.plan(n_rows, rows.ncols()).map_err(|error| names.raised(error))?.sampling(),
                None => params.sampling(),
            };
            run_named(py, None, names, |observer| {
                let shard = Shard::new(part(rows, weights)?, first_row)?;
                core::Summary::of(&shard, &sampling, &Run { threads, observer })
            })?
        }};
    }
    Ok(Summary(match &x {
        Rows::Single(x) => Typed::Single(summarized!(x)),
        Rows::Double(x) => Typed::Double(summarized!(x)),
    }))
}

/// A part that is copied before it is merged, because Python keeps the original.
trait Copied: Merge {
    fn copied(&self) -> Result<Self>;
}

impl<T: Number> Copied for core::Statistics<T> {
    fn copied(&self) -> Result<Self> {
        self.copied()
    }
}

impl<T: Number> Copied for core::Summary<T> {
    fn copied(&self) -> Result<Self> {
        self.copied()
    }
}

/// The sum of the statistics of shards, in the order of the shards.
#[pyfunction]
pub(crate) fn merge(
    py: Python<'_>,
    parts: Vec<PyRef<'_, Statistics>>,
    n_threads: Option<usize>,
) -> PyResult<Statistics> {
    let bytes = parts.first().map_or(0, |part| part.1);
    let parts: Vec<_> = parts.iter().map(|part| &part.0).collect();
    merged_of_one_type(py, &parts, n_threads, "statistics").map(|sum| Statistics(sum, bytes))
}

/// The summary of all shards from the summaries of each, in the order of the shards.
#[pyfunction]
pub(crate) fn merge_summaries(
    py: Python<'_>,
    parts: Vec<PyRef<'_, Summary>>,
    n_threads: Option<usize>,
) -> PyResult<Summary> {
    let parts: Vec<_> = parts.iter().map(|part| &part.0).collect();
    merged_of_one_type(py, &parts, n_threads, "summaries").map(Summary)
}

fn merged_of_one_type<A, B>(
    py: Python<'_>,
    parts: &[&Typed<A, B>],
    threads: Option<usize>,
    name: &str,
) -> PyResult<Typed<A, B>>
where
    A: Copied + Send + Sync,
    B: Copied + Send + Sync,
{
    match parts.first() {
        None => Err(PyValueError::new_err(format!("{name} is empty; there must be those of at least one shard"))),
        Some(Typed::Single(_)) => {
            let all = parts.iter().map(|part| if let Typed::Single(x) = part { Some(x) } else { None });
            merged(py, all.collect(), threads).map(Typed::Single)
        }
        Some(Typed::Double(_)) => {
            let all = parts.iter().map(|part| if let Typed::Double(x) = part { Some(x) } else { None });
            merged(py, all.collect(), threads).map(Typed::Double)
        }
    }
}

fn merged<S: Copied + Send + Sync>(py: Python<'_>, parts: Option<Vec<&S>>, threads: Option<usize>) -> PyResult<S> {
    let parts = parts.ok_or_else(mixed)?;
    run(py, None, move |observer| {
        Run { threads, observer }.install(|| {
            let mut merger = Merger::default();
            parts.into_iter().try_for_each(|part| merger.add(part.copied()?))?;
            Ok(merger.finish()?.expect("there is one"))
        })
    })
}
