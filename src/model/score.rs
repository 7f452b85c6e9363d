//! The score by which rows choose among clusters; computing it costs no more than a squared distance.
//!
//! With weights pi_c and a diagonal covariance with variances v_cd, the joint log-density of row y and cluster c is
//!
//! log p(y, c) = log pi_c - 1/2 sum_d log(2 pi v_cd) - 1/2 sum_d (y_d - mu_cd)^2 / v_cd.
//!
//! Up to terms that all clusters share, this is -1/2 of a squared distance with an offset,
//!
//! delta_c(y) = sum_d p_cd (y_d - mu_cd)^2 + beta_c,    p_cd = 1 / v_cd,    beta_c = sum_d log v_cd - 2 log pi_c - base,
//!
//! where `base` makes the smallest beta 0, so that delta, like a distance, is at least 0. With one variance s2 for all
//! clusters, p is 1, distances are in units of 2 s2, and beta_c = -2 s2 (log pi_c - max log pi). Wherever the method
//! refers to the distance of a cluster, delta takes its place: see the [proof](crate#why-f-never-falls).
//!
//! The dense kernel computes delta like distances, with one product per cluster: [lifted](Lift) rows have extra
//! columns, y^2 or |y|^2, which are multiplied by -p/2. Offsets are added to the squared norms of the centers.

use super::Model;
use crate::error::Result;
use crate::kernel::{Buffer, Centers, Real};
use crate::memory::{collected, filled, reserve};
use crate::options::{Covariance, Metric};
use crate::von_mises_fisher::log_peak;

/// The extra columns that the dense kernel needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lift {
    /// |y|^2, if each cluster has one variance.
    Norm,
    /// The square of each column.
    Squares,
}

impl Lift {
    /// Number of extra columns.
    pub fn columns(self, dim: usize) -> usize {
        match self {
            Self::Norm => 1,
            Self::Squares => dim,
        }
    }

    /// Appends the lifted `rows` of `dim` columns to `out` (OUT).
    pub fn rows<T: Real>(self, rows: &[T], dim: usize, out: &mut Vec<T>) {
        for row in rows.chunks_exact(dim) {
            out.extend_from_slice(row);
            match self {
                Self::Norm => out.push(row.iter().map(|&x| x * x).sum()),
                Self::Squares => out.extend(row.iter().map(|&x| x * x)),
            }
        }
    }

    /// The extra columns for a covariance; `None` if it is isotropic.
    pub fn of(covariance: Covariance) -> Option<Self> {
        match covariance {
            Covariance::Isotropic => None,
            Covariance::Spherical => Some(Self::Norm),
            Covariance::TiedDiag | Covariance::Diag => Some(Self::Squares),
        }
    }
}

/// The precisions p, one over the variances.
#[derive(Debug, Clone)]
enum Precisions<T> {
    /// 1; distances are in units of the shared variance instead.
    One,
    /// One per cluster.
    Cluster(Vec<T>),
    /// One per column.
    Column(Vec<T>),
    /// One per cluster and column.
    Each(Vec<T>),
}

/// The parameters of the scores of a model's clusters. See the [module](self).
#[derive(Debug, Clone)]
pub(crate) struct Scores<T> {
    precisions: Precisions<T>,
    /// beta; empty if all are 0.
    offsets: Vec<T>,
    /// Half the unit of scores: s2, or 1.
    pub variance: f64,
    /// log p(y) = constant + log sum_c exp(-delta_c / 2 variance).
    pub constant: f64,
    /// Whether clusters are Gaussians that differ only in their centers.
    alike: bool,
}

/// The smallest variance of a cluster that `T` supports: a squared distance divided by it must be finite.
pub(crate) fn least_variance<T: Real>() -> f64 {
    4.0 * T::MIN_POSITIVE.to_f64()
}

/// The largest s2 allowed if clusters have weights: offsets, which are in units of s2, must be finite.
pub(crate) fn most_variance<T: Real>() -> f64 {
    T::MAX.to_f64() / 4096.0
}

/// D/2 log(2 pi s2): minus the log-density of an isotropic Gaussian at its mean.
pub(crate) fn log_normalizer(dim: usize, variance: f64) -> f64 {
    0.5 * dim as f64 * (2.0 * std::f64::consts::PI * variance).ln()
}

