//! What a fitted model says of rows. Python keeps centers and variance as plain values; each call makes a model of them.

use crate::border::run;
use crate::convert::{Number, Rows, by_dtype, clusters, labels};
use dgmm::{Dataset, Model, Result, Run};
use ndarray::Array2;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyReadonlyArray2};
use pyo3::prelude::*;

/// Asks the model of `centers` and `variance` about the rows `x`, detached from Python.
fn ask<'py, T: Number, R: Send>(
    x: &PyReadonlyArray2<'py, T>,
    centers: &Bound<'py, PyAny>,
    variance: f64,
    threads: Option<usize>,
    question: impl FnOnce(&Model<T>, &Dataset<'_, T>, &Run<'_>) -> Result<R> + Send,
) -> PyResult<R> {
    let held: PyReadonlyArray2<'py, T> = centers.extract()?;
    let (py, rows, centers) = (centers.py(), x.as_array(), held.as_array());
    run(py, None, move |observer| {
        let run = Run { threads, observer };
        question(&Model::new_in(centers, variance, &run)?, &Dataset::new(rows)?, &run)
    })
}

/// The nearest center of each row.
#[pyfunction]
pub(crate) fn predict<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: f64,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<i32>>> {
    let nearest = by_dtype!(&x, x => ask(x, centers, variance, n_threads, |m, data, run| m.predict(data, run)))?;
    Ok(labels(centers.py(), nearest))
}

/// The nearest center of each row by a search over neighbors, and its recall.
#[pyfunction]
pub(crate) fn predict_graph<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: f64,
    n_threads: Option<usize>,
) -> PyResult<(Bound<'py, PyArray1<i32>>, f64)> {
    let (found, recall) = by_dtype!(&x, x => ask(x, centers, variance, n_threads, |m, data, run| {
        let mut index = m.index(run)?;
        let recall = index.tune(data, 0.98, run)?;
        Ok((index.predict(data, run)?, recall))
    }))?;
    Ok((labels(centers.py(), found), recall))
}

/// Squared distances of each row to every center.
#[pyfunction]
pub(crate) fn distances<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: f64,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = centers.py();
    by_dtype!(&x, x => {
        let all = ask(x, centers, variance, n_threads, |m, data, run| m.distances(data, run))?;
        Ok(all.into_pyarray(py).into_any())
    })
}

/// The log-density of each row.
#[pyfunction]
pub(crate) fn log_density<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: f64,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let logs = by_dtype!(&x, x => ask(x, centers, variance, n_threads, |m, data, run| m.log_density(data, run)))?;
    Ok(logs.into_pyarray(centers.py()))
}

/// Indices of clusters, and what belongs to each of them.
type Pairs<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyAny>);

fn pairs<T: Number>(py: Python<'_>, (indices, values): (Array2<u32>, Array2<T>)) -> Pairs<'_> {
    (clusters(py, indices), values.into_pyarray(py).into_any())
}

/// The `k` nearest centers of each row and their squared distances, nearest first.
#[pyfunction]
pub(crate) fn top_k<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: f64,
    k: usize,
    n_threads: Option<usize>,
) -> PyResult<Pairs<'py>> {
    by_dtype!(&x, x => {
        let found = ask(x, centers, variance, n_threads, |m, data, run| m.top_k(data, k, run))?;
        Ok(pairs(centers.py(), found))
    })
}

/// The posterior of each row over its `h` nearest clusters.
#[pyfunction]
pub(crate) fn posteriors<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: f64,
    h: usize,
    n_threads: Option<usize>,
) -> PyResult<Pairs<'py>> {
    by_dtype!(&x, x => {
        let found = ask(x, centers, variance, n_threads, |m, data, run| m.posteriors(data, h, run))?;
        Ok(pairs(centers.py(), found))
    })
}
