//! All integration tests.

mod common;
mod exactness;
mod examples;
mod order;
mod promises;
mod properties;
mod value_stability;
