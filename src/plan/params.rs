//! Parameters of a fit, set by the caller: a builder, [`Params`].

use crate::options::{Covariance, Engine, Init, Labels, Metric, SimilarityKind, Stop, Weights};

/// The five systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum System {
    KMeans,
    ExactGmm,
    VcGmm,
    Dgmm,
    GaussianMixture,
}

macro_rules! system {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    /// D-GMM: each row is compared with K(n) and a few clusters drawn from the similarity's rows.
    Dgmm
);
system!(
    /// A mixture of Gaussians with weights and diagonal covariances, with the search of D-GMM: each row is compared
    /// with K(n) and a few clusters drawn from the similarity's rows, or with all clusters if there are few.
    GaussianMixture
);
system!(
    /// vc-GMM: each row is compared with the neighbors of the clusters in K(n).
    VcGmm
);
system!(
    /// Exact EM for the isotropic mixture: each row is compared with all clusters.
    ExactGmm
);
system!(
    /// k-means (Lloyd): each row is compared with all clusters and belongs to the nearest.
    KMeans
);

/// Parameters of a fit, set by the caller and not yet checked. Made by [`Dgmm::params`] and its siblings.
/// [`Params::plan`] resolves them for given data.
///
/// A setting that the system does not have, such as `neighbors` for [`Dgmm`], makes [`fit`](Self::fit) fail, because it
/// would have no effect.
///
/// ```
/// use dgmm::{Dataset, Dgmm};
/// let x = ndarray::Array2::from_shape_fn((500, 2), |(n, d)| ((n % 10) * (d + 1)) as f64 + (n % 7) as f64 * 0.01);
/// let fit = Dgmm::params(10).truncation(3).proposals(4).seed(7).fit(&Dataset::new(x.view())?)?;
/// assert_eq!(fit.labels.len(), 500);
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[must_use]
pub struct Params {
    pub(super) system: System,
    pub(super) clusters: usize,
    pub(super) truncation: Option<usize>,
    pub(super) proposals: Option<usize>,
    pub(super) engine: Engine,
    pub(super) similarity: SimilarityKind,
    #[cfg_attr(feature = "serde", serde(default = "euclidean"))]
    pub(super) metric: Metric,
    pub(super) neighbors: usize,
    pub(super) random_neighbor: bool,
    pub(super) init: Init,
    pub(super) chain_length: usize,
    pub(super) coreset_size: Option<usize>,
    pub(super) max_size: Option<f64>,
    pub(super) max_iter: usize,
    pub(super) tol: Option<f64>,
    pub(super) step_length: Option<f64>,
    #[cfg_attr(feature = "serde", serde(default))]
    pub(super) refine: Option<usize>,
    pub(super) stop: Option<Stop>,
    pub(super) n_init: usize,
    pub(super) seed: u64,
    pub(super) threads: Option<usize>,
    pub(super) labels: Labels,
    pub(super) shard_rows: Option<usize>,
    pub(super) sample_rows: Option<usize>,
    pub(super) covariance: Covariance,
    pub(super) weights: Weights,
    pub(super) reg_covar: f64,
    pub(super) start_weights: Option<Vec<f64>>,
    pub(super) start_variances: Option<Vec<f64>>,
}

