//! Tests of the trainer.

use super::*;
use crate::data::Dataset;
use crate::options::Stop;
use crate::parallel::Run;
use crate::step::{Memberships, Shard, step};
use ndarray::{Array2, array};

const TRAINING: Training = Training {
    search: Search::Exhaustive { truncation: 2 },
    hard: false,
    hard_iterations: 2,
    step_length: 1.0,
    stop: Stop::PerDim,
    tol: 0.0,
    max_iter: 5,
    refine: 0,
    relocate: true,
    variance_floor: 1e-9,
    shape: None,
};

/// Two clusters of two rows in one column, and steps over them.
struct Loop {
    x: Array2<f32>,
    memberships: Memberships,
    trainer: Trainer<f32>,
}

impl Loop {
    fn new(training: Training, x: Array2<f32>, centers: Array2<f32>) -> Self {
        let model = Model::from_origin(centers.view(), None, 1.0).unwrap();
        let start = Start { model, cells: None, sequence: Vec::new(), evaluations: 7 };
        let trainer = Trainer::new(training, start, x.nrows() as u64, x.nrows() as f64, 0).unwrap();
        Self { x, memberships: Memberships::new(), trainer }
    }

    fn overlapping(training: Training) -> Self {
        Self::new(training, array![[0.0], [1.5], [2.0], [3.5], [4.0]], array![[0.0], [2.0]])
    }

    fn statistics(&mut self) -> Statistics<f32> {
        let shard = Shard::new(Dataset::new(self.x.view()).unwrap(), 0).unwrap();
        step(self.trainer.round(), &shard, &mut self.memberships, &Run::default()).unwrap()
    }

    fn turn(&mut self) -> Progress {
        let statistics = self.statistics();
        self.trainer.absorb(statistics).unwrap()
    }
}

#[test]
fn the_first_iterations_are_hard_and_those_after_them_soft() {
    for (hard, expected) in [(false, "HHSSS"), (true, "HHHHH")] {
        let mut run = Loop::overlapping(Training { hard, tol: f64::NEG_INFINITY, ..TRAINING });
        let mut phases = String::new();
        while run.trainer.round().learn {
            phases.push(if run.trainer.round().phase() == Phase::Hard { 'H' } else { 'S' });
            assert!(matches!(run.turn(), Progress::Iterated { .. }));
        }
        assert_eq!(phases, expected);
        // After the last iteration comes an E-step in its phase.
        assert_eq!(run.trainer.round().phase() == Phase::Hard, hard);
        assert!(!run.trainer.is_finished());
        assert_eq!((run.turn(), run.trainer.is_finished()), (Progress::Finished, true));
        let report = run.trainer.report();
        assert_eq!((report.iterations.len(), report.converged, report.stopped), (5, false, false));
        assert_eq!((report.evaluations.seeding, report.evaluations.em), (7, 6 * 5 * 2));
    }
}

#[test]
fn a_variance_that_shrinks_by_orders_of_magnitude_is_measured_between_iterations() {
    let x = array![[-1e-3], [1e-3], [999.999], [1000.001]];
    let mut run = Loop::new(Training { hard: true, ..TRAINING }, x.clone(), array![[0.5], [999.0]]);
    assert!(matches!(run.turn(), Progress::Iterated { iteration: 1, .. }));
    assert!(!run.trainer.round().learn);
    assert_eq!(run.turn(), Progress::Measured);
    let centers = run.trainer.round().model().centers();
    let apart = |n: usize| f64::from(x[[n, 0]] - centers[[n / 2, 0]]).powi(2);
    let measured = (0..4).map(apart).sum::<f64>() / 4.0;
    approx::assert_relative_eq!(run.trainer.round().model().variance(), measured, max_relative = 1e-5);
    assert!(run.trainer.round().learn && measured < 2e-6);
    assert_eq!((run.trainer.report().iterations.len(), run.trainer.round().iteration()), (1, 1));
    assert!(matches!(run.turn(), Progress::Iterated { iteration: 2, .. }));
    // The E-step that measured counts for the iteration after it.
    assert_eq!(run.trainer.report().iterations.iter().map(|i| i.distance_evals).collect::<Vec<_>>(), [8, 16]);
}

