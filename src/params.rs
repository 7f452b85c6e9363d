//! What a fit is asked to do: a builder, [`Params`], and its validated form, which only [`Params::check`] makes.

use crate::canonical;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::fit::Fit;
use crate::observer::{Observer, Silent};
use crate::real::Real;
use ndarray::ArrayView2;
use std::str::FromStr;

/// An option that has a name in Python: reads it, and says what is allowed if it is none of them.
macro_rules! named {
    ($(#[$doc:meta])* $kind:ident, $argument:literal, { $($(#[$vdoc:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $kind { $($(#[$vdoc])* $variant),+ }

        impl $kind {
            /// The name in Python.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl FromStr for $kind {
            type Err = Error;
            fn from_str(s: &str) -> Result<Self> {
                match s {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(Error::BadParameter {
                        name: $argument,
                        value: format!("{s:?}"),
                        allowed: concat!("one of", $(" '", $name, "'"),+).into(),
                    }),
                }
            }
        }
    };
}

named!(
    /// How the E-step of D-GMM is organized.
    Engine, "engine", {
        /// Whichever is fastest for the sizes at hand.
        Auto = "auto",
        /// The paper's: every point draws its own R clusters.
        Pointwise = "pointwise",
        /// The points of a cluster share their proposals.
        Grouped = "grouped",
    }
);
named!(
    /// What a point adds to S_ij when both i and j are in its K(n).
    SimilarityKind, "similarity", {
        /// 1.
        Cooccurrence = "cooccurrence",
        /// q_i q_j.
        Posterior = "posterior",
        /// exp(-(d_i + d_j)), the paper's, shifted by the row's smallest exponent.
        Kernel = "kernel",
        /// Nothing: proposals are uniform.
        Uniform = "uniform",
    }
);
named!(
    /// How the first centers are chosen.
    Init, "init", {
        /// Two levels of AFK-MC2 from 200 clusters on; below that greedy k-means++ for small data, else AFK-MC2.
        Auto = "auto",
        /// AFK-MC2 (Bachem et al., 2016).
        AfkMc2 = "afk-mc2",
        /// Coarse cells first, AFK-MC2 inside them.
        Hierarchical = "hierarchical",
        /// k-means++ (Arthur and Vassilvitskii, 2007).
        KMeansPlusPlus = "k-means++",
        /// Distinct rows, at random.
        Random = "random",
    }
);
named!(
    /// What must fall below `tol` for the fit to stop.
    Stop, "stop", {
        /// The rise of F divided by D: half the relative change of s2, free of units.
        PerDim = "per_dim",
        /// The rise of F relative to |F|: the paper's.
        Relative = "relative",
    }
);

/// Which of the four systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum System {
    KMeans,
    ExactGmm,
    VcGmm,
    Dgmm,
}

macro_rules! system {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl $name {
            /// Parameters for `clusters` clusters, with the defaults.
            pub fn params(clusters: usize) -> Params {
                Params::new(System::$name, clusters)
            }
        }
    };
}
system!(
    /// D-GMM: each point looks at K(n) and a few clusters drawn from the similarity's rows.
    Dgmm
);
system!(
    /// vc-GMM: each point looks at the neighbors of the clusters in K(n).
    VcGmm
);
system!(
    /// Exact EM for the isotropic mixture: each point looks at all clusters.
    ExactGmm
);
system!(
    /// k-means (Lloyd): each point looks at all clusters and belongs to the nearest.
    KMeans
);

