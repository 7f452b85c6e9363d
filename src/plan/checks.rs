//! Checks of the parameters, on their own and against the data.

use super::params::{Params, System};
use crate::data::coreset::check_coreset_size;
use crate::error::{Error, Result, at_least_one};
use crate::kernel::Real;
use crate::memory::{collected, filled};
use crate::model::{Shape, check_weights};
use crate::options::{Engine, Metric, SimilarityKind, Weights};
use crate::seeding::check_chain_length;
use crate::step::Search;
use ndarray::ArrayView2;

impl Params {
    /// Checks each parameter on its own and against the data, in which `rows` rows have positive weight.
    pub(crate) fn check(&self, all_rows: usize, rows: usize) -> Result<()> {
        at_least_one("clusters", self.clusters)?;
        self.check_used()?;
        for (name, value) in [
            ("truncation", self.truncation),
            ("proposals", self.proposals),
            ("shard_rows", self.shard_rows),
            ("sample_rows", self.sample_rows),
        ] {
            value.map_or(Ok(()), |v| at_least_one(name, v))?;
        }
        at_least_one("neighbors", self.neighbors)?;
        check_chain_length(self.chain_length)?;
        at_least_one("max_iter", self.max_iter)?;
        at_least_one("n_init", self.n_init)?;
        self.coreset_size.map_or(Ok(()), |v| check_coreset_size(v, all_rows))?;
        if let Some(sampled) = self.sample_rows.filter(|sampled| *sampled < self.clusters) {
            return Err(Error::bad("sample_rows", sampled, format!("at least clusters = {}", self.clusters)));
        }
        if let Some(size) = self.max_size.filter(|size| !(size.is_finite() && *size >= 1.0)) {
            return Err(Error::bad("max_size", size, "finite and at least 1"));
        }
        if let Some(size) = self.max_size.filter(|_| self.metric == Metric::Cosine) {
            return Err(Error::bad("max_size", size, "unset if metric is 'cosine'"));
        }
        if let Some(tol) = self.tol.filter(|tol| !(tol.is_finite() && *tol >= 0.0)) {
            return Err(Error::bad("tol", tol, "finite and at least 0"));
        }
        if !(self.reg_covar.is_finite() && self.reg_covar >= 0.0) {
            return Err(Error::bad("reg_covar", self.reg_covar, "finite and at least 0"));
        }
        if let Some(length) = self.step_length.filter(|length| !(*length > 0.0 && *length < 2.0)) {
            return Err(Error::bad("step_length", length, "above 0 and below 2"));
        }
        // A row must know its second-nearest cluster.
        let alone = self.truncation == Some(1) && !matches!(self.search(), Search::Exhaustive { .. });
        if let Some(refine) = self.refine.filter(|&refine| refine > 0 && alone && self.clusters > 1) {
            return Err(Error::bad("refine", refine, "0 if truncation is 1"));
        }
        if self.clusters > rows {
            return Err(Error::TooManyClusters { clusters: self.clusters, rows });
        }
        if let Some(size) = self.coreset_size.filter(|size| *size < self.clusters) {
            return Err(Error::bad("coreset_size", size, format!("at least clusters = {}", self.clusters)));
        }
        if u32::try_from(self.clusters).is_err() {
            return Err(Error::bad("clusters", self.clusters, "below 2^32"));
        }
        if self.engine == Engine::Grouped && self.similarity != SimilarityKind::Cooccurrence {
            let allowed = format!("'auto' or 'pointwise' if similarity is '{}'", self.similarity.name());
            return Err(Error::bad("engine", "'grouped'", allowed));
        }
        if let Some(truncation) = self.truncation.filter(|truncation| *truncation > self.clusters) {
            return Err(Error::TruncationTooLarge { truncation, clusters: self.clusters });
        }
        Ok(())
    }

    /// Refuses settings that need the rows in memory.
    pub(crate) fn check_sharded(&self) -> Result<()> {
        if let Some(size) = self.coreset_size {
            let allowed = "unset if rows are read shard by shard: draw a coreset first";
            return Err(Error::bad("coreset_size", size, allowed));
        }
        if let Some(size) = self.max_size {
            return Err(Error::bad("max_size", size, "unset if rows are read shard by shard"));
        }
        if self.n_init != 1 {
            return Err(Error::bad("n_init", self.n_init, "1 if rows are read shard by shard"));
        }
        Ok(())
    }

    /// Refuses settings that do not apply to a stream of batches.
    pub(crate) fn check_stream(&self) -> Result<()> {
        let allowed = "if a model learns from batches";
        if let Some(size) = self.max_size {
            return Err(Error::bad("max_size", size, format!("unset {allowed}")));
        }
        if let Some(refine) = self.refine.filter(|&refine| refine > 0) {
            return Err(Error::bad("refine", refine, format!("0 {allowed}")));
        }
        Ok(())
    }

