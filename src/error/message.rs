//! The error messages, each written once. They name arguments, whose names differ between Rust and Python.

use super::Error;
use std::fmt;

/// The names of the arguments in one language.
struct Names {
    data: &'static str,
    weights: &'static str,
    clusters: &'static str,
    threads: &'static str,
    start: &'static str,
}

const RUST: Names =
    Names { data: "data", weights: "weights", clusters: "clusters", threads: "threads", start: "start" };
const PYTHON: Names =
    Names { data: "X", weights: "sample_weight", clusters: "n_clusters", threads: "n_threads", start: "init" };
const PYTHON_MIXTURE: Names = Names { clusters: "n_components", start: "means_init", ..PYTHON };

/// What spans too much in [`Error::Overflow`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Spanning {
    /// The data.
    Data,
    /// The data and the initial centers.
    DataAndStart,
    /// The data and the centers of the model.
    DataAndCenters,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        RUST.write(self, f)
    }
}

impl Error {
    /// The message with the argument names of Python.
    #[doc(hidden)]
    #[must_use]
    pub fn python_message(&self) -> String {
        self.message(&PYTHON)
    }

    /// The message for `GaussianMixture`, which has scikit-learn's argument names.
    #[doc(hidden)]
    #[must_use]
    pub fn python_mixture_message(&self) -> String {
        self.message(&PYTHON_MIXTURE)
    }

    fn message(&self, names: &Names) -> String {
        struct Message<'a>(&'a Error, &'a Names);
        impl fmt::Display for Message<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.1.write(self.0, f)
            }
        }
        Message(self, names).to_string()
    }
}

