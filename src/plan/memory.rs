//! The memory of a fit above its input, as a formula of its sizes.

use super::{Fitted, Params, Plan, SAMPLE_ROWS, Seeding};
use crate::error::{Error, Result};
use crate::model::Shape;
use crate::options::{Labels, Metric};
use crate::step::{ROW_BOUND, Search, lloyd_segments, lloyd_suits, soft_segments};

/// Maximum number of rows whose partial sums wait to be merged.
const GROUPED_ROWS: usize = 1 << 17;
const POINTWISE_ROWS: usize = 1 << 18;
/// Positions (rows x H) that are processed at once.
const PLACES: usize = 1 << 22;
/// Maximum number of copies of each cluster's sums, if rows keep some of the clusters they are compared with.
const SEGMENTS: usize = 16;
/// Bytes of two vectors, which hold the distances of a tile of rows for one cluster.
const TILE: usize = 128;
/// Maximum number of clusters, on average, with more than a negligible share of a row.
const SHARED: usize = 3;
/// Bytes per entry of S, including its alias table and the counts for the next S.
const ENTRY: usize = 24;
/// Rows per cell copied by the first cut of the seeding, by its chains and by the seeding inside a cell.
const ROWS_A_CELL: usize = 192;
const CHAIN_ROWS: usize = 8192;
const CELL_ROWS: usize = 4096;
/// Bytes that threads and the allocator hold regardless of the sizes; and the allocator's overhead: 1 in 4.
const FIXED: usize = 3 << 20;
const FIXED_SOFT: usize = 1 << 19;

/// Maximum number of candidates per row if cluster sizes are bounded.
pub(crate) const CANDIDATES: usize = 8;

/// Default size of a shard in bytes, unless its clusters need more.
const SHARD: usize = 64 << 20;
/// Minimum number of rows of a shard.
const FEWEST_IN_A_SHARD: usize = 4096;
/// Minimum number of sampled rows per cluster.
const FEWEST_PER_CLUSTER: usize = 4;
/// Memory of a program with its libraries before any data.
const PROGRAM: usize = 96 << 20;
/// Sums of shards that wait to be merged, and the resulting model.
const SUMS: usize = 5;

impl Params {
    /// Sets the rows of a shard and of the sample for rows that are read shard by shard. They follow from the numbers
    /// of clusters and columns and from `bytes`, the memory limit of the whole process, if given. Each number takes
    /// `width` bytes.
    ///
    /// A shard has 256 rows per cluster, so that grouping loses nothing; fewer if memory is short, and more if that
    /// would be a small shard. Of `bytes`, 96 MiB are left to the program itself.
    pub fn within(self, bytes: Option<usize>, dim: usize, width: usize) -> Result<Self> {
        let (m, row) = (self.clusters, dim * width);
        let by_default = (SAMPLE_ROWS * m).max(SHARD / row).max(FEWEST_IN_A_SHARD);
        let Some(bytes) = bytes else {
            let shard = self.shard_rows.unwrap_or(by_default);
            return Ok(self.shard_rows(shard));
        };
        let h = self.search().kept();
        let fixed = SUMS * 8 * m * dim + m * dim * 2 * width + 2 * m * ROW_BOUND * ENTRY;
        let (shard_row, sample_row) = (2 * row + 4 * h + 2 * width + 32, 2 * row + row / 2 + 64);
        let fewest = (FEWEST_IN_A_SHARD * shard_row).max(FEWEST_PER_CLUSTER * m * sample_row);
        // A quarter of the rest is for K(n), which is written to disk if it takes more, and a quarter is overhead of
        // the allocator.
        let left = (bytes.saturating_sub(PROGRAM) / 2).checked_sub(fixed).map(|left| left / 2);
        let Some(left) = left.filter(|&left| left >= fewest) else {
            let needed = PROGRAM + 2 * (fixed + 2 * fewest) + 4;
            let allowed = format!("at least {needed} for {m} clusters of {dim} columns");
            return Err(Error::bad("memory_limit", bytes, allowed));
        };
        let shard = self.shard_rows.unwrap_or(left / shard_row / FEWEST_IN_A_SHARD * FEWEST_IN_A_SHARD);
        let sample = self.sampling().size.min(left / sample_row);
        Ok(self.shard_rows(shard).sample_rows(sample))
    }
}

impl Plan {
    /// Approximate peak memory of a fit in bytes, above its input, for numbers of `width` bytes: 4 for `f32`, 8 for
    /// `f64`. The terms are those of the table in the [crate's documentation](crate#memory).
    #[must_use]
    pub fn memory(&self, width: usize, threads: usize) -> usize {
        let (rows, m, d) = (self.rows_fitted(), self.clusters, self.dim);
        let model = m * d * (2 * width + 8) + self.shape_bytes(width) + self.refine_bytes(width);
        let em = self.step_bytes(width, threads).max(self.balance_bytes(width));
        let start = match self.seeding {
            // Cells, labels and distances of the first cut, the rows of each cell, and samples of the rows.
            Seeding::Hierarchical { .. } => {
                let cells = ROWS_A_CELL * (m as f64).sqrt() as usize;
                let copied = (cells + CHAIN_ROWS).min(2 * rows) + threads * CELL_ROWS.min(rows);
                rows * (12 + width) + (m + copied) * d * width
            }
            Seeding::PlusPlus { .. } | Seeding::AfkMc2 { .. } => rows * width + m * d * width,
            Seeding::Random => 16 * rows,
        };
        let held = em.max(start) + model;
        let fit = held + held / 4 + threads * self.thread_bytes();
        // One factor per row.
        let fit = fit + if self.metric == Metric::Cosine { width * self.rows } else { 0 };
        match self.fitted {
            Fitted::All => fit,
            // The coreset and the distances with which it is drawn; then the labels of all rows.
            Fitted::Coreset(size) => (size * (d * width + 16) + fit).max(self.rows * width) + 4 * self.rows,
        }
    }

