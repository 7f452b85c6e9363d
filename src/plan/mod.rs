//! From parameters to a plan: [`Params`] -> [`Plan`], with every default in one place.

mod checks;
mod memory;
mod params;
mod resolved;
#[cfg(test)]
mod tests;

pub(crate) use memory::CANDIDATES;
pub use params::{Dgmm, ExactGmm, GaussianMixture, KMeans, Params, VcGmm};

use crate::options::{Covariance, Engine, Init, Labels, Metric, SimilarityKind, Stop, Weights};
use crate::step::{Sampling, Search};
use params::System;

/// Default H if rows are compared with some of the clusters: those that they keep also lead to others ...
const TRUNCATION: usize = 5;
/// ... but in groups three are enough: more would slow down iterations without reducing the error ...
const GROUPED_TRUNCATION: usize = 3;
/// ... and if rows are compared with all clusters, the error is smallest without a soft posterior, which pulls
/// neighbors together: two centers in one round cluster would converge to the same point.
const FEW_TRUNCATION: usize = 1;
/// Default R, the number of clusters that each row draws ...
const POINTWISE_PROPOSALS: usize = 5;
/// ... and G, the number of candidates of each group of rows.
const GROUPED_PROPOSALS: usize = 56;
/// Number of clusters up to which rows are compared with all of them: the error is lowest, and the time still short.
const EXHAUSTIVE_CLUSTERS: usize = 100;
/// Number of clusters up to which by default all of them share each row of a mixture.
const EXACT_CLUSTERS: usize = 128;
/// Maximum number of k-means iterations before the clusters of a mixture get variances of their own.
const WARM_UP: u64 = 30;
/// Number of clusters from which seeding is hierarchical.
const HIERARCHICAL_CLUSTERS: usize = 200;
/// Rows times clusters up to which seeding can afford greedy k-means++, which misses fewer clusters.
const GREEDY_PAIRS: usize = 1 << 22;

/// Default tolerance.
const TOL: f64 = 1e-3;
/// Tolerance if clusters are few enough to compare rows with all of them: about where scikit-learn's k-means ends.
const FEW_TOL: f64 = 3e-5;
/// Tolerance if small clusters are to be filled up, which costs less error the closer EM is to convergence.
const EVEN_TOL: f64 = 5e-4;
/// Tolerance of k-means: the error falls by 0.002 % per iteration, about where scikit-learn's rule on the centers ends
/// it.
const KMEANS_TOL: f64 = 1e-5;
/// A tolerance for quick fits with many clusters: the error falls by less than 1.5 % per iteration.
pub const QUICK_TOL: f64 = 7e-3;
/// Default number of refinement rounds.
const ROUNDS: usize = 2;
/// Step length of D-GMM's centers, relative to the distance to the mean of their rows: fewer iterations reach the same
/// error.
const LONG_STEP: f64 = 1.6;
/// Rows per cluster from which there is a second and a third hard iteration. The first is always hard, because s2 is
/// initially that of all the data, which makes neighbors equal; with few rows the soft posterior pays off sooner.
const WARM_UP_ROWS: [usize; 2] = [64, 256];

/// Rows of a sample per cluster ...
const SAMPLE_ROWS: usize = 256;
/// ... and in total, at least.
const FEWEST_SAMPLED: usize = 1 << 16;
/// A sample pays off if there are this many times more rows.
const MANY_SAMPLES: usize = 4;

/// How the initial centers are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seeding {
    /// Distinct rows at random.
    Random,
    /// k-means++, with the best of `trials` draws for each center.
    PlusPlus {
        /// Number of draws for each center.
        trials: usize,
    },
    /// AFK-MC2.
    AfkMc2 {
        /// The length of its Markov chains.
        chain_length: usize,
    },
    /// Coarse cells, then AFK-MC2 and a few k-means iterations inside each.
    Hierarchical {
        /// The length of the Markov chains, before it is increased inside cells.
        chain_length: usize,
    },
}

/// Which rows are fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fitted {
    /// All of them.
    All,
    /// A lightweight coreset of this many rows.
    Coreset(usize),
}

