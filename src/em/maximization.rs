//! The M-step: mu_c = sum w q y / sum w q, and the exact s2 for the new means without a second pass over the data:
//!
//! sum_n w q_c |y - m|^2 = sum_n w q_c |y - mu_old|^2 - N_c |mean_c - mu_old|^2 + N_c |m - mean_c|^2,
//!
//! where mean_c is the exact weighted mean and m what is stored. The sum is divided by D sum w (the paper's D N' is wrong
//! for weights that do not sum to N').
//!
//! EM puts m at mean_c. A step of length a goes on to m = mu_old + a (mean_c - mu_old): the sum then falls by
//! a (2 - a) N_c |mean_c - mu_old|^2, so F still rises for any a between 0 and 2. What EM mends slowly is mended about a
//! times as fast (over-relaxation: Salakhutdinov and Roweis, "Adaptive overrelaxed bound optimization methods", ICML 2003).
//!
//! Rules. A cluster without mass keeps its mean here and is listed; the driver moves it (see
//! [`relocate`]). s2 is kept above a floor, so that constant data and clusters of one point have a finite F.

use crate::data::{Dataset, compare};
use crate::em::statistics::Statistics;
use crate::model::Model;
use crate::real::Real;
use crate::search::State;
use rayon::prelude::*;

/// Moves the model (IN OUT) on by a step of length `step`, which is 1 for EM and below 2. Returns the clusters that have no
/// mass.
pub(crate) fn maximize<T: Real>(model: &mut Model<T>, statistics: &Statistics, floor: f64, step: f64) -> Vec<u32> {
    let dim = statistics.dim;
    let drops: Vec<f64> = model
        .local_centers_mut()
        .par_chunks_mut(dim)
        .zip(statistics.sums.par_chunks(dim))
        .zip(&statistics.mass)
        .with_min_len(64)
        .map(|((center, sum), &mass)| if mass > 0.0 { mass * T::move_center(center, sum, mass, step) } else { 0.0 })
        .collect();
    let total = statistics.weighted_distance - drops.iter().sum::<f64>();
    model.set_variance((total / (statistics.weight * dim as f64)).max(floor));
    (0..statistics.mass.len() as u32).filter(|&c| statistics.mass[c as usize] <= 0.0).collect()
}

/// Moves each empty cluster onto one of the rows of positive weight that are farthest from their nearest cluster, each of
/// them different, and lets that row know. Rows that sit on a center already (d = 0) are left alone: with fewer distinct
/// rows than clusters some stay empty.
pub(crate) fn relocate<T: Real>(model: &mut Model<T>, state: &mut State<T>, data: &Dataset<'_, T>, empty: &[u32]) {
    if empty.is_empty() {
        return;
    }
    let far = |(n, d): &(usize, T)| data.weight(*n) > 0.0 && *d > T::ZERO;
    let all = (0..data.rows()).into_par_iter().map(|i| (state.row_of(i), state.nearest[i]));
    let mut rows: Vec<(usize, T)> = all.filter(far).collect();
    // Equal rows must follow one another.
    let farthest_first = |a: &(usize, T), b: &(usize, T)| {
        b.1.total_cmp(&a.1).then_with(|| compare(data.row(a.0), data.row(b.0))).then(a.0.cmp(&b.0))
    };
    // Some more than needed, because equal rows count once.
    let enough = 4 * empty.len() + 64;
    if rows.len() > enough {
        rows.select_nth_unstable_by(enough, farthest_first);
        rows.truncate(enough);
    }
    rows.sort_unstable_by(farthest_first);
    rows.dedup_by(|a, b| data.row(a.0) == data.row(b.0));
    let mut local = Vec::new();
    for (&c, &(n, _)) in empty.iter().zip(&rows) {
        let row = data.local(n, model.origin(), &mut local).to_vec();
        model.local_centers_mut()[c as usize * row.len()..][..row.len()].copy_from_slice(&row);
        state.adopt(n, c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    #[test]
    fn empty_clusters_move_onto_rows_that_differ() {
        let x = array![[0.0], [10.0], [-10.0], [10.0], [-10.0]];
        let data = Dataset::new(x.view()).unwrap();
        let mut model = Model::from_origin(array![[0.0], [1.0], [2.0]].view(), None, 1.0);
        let mut state = State { nearest: vec![0.0, 100.0, 100.0, 100.0, 100.0], ..State::forgetful(5) };
        relocate(&mut model, &mut state, &data, &[1, 2]);
        assert_eq!(model.local_centers(), [0.0, -10.0, 10.0]);
    }

    #[test]
    fn a_longer_step_goes_further_and_knows_the_variance_there() {
        let model = Model::from_origin(array![[1.0_f64, 0.0], [9.0, 9.0]].view(), None, 1.0);
        let mut statistics = Statistics::new(2, 2, 4.0);
        let points = [[0.0, 2.0], [4.0, 1.0], [2.0, 3.0], [6.0, 2.0]];
        let error = |c: &[f64]| points.iter().map(|p| (p[0] - c[0]).powi(2) + (p[1] - c[1]).powi(2)).sum::<f64>();
        statistics.mass[0] = 4.0;
        statistics.sums[..2].copy_from_slice(&[12.0, 8.0]);
        statistics.weighted_distance = error(&[1.0, 0.0]);
        for (length, center) in [(1.0, [3.0, 2.0]), (1.5, [4.0, 3.0]), (0.5, [2.0, 1.0])] {
            let mut next = model.clone();
            let empty = maximize(&mut next, &statistics, 0.0, length);
            assert_eq!((&next.local_centers()[..2], empty), (&center[..], vec![1]));
            approx::assert_relative_eq!(next.variance(), error(&center) / 8.0, max_relative = 1e-14);
        }
    }
}
