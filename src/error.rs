//! Everything that can go wrong, one variant a cause, with the values that caused it.

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
    /// The system refused memory.
    #[error("not enough memory for {what}: {bytes} bytes")]
    OutOfMemory {
        /// What it was for.
        what: &'static str,
        /// Bytes asked for.
        bytes: usize,
    },
    /// The system could not read or write a file.
    #[error("{path}: {reason}")]
    File {
        /// The file.
        path: String,
        /// What the system said.
        reason: String,
    },
    /// A file is cut off or altered, or no safetensors file at all.
    #[error("{path} is damaged or no safetensors file: {reason}")]
    DamagedFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file is whole but holds no model of this kind.
    #[error("{path} holds no usable model: {reason}")]
    ForeignFile {
        /// The file.
        path: String,
        /// What is missing or different.
        reason: String,
    },
    /// A file is of a format that came after this version of the crate.
    #[error("{path} has format version {version}; this version reads versions up to {newest}: use a newer one")]
    NewerFile {
        /// The file.
        path: String,
        /// Its format's version.
        version: u64,
        /// The newest version that is known here.
        newest: u64,
    },
    /// The observer asked to stop.
    #[error("stopped by the observer")]
    Cancelled,
}

/// `len` times `value`, or an error where there is no memory for them.
pub(crate) fn filled<T: Clone>(value: T, len: usize, what: &'static str) -> Result<Vec<T>> {
    let mut all = Vec::new();
    let bytes = len.saturating_mul(size_of::<T>());
    all.try_reserve_exact(len).map_err(|_| Error::OutOfMemory { what, bytes })?;
    all.resize(len, value);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_there_can_be_is_refused() {
        let error = filled(0u64, usize::MAX / 4, "a test").unwrap_err();
        assert_eq!(error, Error::OutOfMemory { what: "a test", bytes: usize::MAX });
        assert_eq!(filled(3u8, 2, "a test"), Ok(vec![3, 3]));
    }
}