/// What to do, as said by the caller and not yet checked. Made by [`Dgmm::params`] and its siblings.
///
/// A setting that the system does not have, such as `neighbors` of [`Dgmm`], is an error of [`fit`](Self::fit): it would have
/// no effect.
///
/// ```
/// use dgmm::{Dataset, Dgmm};
/// let x = ndarray::Array2::from_shape_fn((500, 2), |(n, d)| ((n % 10) * (d + 1)) as f64 + (n % 7) as f64 * 0.01);
/// let fit = Dgmm::params(10).truncation(3).proposals(4).seed(7).fit(&Dataset::new(x.view())?)?;
/// assert_eq!(fit.labels.len(), 500);
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Params {
    system: System,
    clusters: usize,
    truncation: Option<usize>,
    proposals: Option<usize>,
    engine: Engine,
    similarity: SimilarityKind,
    neighbors: usize,
    random_neighbor: bool,
    init: Init,
    chain_length: usize,
    coreset_size: Option<usize>,
    max_iter: usize,
    tol: Option<f64>,
    step_length: Option<f64>,
    stop: Stop,
    n_init: usize,
    seed: u64,
    threads: Option<usize>,
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty),+ $(,)?) => {
        $($(#[$doc])*
        pub fn $name(mut self, $name: $kind) -> Self {
            self.$name = $name;
            self
        })+
    };
}

impl Params {
    fn new(system: System, clusters: usize) -> Self {
        Self {
            system,
            clusters,
            truncation: None,
            proposals: None,
            engine: Engine::Auto,
            similarity: SimilarityKind::Cooccurrence,
            neighbors: 5,
            random_neighbor: true,
            init: Init::Auto,
            chain_length: 5,
            coreset_size: None,
            // K-means has scikit-learn's, because its tolerance is as small.
            max_iter: if system == System::KMeans { 300 } else { 100 },
            tol: None,
            step_length: None,
            stop: Stop::PerDim,
            n_init: 1,
            seed: 0,
            threads: None,
        }
    }

    setters! {
        /// How the E-step is organized (D-GMM).
        engine: Engine,
        /// The weighting of S (D-GMM).
        similarity: SimilarityKind,
        /// G, the neighbors a cluster has, itself included (vc-GMM).
        neighbors: usize,
        /// Whether a point also tries one uniformly drawn cluster (vc-GMM).
        random_neighbor: bool,
        /// How the first centers are chosen.
        init: Init,
        /// m, the length of AFK-MC2's chains.
        chain_length: usize,
        /// The most iterations: 100, for k-means 300, where nobody says otherwise.
        max_iter: usize,
        /// What `tol` is compared with.
        stop: Stop,
        /// Runs from different starts, of which the one with the highest F is kept.
        n_init: usize,
        /// The seed that everything random follows from.
        seed: u64,
    }

    /// H, the number of clusters a point keeps (D-GMM and vc-GMM); `None`: 5, or M where that is less.
    pub fn truncation(mut self, truncation: impl Into<Option<usize>>) -> Self {
        self.truncation = truncation.into();
        self
    }

    /// R, the number of clusters a point (or a group of points) tries (D-GMM); `None`: chosen by the engine.
    pub fn proposals(mut self, proposals: impl Into<Option<usize>>) -> Self {
        self.proposals = proposals.into();
        self
    }

    /// When to stop; see [`Stop`]. `None`: 1e-3, but 7e-3 for the grouped engine and [`Stop::PerDim`], where the error then
    /// falls by less than 1.5 % an iteration, and 1e-5 for k-means, which then ends about where scikit-learn's does.
    pub fn tol(mut self, tol: impl Into<Option<f64>>) -> Self {
        self.tol = tol.into();
        self
    }

    /// How far centers move in an M-step: 1 is to the mean of their points, as EM does; above 1 and below 2 they go further,
    /// which needs fewer iterations and raises F all the same. `None`: 1.6 for the grouped engine, else 1.
    pub fn step_length(mut self, step_length: impl Into<Option<f64>>) -> Self {
        self.step_length = step_length.into();
        self
    }

    /// N', the rows of a lightweight coreset to fit instead of all rows; `None`: all rows.
    pub fn coreset_size(mut self, coreset_size: impl Into<Option<usize>>) -> Self {
        self.coreset_size = coreset_size.into();
        self
    }

    /// Threads; `None`: what the process may use. Results do not depend on it.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }

    /// Checks, then fits. See [`Fit`].
    pub fn fit<T: Real>(&self, data: &Dataset<'_, T>) -> Result<Fit<T>> {
        self.fit_observed(data, None, &Silent)
    }

