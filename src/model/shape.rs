//! Variances and weights of clusters.

use super::score::least_variance;
use crate::error::{Error, Result};
use crate::kernel::Real;
use crate::memory::collected;
use crate::options::Covariance;

/// The variances and weights of clusters that may differ.
///
/// | [`Covariance`] | variances |
/// |---|---|
/// | `Isotropic` | 1: one for all clusters and columns |
/// | `Spherical` | M: one per cluster |
/// | `TiedDiag` | D: one per column |
/// | `Diag` | M x D: one per cluster and column |
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Shape {
    pub(crate) covariance: Covariance,
    pub(crate) variances: Vec<f64>,
    /// pi_c, which sum to 1; `None` if all are 1/M.
    pub(crate) weights: Option<Vec<f64>>,
}

impl Shape {
    /// Checks the variances, which must be finite and positive, and the weights, which must not be negative and must
    /// sum to 1.
    pub(crate) fn new(
        covariance: Covariance,
        variances: &[f64],
        weights: Option<&[f64]>,
        (clusters, dim): (usize, usize),
    ) -> Result<Self> {
        let count = Self::count(covariance, clusters, dim);
        if variances.len() != count {
            let allowed = format!("{count} for {clusters} clusters of {dim} columns");
            return Err(Error::bad("the number of variances", variances.len(), allowed));
        }
        if let Some(bad) = variances.iter().find(|v| !(v.is_finite() && **v > 0.0)) {
            return Err(Error::bad("variance", bad, "finite and positive"));
        }
        if let Some(weights) = weights {
            check_weights(weights, clusters)?;
        }
        let copy = |numbers: &[f64]| collected(numbers.iter().copied(), "variances");
        Ok(Self { covariance, variances: copy(variances)?, weights: weights.map(copy).transpose()? })
    }

    /// The same shape, if `T` supports its variances.
    pub(crate) fn of_type<T: Real>(self) -> Result<Self> {
        let one = self.covariance == Covariance::Isotropic;
        let least = if one && self.weights.is_none() { 0.0 } else { least_variance::<T>() };
        if let Some(v) = self.variances.iter().find(|v| **v < least) {
            return Err(Error::bad("variance", format!("{v:e}"), format!("at least {least:e} for {}", T::NAME)));
        }
        let most = if one && self.weights.is_some() { T::MAX.to_f64() } else { f64::MAX };
        match self.variances.iter().find(|v| **v > most) {
            Some(v) => Err(Error::bad("variance", format!("{v:e}"), format!("at most {most:e} for {}", T::NAME))),
            None => Ok(self),
        }
    }

    /// A copy, or an error if memory runs out.
    pub(crate) fn copied(&self) -> Result<Self> {
        let copy = |numbers: &[f64]| collected(numbers.iter().copied(), "variances");
        let weights = self.weights.as_deref().map(copy).transpose()?;
        Ok(Self { covariance: self.covariance, variances: copy(&self.variances)?, weights })
    }

    /// Number of variances.
    pub(crate) fn count(covariance: Covariance, clusters: usize, dim: usize) -> usize {
        match covariance {
            Covariance::Isotropic => 1,
            Covariance::Spherical => clusters,
            Covariance::TiedDiag => dim,
            Covariance::Diag => clusters * dim,
        }
    }

    /// The kind of covariance, which says which entries are free.
    #[must_use]
    pub fn covariance(&self) -> Covariance {
        self.covariance
    }

    /// The variances, in the order described at the [type](Self).
    #[must_use]
    pub fn variances(&self) -> &[f64] {
        &self.variances
    }

    /// The weights pi_c, which sum to 1; `None` if all are 1/M.
    #[must_use]
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The mean of the variances over columns and, by weight, over clusters.
    pub(crate) fn mean_variance(&self, clusters: usize, dim: usize) -> f64 {
        let weight = |c: usize| self.weights.as_ref().map_or(1.0 / clusters as f64, |w| w[c]);
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        match self.covariance {
            Covariance::Isotropic | Covariance::TiedDiag => mean(&self.variances),
            Covariance::Spherical => self.variances.iter().enumerate().map(|(c, v)| weight(c) * v).sum(),
            Covariance::Diag => self.variances.chunks_exact(dim).enumerate().map(|(c, v)| weight(c) * mean(v)).sum(),
        }
    }
}

/// Refuses weights that do not fit this many clusters.
pub(crate) fn check_weights(weights: &[f64], clusters: usize) -> Result<()> {
    if weights.len() != clusters {
        return Err(Error::bad("the number of weights", weights.len(), format!("that of the clusters, {clusters}")));
    }
    if let Some(bad) = weights.iter().find(|w| !(w.is_finite() && **w >= 0.0)) {
        return Err(Error::bad("weight", bad, "finite and at least 0"));
    }
    let sum: f64 = weights.iter().sum();
    if (sum - 1.0).abs() > 1e-6 {
        return Err(Error::bad("the sum of the weights", sum, "1"));
    }
    Ok(())
}
