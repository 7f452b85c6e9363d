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
    /// There is no memory for what a file holds.
    #[error("cannot allocate {bytes} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
    },
    /// The observer asked to stop.
    #[error("stopped by the observer")]
    Cancelled,
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
