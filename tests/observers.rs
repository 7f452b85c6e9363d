//! Observers can stop a fit, and of several runs the best one is kept as a whole.

use crate::common::{blobs, stop_at};
use crate::promises::systems;
use dgmm::{Dataset, Error, Event, Observer, Params};
use ndarray::Array2;
use std::ops::ControlFlow;

#[test]
fn an_observer_gets_each_iteration_and_can_stop_or_cancel() {
    struct Cancel;
    impl Observer for Cancel {
        fn cancelled(&self) -> bool {
            true
        }
    }
    let x: Array2<f32> = blobs(2000, 4, 30, 1);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in systems(30) {
        let fit = params.clone().tol(0.0).fit_observed(&data, None, &stop_at(3)).unwrap();
        assert_eq!((fit.report.iterations.len(), fit.report.stopped), (3, true), "{name}");
        assert_eq!(params.fit_observed(&data, None, &Cancel).unwrap_err(), Error::Cancelled, "{name}");
    }
}

#[test]
fn stopping_before_there_is_a_model_gives_one_iteration() {
    struct StopAtStage(Event);
    impl Observer for StopAtStage {
        fn event(&self, event: &Event) -> ControlFlow<()> {
            if *event == self.0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let x: Array2<f32> = blobs(3000, 4, 30, 1);
    let data = Dataset::new(x.view()).unwrap();
    let seeding = |run| StopAtStage(Event::Seeding { run, clusters: 30 });
    for (name, params) in systems(30) {
        let params = params.tol(0.0).max_iter(5).n_init(3);
        let stopped = |params: &Params, at: &StopAtStage| {
            let report = params.fit_observed(&data, None, at).unwrap().report;
            (report.stopped, report.run, report.iterations.len())
        };
        assert_eq!(stopped(&params, &seeding(0)), (true, 0, 1), "{name}");
        assert_eq!(stopped(&params, &seeding(1)), (true, 0, 5), "{name}");
        let at_coreset = StopAtStage(Event::Coreset { size: 500 });
        assert_eq!(stopped(&params.coreset_size(500), &at_coreset), (true, 0, 1), "{name}");
    }
}

#[test]
fn a_stopped_run_does_not_replace_a_better_one() {
    struct StopInRun(usize);
    impl Observer for StopInRun {
        fn event(&self, event: &Event) -> ControlFlow<()> {
            match event {
                Event::Iteration { run, .. } if *run == self.0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let x: Array2<f32> = blobs(2000, 4, 30, 1);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in systems(30) {
        let params = params.tol(0.0).max_iter(20);
        let one = params.clone().fit(&data).unwrap();
        let best = params.n_init(5).fit_observed(&data, None, &StopInRun(1)).unwrap();
        assert!(best.report.stopped, "{name}");
        assert_eq!((best.report.run, best.report.iterations.len()), (0, one.report.iterations.len()), "{name}");
        assert_eq!(best.report.lower_bound, one.report.lower_bound, "{name}");
    }
}

#[test]
fn the_best_of_several_runs_is_one_whole_run() {
    let x: Array2<f64> = blobs(600, 2, 12, 3);
    let data = Dataset::new(x.view()).unwrap();
    for (name, params) in systems(12) {
        let one = params.clone().seed(5).fit(&data).unwrap();
        let best = params.clone().seed(5).n_init(6).fit(&data).unwrap();
        assert!(best.report.lower_bound >= one.report.lower_bound, "{name}");
        let d: f64 = (0..600)
            .map(|n| {
                let c = best.model.centers().row(best.labels[n] as usize).to_owned();
                (&x.row(n) - &c).mapv(|v| v * v).sum()
            })
            .sum();
        approx::assert_relative_eq!(d, best.report.inertia, max_relative = 1e-9);
    }
}