    /// Checks initial centers, for data with `dim` columns.
    pub(crate) fn check_start<T: Real>(&self, start: &ArrayView2<'_, T>, dim: usize) -> Result<()> {
        let (rows, columns) = start.dim();
        if (rows, columns) != (self.clusters, dim) {
            return Err(Error::BadInitShape { rows, columns, clusters: self.clusters, dim });
        }
        if let Some(((row, column), value)) = start.indexed_iter().find(|(_, x)| !x.is_finite()) {
            return Err(Error::bad("start", value, format!("finite (row {row}, column {column})")));
        }
        self.start_weights.as_ref().map_or(Ok(()), |weights| check_weights(weights, self.clusters))?;
        if let Some(variances) = &self.start_variances {
            Shape::new(self.covariance, variances, None, (self.clusters, dim))?;
        }
        Ok(())
    }

    /// Refuses initial variances and weights without initial centers.
    pub(crate) fn check_no_start(&self) -> Result<()> {
        for (name, given) in [("start_weights", &self.start_weights), ("start_variances", &self.start_variances)] {
            if let Some(given) = given {
                let allowed = "unset without initial centers";
                return Err(Error::bad(name, format!("{} numbers", given.len()), allowed));
            }
        }
        Ok(())
    }

    /// The initial variances and weights, for data with variance `of_data`; `None` if none were given. As in the
    /// M-step, no variance is below `least` or above `most`.
    pub(crate) fn start_shape(&self, dim: usize, of_data: f64, (least, most): (f64, f64)) -> Result<Option<Shape>> {
        if !self.shaped() || (self.start_weights.is_none() && self.start_variances.is_none()) {
            return Ok(None);
        }
        let count = Shape::count(self.covariance, self.clusters, dim);
        let variances = match &self.start_variances {
            Some(given) => collected(given.iter().map(|v| v.clamp(least, most)), "variances")?,
            None => filled(of_data.clamp(least, most), count, "variances")?,
        };
        let weights = (self.weights == Weights::Learned).then_some(self.start_weights.as_deref()).flatten();
        Shape::new(self.covariance, &variances, weights, (self.clusters, dim)).map(Some)
    }

    /// Refuses settings that the system does not have, unless they have their default values.
    fn check_used(&self) -> Result<()> {
        let mixture = self.system == System::GaussianMixture;
        let (dgmm, vcgmm) = (self.system == System::Dgmm || mixture, self.system == System::VcGmm);
        let fresh = Self::new(self.system, self.clusters);
        let number = |set: Option<usize>| set.map(|value| value.to_string());
        let engine = (self.engine != fresh.engine).then(|| format!("'{}'", self.engine.name()));
        let similarity = (self.similarity != fresh.similarity).then(|| format!("'{}'", self.similarity.name()));
        let neighbors = (self.neighbors != fresh.neighbors).then_some(self.neighbors);
        let random = (self.random_neighbor != fresh.random_neighbor).then(|| self.random_neighbor.to_string());
        let covariance = (self.covariance != fresh.covariance).then(|| format!("'{}'", self.covariance.name()));
        let metric = (self.metric != fresh.metric).then(|| format!("'{}'", self.metric.name()));
        let weights = (self.weights != fresh.weights).then(|| format!("'{}'", self.weights.name()));
        let reg_covar = (self.reg_covar != fresh.reg_covar).then(|| self.reg_covar.to_string());
        let count = |given: &Option<Vec<f64>>| given.as_ref().map(|given| format!("{} numbers", given.len()));
        for (name, has, set, whose) in [
            ("truncation", dgmm || vcgmm, number(self.truncation), "Dgmm, GaussianMixture and VcGmm have"),
            ("proposals", dgmm, number(self.proposals), "Dgmm and GaussianMixture have"),
            ("engine", dgmm, engine, "Dgmm and GaussianMixture have"),
            ("similarity", dgmm, similarity, "Dgmm and GaussianMixture have"),
            ("metric", !mixture, metric, "Dgmm, VcGmm, ExactGmm and KMeans have"),
            ("covariance_type", mixture, covariance, "GaussianMixture has"),
            ("weights", mixture, weights, "GaussianMixture has"),
            ("reg_covar", mixture, reg_covar, "GaussianMixture has"),
            ("start_weights", mixture, count(&self.start_weights), "GaussianMixture has"),
            ("start_variances", mixture, count(&self.start_variances), "GaussianMixture has"),
            ("max_size", self.balances(), self.max_size.map(|size| size.to_string()), "Dgmm and KMeans have"),
            ("refine", !mixture, number(self.refine), "Dgmm, VcGmm, ExactGmm and KMeans have"),
            ("neighbors", vcgmm, number(neighbors), "VcGmm has"),
            ("random_neighbor", vcgmm, random, "VcGmm has"),
        ] {
            if let Some(value) = set.filter(|_| !has) {
                return Err(Error::bad(name, value, format!("unset: only {whose} it")));
            }
        }
        Ok(())
    }
}