#[test]
fn a_falling_bound_restores_the_previous_model_and_is_not_convergence() {
    let mut run = Loop::overlapping(Training { hard_iterations: 0, ..TRAINING });
    run.turn();
    let best = run.trainer.round().model().clone();
    run.turn();
    let bound = run.trainer.report().lower_bound;
    assert_ne!(*run.trainer.round().model(), best);
    let mut statistics = run.statistics();
    statistics.log_sum -= 1.0;
    assert!(matches!(run.trainer.absorb(statistics).unwrap(), Progress::Iterated { iteration: 3, .. }));
    assert_eq!(*run.trainer.round().model(), best);
    assert_eq!((run.trainer.report().lower_bound, run.trainer.report().converged), (bound, false));
    assert_eq!((run.turn(), run.trainer.is_finished()), (Progress::Finished, true));
    approx::assert_relative_eq!(run.trainer.report().lower_bound, bound, max_relative = 1e-6);
    assert!(!run.trainer.report().converged);
    assert_eq!(run.trainer.into_model(), best);
}

#[test]
fn a_stopped_trainer_assigns_the_rows_once_more_and_stays_finished() {
    let mut run = Loop::overlapping(TRAINING);
    run.turn();
    run.trainer.stop();
    assert!(run.trainer.report().stopped && !run.trainer.round().learn && !run.trainer.is_finished());
    let model = run.trainer.round().model().clone();
    assert_eq!(run.turn(), Progress::Finished);
    assert!(run.trainer.is_finished());
    run.trainer.stop();
    assert_eq!((run.turn(), run.trainer.is_finished()), (Progress::Finished, true));
    assert_eq!(run.trainer.report().iterations.len(), 1);
    assert_eq!(run.trainer.into_model(), model);
}

/// Three groups of rows; two clusters are in the first, and one has the others.
fn misplaced(refine: usize) -> Loop {
    let x = Array2::from_shape_fn((30, 1), |(n, _)| (n / 10) as f32 * 10.0 + (n % 10) as f32 * 0.01);
    let search = Search::Exhaustive { truncation: 1 };
    let training = Training { search, hard: true, max_iter: 30, refine, ..TRAINING };
    Loop::new(training, x, array![[0.02], [0.07], [15.0]])
}

#[test]
fn a_cluster_of_little_use_moves_to_where_it_is_needed() {
    let mut run = misplaced(2);
    let mut moved = Vec::new();
    while !run.trainer.is_finished() {
        if let Progress::Refining { moved: count } = run.turn() {
            moved.push(count);
        }
    }
    // Then no move would pay off.
    assert_eq!(moved, [1, 0]);
    let mut centers = run.trainer.round().model().centers().into_raw_vec_and_offset().0;
    centers.sort_by(f32::total_cmp);
    approx::assert_relative_eq!(centers[..], [0.045, 10.045, 20.045], max_relative = 1e-5);
    let rounds: Vec<usize> = run.trainer.report().iterations.iter().map(|i| i.refine).collect();
    assert!(rounds[0] == 0 && rounds.contains(&1), "{rounds:?}");
}

#[test]
fn a_round_in_vain_is_undone() {
    let mut plain = misplaced(0);
    while !plain.trainer.is_finished() {
        plain.turn();
    }
    let mut run = misplaced(3);
    let mut moves = 0;
    while !run.trainer.is_finished() {
        let mut statistics = run.statistics();
        if run.trainer.refinement.as_ref().is_some_and(|r| r.before.is_some()) {
            statistics.log_sum -= 1e9;
        }
        moves += usize::from(matches!(run.trainer.absorb(statistics).unwrap(), Progress::Refining { .. }));
    }
    assert_eq!(moves, 1);
    assert_eq!(run.trainer.round().model(), plain.trainer.round().model());
    assert_eq!(run.memberships.labels(), plain.memberships.labels());
    assert_eq!(run.trainer.report().lower_bound, plain.trainer.report().lower_bound);
    assert_eq!(run.trainer.report().converged, plain.trainer.report().converged);
}

#[test]
fn statistics_of_a_probe_without_the_worth_of_clusters_are_refused() {
    let mut run = misplaced(1);
    while run.trainer.due != Due::Probe {
        run.turn();
    }
    let mut statistics = run.statistics();
    statistics.removal.clear();
    assert!(matches!(run.trainer.absorb(statistics), Err(Error::StatisticsMismatch { .. })));
}
