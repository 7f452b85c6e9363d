//! Everything that can go wrong: one variant per cause, with the values that caused it.

mod message;

pub use message::Spanning;

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call was refused or stopped. Each message names the argument, the value seen and what is allowed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The data has no rows.
    NoRows,
    /// The data has no columns.
    NoColumns,
    /// A slice does not hold whole rows.
    RaggedRows {
        /// Number of values.
        values: usize,
        /// Columns.
        dim: usize,
    },
    /// A value of the data is NaN or infinite.
    NotFinite {
        /// Row of the first such value.
        row: usize,
        /// Column of the first such value.
        column: usize,
        /// The value, as text.
        value: String,
    },
    /// A row has no direction, or one that its type cannot represent.
    NoDirection {
        /// The number of the row.
        row: u64,
        /// Its length.
        length: f64,
        /// Name of the floating-point type.
        kind: &'static str,
    },
    /// The fit of finite data produced a model or a lower bound that is not finite.
    NotFiniteModel,
    /// The spread of the data, or of data and centers, overflows their type: squared distances would be infinite.
    Overflow {
        /// What spans so much.
        what: Spanning,
        /// Column with the largest span.
        column: usize,
        /// Largest minus smallest value of it.
        span: f64,
        /// Name of the floating-point type.
        kind: &'static str,
    },
    /// The spread of the data is so small that squared distances would underflow in their type.
    Underflow {
        /// Column with the largest span.
        column: usize,
        /// Largest minus smallest value of it.
        span: f64,
        /// Name of the floating-point type.
        kind: &'static str,
    },
    /// The number of weights differs from the number of rows.
    WeightCount {
        /// Number of weights.
        weights: usize,
        /// Number of rows.
        rows: usize,
    },
    /// A weight is negative, NaN or infinite.
    BadWeight {
        /// Row of the first such weight.
        row: usize,
        /// Its value.
        value: f64,
    },
    /// Each weight is valid, but their sum is infinite.
    WeightSum {
        /// Row of the largest weight.
        row: usize,
        /// Its value.
        value: f64,
    },
    /// All weights are zero.
    ZeroWeights,
    /// More clusters than rows with a positive weight.
    TooManyClusters {
        /// Clusters asked for.
        clusters: usize,
        /// Rows of positive weight.
        rows: usize,
    },
    /// A parameter is outside its range.
    BadParameter {
        /// Name of the parameter.
        name: &'static str,
        /// The value seen.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// The truncation exceeds the number of clusters.
    TruncationTooLarge {
        /// The truncation H.
        truncation: usize,
        /// The number of clusters M.
        clusters: usize,
    },
    /// The given centers have the wrong shape.
    BadInitShape {
        /// Rows of the given centers.
        rows: usize,
        /// Columns of the given centers.
        columns: usize,
        /// Clusters asked for.
        clusters: usize,
        /// Columns of the data.
        dim: usize,
    },
    /// New data have a different number of columns than the model.
    DimensionMismatch {
        /// Columns of the data.
        columns: usize,
        /// Columns of the model.
        dim: usize,
    },
    /// A chunk of a stream has a different number of columns than those before it.
    WidthChanged {
        /// Columns of the chunk.
        columns: usize,
        /// Columns of the rows before it.
        dim: usize,
    },
    /// A value of a stream is NaN or infinite.
    NotFiniteRow {
        /// The number of its row in the stream.
        row: u64,
        /// Its column.
        column: usize,
        /// The value, as text.
        value: String,
    },
    /// Rows with the same numbers were given to two builders, or twice to one.
    RepeatedRows {
        /// The first of these numbers.
        first: u64,
        /// The last of these numbers.
        last: u64,
    },
    /// The second pass over a stream did not see the same data as the first.
    ChunkChanged {
        /// The number of the chunk.
        chunk: usize,
        /// What differs.
        what: &'static str,
        /// Its value in the first pass and in the second.
        values: (f64, f64),
    },
    /// Statistics that do not fit the round's model.
    StatisticsMismatch {
        /// Their clusters.
        clusters: usize,
        /// Their columns.
        dim: usize,
        /// Clusters and columns of the round.
        expected: (usize, usize),
    },
    /// Memberships that do not fit the shard or the round.
    MembershipsMismatch {
        /// Their rows.
        rows: usize,
        /// Number of clusters that each row keeps.
        kept: usize,
        /// What the shard and the round have.
        expected: (usize, usize),
    },
    /// Bytes that do not hold what was expected, or are damaged.
    BadBytes {
        /// What was expected.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The system has no more memory.
    OutOfMemory {
        /// What it was for.
        what: &'static str,
        /// How many bytes.
        bytes: usize,
    },
    /// The thread pool could not be created.
    ThreadPool {
        /// Threads asked for.
        threads: usize,
        /// The reason given by the system.
        reason: String,
    },
    /// The system could not read or write a file.
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: SystemError,
    },
    /// A file is truncated or altered, or not a safetensors file at all.
    DamagedFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is intact but does not hold a model of this kind.
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What is missing or different.
        reason: String,
    },
    /// A file has a format that is newer than this version of the crate.
    NewerFile {
        /// The file.
        path: PathBuf,
        /// The version of its format.
        version: u64,
        /// The version of dgmm that wrote it.
        wrote: String,
        /// The newest version that this crate supports.
        newest: u64,
    },
    /// The observer asked to stop.
    Cancelled,
}

impl Error {
    /// A parameter outside its range.
    pub(crate) fn bad(name: &'static str, value: impl std::fmt::Display, allowed: impl Into<String>) -> Self {
        Self::BadParameter { name, value: value.to_string(), allowed: allowed.into() }
    }
}

/// Refuses 0.
pub(crate) fn at_least_one(name: &'static str, value: usize) -> Result<()> {
    if value == 0 { Err(Error::bad(name, value, "at least 1")) } else { Ok(()) }
}

/// An [`io::Error`] that can be cloned, and compared by its kind and the system's error number.
#[derive(Debug, Clone)]
pub struct SystemError(Arc<io::Error>);

impl From<io::Error> for SystemError {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl Deref for SystemError {
    type Target = io::Error;
    fn deref(&self) -> &io::Error {
        &self.0
    }
}

impl PartialEq for SystemError {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.raw_os_error() == other.raw_os_error()
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SystemError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}
