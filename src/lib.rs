//! Clustering whose cost does not grow with the number of clusters.
//!
//! D-GMM (Exarchakis, Oubari and Lenz, CVPR 2022) fits a mixture of M isotropic Gaussians by an EM in which a point looks
//! at a handful of clusters, found by sampling, instead of at all M. k-means, the exact mixture and vc-GMM are the same
//! loop with another search, and each of them can be fitted to a coreset instead of to all rows.
//!
//! ```
//! use dgmm::{Dataset, Dgmm, Run};
//! use ndarray::Array2;
//!
//! // 2,000 points around a grid of 5 x 4 places.
//! let x = Array2::from_shape_fn((2000, 2), |(n, d)| {
//!     let place = if d == 0 { n % 5 } else { n / 5 % 4 };
//!     10.0 * place as f32 + (n * (d + 7) % 13) as f32 / 13.0
//! });
//! let data = Dataset::new(x.view())?;
//! let fit = Dgmm::params(20).truncation(5).n_init(3).seed(7).fit(&data)?;
//!
//! assert_eq!(fit.model.centers().dim(), (20, 2));
//! assert_eq!(fit.labels.len(), 2000);
//! assert!(fit.report.converged);
//! // Labels come from a truncated search; the exact error is always to be had, and is no larger.
//! let exact = fit.model.quantization_error(&data, &Run::default())?;
//! assert!(exact <= fit.report.inertia * 1.0001);
//! // What is new can be assigned, or the k nearest clusters asked for.
//! let new = ndarray::array![[10.5f32, 20.5], [40.2, 0.3]];
//! let labels = fit.model.predict(&Dataset::new(new.view())?, &Run::default())?;
//! assert_ne!(labels[0], labels[1]);
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! # The method
//! Rows y(n) with weights w_n, n = 1..N, D columns; M equiprobable Gaussians with means mu_c and one variance s2;
//! d_c(n) = |y(n) - mu_c|^2. Each point keeps a truncated set K(n) of H clusters ([`Params::truncation`]).
//!
//! ```text
//! start    mu_c: rows chosen by AFK-MC2        s2: the data's variance        K(n): H clusters at random, or near ones
//! E-step   c' = the nearest of K(n); draw R clusters outside K(n) from row c' of the similarity S
//!          K(n) = the H nearest of K(n) and the draws
//!          q_c(n) = exp(-d_c(n) / 2 s2) / sum_{k in K(n)} exp(-d_k(n) / 2 s2)        for c in K(n), else 0
//! M-step   mu_c = sum_n w_n q_c(n) y(n) / sum_n w_n q_c(n)
//!          s2   = sum_n w_n sum_c q_c(n) |y(n) - mu_c|^2 / (D sum_n w_n)
//!          S_ij = sum of w_n s_ij(n) over the points whose K(n) holds both i and j
//! stop     when the lower bound F rises by no more than `tol`, per column (or relative to |F|)
//!
//! F = -log M - D/2 log(2 pi s2) + 1 / sum_n w_n * sum_n w_n log sum_{c in K(n)} exp(-d_c(n) / 2 s2)
//! ```
//!
//! K(n) only ever takes in what is nearer, so neither half-step lowers F. s_ij(n) is 1, q_i q_j, or the paper's
//! exp(-(d_i + d_j)), taken relative to its row's largest value because it underflows: see [`SimilarityKind`]. A draw takes
//! constant time. Where s is 1 it is a member of some point that has the same nearest cluster, both drawn, and S need not be
//! made; else a row of S keeps its 64 strongest entries and is drawn from by an [alias table](alias). Members of K(n) and
//! repeats are rejected, and after a bounded number of rejections uniform draws fill up.
//!
//! # Two engines
//! [`Engine::Pointwise`] is the box above, the paper's: every point draws its own R clusters. [`Engine::Grouped`], the
//! default from some hundred clusters on, takes the points of a cluster together: they share a list of G candidates (the
//! strongest of the cluster's row of S, draws from its neighbors' rows, a few uniform ones; [`Params::proposals`] is G) and
//! go through the blocked kernel, which measures many shared candidates in the time of a few scattered ones. Every other
//! iteration groups the points by their second nearest cluster, so that they see another list. The first iterations
//! (three, or one where clusters are small) give a point to its nearest cluster alone. Members of K(n) outside the list
//! are measured too: F never falls here either.
//!
//! [`Init::Hierarchical`], the default from 200 clusters on, starts on two levels: coarse cells, AFK-MC2 inside each of
//! them, and as the first K(n) the nearest centers of the point's own and the adjacent cells. With fewer clusters the
//! default is greedy k-means++ where N M is at most 2^22, else AFK-MC2.
//!
//! # The systems
//! | system | a point looks at | posterior | evaluations an iteration |
//! |---|---|---|---|
//! | [`KMeans`] | all M clusters | hard | N M |
//! | [`ExactGmm`] | all M clusters | soft, over all | N M |
//! | [`VcGmm`] | the G neighbors of each member of K(n), and one cluster at random | soft, over K(n) | at most N (H G + 1) |
//! | [`Dgmm`] | K(n) and R draws from S, or the G candidates of its group | soft, over K(n) | N (H + R), about N G |
//!
//! With H = M, vc-GMM and D-GMM are the exact mixture. [`Params::coreset_size`] fits any of them to N' weighted rows (and
//! labels all rows afterwards, by exact search); [`lightweight_coreset`] draws such rows to be used again.
//!
//! # Costs
//! | step | time |
//! |---|---|
//! | E-step of D-GMM | O(N (H + R) D); grouped O(N G D) |
//! | E-step of vc-GMM | O(N H G D) |
//! | E-step of k-means and exact GMM | O(N M D), by the blocked kernel |
//! | M-step with S | O(N H D + N H^2 + M D) |
//! | coreset | O(N D), two passes over the data |
//! | AFK-MC2 with chains of m | O(N D + m M^2 D) |
//! | start on two levels | O(N M^(1/2) D + m M^(3/2) D) |
//! | [`Model::predict`] and its like | O(N M D), by the blocked kernel |
//! | [`Model::index`], once, then [`Index::predict`] and [`Index::top_k`], approximate | O(M^(3/2) D), then O(N M^(1/2) D) with a factor that the data decide |
//!
//! Nothing in a D-GMM iteration grows with M but the M D numbers of the model and the entries of S.
//!
//! # Memory
//! What a fit holds above its input, in bytes, with t = 4 for `f32` and 8 for `f64`:
//!
//! | what | bytes |
//! |---|---|
//! | K(n) between iterations (1 instead of H for k-means and exact GMM) | 4 N H |
//! | distance to the nearest cluster | t N |
//! | vc-GMM, exact GMM: K(n), d(n), q(n) of a shard, and its transpose: at most P = 2^22 places | (8 + 2 t) min(N H, P) |
//! | the same, and k-means: partial sums of a shard (k-means of few clusters has these alone) | at most D min(N H, P), or 8 M D |
//! | D-GMM: order of the points | 12 N |
//! | D-GMM: places of the clusters | 8 M a thread |
//! | D-GMM: partial sums that wait | t D for each point of at most 2^18 (grouped) or 2^19, at most H times |
//! | grouped engine: what each group saw of S | 8 for each of the clusters its points hold, at most 8 N H |
//! | centers, twice where a fit begins and ends, and their sums | M D (2 t + 8) |
//! | S, grouped or from all pairs (posterior, kernel): at most 64 entries a row, with their alias tables | 24 an entry, 48 while it is made |
//! | S from all pairs: what it is made from | t N H + 8 min(N H, P) |
//! | neighbors of vc-GMM: at most 256 entries a row | 20 an entry, 40 while they are made |
//! | a row of either while it is made | 8 M or 16 M a thread |
//! | seeding or coreset, while it runs | t N |
//! | two levels, while they are made | 8 N, and 64 rows a cluster for each cell at work |
//!
//! There is never an N x M or M x M array, unless it is asked for ([`Model::distances`]). Rows that are not in C order are
//! copied by [`Dataset::new`]; weights take 8 N, and 8 N more while a fit runs if their mean is not between 1e-6 and 1e6.
//!
//! # Rules
//! - **A cluster that loses all its points** is moved onto one of the rows that are farthest from their nearest cluster, each
//!   such cluster onto a different one; rows of weight 0 and rows that sit on a center are left alone.
//! - **Fewer distinct rows than clusters**: the fit ends as usual, with a center on each distinct row. Some clusters share
//!   a place or are no row's label, and [`Report::empty_clusters`] says how many.
//! - **Constant data** are fitted as they are. s2 has a floor of 1e-12 of the data's variance (of the mean square, where
//!   that is 0), so that F is finite, and never falls below 1e-30 (`f32`) or 1e-280 (`f64`).
//! - **Weights**: weight 2 is the row twice, weight 0 no row, though it gets a label. Their scale does not matter. A row of
//!   weight 0 is never a center at the start and no cluster is moved onto it. M may not exceed the rows of positive weight.
//! - **Equally near clusters**: the exact searches take the one of lower index.
//! - **Nearly equally near clusters**: the exact searches compare |y|^2 - 2 y.mu + |mu|^2, counted from the data's mean where
//!   that is far from 0, and measure by differences what they have chosen. Rounding can mislead them where clusters
//!   are closer to one another than about 1/1000 (`f32`) or 1e-7 (`f64`) of their distance from there.
//! - **Values** must be finite, with squared distances, to given centers too, that fit into the type; an error names the
//!   first that is not.
//! - **Not converging** within `max_iter` is no error: [`Report::converged`] says so.
//!
//! # Determinism
//! The same seed gives the same bits for every number of threads: blocks have fixed bounds, each opens its own
//! [random stream](rng), and sums are merged in the order of the blocks. A seed keeps its meaning from version to version
//! (tests hold the values). On CPUs with other instruction sets the order of additions differs, so last digits may. The
//! environment variable `DGMM_ISA` (`baseline`, `avx2`, `avx512`) keeps the crate from using a higher one than it names; it is
//! read at the first use, a level that the CPU lacks gives the best that it has, and other text is ignored.
//!
//! # References
//! - G. Exarchakis, O. Oubari and G. Lenz, "A sampling-based approach for efficient clustering in large datasets", CVPR 2022.
//! - F. Hirschberger, D. Forster and J. Lücke, "A variational EM acceleration for efficient clustering at very large
//!   scales", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2022.
//! - O. Bachem, M. Lucic, S. H. Hassani and A. Krause, "Fast and provably good seedings for k-means", NIPS 2016.
//! - O. Bachem, M. Lucic and A. Krause, "Scalable k-means clustering via lightweight coresets", KDD 2018.
//! - A. J. Walker, "An efficient method for generating discrete random variables with general distributions", ACM
//!   Transactions on Mathematical Software, 1977.

pub mod data;
mod error;
#[cfg(feature = "files")]
pub mod files;
mod fit;
mod index;
mod kernel;
mod memory;
mod model;
mod observer;
mod options;
mod parallel;
mod plan;
mod query;
mod report;
mod rng;
pub mod seeding;
pub mod step;

pub use ndarray;

pub use data::coreset::{self, Coreset, lightweight_coreset};
pub use data::{Dataset, Moments};
pub use error::{Error, Result, Spanning, SystemError};
pub use fit::Fit;
pub use index::Index;
pub use kernel::Real;
pub use model::Model;
pub use observer::{Event, Observer, Silent};
pub use options::{Engine, Init, Labels, SimilarityKind, Stop};
pub use parallel::Run;
pub use plan::{Dgmm, ExactGmm, Fitted, KMeans, Params, Plan, Seeding, VcGmm};
pub use report::{Evaluations, Iteration, Report, Seconds};
pub use seeding::{Seeds, afkmc2, kmeans_plus_plus, random_rows};
pub use step::Search;
