//! The parts of a fit over shards: rounds, memberships and statistics that travel as bytes, and the trainer between them.

use crate::border::run;
use crate::convert::{Number, Rows, Weights, dataset, labels, raised};
use crate::fit::{Fitted, Settings};
use dgmm::step::{self as core, Merger, Progress, Shard};
use dgmm::{Real, Result, Run};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// Where the bytes of all kinds say how wide their numbers are.
const WIDTH_AT: usize = 6;

/// A value of either type of numbers.
enum Typed<A, B> {
    Single(A),
    Double(B),
}

/// Evaluates an expression, generic in the type of the numbers, for the type at hand.
macro_rules! by_type {
    ($value:expr, $x:ident => $body:expr) => {
        match $value {
            Typed::Single($x) => $body,
            Typed::Double($x) => $body,
        }
    };
}

fn mixed() -> PyErr {
    PyTypeError::new_err("the rows, the round and the statistics of a fit must be of one type, float32 or float64")
}

/// Reads bytes as what their header says that they are.
fn read<A, B>(
    bytes: &[u8],
    single: impl FnOnce(&[u8]) -> Result<A>,
    double: impl FnOnce(&[u8]) -> Result<B>,
) -> Result<Typed<A, B>> {
    match bytes.get(WIDTH_AT) {
        Some(8) => double(bytes).map(Typed::Double),
        _ => single(bytes).map(Typed::Single),
    }
}

/// How pickle makes the object again: by its method `from_bytes`.
fn reduced<'py>(
    kind: Bound<'py, PyAny>,
    bytes: Bound<'py, PyBytes>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
    let py = kind.py();
    Ok((kind.get_type().getattr("from_bytes")?, PyTuple::new(py, [bytes])?))
}

type Reduced<'py> = PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)>;

/// What is broadcast before a step.
#[pyclass(frozen, module = "dgmm._core")]
pub(crate) struct Round(Typed<core::Round<f32>, core::Round<f64>>);

#[pymethods]
impl Round {
    /// Which iteration this is, from 0.
    #[getter]
    fn iteration(&self) -> u64 {
        by_type!(&self.0, round => round.iteration())
    }

    /// The centers that rows are compared with.
    #[getter]
    fn centers<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        by_type!(&self.0, round => round.model().centers().into_pyarray(py).into_any())
    }

    /// The variance that all clusters share.
    #[getter]
    fn variance(&self) -> f64 {
        by_type!(&self.0, round => round.model().variance())
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        by_type!(&self.0, round => PyBytes::new(py, &round.to_bytes()))
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8]) -> PyResult<Self> {
        run(py, None, |observer| {
            let read = || read(data, core::Round::from_bytes, core::Round::from_bytes);
            Run { threads: Some(1), observer }.install(read)
        })
        .map(Self)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.clone().into_any(), slf.get().to_bytes(slf.py()))
    }
}

/// The clusters that the rows of a shard keep.
#[pyclass(frozen, module = "dgmm._core")]
pub(crate) struct Memberships(core::Memberships);

#[pymethods]
impl Memberships {
    /// The nearest cluster of each row, as of the last step.
    fn labels<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i32>> {
        labels(py, self.0.labels())
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.to_bytes())
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        core::Memberships::from_bytes(data).map(Self).map_err(raised)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.clone().into_any(), slf.get().to_bytes(slf.py()))
    }
}

/// Sums over the rows of one shard, or of several.
#[pyclass(frozen, module = "dgmm._core")]
pub(crate) struct Statistics(Typed<core::Statistics<f32>, core::Statistics<f64>>);

#[pymethods]
impl Statistics {
    /// Rows that were looked at.
    #[getter]
    fn n_rows(&self) -> u64 {
        by_type!(&self.0, statistics => statistics.rows())
    }

    /// Sum of their weights.
    #[getter]
    fn weight(&self) -> f64 {
        by_type!(&self.0, statistics => statistics.weight())
    }

    /// Weighted sum of their squared distances to their nearest clusters.
    #[getter]
    fn inertia(&self) -> f64 {
        by_type!(&self.0, statistics => statistics.inertia())
    }

    /// Distances that were computed.
    #[getter]
    fn distance_evals(&self) -> u64 {
        by_type!(&self.0, statistics => statistics.evaluations())
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        by_type!(&self.0, statistics => PyBytes::new(py, &statistics.to_bytes()))
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        read(data, core::Statistics::from_bytes, core::Statistics::from_bytes).map(Self).map_err(raised)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> Reduced<'py> {
        reduced(slf.clone().into_any(), slf.get().to_bytes(slf.py()))
    }
}

/// One step of EM over the rows of a shard; the memberships that come with it stay as they are.
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
    taken(x).map(|(sums, kept)| (Statistics(sums), Memberships(kept)))
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
        let shard = Shard::new(dataset(rows, weights)?, first_row)?;
        let mut memberships = known.cloned().unwrap_or_default();
        let statistics = core::step(round, &shard, &mut memberships, &Run { threads, observer })?;
        Ok((statistics, memberships))
    })
}

