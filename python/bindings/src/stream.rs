//! Learning from a stream: updates a model with a batch.

use crate::border::run;
use crate::convert::{Number, Rows, Scale, Weights, by_dtype, centers as centers_of, check_room, dataset, labels};
use crate::fit::Settings;
use dgmm::{Params, Run, Stream};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

/// The model after a batch.
#[pyclass(frozen, get_all, module = "dgmm._core")]
pub(crate) struct Learned {
    centers: Py<PyAny>,
    variance: f64,
    concentration: Option<f64>,
    masses: Py<PyArray1<f64>>,
    weight: f64,
    rows: u64,
    labels: Py<PyArray1<i32>>,
    inertia: f64,
    lower_bound: f64,
    distance_evals: u64,
    born: usize,
}

/// Learns from a batch: centers, variance and masses are those before it, learned from rows of total weight `weight`.
#[pyfunction]
#[pyo3(signature = (x, sample_weight, centers, variance, masses, weight, rows, settings))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn learn<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    sample_weight: Weights<'py>,
    centers: Bound<'py, PyAny>,
    variance: Scale,
    masses: PyReadonlyArray1<'py, f64>,
    weight: f64,
    rows: u64,
    settings: Settings,
) -> PyResult<Learned> {
    let (params, threads) = (settings.params()?, settings.n_threads());
    check_room(8 * masses.as_array().len(), "masses of clusters")?;
    let masses = masses.as_array().to_vec();
    by_dtype!(&x, x => {
        let before = Before { centers: &centers.extract()?, variance, masses, weight, rows };
        learn_as(py, x, &sample_weight, before, &params, threads)
    })
}

/// The model before a batch.
struct Before<'a, 'py, T: Number> {
    centers: &'a PyReadonlyArray2<'py, T>,
    variance: Scale,
    masses: Vec<f64>,
    weight: f64,
    rows: u64,
}

fn learn_as<'py, T: Number>(
    py: Python<'py>,
    x: &PyReadonlyArray2<'py, T>,
    weights: &Weights<'py>,
    before: Before<'_, 'py, T>,
    params: &Params,
    threads: Option<usize>,
) -> PyResult<Learned> {
    let (batch, weights) = (x.as_array(), weights.as_ref().map(|w| w.as_array()));
    let Before { centers, variance, masses, weight, rows } = before;
    let centers = centers.as_array();
    let (stream, batch) = run(py, None, move |observer| {
        let run = Run { threads, observer };
        let mut stream = Stream::new(variance.model(centers, &run)?, masses, weight, rows)?;
        let learned = stream.learn(params, &dataset(batch, weights)?, &run)?;
        Ok((stream, learned))
    })?;
    Ok(Learned {
        centers: centers_of(py, stream.model())?.unbind(),
        variance: stream.model().variance(),
        concentration: stream.model().concentration(),
        masses: PyArray1::from_slice(py, stream.masses()).unbind(),
        weight: stream.weight(),
        rows: stream.rows(),
        labels: labels(py, batch.labels).unbind(),
        inertia: batch.inertia,
        lower_bound: batch.lower_bound,
        distance_evals: batch.evaluations,
        born: batch.born,
    })
}