/// The metric of parameters saved before there was a choice.
#[cfg(feature = "serde")]
fn euclidean() -> Metric {
    Metric::Euclidean
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
    pub(super) fn new(system: System, clusters: usize) -> Self {
        Self {
            system,
            clusters,
            truncation: None,
            proposals: None,
            engine: Engine::Auto,
            similarity: SimilarityKind::Cooccurrence,
            metric: Metric::Euclidean,
            neighbors: 5,
            random_neighbor: true,
            init: Init::Auto,
            chain_length: 5,
            coreset_size: None,
            max_size: None,
            // k-means has the default of scikit-learn, because its tolerance is as small.
            max_iter: if system == System::KMeans { 300 } else { 100 },
            tol: None,
            step_length: None,
            refine: None,
            stop: None,
            n_init: 1,
            seed: 0,
            threads: None,
            labels: Labels::Auto,
            shard_rows: None,
            sample_rows: None,
            covariance: Covariance::Diag,
            weights: Weights::Learned,
            reg_covar: 1e-6,
            start_weights: None,
            start_variances: None,
        }
    }

    setters! {
        /// How the E-step is organized (D-GMM).
        engine: Engine,
        /// The weighting of S (D-GMM).
        similarity: SimilarityKind,
        /// How rows are compared: by distance, or by direction only.
        metric: Metric,
        /// G, the number of neighbors of each cluster, including itself (vc-GMM).
        neighbors: usize,
        /// Whether each row is also compared with one uniformly drawn cluster (vc-GMM).
        random_neighbor: bool,
        /// How the initial centers are chosen.
        init: Init,
        /// m, the length of AFK-MC2's Markov chains.
        chain_length: usize,
        /// The maximum number of iterations, including those of refinement: by default 100, for k-means 300.
        max_iter: usize,
        /// Number of runs with different seeds; the one with the highest F is kept.
        n_init: usize,
        /// The seed of all random numbers.
        seed: u64,
        /// Which labels the rows get.
        labels: Labels,
        /// Which entries of covariances are free (Gaussian mixture).
        covariance: Covariance,
        /// Whether the weights of clusters are equal or learned (Gaussian mixture).
        weights: Weights,
        /// Added to each variance, so that small clusters have positive variances: 1e-6 by default (Gaussian mixture).
        reg_covar: f64,
    }

    /// The initial weights of clusters, if initial centers are given (Gaussian mixture); `None`: all equal if initial
    /// variances are given, otherwise those of the rows that are nearest to each center.
    pub fn start_weights(mut self, weights: impl Into<Option<Vec<f64>>>) -> Self {
        self.start_weights = weights.into();
        self
    }

    /// The initial variances of clusters, if initial centers are given (Gaussian mixture), as [`Shape`](crate::Shape)
    /// lists them; `None`: that of the data if initial weights are given, otherwise those of the rows that are nearest
    /// to each center.
    pub fn start_variances(mut self, variances: impl Into<Option<Vec<f64>>>) -> Self {
        self.start_variances = variances.into();
        self
    }

    /// What `tol` is compared with; `None`: [`Stop::PerDim`], and [`Stop::Absolute`] for Gaussian mixtures whose
    /// weights or variances differ.
    pub fn stop(mut self, stop: impl Into<Option<Stop>>) -> Self {
        self.stop = stop.into();
        self
    }

    /// Whether clusters differ in variance or weight.
    pub(super) fn shaped(&self) -> bool {
        let alike = self.covariance == Covariance::Isotropic && self.weights == Weights::Equal;
        self.system == System::GaussianMixture && !alike
    }

    /// H, the number of clusters that each row keeps (D-GMM and vc-GMM). `None`: 5; for D-GMM with at most 100 clusters
    /// 1, and for a [quick fit](crate::QUICK_TOL) with its grouped engine 3; M if that is less. M for Gaussian mixtures
    /// with at most 128 clusters.
    pub fn truncation(mut self, truncation: impl Into<Option<usize>>) -> Self {
        self.truncation = truncation.into();
        self
    }

    /// R, the number of clusters that each row draws, or G, the number of candidates of each group of rows (D-GMM);
    /// `None`: 5 or 56, depending on the engine.
    pub fn proposals(mut self, proposals: impl Into<Option<usize>>) -> Self {
        self.proposals = proposals.into();
        self
    }

    /// The tolerance of the stopping rule; see [`Stop`]. `None`: 1e-3, with which the error falls by less than 0.2 %
    /// per iteration at the end ([`Stop::PerDim`]); but 3e-5 for D-GMM with at most 100 clusters and 1e-5 for k-means,
    /// which end near where scikit-learn's k-means does, and 5e-4 for the grouped engine if
    /// [`max_size`](Self::max_size) is below 2. [`QUICK_TOL`](crate::QUICK_TOL) is for quick fits.
    pub fn tol(mut self, tol: impl Into<Option<f64>>) -> Self {
        self.tol = tol.into();
        self
    }

    /// How far centers move in each M-step: 1 is to the mean of their rows, as in EM; above 1 and below 2 they go
    /// farther, which needs fewer iterations and still raises F. `None`: 1.6 for the grouped engine and for D-GMM with
    /// at most 100 clusters, if H < M; otherwise 1.
    pub fn step_length(mut self, step_length: impl Into<Option<f64>>) -> Self {
        self.step_length = step_length.into();
        self
    }

    /// The maximum number of rounds of refinement (k-means, exact GMM, vc-GMM and D-GMM). Each moves up to 8 % of the
    /// clusters, the least useful ones, next to clusters with large errors; 3 iterations follow, in later rounds more.
    /// A round is kept if F ends up higher; otherwise the model from before it is restored, and there are no more
    /// rounds. They begin when F rises by less than [`QUICK_TOL`](crate::QUICK_TOL) or when EM ends, if there is room
    /// for their iterations, and EM continues after the last one. `None`: 2 for D-GMM's grouped engine with
    /// [`Stop::PerDim`], if `tol` is smaller than that and no initial centers are given; otherwise none.
    pub fn refine(mut self, refine: impl Into<Option<usize>>) -> Self {
        self.refine = refine.into();
        self
    }

    /// N', the number of rows of a lightweight coreset to fit instead of all rows; `None`: all rows.
    pub fn coreset_size(mut self, coreset_size: impl Into<Option<usize>>) -> Self {
        self.coreset_size = coreset_size.into();
        self
    }

    /// The largest allowed mass of a cluster by the labels, relative to the mean mass (k-means and D-GMM); `None`: no
    /// bound.
    pub fn max_size(mut self, max_size: impl Into<Option<f64>>) -> Self {
        self.max_size = max_size.into();
        self
    }

    /// Number of rows of a shard; `None`: all rows. Shards are processed one after another. The random draws of a row
    /// depend on its shard, so other cuts give other bits.
    pub fn shard_rows(mut self, shard_rows: impl Into<Option<usize>>) -> Self {
        self.shard_rows = shard_rows.into();
        self
    }

    /// Number of rows of the sample that the first iterations see, if there is one; `None`: 256 per cluster, and at
    /// least 2^16.
    pub fn sample_rows(mut self, sample_rows: impl Into<Option<usize>>) -> Self {
        self.sample_rows = sample_rows.into();
        self
    }

    /// Number of threads; `None`: those of the rayon pool in which the call is made, otherwise as many as the process
    /// may use. Results do not depend on it.
    pub fn threads(mut self, threads: impl Into<Option<usize>>) -> Self {
        self.threads = threads.into();
        self
    }
}
