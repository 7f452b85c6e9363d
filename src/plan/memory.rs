//! The memory of a fit above its input, as a formula of its sizes.

use super::{Fitted, Params, Plan, SAMPLE_ROWS, Seeding};
use crate::error::{Error, Result};
use crate::model::Shape;
use crate::options::{Labels, Metric};
use crate::step::{ROW_BOUND, Search, lloyd_segments, lloyd_suits, soft_segments};

/// The most rows whose partial sums wait to be merged.
const GROUPED_ROWS: usize = 1 << 17;
const POINTWISE_ROWS: usize = 1 << 18;
/// Places (rows x H) that are worked on at once.
const PLACES: usize = 1 << 22;
/// Sums of each cluster that are held at once if rows keep some of the clusters they are compared with.
const SEGMENTS: usize = 16;
/// Bytes of two vectors, which a tile of rows fills with each cluster's distances.
const TILE: usize = 128;
/// The most clusters, on average, with more than a negligible share of a row.
const SHARED: usize = 3;
/// Bytes of an entry of S, with its alias table; rows are not full while the next are made.
const ENTRY: usize = 24;
/// Rows that the first cut of a start, its chains and the start inside a cell copy.
const ROWS_A_CELL: usize = 192;
const CHAIN_ROWS: usize = 8192;
const CELL_ROWS: usize = 4096;
/// Bytes that threads and the allocator hold whatever the sizes are, and what the allocator keeps back: 1 in 4.
const FIXED: usize = 3 << 20;
const FIXED_SOFT: usize = 1 << 19;

/// The most candidates of each row if cluster sizes are bounded.
pub(crate) const CANDIDATES: usize = 8;

/// Bytes of the rows of a shard by default, where its clusters do not ask for more.
const SHARD: usize = 64 << 20;
/// The fewest rows of a shard.
const FEWEST_IN_A_SHARD: usize = 4096;
/// The fewest rows of a sample for each cluster.
const FEWEST_PER_CLUSTER: usize = 4;
/// What a program with its libraries takes before any data.
const PROGRAM: usize = 96 << 20;
/// Sums of shards that wait to be merged, and the model that they lead to.
const SUMS: usize = 5;

impl Params {
    /// The same, of rows that are read shard by shard: how many rows a shard and the sample have. They follow from the numbers
    /// of clusters and columns, and from `bytes`, the memory that the whole process may take, where that is given. The numbers
    /// take `width` bytes.
    ///
    /// A shard has 256 rows for each cluster, so that grouping loses nothing; less where the memory is short, and more where
    /// these would be few. Of `bytes` 96 MiB are left to the program itself.
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
        // Of what the program leaves a quarter is for K(n), which goes to the disk where it would take more, and a quarter
        // is what allocators keep back.
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
    /// About how many bytes a fit needs at its peak, above its input, where numbers take `width` bytes: 4 for `f32`, 8 for
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
            // The coreset, and the distances that it is drawn by; then the labels of all rows.
            Fitted::Coreset(size) => (size * (d * width + 16) + fit).max(self.rows * width) + 4 * self.rows,
        }
    }

    /// Of which for each thread, whatever the sizes are: little where rows are worked on block by block from beginning to end.
    fn thread_bytes(&self) -> usize {
        let soft = !self.hard && self.search.truncation() == self.clusters && self.clusters > 1;
        let exhaustive = matches!(self.search, Search::Exhaustive { .. });
        if exhaustive && (soft || self.in_one_pass()) { FIXED_SOFT } else { FIXED }
    }

    /// Whether k-means adds up its rows as it finds their centers.
    fn in_one_pass(&self) -> bool {
        self.hard && lloyd_suits(self.rows_fitted(), self.clusters, self.dim)
    }

    /// Of which for what clusters have beside their centers: variances now and before, what follows from them, second moments.
    fn shape_bytes(&self, width: usize) -> usize {
        let (m, d) = (self.clusters, self.dim);
        let Some(rule) = self.shape_rule() else { return 0 };
        let extra = rule.moments().map_or(0, |lift| lift.columns(d));
        let variances = Shape::count(self.covariance, m, d);
        variances * (2 * 8 + width) + m * extra * 8 + m * (d + extra) * width + 4 * 8 * m
    }

    /// Of which for what refinement may have to take back: a model with its S, and K(n), and for the rows by cluster. Where rows keep
    /// one cluster alone, they look for two.
    fn refine_bytes(&self, width: usize) -> usize {
        if self.refine == 0 {
            return 0;
        }
        let (m, h) = (self.clusters, self.search.kept());
        // Where the first iterations see a sample of the rows, so does refinement.
        let rows = self.samples.last().copied().unwrap_or(self.rows_fitted());
        let s = if h > 1 { (m * ROW_BOUND).min(rows * h) * ENTRY } else { 0 };
        m * self.dim * width + s + (4 * h.max(2) + 8) * rows
    }

    /// Of which while labels are brought within the bound on sizes.
    fn balance_bytes(&self, width: usize) -> usize {
        if self.max_size.is_none() {
            return 0;
        }
        // Candidates, their distances, and their places by cluster; labels, before and after.
        let rows = if self.labels == Labels::None { self.rows_fitted() } else { self.rows };
        4 * self.search.kept() * self.rows_fitted() + rows * (CANDIDATES.min(self.clusters) * (8 + width) + 12)
    }

    /// Of which in an EM step, beside the model and its sums.
    fn step_bytes(&self, width: usize, threads: usize) -> usize {
        let (rows, m, d, h) = (self.rows_fitted(), self.clusters, self.dim, self.search.truncation());
        let kept = (4 * self.search.kept() + width) * rows;
        // Clusters that the rows at work have, and their neighbors' shares.
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
            // k-means has no posteriors. With few clusters it has nothing but the sums of its segments.
            Search::Exhaustive { .. } if self.in_one_pass() => 8 * m * (d + 1) * lloyd_segments(rows, m),
            Search::Exhaustive { .. } if self.hard => width * rows.min(PLACES) + 8 * m * d,
            // Sums of the segments; the values of a tile and the places of its shares.
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
