//! Parts of the method that are useful on their own.

use crate::border::run;
use crate::convert::{Rows, Weights, by_dtype, dataset, raised, rows};
use dgmm::{Metric, Model, Run};
use ndarray::ArrayView1;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

fn view<'a>(weights: &'a Weights<'_>) -> Option<ArrayView1<'a, f64>> {
    weights.as_ref().map(|w| w.as_array())
}

type Coreset<'py> = (Bound<'py, PyAny>, Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>);

/// The points, weights and row numbers of a lightweight coreset.
#[pyfunction]
pub(crate) fn lightweight_coreset<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    sample_weight: Weights<'py>,
    size: usize,
    seed: u64,
    n_threads: Option<usize>,
) -> PyResult<Coreset<'py>> {
    let weights = view(&sample_weight);
    by_dtype!(&x, x => {
        let values = x.as_array();
        let drawn = run(py, None, move |observer| {
            let run = Run { threads: n_threads, observer };
            dgmm::lightweight_coreset(&dataset(values, weights)?, size, seed, &run)
        })?;
        Ok((drawn.points.into_pyarray(py).into_any(), drawn.weights.into_pyarray(py), rows(py, drawn.indices)))
    })
}

/// Centers chosen by AFK-MC2, and the numbers of their rows.
#[pyfunction]
pub(crate) fn afkmc2<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    sample_weight: Weights<'py>,
    n_clusters: usize,
    chain_length: usize,
    seed: u64,
    n_threads: Option<usize>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyArray1<i64>>)> {
    let weights = view(&sample_weight);
    by_dtype!(&x, x => {
        let values = x.as_array();
        let seeds = run(py, None, move |observer| {
            let run = Run { threads: n_threads, observer };
            dgmm::afkmc2(&dataset(values, weights)?, n_clusters, chain_length, seed, &run)
        })?;
        Ok((seeds.centers.into_pyarray(py).into_any(), rows(py, seeds.indices)))
    })
}

/// Weighted sum of the squared distances to the nearest centers.
#[pyfunction]
pub(crate) fn quantization_error<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    sample_weight: Weights<'py>,
    centers: &Bound<'py, PyAny>,
    metric: &str,
    n_threads: Option<usize>,
) -> PyResult<f64> {
    let weights = view(&sample_weight);
    let metric: Metric = metric.parse().map_err(raised)?;
    by_dtype!(&x, x => {
        let held = same_type(x, centers)?;
        let (values, centers) = (x.as_array(), held.as_array());
        run(py, None, move |observer| {
            let run = Run { threads: n_threads, observer };
            // Distances do not depend on the variance.
            Model::new_in(centers, 1.0, metric, &run)?.quantization_error(&dataset(values, weights)?, &run)
        })
    })
}

fn same_type<'py, T: numpy::Element>(
    _like: &PyReadonlyArray2<'py, T>,
    other: &Bound<'py, PyAny>,
) -> PyResult<PyReadonlyArray2<'py, T>> {
    other.extract()
}
