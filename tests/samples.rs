//! Fits with many rows per cluster begin on a sample of the rows.

use crate::common::blobs;
use dgmm::{Dataset, Dgmm, Engine, KMeans};
use ndarray::Array2;
use std::ops::ControlFlow;

#[test]
fn fits_in_memory_with_many_rows_per_cluster_begin_with_a_sample_too() {
    let x: Array2<f32> = blobs(300_000, 2, 40, 3);
    let data = Dataset::new(x.view()).unwrap();
    for clusters in [40, 150] {
        let fit = Dgmm::params(clusters).seed(1).fit(&data).unwrap();
        let rows: Vec<u64> = fit.report.iterations.iter().map(|i| i.rows).collect();
        assert_eq!((rows[0], rows[rows.len() - 1]), (1 << 16, 300_000));
        assert!(fit.report.converged && fit.labels.len() == 300_000);
        // Exact EM and the paper's engine see all rows in every iteration.
        for params in [Dgmm::params(clusters).engine(Engine::Pointwise), KMeans::params(clusters)] {
            assert!(params.plan(300_000, 2).unwrap().samples.is_empty());
        }
        assert!(Dgmm::params(clusters).truncation(clusters).plan(300_000, 2).unwrap().samples.is_empty());
    }
}

#[test]
fn a_fit_stopped_on_its_sample_still_labels_all_rows() {
    let x: Array2<f32> = blobs(90_000, 2, 40, 3);
    let data = Dataset::new(x.view()).unwrap();
    let stop = |event: &dgmm::Event| match event {
        dgmm::Event::Iteration { iteration: 2, .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let params = Dgmm::params(120).shard_rows(40_000).tol(0.0);
    let fit = params.fit_observed(&data, None, &stop).unwrap();
    let rows: Vec<u64> = fit.report.iterations.iter().map(|i| i.rows).collect();
    assert_eq!((rows, fit.report.stopped, fit.labels.len()), (vec![1 << 16; 2], true, 90_000));
}

/// Rows in 40 blobs, except for six that are far from all others.
fn with_outliers(rows: usize) -> Array2<f32> {
    let mut x: Array2<f32> = blobs(rows, 2, 40, 3);
    for i in 0..6 {
        x.row_mut(rows / 7 * (i + 1)).fill(1000.0 * (i + 1) as f32);
    }
    x
}

#[test]
fn a_few_far_rows_get_clusters_in_fits_with_samples() {
    let rows = 270_000;
    let x = with_outliers(rows);
    let data = Dataset::new(x.view()).unwrap();
    for seed in 0..3 {
        let fit = Dgmm::params(120).seed(seed).fit(&data).unwrap();
        assert_eq!(fit.report.iterations[0].rows, 1 << 16);
        for i in 0..6 {
            let n = rows / 7 * (i + 1);
            let center = fit.model.centers().row(fit.labels[n] as usize).to_owned();
            assert!((center[0] - x[[n, 0]]).abs() < 1.0, "{seed}: {} is at {center}", x[[n, 0]]);
        }
    }
}
