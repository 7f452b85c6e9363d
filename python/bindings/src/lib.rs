//! The extension module `dgmm._core`: takes views of arrays, detaches from Python, calls the core, converts the results.
//!
//! There is no arithmetic here. Every call into the core goes through [`border::run`].

mod border;
mod convert;
mod coreset;
mod files;
mod fit;
mod functions;
mod index;
mod model;
mod shards;
mod stream;
mod trainer;

use pyo3::prelude::*;

/// The compiled core of dgmm. Private: use the names of the package.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::convert::ModelFileError;
    #[pymodule_export]
    use super::coreset::{CoresetBuilder, FirstPass, SecondPass};
    #[pymodule_export]
    use super::files::{read_file, write_file};
    #[pymodule_export]
    use super::fit::{Fitted, fit, plan, shards_within};
    #[pymodule_export]
    use super::functions::{afkmc2, lightweight_coreset, quantization_error};
    #[pymodule_export]
    use super::index::Index;
    #[pymodule_export]
    use super::model::{distances, log_density, posteriors, predict, top_k};
    #[pymodule_export]
    use super::shards::{Memberships, Round, Statistics, Summary, merge, merge_summaries, step, summarize};
    #[pymodule_export]
    use super::stream::{Learned, learn};
    #[pymodule_export]
    use super::trainer::Trainer;
    #[pymodule_export]
    use crate::border::panic;

    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("QUICK_TOL", dgmm::QUICK_TOL)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
