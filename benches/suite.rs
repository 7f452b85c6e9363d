//! All benchmarks of the crate; `cargo bench -- NAME` runs those whose name contains NAME.

mod common;
mod fit;
mod kernel;
mod seeding;

criterion::criterion_main!(kernel::kernels, seeding::seedings, fit::fits);
