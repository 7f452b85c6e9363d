//! Tests of a segment.

use super::*;
use crate::data::Dataset;
use crate::model::score::Scores;
use crate::observer::Silent;
use crate::step::groups::{count_from_origin, merge, shared};
use crate::step::posterior::take_posterior;
use crate::step::round::{Round, Search};
use crate::step::statistics::Statistics;
use ndarray::{Array2, ArrayView1};

const CLUSTERS: usize = 6;
const ROWS: usize = 40;
const H: usize = 3;

/// Rows and centers with two columns, `shift` from zero, with one center far away.
fn places(shift: f64) -> (Array2<f64>, Array2<f64>) {
    let x = Array2::from_shape_fn((ROWS, 2), |(n, d)| shift + ((n * 7 + d * 5) % 23) as f64 / 4.0);
    let far = |c: usize| if c == 5 { 1e3 } else { 0.0 };
    let centers = Array2::from_shape_fn((CLUSTERS, 2), |(c, d)| shift + far(c) + (c * (d + 2)) as f64 * 0.8);
    (x, centers)
}

fn round(centers: &Array2<f64>, origin: Option<Vec<f64>>) -> Round<f64> {
    let search = Search::Grouped { truncation: H, candidates: CLUSTERS };
    Round::plain(Model::from_origin(centers.view(), origin, 1.5).unwrap(), search)
}

