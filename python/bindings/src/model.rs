//! Queries to a fitted model. Python keeps centers, variances and weights as plain values, from which each call makes a
//! model.

use crate::border::run;
use crate::convert::{Number, Pairs, Rows, Scale, by_dtype, empty, labels, pairs};
use dgmm::{Dataset, Error, Model, Result, Run};
use ndarray::Axis;
use numpy::{IntoPyArray, PyArray1, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

/// The number of cluster indices that are converted at a time to NumPy's wider type.
const INDICES: usize = 1 << 22;

/// Queries the model of `centers` and `variance` for the rows `x`, detached from Python.
fn ask<'py, T: Number, R: Send>(
    x: &PyReadonlyArray2<'py, T>,
    centers: &Bound<'py, PyAny>,
    variance: Scale,
    threads: Option<usize>,
    question: impl FnOnce(&Model<T>, &Dataset<'_, T>, &Run<'_>) -> Result<R> + Send,
) -> PyResult<R> {
    let held: PyReadonlyArray2<'py, T> = centers.extract()?;
    let (py, rows, centers) = (centers.py(), x.as_array(), held.as_array());
    run(py, None, move |observer| {
        let run = Run { threads, observer };
        question(&variance.model(centers, &run)?, &Dataset::new(rows)?, &run)
    })
}

/// The nearest center of each row.
#[pyfunction]
pub(crate) fn predict<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: Scale,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<i32>>> {
    let nearest = by_dtype!(&x, x => ask(x, centers, variance, n_threads, |m, data, run| m.predict(data, run)))?;
    Ok(labels(centers.py(), nearest))
}

/// Squared distances of each row to every center.
#[pyfunction]
pub(crate) fn distances<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: Scale,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    by_dtype!(&x, x => {
        let all = empty(centers.py(), x.shape()[0], centers.len()?)?;
        let mut memory = all.readwrite();
        let out = memory.as_slice_mut()?;
        ask(x, centers, variance, n_threads, |m, data, run| m.distances_into(data, out, run))?;
        drop(memory);
        Ok(all.into_any())
    })
}

/// The log-density of each row.
#[pyfunction]
pub(crate) fn log_density<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: Scale,
    n_threads: Option<usize>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let logs = by_dtype!(&x, x => ask(x, centers, variance, n_threads, |m, data, run| m.log_density(data, run)))?;
    Ok(logs.into_pyarray(centers.py()))
}

/// The `k` nearest centers of each row and their squared distances, nearest first.
#[pyfunction]
pub(crate) fn top_k<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: Scale,
    k: usize,
    n_threads: Option<usize>,
) -> PyResult<Pairs<'py>> {
    by_dtype!(&x, x => top_k_as(x, centers, variance, k, n_threads))
}

fn top_k_as<'py, T: Number>(
    x: &PyReadonlyArray2<'py, T>,
    centers: &Bound<'py, PyAny>,
    variance: Scale,
    k: usize,
    threads: Option<usize>,
) -> PyResult<Pairs<'py>> {
    let (py, count) = (centers.py(), x.shape()[0]);
    let (wide, distances) = (empty::<i64>(py, count, k)?, empty::<T>(py, count, k)?);
    let (mut wide_memory, mut memory) = (wide.readwrite(), distances.readwrite());
    let (wide_out, out) = (wide_memory.as_slice_mut()?, memory.as_slice_mut()?);
    let (rows, at_once) = (x.as_array(), (INDICES / k.max(1)).max(1));
    ask(x, centers, variance, threads, |model, _, run| {
        let mut ids = Vec::new();
        let bytes = 4 * at_once.min(count) * k;
        let room = ids.try_reserve_exact(at_once.min(count) * k);
        room.map_err(|_| Error::OutOfMemory { what: "the nearest clusters", bytes })?;
        let parts = wide_out.chunks_mut((at_once * k).max(1)).zip(out.chunks_mut((at_once * k).max(1)));
        for (rows, (wide, distances)) in rows.axis_chunks_iter(Axis(0), at_once).zip(parts) {
            ids.resize(wide.len(), 0);
            model.top_k_into(&Dataset::new(rows)?, k, &mut ids, distances, run)?;
            wide.iter_mut().zip(&ids).for_each(|(wide, &id)| *wide = i64::from(id));
        }
        Ok(())
    })?;
    drop((wide_memory, memory));
    Ok((wide, distances.into_any()))
}

/// The posterior of each row over its `h` nearest clusters.
#[pyfunction]
pub(crate) fn posteriors<'py>(
    x: Rows<'py>,
    centers: &Bound<'py, PyAny>,
    variance: Scale,
    h: usize,
    n_threads: Option<usize>,
) -> PyResult<Pairs<'py>> {
    by_dtype!(&x, x => {
        pairs(centers.py(), ask(x, centers, variance, n_threads, |m, data, run| m.posteriors(data, h, run))?)
    })
}
