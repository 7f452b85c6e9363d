//! The fit: takes settings as a dict, and returns the core's report as attributes.

use crate::border::run_keeping;
use crate::convert::{Names, Number, Rows, Weights, by_dtype, centers, dataset, labels, raised};
use dgmm::{
    Covariance, Dgmm, Engine, Error, ExactGmm, GaussianMixture, Init, KMeans, Labels, Metric, Model, Observer, Params,
    Report, Search, Seeding, SimilarityKind, Stop, VcGmm, Weights as ClusterWeights,
};
use numpy::{PyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::str::FromStr;

/// The settings of an estimator; absent ones keep the core's defaults.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Settings {
    system: String,
    n_clusters: usize,
    #[pyo3(default)]
    truncation: Option<usize>,
    #[pyo3(default)]
    proposals: Option<usize>,
    #[pyo3(default)]
    engine: Option<String>,
    #[pyo3(default)]
    similarity: Option<String>,
    #[pyo3(default)]
    metric: Option<String>,
    #[pyo3(default)]
    neighbors: Option<usize>,
    #[pyo3(default)]
    random_neighbor: Option<bool>,
    #[pyo3(default)]
    init: Option<String>,
    chain_length: usize,
    coreset_size: Option<usize>,
    #[pyo3(default)]
    max_size: Option<f64>,
    max_iter: usize,
    tol: Option<f64>,
    #[pyo3(default)]
    step_length: Option<f64>,
    #[pyo3(default)]
    refine: Option<usize>,
    stop: Option<String>,
    n_init: usize,
    #[pyo3(default)]
    labels: Option<String>,
    seed: u64,
    n_threads: Option<usize>,
    #[pyo3(default)]
    shard_rows: Option<usize>,
    #[pyo3(default)]
    sample_rows: Option<usize>,
    #[pyo3(default)]
    covariance_type: Option<String>,
    #[pyo3(default)]
    weights: Option<String>,
    #[pyo3(default)]
    reg_covar: Option<f64>,
    #[pyo3(default)]
    start_weights: Option<Vec<f64>>,
    #[pyo3(default)]
    start_variances: Option<Vec<f64>>,
}

impl Settings {
    pub(crate) fn n_threads(&self) -> Option<usize> {
        self.n_threads
    }

    /// The names of the arguments in errors.
    pub(crate) fn names(&self) -> Names {
        if self.system == "GaussianMixture" { Names::Mixture } else { Names::Plain }
    }

    /// The parameters of a fit over shards, of any size.
    pub(crate) fn params_in_shards(&self) -> PyResult<Params> {
        Ok(self.params()?.shard_rows(self.shard_rows.unwrap_or(1)))
    }

    pub(crate) fn params(&self) -> PyResult<Params> {
        let params = match self.system.as_str() {
            "DGMM" => Dgmm::params(self.n_clusters),
            "VCGMM" => VcGmm::params(self.n_clusters),
            "ExactGMM" => ExactGmm::params(self.n_clusters),
            "KMeans" => KMeans::params(self.n_clusters),
            "GaussianMixture" => GaussianMixture::params(self.n_clusters),
            other => return Err(PyValueError::new_err(format!("no system is called {other:?}"))),
        };
        let mut params = params
            .truncation(self.truncation)
            .proposals(self.proposals)
            .chain_length(self.chain_length)
            .coreset_size(self.coreset_size)
            .max_size(self.max_size)
            .max_iter(self.max_iter)
            .tol(self.tol)
            .step_length(self.step_length)
            .refine(self.refine)
            .stop(named::<Stop>(&self.stop)?)
            .start_weights(self.start_weights.clone())
            .start_variances(self.start_variances.clone())
            .n_init(self.n_init)
            .seed(self.seed)
            .shard_rows(self.shard_rows)
            .sample_rows(self.sample_rows)
            .threads(self.n_threads);
        params = set(params, named::<Engine>(&self.engine)?, Params::engine);
        params = set(params, named::<SimilarityKind>(&self.similarity)?, Params::similarity);
        params = set(params, named::<Metric>(&self.metric)?, Params::metric);
        params = set(params, named::<Init>(&self.init)?, Params::init);
        params = set(params, named::<Labels>(&self.labels)?, Params::labels);
        params = set(params, self.neighbors, Params::neighbors);
        params = set(params, named::<Covariance>(&self.covariance_type)?, Params::covariance);
        params = set(params, named::<ClusterWeights>(&self.weights)?, Params::weights);
        params = set(params, self.reg_covar, Params::reg_covar);
        Ok(set(params, self.random_neighbor, Params::random_neighbor))
    }
}

