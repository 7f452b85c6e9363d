//! The model: M isotropic Gaussians of equal weight and one variance,
//!
//! p(y) = 1/M sum_c (2 pi s2)^(-D/2) exp(-|y - mu_c|^2 / 2 s2),
//!
//! or, with [`Metric::Cosine`], M von Mises-Fisher distributions of equal weight and one concentration 1 / s2, over the
//! directions of rows; or clusters that also differ in variance or weight: see [`Shape`].
//!
//! This module has the parameters and the [scores](score) derived from them; the module `query` has the queries.

pub(crate) mod score;
mod shape;

pub use shape::Shape;
pub(crate) use shape::check_weights;

use crate::data::Dataset;
use crate::data::inverse_length;
use crate::error::{Error, Result};
use crate::kernel::{Buffer, Real};
use crate::memory::{copied, matrix};
use crate::observer::Observer;
use crate::options::{Covariance, Metric};
use crate::parallel::Run;
use ndarray::{Array2, ArrayView2};
use std::borrow::Cow;
use std::fmt;

/// Centers and variance: p(y) = 1/M sum_c (2 pi s2)^(-D/2) exp(-|y - mu_c|^2 / 2 s2). Queries are answered exactly.
///
/// ```
/// use dgmm::{Dataset, Model, Run};
/// let model = Model::new(ndarray::array![[0.0f32, 0.0], [4.0, 0.0]].view(), 1.0)?;
/// let x = ndarray::array![[1.0f32, 0.0], [3.5, 1.0]];
/// let data = Dataset::new(x.view())?;
/// assert_eq!(model.predict(&data, &Run::default())?, [0, 1]);
/// assert_eq!(model.quantization_error(&data, &Run::default())?, 1.0 + 1.25);
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(into = "Arrays<T>", try_from = "Arrays<T>"))]
#[cfg_attr(feature = "serde", serde(bound(serialize = "T: serde::Serialize")))]
#[must_use]
pub struct Model<T: Real> {
    /// M x D, relative to the origin.
    centers: Buffer<T>,
    /// The origin of coordinates; 0 if `None`.
    origin: Option<Vec<T>>,
    dim: usize,
    variance: f64,
    /// Set if clusters also differ in variance or weight; `variance` is then the mean of their variances.
    shape: Option<Box<Shape>>,
    metric: Metric,
    /// Whether the origin is the one derived from the centers alone.
    plain: bool,
}

impl<T: Real> PartialEq for Model<T> {
    fn eq(&self, other: &Self) -> bool {
        let parts = |m: &Self| (m.dim, m.variance, m.origin.clone(), m.metric, m.shape.clone());
        self.local_centers() == other.local_centers() && parts(self) == parts(other)
    }
}

impl<T: Real> fmt::Debug for Model<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut model = f.debug_struct("Model");
        model.field("centers", &self.centers()).field("variance", &self.variance);
        model.field("metric", &self.metric).field("shape", &self.shape).finish()
    }
}

impl<T: Real> Model<T> {
    /// A model with the given centers (M x D, finite) and variance (positive).
    pub fn new(centers: ArrayView2<'_, T>, variance: f64) -> Result<Self> {
        Self::with_metric(centers, variance, Metric::Euclidean)
    }

    /// A model with a metric. With [`Metric::Cosine`] the centers are directions, of any length but 0, and the variance
    /// is one over the concentration.
    ///
    /// ```
    /// use dgmm::{Dataset, Metric, Model, Run};
    /// let model = Model::with_metric(ndarray::array![[2.0f32, 0.0], [0.0, 0.1]].view(), 0.5, Metric::Cosine)?;
    /// let x = ndarray::array![[9.0f32, 1.0], [1.0, 2.0]];
    /// assert_eq!(model.predict(&Dataset::new(x.view())?, &Run::default())?, [0, 1]);
    /// assert_eq!((model.centers()[[0, 0]], model.concentration()), (1.0, Some(2.0)));
    /// # Ok::<(), dgmm::Error>(())
    /// ```
    pub fn with_metric(centers: ArrayView2<'_, T>, variance: f64, metric: Metric) -> Result<Self> {
        Self::new_in(centers, variance, metric, &Run::default())
    }

    /// A model whose clusters also differ in variance or weight: variances as listed in [`Shape`], and weights that sum
    /// to 1 (all equal if `None`).
    ///
    /// ```
    /// use dgmm::{Covariance, Dataset, Model, Run};
    /// let centers = ndarray::array![[0.0f64], [4.0]];
    /// let model = Model::mixture(centers.view(), Covariance::Spherical, &[1.0, 4.0], Some(&[0.25, 0.75]))?;
    /// // 1.9 is nearer to the first center, but more likely in the second cluster.
    /// assert_eq!(model.predict(&Dataset::from_slice(&[1.9], 1)?, &Run::default())?, [1]);
    /// # Ok::<(), dgmm::Error>(())
    /// ```
    pub fn mixture(
        centers: ArrayView2<'_, T>,
        covariance: Covariance,
        variances: &[f64],
        weights: Option<&[f64]>,
    ) -> Result<Self> {
        Self::mixture_in(centers, covariance, variances, weights, &Run::default())
    }