impl Names {
    fn write(&self, error: &Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, clusters: m, .. } = self;
        match error {
            Error::NoRows => write!(f, "{data} has 0 rows; at least 1 is needed"),
            Error::NoColumns => write!(f, "{data} has 0 columns; at least 1 is needed"),
            Error::RaggedRows { values, dim } => {
                write!(f, "{data} has {values} values; rows of {dim} columns need a multiple of {dim}")
            }
            Error::NotFinite { row, column, value } => {
                write!(f, "{data}[{row}, {column}] is {value}; every value must be finite")
            }
            Error::Overflow { what, column, span, kind } => {
                self.write_spanning(*what, f)?;
                self.write_span(*column, *span, &format!("overflow {kind}"), f)
            }
            Error::Underflow { column, span, kind } => {
                write!(f, "{data} spans only")?;
                self.write_span(*column, *span, &format!("underflow {kind}"), f)
            }
            Error::NotFiniteModel => {
                write!(f, "the fit produced values that are not finite: {data} was changed while it ran")
            }
            Error::WeightCount { .. } | Error::BadWeight { .. } | Error::WeightSum { .. } | Error::ZeroWeights => {
                self.write_weights(error, f)
            }
            Error::TooManyClusters { clusters, rows } => {
                write!(f, "{m} is {clusters} but {data} has only {rows} rows of positive weight")
            }
            Error::BadParameter { name, value, allowed } => self.write_parameter(name, value, allowed, f),
            Error::TruncationTooLarge { truncation, clusters } => {
                write!(f, "truncation is {truncation} but {m} is {clusters}; truncation must be from 1 to {m}")
            }
            Error::BadInitShape { rows, columns, clusters, dim } => {
                write!(f, "{} has shape ({rows}, {columns}); it must be ({clusters}, {dim})", self.start)
            }
            Error::DimensionMismatch { columns, dim } => self.write_width(*columns, "model has", *dim, f),
            Error::WidthChanged { columns, dim } => self.write_width(*columns, "rows before it have", *dim, f),
            Error::NoDirection { row, length, kind } => self.write_direction(*row, *length, kind, f),
            // None of these names an argument. They are listed so that a new variant cannot be forgotten.
            Error::NotFiniteRow { .. }
            | Error::RepeatedRows { .. }
            | Error::ChunkChanged { .. }
            | Error::StatisticsMismatch { .. }
            | Error::MembershipsMismatch { .. }
            | Error::BadBytes { .. }
            | Error::OutOfMemory { .. }
            | Error::ThreadPool { .. }
            | Error::File { .. }
            | Error::DamagedFile { .. }
            | Error::ForeignFile { .. }
            | Error::NewerFile { .. }
            | Error::Cancelled => write_without_names(error, f),
        }
    }

    fn write_weights(&self, error: &Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, weights, .. } = self;
        match error {
            Error::WeightCount { weights: count, rows } => {
                write!(f, "{weights} has {count} entries but {data} has {rows} rows")
            }
            Error::BadWeight { row, value } => {
                let shown = if value.abs() < 1e16 { value.to_string() } else { format!("{value:e}") };
                write!(f, "{weights}[{row}] is {shown}; weights must be finite and at least 0")
            }
            Error::WeightSum { row, value } => {
                let most = f64::MAX;
                write!(
                    f,
                    "the sum of {weights} overflows: {weights}[{row}] is {value:e}, and the total must be at most {most:e}"
                )
            }
            _ => write!(f, "{weights} is zero for every row; at least one must be positive"),
        }
    }

    fn write_direction(&self, row: u64, length: f64, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data;
        if length == 0.0 {
            return write!(f, "row {row} of {data} is all zeros: metric=\"cosine\" needs rows with a direction");
        }
        write!(
            f,
            "row {row} of {data} has length {length:e}, whose inverse {kind} cannot hold: metric=\"cosine\" needs it; \
             rescale the row or use a wider type"
        )
    }

    fn write_parameter(&self, name: &str, value: &str, allowed: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `clusters` is the only argument that bounds others.
        let allowed = allowed.replace("clusters = ", &format!("{} = ", self.clusters));
        write!(f, "{} is {value}; it must be {allowed}", self.argument(name))
    }

    fn write_width(&self, columns: usize, whose: &str, dim: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has {columns} columns but the {whose} {dim}", self.data)
    }

    fn write_span(&self, column: usize, span: f64, fate: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let data = self.data;
        write!(f, " {span:e} in column {column}; squared distances {fate}: rescale {data} or use a wider type")
    }

    fn write_spanning(&self, what: Spanning, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (data, start) = (self.data, self.start);
        match what {
            Spanning::Data => write!(f, "{data} spans"),
            Spanning::DataAndStart => write!(f, "{start} and {data} together span"),
            Spanning::DataAndCenters => write!(f, "{data} and the centers together span"),
        }
    }

    /// The name in this language of the argument with this name in Rust.
    fn argument<'a>(&'a self, name: &'a str) -> &'a str {
        match name {
            "clusters" => self.clusters,
            "threads" => self.threads,
            "start" => self.start,
            other => other,
        }
    }
}

