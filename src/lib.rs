//! Clustering whose cost does not grow with the number of clusters.
//!
//! D-GMM (Exarchakis, Oubari and Lenz, CVPR 2022) fits a mixture of M isotropic Gaussians by EM, but compares each row
//! with a handful of clusters, found by sampling, instead of all M. k-means, the exact mixture and vc-GMM are the same
//! loop with another search, and each of them can be fitted to a coreset instead of all rows. Clusters may also have
//! weights and diagonal covariances.
//!
//! # How do I ...
//! ## ... fit a `Vec<f32>`?
//! [`Dataset::from_slice`] is a view of numbers in row-major order, [`Dataset::new`] of an [`ndarray`] matrix; neither
//! copies rows in C order. `f64` works the same way.
//! ```
//! use dgmm::{Dataset, Dgmm};
//! // 2,000 rows of 2 columns around a grid of 5 x 4 points.
//! let values: Vec<f32> = (0..2000)
//!     .flat_map(|n| [10.0 * (n % 5) as f32 + (n % 13) as f32 / 13.0, 10.0 * (n / 5 % 4) as f32 + (n % 7) as f32 / 7.0])
//!     .collect();
//! let data = Dataset::from_slice(&values, 2)?;
//! let fit = Dgmm::params(20).seed(7).fit(&data)?;
//! assert_eq!(fit.model.centers().dim(), (20, 2));
//! assert_eq!(fit.labels.len(), 2000);
//! assert!(fit.report.converged);
//! # Ok::<(), dgmm::Error>(())
//! ```
//! [`Params`] lists the settings, and [`Params::plan`] resolves them for given sizes.
//!
//! ## ... give rows weights?
//! ```
//! # use dgmm::{Dataset, KMeans};
//! let values = [0.0f32, 1.0, 10.0, 11.0];
//! let data = Dataset::from_slice(&values, 1)?.weighted(ndarray::array![3.0, 1.0, 1.0, 1.0].view())?;
//! let fit = KMeans::params(2).fit(&data)?;
//! assert_eq!(fit.model.centers().sum(), 0.25 + 10.5);
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! ## ... assign new rows?
//! [`Model::predict`], [`Model::top_k`] and the like are exact. [`Run`] sets the number of threads.
//! ```
//! # use dgmm::{Dataset, Model, Run};
//! # let model = Model::new(ndarray::array![[0.0f32, 0.0], [4.0, 0.0]].view(), 1.0)?;
//! let new = Dataset::from_slice(&[1.0, 0.5, 3.0, 0.0], 2)?;
//! assert_eq!(model.predict(&new, &Run::default())?, [0, 1]);
//! assert_eq!(model.quantization_error(&new, &Run::default())?, 1.25 + 1.0);
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! ## ... assign them faster?
//! An [`Index`] is built and tuned once. With thousands of clusters, on a CPU with AVX2, it then nearly always finds
//! the same clusters in a fraction of the time; elsewhere, or with fewer than 256 clusters, it searches exactly.
//! ```
//! # use dgmm::{Dataset, Model, Run};
//! # let centers = ndarray::Array2::from_shape_fn((900, 2), |(c, d)| if d == 0 { (c % 30) as f32 } else { (c / 30) as f32 });
//! # let x = ndarray::Array2::from_shape_fn((3000, 2), |(n, d)| centers[[n % 900, d]] + ((n * (d + 3)) % 17) as f32 / 60.0);
//! # let (model, data, run) = (Model::new(centers.view(), 0.1)?, Dataset::new(x.view())?, Run::default());
//! let mut index = model.index(&run)?;
//! let recall = index.tune(&data, 0.98, &run)?; // share of rows that get their nearest cluster, or nearly
//! let labels = index.predict(&data, &run)?;
//! # assert!(recall >= 0.95 && labels.len() == 3000);
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! ## ... save a model?
//! With the feature `files`, as a safetensors file that Python's `dgmm.load` reads too; with the feature `serde`, in
//! any format of serde.
//! ```
//! # #[cfg(feature = "files")] {
//! # use dgmm::Model;
//! # let model = Model::new(ndarray::array![[0.0f32, 0.0], [4.0, 0.0]].view(), 1.0)?;
//! # let path = std::env::temp_dir().join(format!("dgmm-front-page-{}.safetensors", std::process::id()));
//! model.save(&path)?;
//! assert_eq!(Model::load(&path)?, model);
//! # std::fs::remove_file(path).unwrap();
//! # }
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! ## ... watch a fit, or stop it early?
//! A closure receives each [`Event`]. `Break` ends the fit, which keeps the best model so far. An [`Observer`] can also
//! cancel any call at once.
//! ```
//! # use dgmm::{Dataset, Dgmm, Event};
//! # let values: Vec<f32> = (0..4000).map(|i| (i / 2 % 25) as f32 + (i % 11) as f32 / 20.0).collect();
//! # let data = Dataset::from_slice(&values, 2)?;
//! use std::ops::ControlFlow;
//! let fit = Dgmm::params(25).fit_observed(&data, None, &|event: &Event| match event {
//!     Event::Iteration { iteration, lower_bound, seconds, .. } => {
//!         println!("iteration {iteration}: F = {lower_bound:.3} after {seconds:.2} s");
//!         if *seconds > 60.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
//!     }
//!     _ => ControlFlow::Continue(()),
//! })?;
//! assert!(!fit.report.stopped);
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! ## ... fit data that is spread over files or machines?
//! [`step`] has the parts that a fit is made of: a round to broadcast, a step over each shard, statistics that merge,
//! and a trainer that turns them into the next round.
//!
//! ## ... fit a sample of the rows?
//! [`Params::coreset_size`] does it in one call. [`lightweight_coreset`] draws weighted rows to be used several times:
//! ```
//! # use dgmm::{Dataset, Dgmm, Run, lightweight_coreset};
//! # let values: Vec<f32> = (0..20_000).map(|i| (i / 2 % 50) as f32 + (i % 11) as f32 / 20.0).collect();
//! # let data = Dataset::from_slice(&values, 2)?;
//! let coreset = lightweight_coreset(&data, 1000, 7, &Run::default())?;
//! for clusters in [10, 20] {
//!     let fit = Dgmm::params(clusters).fit(&coreset.dataset()?)?;
//!     assert_eq!(fit.labels.len(), 1000);
//! }
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! ## ... take a sample of a stream, or of data larger than memory?
//! A [`CoresetBuilder`] reads chunks of rows once. Builders of several machines can be merged.
//! ```
//! # use dgmm::{CoresetBuilder, Dataset, Dgmm, Run};
//! # let values: Vec<f32> = (0..20_000).map(|i| (i / 2 % 50) as f32 + (i % 11) as f32 / 20.0).collect();
//! let mut builder = CoresetBuilder::new(1000, 7)?;
//! for chunk in values.chunks(6_000) {
//!     builder.add(&Dataset::from_slice(chunk, 2)?, &Run::default())?;
//! }
//! let fit = Dgmm::params(20).fit(&builder.result()?.dataset()?)?;
//! assert_eq!((fit.labels.len(), builder.rows_seen()), (1000, 10_000));
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! ## ... fit clusters of different sizes and widths?
//! [`GaussianMixture`] learns a weight for each cluster and the variances that a [`Covariance`] leaves free;
//! [`Model::shape`] returns them. [`Model::predict`] then returns the most likely cluster.
//! ```
//! # use dgmm::{Covariance, Dataset, GaussianMixture, Run};
//! # let values: Vec<f64> = (0..4000).map(|i| if i % 4 == 0 { 50.0 + (i * 7 % 90) as f64 } else { (i * 13 % 9) as f64 }).collect();
//! let data = Dataset::from_slice(&values, 1)?;
//! let fit = GaussianMixture::params(2).covariance(Covariance::Spherical).seed(1).fit(&data)?;
//! let shape = fit.model.shape().expect("clusters differ");
//! assert!(shape.weights().unwrap().iter().any(|w| (w - 0.25).abs() < 0.01));
//! assert!(shape.variances().iter().any(|v| *v > 100.0) && shape.variances().iter().any(|v| *v < 10.0));
//! # Ok::<(), dgmm::Error>(())
//! ```
//!
//! # The method
//! Rows y(n) with weights w_n, n = 1..N, D columns; M equiprobable Gaussians with centers mu_c and one variance s2;
//! d_c(n) = |y(n) - mu_c|^2. Each row keeps a truncated set K(n) of H clusters ([`Params::truncation`]).
//!
//! ```text
//! start    mu_c: rows chosen by AFK-MC2        s2: the data's variance        K(n): H clusters at random, or near ones
//! E-step   c' = the nearest of K(n); draw R clusters outside K(n) from row c' of the similarity S
//!          K(n) = the H nearest of K(n) and the draws
//!          q_c(n) = exp(-d_c(n) / 2 s2) / sum_{k in K(n)} exp(-d_k(n) / 2 s2)        for c in K(n), else 0
//! M-step   mu_c = sum_n w_n q_c(n) y(n) / sum_n w_n q_c(n)
//!          s2   = sum_n w_n sum_c q_c(n) |y(n) - mu_c|^2 / (D sum_n w_n)
//!          S_ij = sum of w_n s_ij(n) over the rows whose K(n) holds both i and j
//! stop     when the lower bound F rises by no more than `tol`, per column (or relative to |F|)
//!
//! F = -log M - D/2 log(2 pi s2) + 1 / sum_n w_n * sum_n w_n log sum_{c in K(n)} exp(-d_c(n) / 2 s2)
//! ```
//!
//! s_ij(n) is 1, q_i q_j, or the paper's exp(-(d_i + d_j)), taken relative to its row's largest value because it
//! underflows: see [`SimilarityKind`]. Each draw takes constant time. If s is 1, it is a random member of a random row
//! that has the same nearest cluster, and S is not built; otherwise each row of S keeps its 64 strongest entries, and
//! an alias table draws from it. Members of K(n) and repeats are rejected. After a bounded number of rejections,
//! uniform draws fill up.
//!
//! ## Why F never falls
//! F is the free energy of a truncated posterior, the sum over rows of E_q log p(y(n), c) plus the entropy of q(n),
//! where q(n) is 0 outside K(n). It is a lower bound of the mean log-likelihood for any such q, and every part of an
//! iteration raises it or leaves it as it is (Neal and Hinton, 1998):
//! - For given K(n), the posterior above is the best q(n), and F takes the form in the box.
//! - In that form, exchanging a member of K(n) for a nearer cluster makes a term of the inner sum larger. A cluster
//!   enters K(n) only in exchange for a farther one, whatever proposed it: the quality of S decides how fast F rises,
//!   not whether.
//! - For given q, the centers and s2 of the M-step are the best. With a [step length](Params::step_length) a of up to 2
//!   a center ends (1 - a)^2 times as far from the mean, in squares, as it began, so F still does not fall.
//! - A hard posterior, as in the first iterations of the grouped engine, is one of those q; the soft one that follows
//!   is better.
//! - [Refinement](Params::refine) moves clusters, so F of the moved model may fall at first. The model and K(n) from
//!   before are restored unless F ends up above what it was. Until then they are the fit's answer, and theirs is the F
//!   of its report, so that does not fall either.
//!
//! ## Clusters that differ
//! With weights pi_c and diagonal covariances of variances v_cd, the joint density of row n and cluster c is
//! exp(-score_c(n) / 2) up to a constant, where
//!
//! ```text
//! score_c(n) = sum_d (y_d(n) - mu_cd)^2 / v_cd + sum_d log v_cd - 2 log pi_c
//! ```
//!
//! Nothing in the proof above uses that d_c(n) is a distance, only that q_c(n) is exp(-d_c(n) / 2 s2) up to a factor
//! that the members of K(n) share. With score_c(n) in the place of d_c(n) / s2 it holds word for word. *Proof.* For
//! given K(n) the best q(n) is the posterior, q_c(n) = exp(-score_c(n) / 2) / sum_{k in K(n)} exp(-score_k(n) / 2), and
//! F is a constant plus the mean of log sum_{c in K(n)} exp(-score_c(n) / 2). Let K' be K(n) with a member j exchanged
//! for a cluster i of lower score. The inner sum changes by exp(-score_i / 2) - exp(-score_j / 2) > 0, so F rises. And
//! for given q the weights pi_c = N_c / sum w, means and variances of the M-step maximize the sum of w q_c log p(y, c),
//! which is F up to the entropy of q. ∎ What is added to variances ([`Params::reg_covar`]) is the one exception: it
//! keeps them away from 0 at the cost of a little of F. In the blocked kernel a score costs one product, like a
//! distance: rows are lifted by the columns y^2 (or
//! |y|^2, if each cluster has one variance), and offsets are added to |mu|^2.
//!
//! What remains is rounding. If F falls by more than rounding explains, the fit has not converged and keeps the better
//! model.
//!
//! # Two engines
//! [`Engine::Pointwise`] is the box above, the paper's: each row draws its own R clusters. [`Engine::Grouped`], the
//! default with more than 100 clusters, processes the rows with the same nearest cluster together. They share a list of
//! G candidates ([`Params::proposals`]): the members of their K(n), the strongest of the cluster's row of S, draws from
//! its neighbors' rows, and a few uniform ones. At least 12 are not held by any of the rows, so the list can be longer
//! than G. The blocked kernel measures many shared candidates in the time of a few scattered ones. Every other
//! iteration groups the rows by their second nearest cluster, so that they see another list. The first iterations (one
//! to three, more if clusters are large) assign each row to its nearest cluster only. Members of K(n) outside the list
//! are also measured, so F never falls here either.
//!
//! [`Init::Hierarchical`], the default from 200 clusters on, starts on two levels (three from 50,000 clusters on):
//! coarse cells, AFK-MC2 inside each of them, and as the first K(n) the nearest centers of the row's cell and of
//! adjacent cells. With fewer clusters the default is greedy k-means++ if N M is at most 2^22, otherwise AFK-MC2.
//!
//! # The systems
//! | system | each row is compared with | posterior | evaluations per iteration |
//! |---|---|---|---|
//! | [`KMeans`] | all M clusters | hard | N M |
//! | [`ExactGmm`] | all M clusters | soft, over all | N M |
//! | [`VcGmm`] | the G neighbors of each member of K(n), and one cluster at random | soft, over K(n) | at most N (H G + 1) |
//! | [`Dgmm`] | K(n) and R draws from S, or the candidates of its group; all clusters up to 100 | soft, over K(n) | N (H + R), or N times the candidates |
//! | [`GaussianMixture`] | the same | soft, over K(n), by weight and variance; up to 128 over all | the same |
//!
//! With H = M, vc-GMM and D-GMM are the exact mixture. [`Params::coreset_size`] fits any of them to N' weighted rows
//! and labels all rows afterwards.
//!
//! # Costs
//! | step | time |
//! |---|---|
//! | E-step of D-GMM | O(N (H + R) D); grouped O(N G D) |
//! | E-step of vc-GMM | O(N H G D) |
//! | E-step of k-means and exact GMM | O(N M D), by the blocked kernel |
//! | M-step with S | O(N H D + N H^2 + M D) |
//! | coreset | O(N D), two passes over the data; by a [`CoresetBuilder`] one |
//! | AFK-MC2 with chains of m | O(N D + m M^2 D) |
//! | hierarchical seeding | O(N M^(1/2) D + m M^(3/2) D) |
//! | [`Model::predict`] and the like | O(N M D), by the blocked kernel |
//! | [`Model::index`], once, then [`Index::predict`] and [`Index::top_k`] | O(M^(3/2) D), then O(N M^(1/2) D) with a factor that depends on the data |
//!
//! In each iteration of D-GMM only the work on the M D numbers of the model and the entries of S grows with M.
//!
//! # Memory
//! [`Plan::memory`] adds up what a fit needs above its input. Its terms in bytes, with t = 4 for `f32` and 8 for `f64`:
//!
//! | what | bytes |
//! |---|---|
//! | centers, previous centers, and sums | M D (2 t + 8) |
//! | mixtures: v = M D, M or D variances (diagonal, spherical, tied), second moments of e = D, 1 or D columns | v (16 + t) + M e (8 + t) + M D t + 32 M |
//! | each thread | 3 · 2^20; exact EM, and k-means with many rows per cluster, 2^19 |
//! | hierarchical initialization | (12 + t) N + t D (M + 192 M^(1/2) + 8192), and 4096 t D per thread |
//! | initialization by AFK-MC2 or k-means++, or at random | t N + t M D, or 16 N |
//! | after that, K(n) (one label for k-means and exact EM) and the distance to the nearest cluster | (4 H + t) N |
//! | exact EM: partial sums, in s = N / 512 parts, at most 2^26 / 8 M (D + 1), which is clamped to 8 to 32 | 8 M (D + 1) s |
//! | exact EM: distances | 132 M per thread |
//! | vc-GMM, and D-GMM with at most 100 clusters: distances and posteriors at P = min(N H, 2^22) positions | (4 + 2 t) P |
//! | the same: partial sums, in s = P / 64 M parts, clamped to 1 to 16 | 8 M D s |
//! | k-means: distances at P positions, sums; with many rows per cluster only the sums of s parts | t P + 8 M D; 8 M (D + 1) s |
//! | vc-GMM: neighbors of each cluster | 1536 M, and 16 M per thread |
//! | grouped and pointwise: order of the rows, positions of the clusters | 8 N, and 8 M per thread |
//! | grouped and pointwise: partial sums | about 3 t D for each of the clusters of 2^17 rows (grouped) or 2^18 |
//! | grouped: S | 24 min(64 M, N H) |
//! | pointwise with S by posterior or kernel: S, and its inputs | 1536 M + t N H + 8 P |
//! | coreset of N' rows (N' replaces N above), and the labels of all rows | N' (t D + 16) + 4 N |
//! | with [`Metric::Cosine`]: one factor per row | t N |
//! | with [`Params::max_size`]: up to 8 candidates of each row, their distances and their order, after EM | (76 + 8 t) N |
//! | with [`Params::refine`], as by default in the grouped engine: a model, its S and K(n) to restore, and the rows by cluster (k-means and exact EM: H = 2, no S) | t M D + 24 min(64 M, N H) + (4 H + 8) N |
//! | overhead of the allocator | a quarter of all except the threads, the factors and the coreset |
//!
//! No N x M or M x M array exists unless you ask for one ([`Model::distances`]). [`Dataset::new`] copies rows that are
//! not in C order. Weights take 8 N, and 8 N more during a fit if their mean is not between 1e-6 and 1e6.
//!
//! # Rules
//! - **A cluster that loses all its rows** is moved to one of the rows that are farthest from their nearest cluster,
//!   each such cluster to a different one. Rows of weight 0 and rows that coincide with a center are not used.
//! - **Fewer distinct rows than clusters**: the fit ends as usual, with a center on each distinct row. Some clusters
//!   coincide or are not the label of any row, and [`Report::empty_clusters`] says how many.
//! - **Constant data** can be fitted. s2 has a floor of 1e-12 of the data's variance (of the mean square, if the
//!   variance is 0), so that F is finite.
//! - **Weights**: weight 2 is the row twice, weight 0 the same as no row, except that it gets a label. Their scale does
//!   not matter. A row of weight 0 is never an initial center, and no cluster is moved to it. M may not exceed the
//!   number of rows of positive weight.
//! - **[`Params::max_size`]** bounds the mass of each cluster by the labels, in multiples of the mean mass. After EM,
//!   rows of clusters above the bound go to their next candidates, by prices that an auction finds, and centers move to
//!   the means of their rows. Below 2, clusters far below the mean mass are filled up, or used to split large ones.
//!   What is reported then belongs to these labels: s2 and F are those of the posterior that is 1 at the label, and F
//!   may be lower than in the last iteration. Rows are not split: if one is heavier than the bound, or rows do not fit,
//!   [`Report::oversized_clusters`] counts the clusters above it. [`Model::predict`] has no bound. The rows must be in
//!   memory, not read shard by shard or in batches.
//! - **Equally near clusters**: the exact searches take the one of lower index.
//! - **Nearly equally near clusters**: the exact searches compare |y|^2 - 2 y.mu + |mu|^2, relative to the data's mean
//!   if that is far from 0. If rounding could mislead them, because clusters are closer together than about 1/1000
//!   (`f32`) or 1e-7 (`f64`) of their distance from there, they measure again by differences, which takes longer.
//! - **Directions**: with [`Metric::Cosine`] rows count as y / |y|, normalized on the fly, and the M-step normalizes
//!   centers. F is that of von Mises-Fisher distributions with one concentration 1 / s2, in which log C_D(1 / s2) + 1 /
//!   s2 replaces -D/2 log(2 pi s2). Scaling a row by a power of two changes no bit. An error names a row of zeros, a
//!   cluster whose rows cancel out keeps its direction, and the concentration stays between 1e-12 and 1e12.
//! - **Values** must be finite. Squared distances, also to given centers, must fit into the type, and those of a fit
//!   must not underflow unless all rows are the same. An error names the first value, or the column, that does not
//!   comply.
//! - **Not converging** within `max_iter` is not an error: [`Report::converged`] says so.
//!
//! # Threads
//! Without a number of threads ([`Params::threads`], [`Run::threads`]) a call made inside a rayon pool works in that
//! pool. Other calls use a pool of their own with as many threads as the CPU affinity and the container quota of the
//! process allow; it is kept for the next call. Fits inside callbacks, threads and forked processes work.
//!
//! # Determinism
//! The same seed gives the same bits for every number of threads: blocks have fixed bounds, each opens its own stream
//! of random numbers, and sums are merged in the order of the blocks. A seed keeps its meaning from version to version
//! (tests hold the values). CPUs with other instruction sets add in another order, so last digits may differ. The
//! environment variable `DGMM_ISA` (`baseline`, `avx2`, `avx512`) names the highest instruction set to use. It is read
//! at the first use. If the CPU lacks that level, its best one is used; other text is ignored.
//!
//! # References
//! - G. Exarchakis, O. Oubari and G. Lenz, "A sampling-based approach for efficient clustering in large datasets", CVPR
//!   2022.
//! - F. Hirschberger, D. Forster and J. Lücke, "A variational EM acceleration for efficient clustering at very large
//!   scales", IEEE Transactions on Pattern Analysis and Machine Intelligence, 2022.
//! - R. M. Neal and G. E. Hinton, "A view of the EM algorithm that justifies incremental, sparse, and other variants",
//!   in Learning in Graphical Models, 1998.
//! - O. Bachem, M. Lucic, S. H. Hassani and A. Krause, "Fast and provably good seedings for k-means", NIPS 2016.
//! - O. Bachem, M. Lucic and A. Krause, "Scalable k-means clustering via lightweight coresets", KDD 2018.
//! - A. Banerjee, I. S. Dhillon, J. Ghosh and S. Sra, "Clustering on the unit hypersphere using von Mises-Fisher
//!   distributions", Journal of Machine Learning Research, 2005.
//! - K. Hornik and B. Grün, "On maximum likelihood estimation of the concentration parameter of von Mises-Fisher
//!   distributions", Computational Statistics, 2014.
//! - A. J. Walker, "An efficient method for generating discrete random variables with general distributions", ACM
//!   Transactions on Mathematical Software, 1977.

mod bytes;
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
mod von_mises_fisher;

pub use ndarray;

pub use data::coreset::{self, Coreset, CoresetBuilder, lightweight_coreset};
pub use data::{Dataset, Moments};
pub use error::{Error, Result, Spanning, SystemError};
pub use fit::{Batch, Fit, Stream};
pub use index::Index;
pub use kernel::Real;
pub use model::{Model, Shape};
pub use observer::{Event, Observer, Silent};
pub use options::{Covariance, Engine, Init, Labels, Metric, SimilarityKind, Stop, Weights};
pub use parallel::Run;
#[doc(hidden)]
pub use parallel::thread_builder;
pub use plan::{Dgmm, ExactGmm, Fitted, GaussianMixture, KMeans, Params, Plan, QUICK_TOL, Seeding, VcGmm};
pub use report::{Evaluations, Iteration, Report, Seconds};
pub use seeding::{Seeds, afkmc2, kmeans_plus_plus, random_rows};
pub use step::Search;