    /// The part that each thread needs regardless of the sizes; small if rows are processed block by block in one pass.
    fn thread_bytes(&self) -> usize {
        let soft = !self.hard && self.search.truncation() == self.clusters && self.clusters > 1;
        let exhaustive = matches!(self.search, Search::Exhaustive { .. });
        if exhaustive && (soft || self.in_one_pass()) { FIXED_SOFT } else { FIXED }
    }

    /// Whether k-means sums its rows while it finds their centers.
    fn in_one_pass(&self) -> bool {
        self.hard && lloyd_suits(self.rows_fitted(), self.clusters, self.dim)
    }

    /// The part for variances and weights of clusters: the current and previous ones, derived quantities, second
    /// moments.
    fn shape_bytes(&self, width: usize) -> usize {
        let (m, d) = (self.clusters, self.dim);
        let Some(rule) = self.shape_rule() else { return 0 };
        let extra = rule.moments().map_or(0, |lift| lift.columns(d));
        let variances = Shape::count(self.covariance, m, d);
        variances * (2 * 8 + width) + m * extra * 8 + m * (d + extra) * width + 4 * 8 * m
    }

    /// The part that refinement may have to restore: a model with its S, and K(n); and the rows by cluster. If rows
    /// keep one cluster, they search for two.
    fn refine_bytes(&self, width: usize) -> usize {
        if self.refine == 0 {
            return 0;
        }
        let (m, h) = (self.clusters, self.search.kept());
        // If the first iterations see a sample of the rows, so does refinement.
        let rows = self.samples.last().copied().unwrap_or(self.rows_fitted());
        let s = if h > 1 { (m * ROW_BOUND).min(rows * h) * ENTRY } else { 0 };
        m * self.dim * width + s + (4 * h.max(2) + 8) * rows
    }

    /// The part for balancing the labels.
    fn balance_bytes(&self, width: usize) -> usize {
        if self.max_size.is_none() {
            return 0;
        }
        // Candidates, their distances, and their positions by cluster; labels, before and after.
        let rows = if self.labels == Labels::None { self.rows_fitted() } else { self.rows };
        4 * self.search.kept() * self.rows_fitted() + rows * (CANDIDATES.min(self.clusters) * (8 + width) + 12)
    }

    /// The part for an EM step, besides the model and its sums.
    fn step_bytes(&self, width: usize, threads: usize) -> usize {
        let (rows, m, d, h) = (self.rows_fitted(), self.clusters, self.dim, self.search.truncation());
        let kept = (4 * self.search.kept() + width) * rows;
        // Clusters of the rows being processed, and their neighbors' shares.
        let partial_sums = |at_once: usize| {
            let targets = (at_once.min(rows) * m).div_ceil(rows) + 64 * 8;
            let extra = self.shape_rule().and_then(|rule| rule.moments()).map_or(0, |lift| lift.columns(d));
            width * (d + extra) * (targets * SHARED.min(h)).min(at_once.min(rows) * h)
        };
        let by_blocks = |width: usize| {
            let places = (rows * h).min(PLACES);
            let segments = (places / (64 * m)).clamp(1, SEGMENTS);
            (4 + 2 * width) * places + 8 * m * d * segments
        };
        kept + match self.search {
            // k-means has no posteriors. With few clusters it only needs the sums of its segments.
            Search::Exhaustive { .. } if self.in_one_pass() => 8 * m * (d + 1) * lloyd_segments(rows, m),
            Search::Exhaustive { .. } if self.hard => width * rows.min(PLACES) + 8 * m * d,
            // Sums of the segments; the values of a tile and the positions of its shares.
            Search::Exhaustive { .. } if h == m => {
                8 * m * (d + 1) * soft_segments(rows, m, d) + m * (TILE + 4) * threads
            }
            Search::Exhaustive { .. } => by_blocks(width),
            Search::Neighbors { .. } => by_blocks(width) + m * ROW_BOUND * ENTRY + 16 * m * threads,
            Search::Pointwise { similarity, .. } => {
                let pairs = crate::step::needs_pairs(similarity);
                let s = if pairs { width * rows * h + 8 * (rows * h).min(PLACES) + m * ROW_BOUND * ENTRY } else { 0 };
                8 * rows + 8 * m * threads + partial_sums(POINTWISE_ROWS) + s
            }
            Search::Grouped { .. } => {
                // Each of the rows holds at most h others that S may count.
                let entries = (m * ROW_BOUND).min(rows * h);
                8 * rows + 8 * m * threads + partial_sums(GROUPED_ROWS) + entries * ENTRY
            }
        }
    }
}