fn set<V>(params: Params, value: Option<V>, setter: impl FnOnce(Params, V) -> Params) -> Params {
    match value {
        Some(value) => setter(params, value),
        None => params,
    }
}

fn named<V: FromStr<Err = Error>>(name: &Option<String>) -> PyResult<Option<V>> {
    name.as_deref().map(str::parse).transpose().map_err(raised)
}

/// A fitted model and the report of its fit.
#[pyclass(frozen, get_all, module = "dgmm._core")]
pub(crate) struct Fitted {
    centers: Py<PyAny>,
    variance: f64,
    /// Variances and weights of the clusters, if they differ.
    variances: Option<Py<PyArray1<f64>>>,
    weights: Option<Py<PyArray1<f64>>>,
    concentration: Option<f64>,
    labels: Option<Py<PyArray1<i32>>>,
    inertia: f64,
    lower_bound: f64,
    converged: bool,
    stopped: bool,
    interrupted: bool,
    empty_clusters: usize,
    oversized_clusters: usize,
    history: Py<PyDict>,
    evaluations: Py<PyDict>,
    seconds: Py<PyDict>,
}

impl Fitted {
    pub(crate) fn new<T: Number>(
        py: Python<'_>,
        model: &Model<T>,
        rows: Vec<u32>,
        report: &Report,
        interrupted: bool,
    ) -> PyResult<Self> {
        let (evaluations, seconds) = (PyDict::new(py), PyDict::new(py));
        evaluations.set_item("coreset", report.evaluations.coreset)?;
        evaluations.set_item("seeding", report.evaluations.seeding)?;
        evaluations.set_item("em", report.evaluations.em)?;
        seconds.set_item("coreset", report.seconds.coreset)?;
        seconds.set_item("seeding", report.seconds.seeding)?;
        seconds.set_item("em", report.seconds.em)?;
        seconds.set_item("labels", report.seconds.labels)?;
        Ok(Self {
            centers: centers(py, model)?.unbind(),
            variance: model.variance(),
            variances: model.shape().map(|shape| PyArray1::from_slice(py, shape.variances()).unbind()),
            weights: model.shape().and_then(|s| s.weights()).map(|w| PyArray1::from_slice(py, w).unbind()),
            concentration: model.concentration(),
            labels: (!rows.is_empty()).then(|| labels(py, rows).unbind()),
            inertia: report.inertia,
            lower_bound: report.lower_bound,
            converged: report.converged,
            stopped: report.stopped,
            interrupted,
            empty_clusters: report.empty_clusters,
            oversized_clusters: report.oversized_clusters,
            history: history(py, report)?.unbind(),
            evaluations: evaluations.unbind(),
            seconds: seconds.unbind(),
        })
    }
}

/// One array per quantity, one entry per iteration.
fn history<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyDict>> {
    let iterations = &report.iterations;
    let history = PyDict::new(py);
    history.set_item("lower_bound", PyArray1::from_iter(py, iterations.iter().map(|i| i.lower_bound)))?;
    history.set_item("variance", PyArray1::from_iter(py, iterations.iter().map(|i| i.variance)))?;
    history.set_item("seconds", PyArray1::from_iter(py, iterations.iter().map(|i| i.seconds)))?;
    history.set_item("distance_evals", PyArray1::from_iter(py, iterations.iter().map(|i| i.distance_evals as i64)))?;
    history.set_item("rows", PyArray1::from_iter(py, iterations.iter().map(|i| i.rows as i64)))?;
    history.set_item("refine", PyArray1::from_iter(py, iterations.iter().map(|i| i.refine as i64)))?;
    Ok(history)
}

