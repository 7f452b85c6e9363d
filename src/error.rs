//! Everything that can go wrong, one variant a cause, with the values that caused it.

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
    #[error("X has 0 rows; at least 1 is needed")]
    NoRows,
    /// The data has no columns.
    #[error("X has 0 columns; at least 1 is needed")]
    NoColumns,
    /// A slice does not hold whole rows.
    #[error("X has {values} values; rows of {dim} columns need a multiple of it")]
    RaggedRows {
        /// Number of values.
        values: usize,
        /// Columns.
        dim: usize,
    },
    /// A value of the data is NaN or infinite.
    #[error("X[{row}, {column}] is {value}; every value must be finite")]
    NotFinite {
        /// Row of the first such value.
        row: usize,
        /// Column of the first such value.
        column: usize,
        /// The value, as text.
        value: String,
    },
    /// The fit of finite data came to a model or a lower bound that is not finite.
    #[error("the fit came to values that are not finite: X was changed while it ran")]
    NotFiniteModel,
    /// The spread of the data, or of data and centers, overflows their type: squared distances would be infinite.
    #[error("{what} {span:e} in column {column}; squared distances overflow {kind}: rescale X or use a wider type")]
    Overflow {
        /// What spans so much.
        what: &'static str,
        /// Column with the largest span.
        column: usize,
        /// Largest minus smallest value of it.
        span: f64,
        /// Name of the floating-point type.
        kind: &'static str,
    },
    /// The weights have another length than the data has rows.
    #[error("sample_weight has {weights} entries but X has {rows} rows")]
    WeightCount {
        /// Number of weights.
        weights: usize,
        /// Number of rows.
        rows: usize,
    },
    /// A weight is negative, NaN or infinite.
    #[error("sample_weight[{row}] is {value}; weights must be finite and at least 0")]
    BadWeight {
        /// Row of the first such weight.
        row: usize,
        /// Its value.
        value: f64,
    },
    /// All weights are zero.
    #[error("sample_weight is zero for every row; at least one must be positive")]
    ZeroWeights,
    /// More clusters than rows with a positive weight.
    #[error("n_clusters is {clusters} but X has only {rows} rows of positive weight")]
    TooManyClusters {
        /// Clusters asked for.
        clusters: usize,
        /// Rows of positive weight.
        rows: usize,
    },
    /// A parameter is outside its range.
    #[error("{name} is {value}; it must be {allowed}")]
    BadParameter {
        /// Name of the parameter, as in Python.
        name: &'static str,
        /// The value seen.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// The truncation exceeds the number of clusters.
    #[error("truncation is {truncation} but n_clusters is {clusters}; truncation must be from 1 to n_clusters")]
    TruncationTooLarge {
        /// The truncation H.
        truncation: usize,
        /// The number of clusters M.
        clusters: usize,
    },
    /// The given centers have the wrong shape.
    #[error("init has shape ({rows}, {columns}); it must be ({clusters}, {dim})")]
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
    /// New data has another number of columns than the model.
    #[error("X has {columns} columns but the model has {dim}")]
    DimensionMismatch {
        /// Columns of the data.
        columns: usize,
        /// Columns of the model.
        dim: usize,
    },
    /// Statistics of another model than that of the round.
    #[error("statistics are of {clusters} clusters and {dim} columns; expected {} and {}", expected.0, expected.1)]
    StatisticsMismatch {
        /// Their clusters.
        clusters: usize,
        /// Their columns.
        dim: usize,
        /// Clusters and columns of the round.
        expected: (usize, usize),
    },
    /// Memberships of another shard or round.
    #[error("memberships are of {rows} rows with {kept} clusters each; expected {} and {}", expected.0, expected.1)]
    MembershipsMismatch {
        /// Their rows.
        rows: usize,
        /// Clusters that each keeps.
        kept: usize,
        /// What the shard and the round have.
        expected: (usize, usize),
    },
    /// Bytes that do not hold what was expected, or are damaged.
    #[error("these bytes do not hold {what}: {reason}")]
    BadBytes {
        /// What was expected.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The system has no more memory.
    #[error("not enough memory for {what}: {bytes} bytes were asked for")]
    OutOfMemory {
        /// What it was for.
        what: &'static str,
        /// How many bytes.
        bytes: usize,
    },
    /// The pool of threads could not be made.
    #[error("cannot start {threads} threads: {reason}")]
    ThreadPool {
        /// Threads asked for.
        threads: usize,
        /// What the system said.
        reason: String,
    },
    /// The system could not read or write a file.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: SystemError,
    },
    /// A file is cut off or altered, or no safetensors file at all.
    #[error("{path} is damaged or no safetensors file: {reason}")]
    DamagedFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is whole but holds no model of this kind.
    #[error("{path} holds no usable model: {reason}")]
    ForeignFile {
        /// The file.
        path: PathBuf,
        /// What is missing or different.
        reason: String,
    },
    /// A file is of a format that came after this version of the crate.
    #[error(
        "{path} has format version {version}, written by dgmm {wrote}; this is dgmm {}, which reads versions up to \
         {newest}: use a newer one",
        env!("CARGO_PKG_VERSION")
    )]
    NewerFile {
        /// The file.
        path: PathBuf,
        /// Its format's version.
        version: u64,
        /// The version of dgmm that wrote it.
        wrote: String,
        /// The newest version that is known here.
        newest: u64,
    },
    /// The observer asked to stop.
    #[error("stopped by the observer")]
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

/// An [`io::Error`] that can be cloned and compared: by its kind and the system's number for it.
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