    /// As [`fit`](Self::fit), from the given centers if there are any, telling `observer` what happens.
    pub fn fit_observed<T: Real>(
        &self,
        data: &Dataset<'_, T>,
        start: Option<ArrayView2<'_, T>>,
        observer: &dyn Observer,
    ) -> Result<Fit<T>> {
        let plan = self.check(data)?;
        if let Some(start) = &start {
            plan.check_start(start, data.dim())?;
        }
        canonical::fit(data, &plan, start, observer)
    }

    /// Checks each parameter by itself and against the data.
    pub(crate) fn check<T: Real>(&self, data: &Dataset<'_, T>) -> Result<Plan> {
        at_least_one("n_clusters", self.clusters)?;
        self.check_used()?;
        for (name, value) in [("truncation", self.truncation), ("proposals", self.proposals)] {
            value.map_or(Ok(()), |v| at_least_one(name, v))?;
        }
        at_least_one("neighbors", self.neighbors)?;
        check_chain_length(self.chain_length)?;
        at_least_one("max_iter", self.max_iter)?;
        at_least_one("n_init", self.n_init)?;
        self.coreset_size.map_or(Ok(()), |v| check_coreset_size(v, data.rows()))?;
        self.threads.map_or(Ok(()), |v| at_least_one("n_threads", v))?;
        if let Some(tol) = self.tol.filter(|tol| !(tol.is_finite() && *tol >= 0.0)) {
            return Err(bad("tol", tol, "finite and at least 0"));
        }
        if let Some(length) = self.step_length.filter(|length| !(*length > 0.0 && *length < 2.0)) {
            return Err(bad("step_length", length, "above 0 and below 2"));
        }
        if self.clusters > data.positive_rows() {
            return Err(Error::TooManyClusters { clusters: self.clusters, rows: data.positive_rows() });
        }
        if self.coreset_size.is_some_and(|size| size < self.clusters) {
            let (size, allowed) = (self.coreset_size.unwrap_or(0), format!("at least n_clusters = {}", self.clusters));
            return Err(bad("coreset_size", size, &allowed));
        }
        if u32::try_from(self.clusters).is_err() {
            return Err(bad("n_clusters", self.clusters, "below 2^32"));
        }
        check_rows(self.coreset_size.unwrap_or(data.rows()))?;
        if self.engine == Engine::Grouped && self.similarity != SimilarityKind::Cooccurrence {
            let allowed = format!("'auto' or 'pointwise' where similarity is '{}'", self.similarity.name());
            return Err(bad("engine", "'grouped'", &allowed));
        }
        let truncation = match self.system {
            System::KMeans => 1,
            System::ExactGmm => self.clusters,
            System::VcGmm | System::Dgmm => self.truncation.unwrap_or(5.min(self.clusters)),
        };
        if truncation > self.clusters {
            return Err(Error::TruncationTooLarge { truncation, clusters: self.clusters });
        }
        Ok(Plan { params: self.clone(), clusters: self.clusters, truncation })
    }

    /// Refuses settings of other systems, where they are not as they came.
    fn check_used(&self) -> Result<()> {
        let (dgmm, vcgmm) = (self.system == System::Dgmm, self.system == System::VcGmm);
        let fresh = Self::new(self.system, self.clusters);
        let number = |set: Option<usize>| set.map(|value| value.to_string());
        let engine = (self.engine != fresh.engine).then(|| format!("'{}'", self.engine.name()));
        let similarity = (self.similarity != fresh.similarity).then(|| format!("'{}'", self.similarity.name()));
        let neighbors = (self.neighbors != fresh.neighbors).then_some(self.neighbors);
        let random = (self.random_neighbor != fresh.random_neighbor).then(|| self.random_neighbor.to_string());
        for (name, has, set, whose) in [
            ("truncation", dgmm || vcgmm, number(self.truncation), "Dgmm and VcGmm have"),
            ("proposals", dgmm, number(self.proposals), "Dgmm has"),
            ("engine", dgmm, engine, "Dgmm has"),
            ("similarity", dgmm, similarity, "Dgmm has"),
            ("neighbors", vcgmm, number(neighbors), "VcGmm has"),
            ("random_neighbor", vcgmm, random, "VcGmm has"),
        ] {
            if let Some(value) = set.filter(|_| !has) {
                return Err(bad(name, value, &format!("left out: only {whose} it")));
            }
        }
        Ok(())
    }
}

