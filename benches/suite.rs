//! All benchmarks of the crate; `cargo bench -- NAME` runs those whose name holds NAME.

mod common;
mod fit;
mod kernel;
mod sampling;
mod seeding;
mod steps;

criterion::criterion_main!(kernel::kernels, sampling::sampling, seeding::seedings, steps::steps, fit::fits);