/// Minus the log-density of a cluster at its center, for a model of equal clusters.
pub(crate) fn normalizer_of<T: Real>(model: &Model<T>) -> f64 {
    match model.metric() {
        Metric::Euclidean => log_normalizer(model.dim(), model.variance()),
        Metric::Cosine => -log_peak(model.dim(), 1.0 / model.variance()),
    }
}

impl<T: Real> Scores<T> {
    /// The scores of a model.
    pub fn of(model: &Model<T>) -> Result<Self> {
        let (clusters, dim) = (model.clusters(), model.dim());
        let equal = -(clusters as f64).ln();
        let Some(shape) = model.shape() else {
            let (variance, constant) = (model.variance(), equal - normalizer_of(model));
            let alike = model.metric() == Metric::Euclidean;
            return Ok(Self { precisions: Precisions::One, offsets: Vec::new(), variance, constant, alike });
        };
        let narrow = |v: &f64| T::from_f64(1.0 / v);
        let precisions = collected(shape.variances.iter().map(narrow), "precisions")?;
        let (precisions, variance) = match shape.covariance {
            Covariance::Isotropic => (Precisions::One, model.variance()),
            Covariance::Spherical => (Precisions::Cluster(precisions), 1.0),
            Covariance::TiedDiag => (Precisions::Column(precisions), 1.0),
            Covariance::Diag => (Precisions::Each(precisions), 1.0),
        };
        // log pi_c - 1/2 sum_d log(2 pi v_cd); the largest is the constant.
        let heights = (0..clusters).map(|c| {
            let log_weight = shape.weights.as_ref().map_or(equal, |w| w[c].max(f64::MIN_POSITIVE).ln());
            let normalizer = match shape.covariance {
                Covariance::Isotropic => log_normalizer(dim, model.variance()),
                Covariance::Spherical => log_normalizer(dim, shape.variances[c]),
                Covariance::TiedDiag => shape.variances.iter().map(|&v| log_normalizer(1, v)).sum(),
                Covariance::Diag => shape.variances[c * dim..][..dim].iter().map(|&v| log_normalizer(1, v)).sum(),
            };
            log_weight - normalizer
        });
        let heights = collected(heights, "offsets")?;
        let constant = heights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // A distance is added to the offset.
        let most = 0.25 * T::MAX.to_f64();
        let offset = |height: &f64| T::from_f64((2.0 * variance * (constant - height)).min(most));
        let offsets = collected(heights.iter().map(offset), "offsets")?;
        Ok(Self { precisions, offsets, variance, constant, alike: false })
    }

    /// What is added to the squared distance from cluster `c`.
    #[inline]
    pub fn offset(&self, c: u32) -> T {
        self.offsets.get(c as usize).copied().unwrap_or(T::ZERO)
    }

    /// s2, if the clusters are Gaussians that differ only in their centers.
    pub fn shared_variance(&self) -> Option<f64> {
        self.alike.then_some(self.variance)
    }

    /// Whether some offset may be nonzero.
    pub fn has_offsets(&self) -> bool {
        !self.offsets.is_empty()
    }

    /// The largest precision of any cluster in each of `dim` columns.
    pub fn largest_precisions(&self, dim: usize) -> Result<Vec<T>> {
        let mut largest = filled(T::ONE, dim, "precisions")?;
        match &self.precisions {
            Precisions::One => (),
            Precisions::Cluster(each) => largest.fill(each.iter().fold(T::ZERO, |a, &b| a.max(b))),
            Precisions::Column(each) | Precisions::Each(each) => {
                largest.fill(T::ZERO);
                each.chunks_exact(dim).for_each(|own| largest.iter_mut().zip(own).for_each(|(x, &p)| *x = x.max(p)));
            }
        }
        Ok(largest)
    }

    /// The columns that rows are lifted by; `None` if scores are plain distances with offsets.
    pub fn lift(&self) -> Option<Lift> {
        match self.precisions {
            Precisions::One => None,
            Precisions::Cluster(_) => Some(Lift::Norm),
            Precisions::Column(_) | Precisions::Each(_) => Some(Lift::Squares),
        }
    }