fn bad(name: &'static str, value: impl std::fmt::Display, allowed: &str) -> Error {
    Error::BadParameter { name, value: value.to_string(), allowed: allowed.into() }
}

/// The most rows a coreset of `rows` may have: more would only take memory, as each is drawn so many times already.
pub(crate) fn most_coreset_rows(rows: usize) -> usize {
    rows.saturating_mul(16).max(1 << 20)
}

/// Refuses coresets that are empty or far larger than the data.
pub(crate) fn check_coreset_size(size: usize, rows: usize) -> Result<()> {
    at_least_one("coreset_size", size)?;
    let most = most_coreset_rows(rows);
    if size > most { Err(bad("coreset_size", size, &format!("at most {most} for {rows} rows"))) } else { Ok(()) }
}

/// Refuses chains without a step, or with more than anybody could wait for.
pub(crate) fn check_chain_length(length: usize) -> Result<()> {
    const MOST: usize = 1 << 24;
    at_least_one("chain_length", length)?;
    if length > MOST { Err(bad("chain_length", length, &format!("at most {MOST}"))) } else { Ok(()) }
}

/// Rows of a fit are numbered in 32 bits.
fn check_rows(rows: usize) -> Result<()> {
    let allowed = "below 2^32 in a fit; coreset_size fits more by way of some of them";
    if u32::try_from(rows).is_err() { Err(bad("the number of rows", rows, allowed)) } else { Ok(()) }
}

fn at_least_one(name: &'static str, value: usize) -> Result<()> {
    if value == 0 { Err(bad(name, value, "at least 1")) } else { Ok(()) }
}

/// Checked parameters, with what was left open filled in. Only [`Params::check`] makes one.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    params: Params,
    pub clusters: usize,
    pub truncation: usize,
}

macro_rules! getters {
    ($($name:ident: $kind:ty),+ $(,)?) => {
        $(pub fn $name(&self) -> $kind {
            self.params.$name
        })+
    };
}

impl Plan {
    getters! {
        system: System, proposals: Option<usize>, engine: Engine, similarity: SimilarityKind, neighbors: usize,
        random_neighbor: bool, init: Init, chain_length: usize, coreset_size: Option<usize>, max_iter: usize,
        tol: Option<f64>, step_length: Option<f64>, stop: Stop, n_init: usize, seed: u64, threads: Option<usize>,
    }

    /// The same but for the number of iterations.
    pub fn with_max_iter(&self, max_iter: usize) -> Self {
        Self { params: self.params.clone().max_iter(max_iter), ..self.clone() }
    }

    /// Whether a point belongs to its nearest cluster alone.
    pub fn hard(&self) -> bool {
        self.system() == System::KMeans
    }

    fn check_start<T: Real>(&self, start: &ArrayView2<'_, T>, dim: usize) -> Result<()> {
        let (rows, columns) = start.dim();
        if (rows, columns) != (self.clusters, dim) {
            return Err(Error::BadInitShape { rows, columns, clusters: self.clusters, dim });
        }
        if let Some(((row, column), value)) = start.indexed_iter().find(|(_, x)| !x.is_finite()) {
            return Err(bad("init", value, &format!("finite; it is not in row {row}, column {column}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_rows_than_can_be_numbered_are_refused() {
        assert!(check_rows(u32::MAX as usize).is_ok());
        let error = check_rows(1 << 32).unwrap_err().to_string();
        assert!(error.starts_with("the number of rows is 4294967296; it must be below 2^32"), "{error}");
    }
}
