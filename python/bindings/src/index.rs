//! Approximate search: an index of the centers, which Python keeps between calls.
//!
//! An index never changes. Python stores how far to search and passes it with each call, so calls from several threads may
//! overlap.

use crate::border::run;
use crate::convert::{Number, Pairs, Rows, Scale, labels, pairs};
use dgmm::{Dataset, Result, Run};
use numpy::{PyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

enum Kind {
    Single(dgmm::Index<f32>),
    Double(dgmm::Index<f64>),
}

/// Evaluates an expression that is generic in the number type of an index and rows.
macro_rules! by_kind {
    ($index:expr, $x:expr, ($i:ident, $rows:ident) => $body:expr) => {
        match (&$index.0, &$x) {
            (Kind::Single($i), Rows::Single($rows)) => $body,
            (Kind::Double($i), Rows::Double($rows)) => $body,
            _ => Err(PyTypeError::new_err("rows and centers must be of one type")),
        }
    };
}

/// An index of centers for approximate search.
#[pyclass(frozen, module = "dgmm._core")]
pub(crate) struct Index(Kind);

#[pymethods]
impl Index {
    #[new]
    fn new(py: Python<'_>, centers: Rows<'_>, variance: Scale, n_threads: Option<usize>) -> PyResult<Self> {
        Ok(Self(match &centers {
            Rows::Single(centers) => Kind::Single(arranged(py, centers, variance, n_threads)?),
            Rows::Double(centers) => Kind::Double(arranged(py, centers, variance, n_threads)?),
        }))
    }

    /// Whether all searches are exact, for any reach.
    #[getter]
    fn is_exact(&self) -> bool {
        match &self.0 {
            Kind::Single(index) => index.is_exact(),
            Kind::Double(index) => index.is_exact(),
        }
    }

    /// The reach with which the share `recall` of the `k` nearest clusters of these rows is found, and the share found for
    /// another sample of them; None if exact search costs no more.
    fn tune<'py>(
        &self,
        py: Python<'py>,
        x: Rows<'py>,
        k: usize,
        recall: f64,
        n_threads: Option<usize>,
    ) -> PyResult<(Option<f64>, f64)> {
        by_kind!(self, x, (index, x) => ask(py, index, x, None, n_threads, |mut index, data, run| {
            let seen = index.tune_top_k(data, k, recall, run)?;
            Ok((index.reach(), seen))
        }))
    }

    /// An approximately nearest center of each row; how many of the `audited` rows have the right one, and how many were
    /// audited. Without a reach the search is exact.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        x: Rows<'py>,
        reach: Option<f64>,
        audited: usize,
        n_threads: Option<usize>,
    ) -> PyResult<(Bound<'py, PyArray1<i32>>, usize, usize)> {
        let (found, (right, checked)) = by_kind!(self, x, (index, x) => ask(py, index, x, reach, n_threads, |index, data, run| {
            let found = index.predict(data, run)?;
            let audit = index.audit(data, &found, audited, run)?;
            Ok((found, audit))
        }))?;
        Ok((labels(py, found), right, checked))
    }

    /// Approximately the `k` nearest centers of each row and their squared distances, nearest first.
    fn top_k<'py>(
        &self,
        py: Python<'py>,
        x: Rows<'py>,
        k: usize,
        reach: Option<f64>,
        n_threads: Option<usize>,
    ) -> PyResult<Pairs<'py>> {
        by_kind!(self, x, (index, x) => {
            pairs(py, ask(py, index, x, reach, n_threads, |index, data, run| index.top_k(data, k, run))?)
        })
    }
}

fn arranged<T: Number>(
    py: Python<'_>,
    centers: &PyReadonlyArray2<'_, T>,
    variance: Scale,
    threads: Option<usize>,
) -> PyResult<dgmm::Index<T>> {
    let centers = centers.as_array();
    run(py, None, move |observer| {
        let run = Run { threads, observer };
        variance.model(centers, &run)?.index(&run)
    })
}

/// Queries an index with the given reach for the rows `x`, detached from Python.
fn ask<T: Number, R: Send>(
    py: Python<'_>,
    index: &dgmm::Index<T>,
    x: &PyReadonlyArray2<'_, T>,
    reach: Option<f64>,
    threads: Option<usize>,
    question: impl FnOnce(dgmm::Index<T>, &Dataset<'_, T>, &Run<'_>) -> Result<R> + Send,
) -> PyResult<R> {
    let rows = x.as_array();
    run(py, None, move |observer| {
        // Clones share everything but the reach.
        let mut index = index.clone();
        reach.map_or(Ok(()), |reach| index.set_reach(reach))?;
        question(index, &Dataset::new(rows)?, &Run { threads, observer })
    })
}