/// What a fit of data of given sizes does, with every choice resolved. Made by [`Params::plan`].
///
/// ```
/// use dgmm::{Dgmm, Search};
/// let plan = Dgmm::params(4000).plan(400_000, 50)?;
/// assert!(matches!(plan.search, Search::Grouped { truncation: 3, .. }));
/// assert!(plan.memory(4, 2) < 400_000 * 50 * 4);
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Number of rows of the data.
    pub rows: usize,
    /// Number of columns of the data.
    pub dim: usize,
    /// M, the number of clusters.
    pub clusters: usize,
    /// How rows are compared.
    pub metric: Metric,
    /// Which rows are fitted.
    pub fitted: Fitted,
    /// The largest allowed mass of a cluster by the labels, relative to the mean mass.
    pub max_size: Option<f64>,
    /// How the initial centers are chosen.
    pub seeding: Seeding,
    /// Which clusters each row is compared with.
    pub search: Search,
    /// Whether each row belongs to its nearest cluster only.
    pub hard: bool,
    /// Number of initial iterations that are hard in any case.
    pub hard_iterations: u64,
    /// Step length: how far centers move, relative to the distance to the mean of their rows.
    pub step_length: f64,
    /// The quantity that is compared with `tol`.
    pub stop: Stop,
    /// The tolerance of the stopping rule.
    pub tol: f64,
    /// Maximum number of iterations, including those of refinement.
    pub max_iter: usize,
    /// Maximum number of refinement rounds.
    pub refine: usize,
    /// Number of runs with different seeds.
    pub n_init: usize,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Which labels the rows get.
    pub labels: Labels,
    /// Number of rows of a shard.
    pub shard_rows: usize,
    /// Sizes of the samples of the rows that the first iterations see, each a prefix of the next. If empty, every
    /// iteration sees all rows, as the last ones always do.
    pub samples: Vec<usize>,
    /// Which entries of covariances are free.
    pub covariance: Covariance,
    /// Whether the weights of clusters are equal or learned.
    pub weights: Weights,
    /// Added to each variance, if clusters have their own.
    pub reg_covar: f64,
}

impl Params {
    /// What a fit of this many rows (of positive weight) and columns does.
    pub fn plan(&self, rows: usize, dim: usize) -> crate::Result<Plan> {
        self.check(rows, rows)?;
        Ok(self.resolve(rows, dim))
    }

    /// Resolves what is left open. The parameters must have been checked.
    pub(crate) fn resolve(&self, rows: usize, dim: usize) -> Plan {
        let clusters = self.clusters;
        let fitted = self.coreset_size.map_or(Fitted::All, Fitted::Coreset);
        let rows_fitted = self.coreset_size.unwrap_or(rows);
        let search = self.search();
        let shaped = self.shaped();
        // With H = M every search is exact EM, and it should remain so.
        let truncated = self.searches() && search.truncation() < clusters;
        let in_groups = matches!(search, Search::Grouped { .. }) && truncated;
        let few = self.is_exhaustive() && !shaped;
        let hard_iterations = 1 + WARM_UP_ROWS.iter().filter(|&&least| rows_fitted >= least * clusters).count() as u64;
        let stop = self.stop.unwrap_or(if shaped { Stop::Absolute } else { Stop::PerDim });
        let tol = match stop {
            _ if self.system == System::KMeans => KMEANS_TOL,
            Stop::PerDim if few && (truncated || self.truncation.is_none()) => FEW_TOL,
            Stop::PerDim if in_groups && self.evens_out() => EVEN_TOL,
            _ => TOL,
        };
        let ahead = in_groups || (few && truncated);
        let tol = self.tol.unwrap_or(tol);
        // A row must know its second-nearest cluster.
        let moves = in_groups && !shaped && stop == Stop::PerDim && search.truncation() > 1 && tol < QUICK_TOL;
        Plan {
            rows,
            dim,
            clusters,
            metric: self.metric,
            fitted,
            max_size: self.max_size,
            seeding: self.seeding(rows_fitted),
            search,
            hard: self.system == System::KMeans,
            hard_iterations: if ahead { hard_iterations } else { 0 },
            step_length: self.step_length.unwrap_or(if ahead { LONG_STEP } else { 1.0 }),
            stop,
            tol,
            max_iter: self.max_iter,
            refine: self.refine.unwrap_or(if moves { ROUNDS } else { 0 }),
            n_init: self.n_init,
            seed: self.seed,
            labels: self.labels,
            shard_rows: self.shard_rows.unwrap_or(u32::MAX as usize),
            samples: self.samples(search, rows_fitted),
            covariance: if self.system == System::GaussianMixture { self.covariance } else { Covariance::Isotropic },
            weights: if self.system == System::GaussianMixture { self.weights } else { Weights::Equal },
            reg_covar: self.reg_covar,
        }
    }