    /// [`mixture`](Self::mixture) in the thread pool that `run` specifies.
    #[doc(hidden)]
    pub fn mixture_in(
        centers: ArrayView2<'_, T>,
        covariance: Covariance,
        variances: &[f64],
        weights: Option<&[f64]>,
        run: &Run<'_>,
    ) -> Result<Self> {
        let shape = Shape::new(covariance, variances, weights, centers.dim())?.of_type::<T>()?;
        let mut model =
            Self::new_in(centers, shape.mean_variance(centers.nrows(), centers.ncols()), Metric::Euclidean, run)?;
        if covariance != Covariance::Isotropic || weights.is_some() {
            model.set_shape(shape);
        }
        Ok(model)
    }

    /// [`with_metric`](Self::with_metric) in the thread pool that `run` specifies.
    #[doc(hidden)]
    pub fn new_in(centers: ArrayView2<'_, T>, variance: f64, metric: Metric, run: &Run<'_>) -> Result<Self> {
        if !(variance.is_finite() && variance > 0.0) {
            let allowed = "finite and positive".into();
            return Err(Error::BadParameter { name: "variance", value: variance.to_string(), allowed });
        }
        if metric == Metric::Cosine {
            return Ok(Self { plain: true, ..Self::from_origin(centers, None, variance)?.of_directions()? });
        }
        let moments = run.install(|| Dataset::new(centers)?.moments(run.observer))?;
        Ok(Self { plain: true, ..Self::from_origin(centers, moments.origin(), variance)? })
    }