fn with_frame<R>(
    data: &Dataset<'_, f64>,
    round: &Round<f64>,
    members: Vec<u32>,
    hard: bool,
    looks: Option<&[Vec<u32>]>,
    work: impl FnOnce(&Frame<'_, f64>) -> R,
) -> R {
    let scores = Scores::of(&round.model).unwrap();
    let task = Task { round, data, scores: &scores, seed: 0, observer: &Silent };
    let (order, members): (Vec<u32>, _) = ((0..data.rows() as u32).collect(), shared(members));
    work(&Frame {
        task: &task,
        model: &round.model,
        looks,
        order: &order,
        truncation: H,
        candidates: CLUSTERS,
        hard,
        learn: true,
        apart: false,
        members: &members,
    })
}

#[test]
fn old_members_that_are_not_listed_are_kept_where_they_are_near() {
    let (x, centers) = places(0.0);
    let (data, round) = (Dataset::new(x.view()).unwrap(), round(&centers, None));
    // Every row holds a near cluster and a far one that are not candidates.
    let members: Vec<u32> = (0..ROWS).flat_map(|_| [1, 3, 5]).collect();
    with_frame(&data, &round, members, true, None, |frame| {
        let mut worker = Worker::new(CLUSTERS).unwrap();
        worker.list_all(&[0, 1, 2, 4]);
        worker.place_centers(frame);
        let candidates = std::mem::take(&mut worker.candidates);
        worker.block.load_first(data.table(), &[9], 1, Some(&worker.point), 0);
        (worker.ids, worker.distances) = (vec![0; H], vec![0.0; H]);
        worker.block.nearest(&Centers::new(&candidates, 2), H, &mut worker.ids, &mut worker.distances);
        assert_eq!(worker.keep_old(frame, 4, 0, 9), 2);
        let d = |c: usize| (x[[9, 0]] - centers[[c, 0]]).powi(2) + (x[[9, 1]] - centers[[c, 1]]).powi(2);
        let mut nearest: Vec<usize> = (0..CLUSTERS).collect();
        nearest.sort_by(|&a, &b| d(a).total_cmp(&d(b)));
        assert!(nearest[..H].contains(&3), "{nearest:?}");
        let kept: Vec<usize> = worker.ids.iter().map(|&place| worker.list[place as usize] as usize).collect();
        assert_eq!(kept, nearest[..H]);
        kept.iter().zip(&worker.distances).for_each(|(&c, &now)| assert!((now - d(c)).abs() < 1e-12));
        // Another row finds them already listed.
        assert_eq!((worker.keep_old(frame, 4, 0, 10), worker.list.len()), (2, 6));
    });
}

#[test]
fn a_set_that_is_measured_again_stands_in_the_order_of_its_distances() {
    let (x, centers) = places(1e3);
    let (data, round) = (Dataset::new(x.view()).unwrap(), round(&centers, Some(vec![1e3, 1e3])));
    with_frame(&data, &round, vec![0; ROWS * H], true, None, |frame| {
        let mut worker = Worker::new(CLUSTERS).unwrap();
        worker.list_all(&[4, 2, 0, 1, 3]);
        (worker.ids, worker.distances) = (vec![0, 4, 2], vec![0.0; H]);
        worker.put_aside(frame, 11);
        worker.measure_set(frame, 0, 0);
        let d = |c: u32| {
            let apart = &x.row(11) - &centers.row(c as usize);
            apart.dot(&apart)
        };
        assert!(worker.distances.is_sorted());
        for (&place, &now) in worker.ids.iter().zip(&worker.distances) {
            assert!((now - d(worker.list[place as usize])).abs() < 1e-9);
        }
        let mut places = worker.ids.clone();
        places.sort_unstable();
        assert_eq!((places, worker.asides.len()), (vec![0, 2, 4], 2));
    });
}

#[test]
fn sums_are_those_of_a_plain_loop_hard_and_soft() {
    let weights: Vec<f64> = (0..ROWS).map(|n| (n % 4) as f64 * 0.5).collect();
    for (shift, hard) in [(0.0, true), (0.0, false), (1e3, true), (1e3, false)] {
        let (mut x, centers) = places(shift);
        // Rows that are far nearer to their cluster than to the group's point.
        (0..5).for_each(|k| x.row_mut(8 * k).assign(&(&centers.row(k + 1) + 1e-4)));
        let data = Dataset::new(x.view()).unwrap().weighted(ArrayView1::from(&weights)).unwrap();
        let round = round(&centers, (shift > 0.0).then(|| vec![shift; 2]));
        let looks = [(0..CLUSTERS as u32).collect::<Vec<u32>>()];
        let mut statistics = Statistics::new(CLUSTERS, 2, 0).unwrap();
        let members = with_frame(&data, &round, vec![0; ROWS * H], hard, Some(&looks), |frame| {
            let segment = Segment { leader: 0, start: 0, end: ROWS };
            let (partial, _) = Worker::new(CLUSTERS).unwrap().expectation(frame, &[segment]).unwrap();
            assert_eq!(partial.evaluations, (ROWS * CLUSTERS) as u64);
            merge(&mut statistics, &[partial]);
            frame.members.iter().map(|m| m.load(Ordering::Relaxed)).collect::<Vec<u32>>()
        });
        count_from_origin(&mut statistics, &round.model);
        let mut plain: Statistics<f64> = Statistics::new(CLUSTERS, 2, 0).unwrap();
        for n in 0..ROWS {
            let d = |c: usize| (0..2).map(|k| (x[[n, k]] - centers[[c, k]]).powi(2)).sum::<f64>();
            let mut set: Vec<usize> = (0..CLUSTERS).collect();
            set.sort_by(|&a, &b| d(a).total_cmp(&d(b)).then(a.cmp(&b)));
            set.truncate(H);
            assert!(members[n * H..(n + 1) * H].iter().zip(&set).all(|(&a, &b)| a as usize == b), "row {n}");
            let near: Vec<f64> = set.iter().map(|&c| d(c)).collect();
            let mut q = vec![0.0; H];
            let posterior = take_posterior(&near, 1.5, &mut q);
            if hard {
                q = vec![1.0, 0.0, 0.0];
            }
            let w = weights[n];
            plain.inertia += w * near[0];
            plain.weighted_distance += w * if hard { near[0] } else { posterior.mean_distance };
            plain.log_sum += w * if hard { -near[0] / 3.0 } else { posterior.log_sum };
            for (&c, q) in set.iter().zip(q) {
                plain.mass[c] += w * q;
                (0..2).for_each(|k| plain.sums[c * 2 + k] += w * q * (x[[n, k]] - shift));
            }
        }
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-8, "{a} against {b}: {shift}, {hard}");
        statistics.sums.iter().zip(&plain.sums).for_each(|(&a, &b)| close(a, b));
        statistics.mass.iter().zip(&plain.mass).for_each(|(&a, &b)| close(a, b));
        close(statistics.inertia, plain.inertia);
        close(statistics.weighted_distance, plain.weighted_distance);
        close(statistics.log_sum, plain.log_sum);
    }
}