/// The plan of a fit of data of these sizes, and the bytes it needs on top of its input.
#[pyfunction]
pub(crate) fn plan<'py>(
    py: Python<'py>,
    settings: Settings,
    n_rows: usize,
    n_columns: usize,
    itemsize: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let threads = settings.n_threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    let plan = settings.params()?.plan(n_rows, n_columns).map_err(|error| settings.names().raised(error))?;
    let search = match plan.search {
        Search::Exhaustive { .. } => "exhaustive",
        Search::Neighbors { .. } => "neighbors",
        Search::Pointwise { .. } => "pointwise",
        Search::Grouped { .. } => "grouped",
        _ => "other",
    };
    let init = match plan.seeding {
        Seeding::Random => "random",
        Seeding::PlusPlus { trials: 1 } => "k-means++",
        // Greedy k-means++ has no name of its own: "auto" chooses it.
        Seeding::PlusPlus { .. } => "auto",
        Seeding::AfkMc2 { .. } => "afk-mc2",
        Seeding::Hierarchical { .. } => "hierarchical",
        _ => "other",
    };
    let dict = PyDict::new(py);
    dict.set_item("search", search)?;
    dict.set_item("init", init)?;
    dict.set_item("truncation", plan.search.truncation())?;
    dict.set_item("tol", plan.tol)?;
    dict.set_item("step_length", plan.step_length)?;
    dict.set_item("max_iter", plan.max_iter)?;
    dict.set_item("refine", plan.refine)?;
    dict.set_item("bytes", plan.memory(itemsize, threads))?;
    Ok(dict)
}

/// The number of rows of a shard and of the sample if rows are read shard by shard within `memory_limit` bytes.
#[pyfunction]
pub(crate) fn shards_within(
    settings: Settings,
    n_columns: usize,
    itemsize: usize,
    memory_limit: Option<usize>,
) -> PyResult<(Option<usize>, Option<usize>)> {
    let within = settings.params()?.within(memory_limit, n_columns, itemsize);
    let params = within.map_err(|error| settings.names().raised(error))?;
    Ok(params.rows_at_once())
}

/// Fits the system that `settings` names; with `keep` Ctrl-C ends the fit and keeps the current model.
#[pyfunction]
#[pyo3(signature = (x, sample_weight, start, settings, callback, keep=false))]
pub(crate) fn fit<'py>(
    py: Python<'py>,
    x: Rows<'py>,
    sample_weight: Weights<'py>,
    start: Option<Bound<'py, PyAny>>,
    settings: Settings,
    callback: Option<Py<PyAny>>,
    keep: bool,
) -> PyResult<Fitted> {
    let how = How { params: settings.params()?, names: settings.names(), callback: callback.as_ref(), keep };
    by_dtype!(&x, x => fit_as(py, x, &sample_weight, start, how))
}

/// The requested fit and its observer.
struct How<'a> {
    params: Params,
    names: Names,
    callback: Option<&'a Py<PyAny>>,
    keep: bool,
}

fn fit_as<'py, T: Number>(
    py: Python<'py>,
    x: &PyReadonlyArray2<'py, T>,
    weights: &Weights<'py>,
    start: Option<Bound<'py, PyAny>>,
    How { params, names, callback, keep }: How<'_>,
) -> PyResult<Fitted> {
    let start: Option<PyReadonlyArray2<'py, T>> = start.map(|s| s.extract()).transpose()?;
    let (rows, weights) = (x.as_array(), weights.as_ref().map(|w| w.as_array()));
    let start = start.as_ref().map(|s| s.as_array());
    let work = move |observer: &dyn Observer| params.fit_observed(&dataset(rows, weights)?, start, observer);
    let (fit, interrupted) = run_keeping(py, callback, names, keep, work)?;
    Fitted::new(py, &fit.model, fit.labels, &fit.report, interrupted)
}
