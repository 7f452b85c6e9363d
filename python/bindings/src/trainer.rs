//! The trainer of a fit over shards.

use crate::border::{run, run_named};
use crate::convert::{Rows, check_room, raised, sent};
use crate::fit::{Fitted, Settings};
use crate::shards::{Round, Statistics, Summary, Typed, by_type, mixed, read};
use dgmm::step::{self as core, Progress};
use dgmm::{Observer, Run};
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// How pickle restores a trainer: a function and its arguments.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, Option<usize>));

/// Turns the merged statistics of each round into the next one.
#[pyclass(module = "dgmm._core")]
pub(crate) struct Trainer {
    kind: Typed<core::Trainer<f32>, core::Trainer<f64>>,
    threads: Option<usize>,
}

#[pymethods]
impl Trainer {
    /// Chooses the initial centers among the rows of the summary's sample, unless they are given, and begins the training.
    #[new]
    fn new(
        py: Python<'_>,
        settings: Settings,
        summary: &Summary,
        start: Option<Rows<'_>>,
        callback: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let (params, threads, names) = (settings.params_in_shards()?, settings.n_threads(), settings.names());
        macro_rules! started {
            ($summary:expr, $start:expr) => {{
                let start = $start.map(|x| x.as_array());
                let work = |observer: &dyn Observer| params.trainer_from($summary, start, &Run { threads, observer });
                run_named(py, callback.as_ref(), names, work)?
            }};
        }
        let kind = match (&summary.0, &start) {
            (Typed::Single(summary), None) => Typed::Single(started!(summary, None::<&PyReadonlyArray2<'_, f32>>)),
            (Typed::Double(summary), None) => Typed::Double(started!(summary, None::<&PyReadonlyArray2<'_, f64>>)),
            (Typed::Single(summary), Some(Rows::Single(start))) => Typed::Single(started!(summary, Some(start))),
            (Typed::Double(summary), Some(Rows::Double(start))) => Typed::Double(started!(summary, Some(start))),
            _ => return Err(mixed()),
        };
        Ok(Self { kind, threads })
    }

    /// The round to broadcast.
    #[getter]
    fn round(&self) -> PyResult<Round> {
        Ok(Round(match &self.kind {
            Typed::Single(trainer) => Typed::Single(trainer.round().copied().map_err(raised)?),
            Typed::Double(trainer) => Typed::Double(trainer.round().copied().map_err(raised)?),
        }))
    }

    /// Whether the training has ended.
    #[getter]
    fn finished(&self) -> bool {
        by_type!(&self.kind, trainer => trainer.is_finished())
    }

    /// Ends the training after one last round.
    fn stop(&mut self) {
        by_type!(&mut self.kind, trainer => trainer.stop());
    }

    /// Processes the statistics of all shards, and returns the progress.
    fn absorb<'py>(&mut self, py: Python<'py>, statistics: &Statistics) -> PyResult<Bound<'py, PyDict>> {
        let threads = self.threads;
        macro_rules! absorbed {
            ($trainer:expr, $sums:expr) => {
                run(py, None, |observer| Run { threads, observer }.install(|| $trainer.absorb($sums.copied()?)))?
            };
        }
        let progress = match (&mut self.kind, &statistics.0) {
            (Typed::Single(trainer), Typed::Single(sums)) => absorbed!(trainer, sums),
            (Typed::Double(trainer), Typed::Double(sums)) => absorbed!(trainer, sums),
            _ => return Err(mixed()),
        };
        told(py, progress)
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        // The model and the previous one.
        by_type!(&self.kind, trainer => {
            let model = trainer.round().model();
            sent(py, 2 * size_of::<f64>() * model.clusters() * model.dim(), || trainer.to_bytes())
        })
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, data: &[u8], n_threads: Option<usize>) -> PyResult<Self> {
        check_room(data.len(), "a trainer")?;
        let kind = run(py, None, |observer| {
            let read = || read(data, core::Trainer::from_bytes, core::Trainer::from_bytes);
            Run { threads: n_threads, observer }.install(read)
        })?;
        Ok(Self { kind, threads: n_threads })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let this = slf.borrow();
        Ok((slf.get_type().getattr("from_bytes")?, (this.to_bytes(slf.py())?, this.threads)))
    }

    /// The current model, and the report of the training so far.
    #[getter]
    fn fitted(&self, py: Python<'_>) -> PyResult<Fitted> {
        by_type!(&self.kind, t => Fitted::new(py, t.round().model(), Vec::new(), t.report(), false))
    }
}

fn told(py: Python<'_>, progress: Progress) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    let stage = match progress {
        Progress::Iterated { iteration, lower_bound, change, variance, seconds, rows } => {
            dict.set_item("iteration", iteration)?;
            dict.set_item("lower_bound", lower_bound)?;
            dict.set_item("change", change)?;
            dict.set_item("variance", variance)?;
            dict.set_item("seconds", seconds)?;
            dict.set_item("rows", rows)?;
            "iterated"
        }
        Progress::Measured => "measured",
        Progress::Started => "started",
        Progress::Refining { moved } => {
            dict.set_item("moved", moved)?;
            "refining"
        }
        Progress::Finished => "finished",
        _ => "other",
    };
    dict.set_item("stage", stage)?;
    Ok(dict)
}