/// The sum of the statistics of shards, which are given in their order.
#[pyfunction]
pub(crate) fn merge(
    py: Python<'_>,
    parts: Vec<PyRef<'_, Statistics>>,
    n_threads: Option<usize>,
) -> PyResult<Statistics> {
    let parts: Vec<&Statistics> = parts.iter().map(|part| &**part).collect();
    match parts.first().map(|part| &part.0) {
        None => Err(PyValueError::new_err("statistics is empty; there must be those of at least one shard")),
        Some(Typed::Single(_)) => {
            let all = parts.iter().map(|part| if let Typed::Single(x) = &part.0 { Some(x) } else { None });
            merged(py, all.collect(), n_threads).map(|sum| Statistics(Typed::Single(sum)))
        }
        Some(Typed::Double(_)) => {
            let all = parts.iter().map(|part| if let Typed::Double(x) = &part.0 { Some(x) } else { None });
            merged(py, all.collect(), n_threads).map(|sum| Statistics(Typed::Double(sum)))
        }
    }
}

fn merged<T: Real>(
    py: Python<'_>,
    parts: Option<Vec<&core::Statistics<T>>>,
    threads: Option<usize>,
) -> PyResult<core::Statistics<T>> {
    let parts = parts.ok_or_else(mixed)?;
    run(py, None, move |observer| {
        Run { threads, observer }.install(|| {
            let mut merger = Merger::default();
            parts.into_iter().try_for_each(|part| merger.add(part.clone()))?;
            Ok(merger.finish()?.expect("there is one"))
        })
    })
}

/// Turns the merged statistics of each round into the next one.
#[pyclass(module = "dgmm._core")]
pub(crate) struct Trainer {
    kind: Typed<core::Trainer<f32>, core::Trainer<f64>>,
    threads: Option<usize>,
}

#[pymethods]
impl Trainer {
    /// Starts where a fit of these rows would.
    #[new]
    fn new(py: Python<'_>, settings: Settings, x: Rows<'_>, sample_weight: Weights<'_>) -> PyResult<Self> {
        let (params, threads) = (settings.params()?, settings.n_threads());
        let weights = sample_weight.as_ref().map(|w| w.as_array());
        macro_rules! started {
            ($x:expr) => {{
                let rows = $x.as_array();
                run(py, None, |observer| params.trainer(&dataset(rows, weights)?, &Run { threads, observer }))?
            }};
        }
        let kind = match &x {
            Rows::Single(x) => Typed::Single(started!(x)),
            Rows::Double(x) => Typed::Double(started!(x)),
        };
        Ok(Self { kind, threads })
    }

    /// What to broadcast.
    #[getter]
    fn round(&self) -> Round {
        Round(match &self.kind {
            Typed::Single(trainer) => Typed::Single(trainer.round().clone()),
            Typed::Double(trainer) => Typed::Double(trainer.round().clone()),
        })
    }

    /// Whether nothing is left to do.
    #[getter]
    fn finished(&self) -> bool {
        by_type!(&self.kind, trainer => trainer.is_finished())
    }

    /// Ends the training after one last round.
    fn stop(&mut self) {
        by_type!(&mut self.kind, trainer => trainer.stop());
    }

    /// Takes in the statistics of all shards, and says what that has led to.
    fn absorb<'py>(&mut self, py: Python<'py>, statistics: &Statistics) -> PyResult<Bound<'py, PyDict>> {
        let threads = self.threads;
        macro_rules! absorbed {
            ($trainer:expr, $sums:expr) => {
                run(py, None, |observer| Run { threads, observer }.install(|| $trainer.absorb($sums.clone())))?
            };
        }
        let progress = match (&mut self.kind, &statistics.0) {
            (Typed::Single(trainer), Typed::Single(sums)) => absorbed!(trainer, sums),
            (Typed::Double(trainer), Typed::Double(sums)) => absorbed!(trainer, sums),
            _ => return Err(mixed()),
        };
        told(py, progress)
    }

    /// The model as it is, and how it went so far.
    #[getter]
    fn fitted(&self, py: Python<'_>) -> PyResult<Fitted> {
        by_type!(&self.kind, t => Fitted::new(py, t.round().model(), Vec::new(), t.report(), false))
    }
}

fn told(py: Python<'_>, progress: Progress) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let stage = match progress {
        Progress::Iterated { iteration, lower_bound, change, variance, seconds } => {
            dict.set_item("iteration", iteration)?;
            dict.set_item("lower_bound", lower_bound)?;
            dict.set_item("change", change)?;
            dict.set_item("variance", variance)?;
            dict.set_item("seconds", seconds)?;
            "iterated"
        }
        Progress::Measured => "measured",
        Progress::Finished => "finished",
        _ => "other",
    };
    dict.set_item("stage", stage)?;
    Ok(dict)
}
