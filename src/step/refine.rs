//! Refinement: leaves the local optimum of EM by moving clusters from where they are of little use to where they are
//! needed.
//!
//! EM moves centers gradually, so a cluster never leaves its neighborhood, however crowded that is. A round of
//! refinement takes the least useful clusters and puts each next to one with a large error, both slightly off its
//! center along a direction in which its rows spread. [A few iterations](iterations) follow. If F is then above the F
//! before the round, the round is kept; otherwise the model and the sets K(n) from before are restored, and refinement
//! ends. So F never falls: within a round, the reported F of an iteration is that of the better of the two models,
//! which a fit that ends there returns.
//! The rounds follow one another from where F [begins to rise slowly](BEGIN), or where EM ends if that is before; then EM goes on
//! The rounds follow one another, starting when F [increases slowly](BEGIN) or when EM ends, if that is earlier; then
//! EM runs to its end. Early rounds cost less than late ones, because the last iterations finish the work of all rounds
//! at once. If the first iterations see a sample of the rows, so do the rounds.
//!
//! The cost and gain of a move come from one [probe](super::probe) of the rows, which merges over shards:
//!
//! - without cluster c its rows would go to their second-nearest clusters: sum_n w (d_second - d_nearest);
//! - one more center in cluster c removes a [part](GAIN) of its error, sum_n w d.
//!
//! The first is an overestimate, because the neighbors move too, and the second is more than a split gains in many
//! columns, so the two err in the same direction. The direction of a split is C u, where C is the covariance of the
//! cluster's rows and u a vector of random signs: one iteration of the power method, which needs only sums.
//!
//! Cost of a round: the probe, which measures two distances for some rows (all M for all rows if the search is
//! exhaustive), and the iterations, which count as EM iterations.

use super::groups::Sequence;
use super::statistics::Statistics;
use crate::data::inverse_length;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::{collected, filled, reserve};
use crate::model::Model;
use crate::options::Metric;

/// Number of iterations of the first round.
const ITERATIONS: usize = 3;
/// The rounds begin when the value compared with the tolerance is at most this, where a quick fit ends.
pub(super) const BEGIN: f64 = crate::QUICK_TOL;
/// Fraction of the clusters that a round may move.
const SHARE: f64 = 0.08;
/// Fraction of a cluster's error that a second center is expected to remove.
const GAIN: f64 = 0.2;
/// Initial distance of the two centers of a split from the old one, in standard deviations: about where the halves of a
/// Gaussian have their means, sqrt(2 / pi).
const APART: f64 = 0.8;

/// Number of iterations of a round: later rounds gain less, and take more iterations to show it.
pub(crate) fn iterations(round: usize) -> usize {
    ITERATIONS.saturating_add(round.saturating_sub(1) / 2)
}

/// Pairs of clusters: the first is to be moved next to the second. These are the least useful clusters, as long as a
/// split gains more than they cost. No cluster is in two pairs.
pub(super) fn choose<T: Real>(statistics: &Statistics<T>) -> Result<Vec<(u32, u32)>> {
    let clusters = statistics.clusters();
    let gain = |c: u32| if length_of(statistics, c) > 0.0 { GAIN * statistics.error[c as usize] } else { 0.0 };
    let gains = collected((0..clusters as u32).map(gain), "moved clusters")?;
    let costs = &statistics.removal;
    let mut useless = collected(0..clusters as u32, "moved clusters")?;
    let mut large = collected(0..clusters as u32, "moved clusters")?;
    useless.sort_unstable_by(|&a, &b| costs[a as usize].total_cmp(&costs[b as usize]).then(a.cmp(&b)));
    large.sort_unstable_by(|&a, &b| gains[b as usize].total_cmp(&gains[a as usize]).then(a.cmp(&b)));
    let most = ((SHARE * clusters as f64) as usize).max(1);
    let (mut pairs, mut taken) = (Vec::new(), filled(false, clusters, "moved clusters")?);
    reserve(&mut pairs, most, "moved clusters")?;
    let (mut useless, mut large) = (useless.into_iter(), large.into_iter());
    while pairs.len() < most {
        let next = |from: &mut std::vec::IntoIter<u32>, taken: &[bool]| from.find(|&c| !taken[c as usize]);
        let (Some(moved), Some(beside)) = (next(&mut useless, &taken), next(&mut large, &taken)) else { break };
        if moved == beside || gains[beside as usize] <= costs[moved as usize] {
            break;
        }
        (taken[moved as usize], taken[beside as usize]) = (true, true);
        pairs.push((moved, beside));
    }
    Ok(pairs)
}

/// Puts the first cluster of each of `pairs` next to the second: both leave its center, in opposite directions.
pub(super) fn place<T: Real>(model: &mut Model<T>, statistics: &Statistics<T>, pairs: &[(u32, u32)]) -> Result<()> {
    let (dim, metric) = (statistics.dim, model.metric());
    let mut there = filled(T::ZERO, dim, "moved clusters")?;
    for &(moved, beside) in pairs {
        let (at, to) = (beside as usize * dim, moved as usize * dim);
        let (sum, length) = (&statistics.sums[at..at + dim], length_of(statistics, beside));
        // C u| / |u| is a variance.
        let variance = length / statistics.mass[beside as usize] / (dim as f64).sqrt();
        let way = APART * variance.sqrt() / length;
        let centers = model.local_centers_mut();
        for (d, &s) in sum.iter().enumerate() {
            let (old, step) = (centers[at + d].to_f64(), way * s);
            centers[at + d] = T::from_f64(old - step);
            there[d] = T::from_f64(old + step);
        }
        centers[to..to + dim].copy_from_slice(&there);
        if metric == Metric::Cosine {
            [at, to].into_iter().for_each(|from| turn_to_unit(&mut centers[from..from + dim]));
        }
    }
    Ok(())
}