    /// The sample for the [`Summary`](crate::step::Summary) of each shard if the total number of rows is not known yet.
    /// Otherwise see [`Plan::sampling`].
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        let size = self.sample_rows.unwrap_or(SAMPLE_ROWS.saturating_mul(self.clusters).max(FEWEST_SAMPLED));
        Sampling { size, seed: self.seed, total_rows: None, metric: self.metric }
    }

    /// With many rows per cluster, a sample of them leads to nearly the same centers. Fits of rows that are read shard
    /// by shard always start with one.
    fn samples(&self, search: Search, rows: usize) -> Vec<usize> {
        let size = self.sampling().size;
        let sharded = self.shard_rows.is_some_and(|shard| shard < rows);
        let truncated = search.truncation() < self.clusters;
        let by_default = self.searches() && truncated && !matches!(search, Search::Pointwise { .. });
        let enough = if sharded { size < rows } else { by_default && rows / MANY_SAMPLES >= size };
        if enough { vec![size] } else { Vec::new() }
    }

    /// Whether candidates are found by the search of D-GMM.
    fn searches(&self) -> bool {
        matches!(self.system, System::Dgmm | System::GaussianMixture)
    }

    /// Whether D-GMM compares rows with all clusters because there are few.
    fn is_exhaustive(&self) -> bool {
        let free = self.engine == Engine::Auto && self.similarity == SimilarityKind::Cooccurrence;
        self.searches() && free && self.clusters <= EXHAUSTIVE_CLUSTERS
    }

    /// Whether rows share candidates in groups.
    fn groups(&self) -> bool {
        self.searches() && self.engine != Engine::Pointwise && self.similarity == SimilarityKind::Cooccurrence
    }

    fn search(&self) -> Search {
        let clusters = self.clusters;
        let by_default = match () {
            () if self.shaped() && clusters <= EXACT_CLUSTERS => clusters,
            () if self.is_exhaustive() => FEW_TRUNCATION,
            () if self.groups() && !self.shaped() && !self.evens_out() => GROUPED_TRUNCATION,
            () => TRUNCATION,
        };
        let truncation = self.truncation.unwrap_or(by_default.min(clusters));
        let all = Search::Exhaustive { truncation };
        match self.system {
            System::KMeans => Search::Exhaustive { truncation: 1 },
            System::ExactGmm => Search::Exhaustive { truncation: clusters },
            System::VcGmm => Search::Neighbors { truncation, neighbors: self.neighbors, random: self.random_neighbor },
            System::Dgmm | System::GaussianMixture => match self.engine {
                Engine::Auto if self.is_exhaustive() => all,
                Engine::Auto if self.similarity == SimilarityKind::Cooccurrence => match truncation {
                    _ if truncation == clusters => all,
                    _ => self.grouped(truncation),
                },
                Engine::Grouped => self.grouped(truncation),
                Engine::Auto | Engine::Pointwise => {
                    let proposals = self.proposals.unwrap_or(POINTWISE_PROPOSALS);
                    Search::Pointwise { truncation, proposals, similarity: self.similarity }
                }
            },
        }
    }

    fn grouped(&self, truncation: usize) -> Search {
        Search::Grouped { truncation, candidates: self.proposals.unwrap_or(GROUPED_PROPOSALS).max(truncation) }
    }

    fn seeding(&self, rows: usize) -> Seeding {
        let chain_length = self.chain_length;
        match self.init {
            Init::Random => Seeding::Random,
            Init::KMeansPlusPlus => Seeding::PlusPlus { trials: 1 },
            Init::AfkMc2 => Seeding::AfkMc2 { chain_length },
            Init::Hierarchical => Seeding::Hierarchical { chain_length },
            Init::Auto if self.clusters >= HIERARCHICAL_CLUSTERS => Seeding::Hierarchical { chain_length },
            Init::Auto if rows.saturating_mul(self.clusters) <= GREEDY_PAIRS => {
                Seeding::PlusPlus { trials: 2 + (self.clusters as f64).ln() as usize }
            }
            Init::Auto => Seeding::AfkMc2 { chain_length },
        }
    }

    /// The number of refinement rounds that was requested.
    pub(crate) fn asked_to_refine(&self) -> usize {
        self.refine.unwrap_or(0)
    }

    /// How rows are compared.
    pub(crate) fn metric_of(&self) -> Metric {
        self.metric
    }

    /// Whether the system can bound the sizes of clusters.
    fn balances(&self) -> bool {
        matches!(self.system, System::Dgmm | System::KMeans)
    }

    /// Whether small clusters are also filled up, for which rows need more candidates.
    fn evens_out(&self) -> bool {
        self.max_size.is_some_and(|size| size < 2.0)
    }

    /// Whether the sizes of clusters are bounded.
    pub(crate) fn is_balanced(&self) -> bool {
        self.max_size.is_some()
    }

    /// The number of clusters.
    pub(crate) fn clusters(&self) -> usize {
        self.clusters
    }

    /// Rows of a shard and of the sample, if they were set.
    #[must_use]
    pub fn rows_at_once(&self) -> (Option<usize>, Option<usize>) {
        (self.shard_rows, self.sample_rows)
    }

    /// The number of threads that was requested.
    pub(crate) fn run_threads(&self) -> Option<usize> {
        self.threads
    }
}