    /// The model built from these centers without knowledge of a fit. All queries go to it, so that a fit, its model
    /// and a saved model give the same label even if clusters are equally near up to rounding. Must run inside a pool.
    pub(crate) fn plain(&self, observer: &dyn Observer) -> Result<Cow<'_, Self>> {
        if self.plain {
            return Ok(Cow::Borrowed(self));
        }
        let mut centers = copied(&self.centers, "centers")?;
        if let Some(origin) = &self.origin {
            centers.iter_mut().zip(origin.iter().cycle()).for_each(|(x, &o)| *x += o);
        }
        let centers = matrix(centers, self.dim);
        let mut model = Self::new_in(centers.view(), self.variance, self.metric, &Run { threads: None, observer })?;
        model.shape = self.shape.as_ref().map(|shape| shape.copied().map(Box::new)).transpose()?;
        Ok(Cow::Owned(model))
    }

    /// The model with the same centers, as directions.
    pub(crate) fn of_directions(mut self) -> Result<Self> {
        for (c, center) in self.centers.chunks_exact_mut(self.dim).enumerate() {
            let factor = inverse_length(center);
            if !factor.is_finite() {
                let value = format!("without a direction in row {c}");
                return Err(Error::bad(
                    "start",
                    value,
                    "finite and not all zeros in each row where metric is 'cosine'",
                ));
            }
            // Keep vectors that are unit vectors up to rounding.
            if (factor - 1.0).abs() > 4.0 * T::EPSILON.to_f64() {
                center.iter_mut().for_each(|x| *x = T::from_f64(x.to_f64() * factor));
            }
        }
        Ok(Self { metric: Metric::Cosine, ..self })
    }

    /// The model with the same centers for a metric.
    pub(crate) fn for_metric(self, metric: Metric) -> Result<Self> {
        if metric == Metric::Cosine { self.of_directions() } else { Ok(self) }
    }

    /// A model with coordinates relative to the given origin.
    pub(crate) fn from_origin(centers: ArrayView2<'_, T>, origin: Option<Vec<T>>, variance: f64) -> Result<Self> {
        let dim = centers.ncols();
        let mut local = Buffer::of(centers.as_standard_layout().as_slice().expect("it is in order"))?;
        if let Some(origin) = &origin {
            for center in local.chunks_exact_mut(dim) {
                center.iter_mut().zip(origin).for_each(|(x, &o)| *x -= o);
            }
        }
        Ok(Self { centers: local, origin, dim, variance, metric: Metric::Euclidean, shape: None, plain: false })
    }

    /// A copy, or an error if memory runs out.
    pub(crate) fn copied(&self) -> Result<Self> {
        let origin = self.origin.clone();
        let shape = self.shape.as_ref().map(|shape| shape.copied().map(Box::new)).transpose()?;
        Ok(Self { centers: Buffer::of(&self.centers)?, origin, shape, ..*self })
    }

    /// A model from centers that are already relative to the origin.
    pub(crate) fn of_local(
        centers: ArrayView2<'_, T>,
        origin: Option<Vec<T>>,
        variance: f64,
        metric: Metric,
    ) -> Result<Self> {
        Ok(Self { origin, metric, ..Self::from_origin(centers, None, variance)? })
    }

    /// Rounds the centers to the values that [`centers`](Self::centers) returns. Returns whether that changed any.
    pub(crate) fn round_centers(&mut self) -> bool {
        let Some(origin) = &self.origin else { return false };
        let mut changed = false;
        self.plain = false;
        for center in self.centers.chunks_exact_mut(self.dim) {
            for (x, &o) in center.iter_mut().zip(origin) {
                let rounded = (*x + o) - o;
                changed |= rounded != *x;
                *x = rounded;
            }
        }
        changed
    }

    /// Copies `other`, which has the same shape and origin.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.centers.copy_from_slice(&other.centers);
        self.plain = other.plain;
        self.variance = other.variance;
        self.shape.clone_from(&other.shape);
    }

    pub(crate) fn local_centers(&self) -> &[T] {
        &self.centers
    }

    pub(crate) fn local_centers_mut(&mut self) -> &mut [T] {
        self.plain = false;
        &mut self.centers
    }

    pub(crate) fn origin(&self) -> Option<&[T]> {
        self.origin.as_deref()
    }

    /// The centers, M x D.
    #[must_use]
    pub fn centers(&self) -> Array2<T> {
        let zero = vec![T::ZERO; self.dim];
        let origin = self.origin().unwrap_or(&zero);
        Array2::from_shape_fn((self.clusters(), self.dim), |(c, d)| self.centers[c * self.dim + d] + origin[d])
    }

    /// Number of clusters M.
    #[must_use]
    pub fn clusters(&self) -> usize {
        self.centers.len() / self.dim
    }

    /// Number of columns D.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// The shared variance s2.
    #[must_use]
    pub fn variance(&self) -> f64 {
        self.variance
    }

    /// The metric that compares rows and centers.
    #[must_use]
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The shared concentration of von Mises-Fisher clusters, one over the variance; `None` for Gaussians.
    #[must_use]
    pub fn concentration(&self) -> Option<f64> {
        (self.metric == Metric::Cosine).then(|| 1.0 / self.variance)
    }

    pub(crate) fn set_variance(&mut self, variance: f64) {
        self.variance = variance;
        if let Some(shape) = self.shape.as_mut().filter(|shape| shape.covariance == Covariance::Isotropic) {
            shape.variances[0] = variance;
        }
    }

    /// The variances and weights of the clusters, if they differ.
    #[must_use]
    pub fn shape(&self) -> Option<&Shape> {
        self.shape.as_deref()
    }

    pub(crate) fn set_shape(&mut self, shape: Shape) {
        self.variance = shape.mean_variance(self.clusters(), self.dim);
        self.shape = Some(Box::new(shape));
    }
}

/// Serialized form of a model.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(bound(serialize = "T: Clone + serde::Serialize"))]
struct Arrays<T> {
    centers: Array2<T>,
    variance: f64,
    origin: Option<Vec<T>>,
    shape: Option<Shape>,
    #[serde(default = "euclidean")]
    metric: Metric,
}

/// The metric of models saved before there was a choice.
#[cfg(feature = "serde")]
fn euclidean() -> Metric {
    Metric::Euclidean
}

#[cfg(feature = "serde")]
impl<T: Real> From<Model<T>> for Arrays<T> {
    fn from(model: Model<T>) -> Self {
        let (centers, shape) = (model.centers(), model.shape.map(|shape| *shape));
        Self { centers, variance: model.variance, metric: model.metric, origin: model.origin, shape }
    }
}

#[cfg(feature = "serde")]
impl<T: Real> TryFrom<Arrays<T>> for Model<T> {
    type Error = Error;

    fn try_from(Arrays { centers, variance, origin, metric, shape }: Arrays<T>) -> Result<Self> {
        let checked = Self::with_metric(centers.view(), variance, metric)?;
        let mut model = match origin {
            None => checked,
            Some(_) if metric == Metric::Cosine => checked,
            Some(origin) if origin.len() == checked.dim && origin.iter().all(|x| x.is_finite()) => {
                Self::from_origin(centers.view(), Some(origin), variance)?
            }
            Some(origin) => {
                let allowed = format!("one finite number for each of {} columns", checked.dim);
                return Err(Error::bad("origin", format!("{} long", origin.len()), allowed));
            }
        };
        if let Some(Shape { covariance, variances, weights }) = shape {
            model.set_shape(Shape::new(covariance, &variances, weights.as_deref(), centers.dim())?.of_type::<T>()?);
        }
        Ok(model)
    }
}