    /// The scores of clusters `ids` for a row, by differences (OUT). Both are relative to the same origin; `centers` is
    /// M x D.
    pub fn measure(&self, row: &[T], centers: &[T], ids: &[u32], out: &mut [T]) {
        let precisions = match &self.precisions {
            Precisions::One | Precisions::Cluster(_) => {
                T::gathered_distances(row, centers, ids, out);
                if let Precisions::Cluster(precisions) = &self.precisions {
                    out.iter_mut().zip(ids).for_each(|(x, &c)| *x = *x * precisions[c as usize]);
                }
                return self.add_offsets(ids, out);
            }
            Precisions::Column(precisions) | Precisions::Each(precisions) => precisions,
        };
        T::weighted_distances(row, centers, precisions, ids, out);
        self.add_offsets(ids, out);
    }

    fn add_offsets(&self, ids: &[u32], out: &mut [T]) {
        if self.has_offsets() {
            out.iter_mut().zip(ids).for_each(|(x, &c)| *x += self.offsets[c as usize]);
        }
    }

    /// The factors of lifted rows for clusters `ids`, relative to `point` (in the coordinates of the `centers`, M x D),
    /// and what is added to the products (OUT).
    pub fn lift_centers(
        &self,
        lift: Option<Lift>,
        centers: &[T],
        dim: usize,
        ids: impl ExactSizeIterator<Item = u32>,
        point: Option<&[T]>,
        (values, norms): (&mut Buffer<T>, &mut Vec<T>),
    ) {
        let Some(lift) = lift else { return };
        let (width, one) = (dim + lift.columns(dim), [T::ONE]);
        values.resize(ids.len() * width);
        norms.clear();
        for (c, out) in ids.zip(values.chunks_exact_mut(width)) {
            let own = &centers[c as usize * dim..][..dim];
            let (products, squares) = out.split_at_mut(dim);
            match point {
                Some(point) => products.iter_mut().zip(own).zip(point).for_each(|((x, &mu), &p)| *x = mu - p),
                None => products.copy_from_slice(own),
            }
            let c_at = c as usize;
            let precisions = match &self.precisions {
                Precisions::One => &one,
                Precisions::Cluster(precisions) => &precisions[c_at..=c_at],
                Precisions::Column(precisions) => precisions,
                Precisions::Each(precisions) => &precisions[c_at * dim..][..dim],
            };
            let norm = T::weigh(products, squares, precisions);
            norms.push(T::from_f64(norm + self.offset(c).to_f64()));
        }
    }
}

/// All clusters of a model in the form for the dense kernel.
#[derive(Debug)]
pub(crate) struct ScoredCenters<'a, T: Real> {
    model: &'a Model<T>,
    pub scores: &'a Scores<T>,
    lift: Option<Lift>,
    lifted: Buffer<T>,
    norms: Vec<T>,
}

impl<'a, T: Real> ScoredCenters<'a, T> {
    pub fn new(model: &'a Model<T>, scores: &'a Scores<T>) -> Result<Self> {
        Self::lifted(model, scores, scores.lift())
    }

    /// The clusters for rows lifted by `lift`, even if their scores would not require it.
    pub fn lifted(model: &'a Model<T>, scores: &'a Scores<T>, lift: Option<Lift>) -> Result<Self> {
        let (mut lifted, mut norms) = (Buffer::default(), Vec::new());
        let (all, dim) = (0..model.clusters() as u32, model.dim());
        if let Some(lift) = lift {
            lifted.try_resize(model.clusters() * (dim + lift.columns(dim)))?;
            reserve(&mut norms, model.clusters(), "norms")?;
        }
        scores.lift_centers(lift, model.local_centers(), dim, all, None, (&mut lifted, &mut norms));
        Ok(Self { model, scores, lift, lifted, norms })
    }

    /// The factors of rows, or of lifted rows.
    pub fn centers(&self) -> Centers<'_, T> {
        let (dim, scores) = (self.model.dim(), self.scores);
        match self.lift {
            None => Centers::with_offsets(self.model.local_centers(), dim, &scores.offsets),
            Some(lift) => Centers::of(&self.lifted, dim + lift.columns(dim), self.norms.clone()),
        }
    }
}