/// The order of the clusters after a move: the first of each of `pairs` follows the second.
pub(super) fn reordered(sequence: &Sequence, pairs: &[(u32, u32)]) -> Result<Sequence> {
    let clusters = sequence.clusters.len();
    let mut follower = filled(None, clusters, "an order of the clusters")?;
    let mut gone = filled(false, clusters, "an order of the clusters")?;
    for &(moved, beside) in pairs.iter().filter(|_| clusters > 0) {
        follower[beside as usize] = Some(moved);
        gone[moved as usize] = true;
    }
    let mut order = Vec::new();
    reserve(&mut order, clusters, "an order of the clusters")?;
    for &c in sequence.clusters.iter().filter(|&&c| !gone[c as usize]) {
        order.push(c);
        order.extend(follower[c as usize]);
    }
    Sequence::of(order)
}

/// C u| times the mass of cluster `c`; 0 if its rows do not spread.
fn length_of<T: Real>(statistics: &Statistics<T>, c: u32) -> f64 {
    let sum = &statistics.sums[c as usize * statistics.dim..][..statistics.dim];
    // Relative to the largest, so that no square overflows.
    let largest = sum.iter().fold(0.0, |most: f64, s| most.max(s.abs()));
    if largest > 0.0 { largest * sum.iter().map(|s| (s / largest).powi(2)).sum::<f64>().sqrt() } else { 0.0 }
}

/// Normalizes a direction to length 1.
fn turn_to_unit<T: Real>(center: &mut [T]) {
    let factor = inverse_length(center);
    if factor.is_finite() {
        center.iter_mut().for_each(|x| *x = T::from_f64(x.to_f64() * factor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::array;

    /// Five clusters in two columns with these errors and removal costs.
    fn probed(error: [f64; 5], removal: [f64; 5]) -> Statistics<f64> {
        let mut statistics = Statistics::new(5, 2, 0).unwrap();
        (statistics.error, statistics.removal) = (error.to_vec(), removal.to_vec());
        statistics.sums.iter_mut().zip(1..).for_each(|(sum, k)| *sum = f64::from(k));
        statistics.mass.fill(4.0);
        statistics
    }

    #[test]
    fn the_least_useful_cluster_moves_where_the_error_is_largest_if_that_pays() {
        let choose = |error, removal| choose(&probed(error, removal)).unwrap();
        assert_eq!(choose([1.0, 9.0, 3.0, 2.0, 2.0], [4.0, 5.0, 0.5, 1.0, 4.0]), [(2, 1)]);
        assert_eq!(choose([1.0, 9.0, 3.0, 2.0, 2.0], [4.0, 5.0, 1.8, 1.9, 4.0]), []);
        // Ties go to the first; a cluster is not its own neighbor.
        assert_eq!(choose([1.0; 5], [0.0; 5]), []);
        assert_eq!(choose([0.0, 1.0, 1.0, 1.0, 1.0], [0.0; 5]), [(0, 1)]);
    }

    #[test]
    fn a_cluster_whose_rows_do_not_spread_is_not_split() {
        let mut statistics = probed([1.0, 9.0, 8.0, 2.0, 2.0], [0.0, 5.0, 5.0, 5.0, 4.0]);
        statistics.sums[2..4].fill(0.0);
        assert_eq!(choose(&statistics).unwrap(), [(0, 2)]);
    }

    #[test]
    fn both_centers_leave_the_old_one_along_the_direction() {
        let centers = array![[9.0_f64, 9.0], [1.0, 2.0], [0.0, 0.0], [5.0, 5.0], [7.0, 7.0]];
        let mut model = Model::from_origin(centers.view(), None, 1.0).unwrap();
        let mut statistics = probed([1.0; 5], [1.0; 5]);
        statistics.sums[2..4].copy_from_slice(&[0.0, 8.0 * 2.0_f64.sqrt()]);
        place(&mut model, &statistics, &[(0, 1)]).unwrap();
        let shift = APART * 2.0_f64.sqrt();
        let expected = [1.0, 2.0 + shift, 1.0, 2.0 - shift];
        model.local_centers()[..4].iter().zip(expected).for_each(|(a, b)| approx::assert_relative_eq!(*a, b));
        assert_eq!(model.local_centers()[4..], [0.0, 0.0, 5.0, 5.0, 7.0, 7.0]);
    }

    #[test]
    fn directions_stay_of_length_one() {
        let centers = array![[1.0_f32, 0.0], [0.0, 1.0], [0.6, 0.8], [-1.0, 0.0], [0.0, -1.0]];
        let mut model = Model::from_origin(centers.view(), None, 1.0).unwrap().for_metric(Metric::Cosine).unwrap();
        let statistics = {
            let mut statistics = Statistics::<f32>::new(5, 2, 0).unwrap();
            statistics.sums[4..6].copy_from_slice(&[4.0, -3.0]);
            statistics.mass.fill(5.0);
            statistics
        };
        place(&mut model, &statistics, &[(0, 2)]).unwrap();
        for center in model.local_centers().chunks_exact(2) {
            approx::assert_relative_eq!(center[0].hypot(center[1]), 1.0, max_relative = 1e-6);
        }
        assert_ne!(model.local_centers()[..2], [1.0, 0.0]);
    }

    #[test]
    fn a_moved_cluster_follows_its_new_neighbor_in_the_order() {
        let sequence = Sequence::of(vec![3, 0, 4, 1, 2]).unwrap();
        assert_eq!(reordered(&sequence, &[(0, 1), (2, 3)]).unwrap().clusters, [3, 2, 4, 1, 0]);
        assert_eq!(reordered(&Sequence::default(), &[(0, 1)]).unwrap(), Sequence::default());
    }
}
