//! The examples run as they are.

#[path = "../examples/fit_array.rs"]
mod fit_array;
#[path = "../examples/reuse_coreset.rs"]
mod reuse_coreset;

#[test]
fn an_array_is_fitted() {
    fit_array::main().unwrap();
}

#[test]
fn a_coreset_is_used_again() {
    reuse_coreset::main().unwrap();
}