/// The messages that are the same in every language.
fn write_without_names(error: &Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match error {
        Error::NotFiniteRow { row, column, value } => {
            write!(f, "row {row} of the stream is {value} in column {column}; every value must be finite")
        }
        Error::RepeatedRows { first, last } => write!(
            f,
            "rows {first} to {last} of the stream are there already; builders that are merged need rows of different \
             numbers: give each its own first_row"
        ),
        Error::ChunkChanged { chunk, what, values: (first, second) } => write!(
            f,
            "chunk {chunk} of the stream has another {what} in the second pass ({second}) than in the first ({first}); \
             both must see the same chunks"
        ),
        Error::StatisticsMismatch { clusters, dim, expected: (m, d) } => {
            write!(f, "statistics have {clusters} clusters and {dim} columns; expected {m} and {d}")
        }
        Error::MembershipsMismatch { rows, kept, expected: (n, h) } => {
            write!(f, "memberships have {rows} rows with {kept} clusters each; expected {n} and {h}")
        }
        Error::BadBytes { what, reason } => write!(f, "these bytes do not hold {what}: {reason}"),
        Error::OutOfMemory { what, bytes } => {
            write!(f, "not enough memory for {what}: {bytes} bytes were requested")
        }
        Error::ThreadPool { threads, reason } => write!(f, "cannot start {threads} threads: {reason}"),
        Error::File { path, source } => write!(f, "{}: {source}", path.display()),
        Error::DamagedFile { path, reason } => {
            write!(f, "{} is damaged or not a safetensors file: {reason}", path.display())
        }
        Error::ForeignFile { path, reason } => write!(f, "{} holds no usable model: {reason}", path.display()),
        Error::NewerFile { path, version, wrote, newest } => write!(
            f,
            "{} has format version {version}, written by dgmm {wrote}; this is dgmm {}, which reads versions up to \
             {newest}: use a newer one",
            path.display(),
            env!("CARGO_PKG_VERSION")
        ),
        Error::Cancelled => write!(f, "stopped by the observer"),
        _ => unreachable!("has names, and is written with them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;
    use std::io;

    #[test]
    fn messages_name_arguments_as_each_language_does() {
        let overflow = |what| Error::Overflow { what, column: 1, span: 1e20, kind: "float32" };
        for (error, rust, python) in [
            (Error::NoRows, "data has 0 rows; at least 1 is needed", "X has 0 rows; at least 1 is needed"),
            (
                Error::WeightCount { weights: 2, rows: 3 },
                "weights has 2 entries but data has 3 rows",
                "sample_weight has 2 entries but X has 3 rows",
            ),
            (
                Error::bad("clusters", 0, "at least 1"),
                "clusters is 0; it must be at least 1",
                "n_clusters is 0; it must be at least 1",
            ),
            (
                Error::bad("k", 9, "from 1 to clusters = 8"),
                "k is 9; it must be from 1 to clusters = 8",
                "k is 9; it must be from 1 to n_clusters = 8",
            ),
            (
                Error::TruncationTooLarge { truncation: 9, clusters: 8 },
                "truncation is 9 but clusters is 8; truncation must be from 1 to clusters",
                "truncation is 9 but n_clusters is 8; truncation must be from 1 to n_clusters",
            ),
            (
                Error::BadInitShape { rows: 1, columns: 2, clusters: 3, dim: 4 },
                "start has shape (1, 2); it must be (3, 4)",
                "init has shape (1, 2); it must be (3, 4)",
            ),
            (
                overflow(Spanning::DataAndStart),
                "start and data together span 1e20 in column 1; squared distances overflow float32: rescale data or use a \
                 wider type",
                "init and X together span 1e20 in column 1; squared distances overflow float32: rescale X or use a wider \
                 type",
            ),
            (
                Error::WeightSum { row: 3, value: 1e306 },
                "the sum of weights overflows: weights[3] is 1e306, and the total must be at most 1.7976931348623157e308",
                "the sum of sample_weight overflows: sample_weight[3] is 1e306, and the total must be at most \
                 1.7976931348623157e308",
            ),
            (
                Error::NoDirection { row: 17, length: 0.0, kind: "float32" },
                "row 17 of data is all zeros: metric=\"cosine\" needs rows with a direction",
                "row 17 of X is all zeros: metric=\"cosine\" needs rows with a direction",
            ),
            (Error::Cancelled, "stopped by the observer", "stopped by the observer"),
        ] {
            assert_eq!((error.to_string(), error.python_message()), (rust.to_owned(), python.to_owned()));
        }
    }

    #[test]
    fn messages_of_mixtures_have_the_names_of_scikit_learn() {
        for (error, message) in [
            (
                Error::TooManyClusters { clusters: 9, rows: 8 },
                "n_components is 9 but X has only 8 rows of positive weight",
            ),
            (
                Error::BadInitShape { rows: 1, columns: 2, clusters: 3, dim: 4 },
                "means_init has shape (1, 2); it must be (3, 4)",
            ),
            (
                Error::bad("coreset_size", 5, "at least clusters = 8"),
                "coreset_size is 5; it must be at least n_components = 8",
            ),
            (Error::bad("threads", 0, "from 1 to 1024"), "n_threads is 0; it must be from 1 to 1024"),
        ] {
            assert_eq!(error.python_mixture_message(), message);
        }
    }

    #[test]
    fn an_error_of_the_system_is_the_source_of_ours() {
        let error = Error::File { path: "a/b".into(), source: io::Error::from_raw_os_error(2).into() };
        let source = error.source().expect("there is one").downcast_ref::<crate::SystemError>().expect("of this type");
        assert_eq!(source.raw_os_error(), Some(2));
        assert_eq!(error.to_string(), format!("a/b: {source}"));
    }
}
