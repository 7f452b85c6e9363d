//! The examples run.

#[path = "../examples/fit_array.rs"]
mod fit_array;
#[path = "../examples/reuse_coreset.rs"]
mod reuse_coreset;
#[cfg(feature = "files")]
#[path = "../examples/save_model.rs"]
mod save_model;

#[test]
fn an_array_is_fitted() {
    fit_array::main().unwrap();
}

#[test]
fn a_coreset_is_reused() {
    reuse_coreset::main().unwrap();
}

#[cfg(feature = "files")]
#[test]
fn a_model_is_saved_and_loaded() {
    let path = std::env::temp_dir().join(format!("dgmm-example-{}.safetensors", std::process::id()));
    save_model::save_and_load(&path).unwrap();
    std::fs::remove_file(path).unwrap();
}
