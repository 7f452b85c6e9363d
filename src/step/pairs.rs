//! The pairs of members that S sums over, for weightings that need all of them:
//!
//! S_ij = sum over the rows n with i and j in K(n) of w_n times q_i q_j (posterior) or exp(-(d_i + d_j)) (kernel, the
//! paper's eq. for S). Co-occurrence, which counts each such row as 1, is counted, or drawn from, by the search engines
//! along the way: see [`search`](super::search).
//!
//! The kernel's exponent depends on the units of the data and underflows, so it is taken relative to the smallest in
//! its row of S, which does not change the row's distribution. The diagonal is left out, because rows of S only ever
//! propose other clusters. Cost: O(N H^2).

use super::by_cluster::ByCluster;
use super::similarity::{Beside, Entry, PairCounts, ROW_BOUND, RowSource};
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::{collected, filled, reserve};
use crate::observer::Observer;
use crate::options::SimilarityKind;

/// Accumulator for a row of a sparse matrix: for each of M columns K sums, the first of which is the entry's strength,
/// and the list of the nonzero columns.
#[derive(Debug)]
pub(crate) struct DenseRow<const K: usize> {
    sums: Vec<[f64; K]>,
    touched: Vec<u32>,
}

impl<const K: usize> DenseRow<K> {
    pub fn new(clusters: usize) -> Result<Self> {
        let mut touched = Vec::new();
        reserve(&mut touched, clusters, "S")?;
        Ok(Self { sums: filled([0.0; K], clusters, "S")?, touched })
    }

    /// Clears the row.
    pub fn clear(&mut self) {
        self.touched.drain(..).for_each(|j| self.sums[j as usize] = [0.0; K]);
    }

    /// Adds `scale` times `value`; values of strength 0 do not count.
    #[inline]
    pub fn add(&mut self, j: u32, value: [f64; K], scale: f64) {
        if scale * value[0] <= 0.0 {
            return;
        }
        let sum = &mut self.sums[j as usize];
        if sum[0] == 0.0 {
            self.touched.push(j);
        }
        sum.iter_mut().zip(value).for_each(|(a, b)| *a += scale * b);
    }

    /// The sums of column `j`.
    pub fn of(&self, j: u32) -> [f64; K] {
        self.sums[j as usize]
    }

    /// The nonzero entries.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + '_ {
        self.touched.iter().map(|&j| (self.sums[j as usize][0] as f32, j))
    }
}

/// Whether S is built from all pairs of members.
pub(crate) fn needs_pairs(kind: SimilarityKind) -> bool {
    Pairs::of(kind).is_some()
}

/// A weighting that needs all pairs of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pairs {
    /// q_i q_j.
    Posterior,
    /// exp(-(d_i + d_j)).
    Kernel,
}

impl Pairs {
    /// The weighting of a similarity, if it needs all pairs.
    pub fn of(kind: SimilarityKind) -> Option<Self> {
        match kind {
            SimilarityKind::Uniform | SimilarityKind::Cooccurrence => None,
            SimilarityKind::Posterior => Some(Self::Posterior),
            SimilarityKind::Kernel => Some(Self::Kernel),
        }
    }

    /// The rows of S for sets of `h` members, whose positions are sorted `by_cluster`. `values` has q (posterior) or d
    /// (kernel) of each member, and `weight(r)` is the weight of the r-th set's row. After a cancellation by the
    /// `observer`, rows stay empty.
    pub fn count<T: Real>(
        self,
        h: usize,
        members: &[u32],
        values: &[T],
        weight: impl Fn(usize) -> f64 + Sync,
        by_cluster: &ByCluster,
        observer: &dyn Observer,
    ) -> Result<PairCounts> {
        let clusters = by_cluster.clusters();
        let beside = if self == Self::Kernel { Beside::Shifts } else { Beside::Nothing };
        PairCounts::try_build(collected(0..clusters as u32, "S")?, ROW_BOUND, beside, || {
            let dense = DenseRow::new(clusters)?;
            Ok(PairRows { kind: self, h, members, values, weight: &weight, by_cluster, observer, dense })
        })
    }
}

/// The rows of S, one after another. See [`Pairs::count`].
struct PairRows<'a, T, W> {
    kind: Pairs,
    h: usize,
    members: &'a [u32],
    values: &'a [T],
    weight: W,
    by_cluster: &'a ByCluster,
    observer: &'a dyn Observer,
    dense: DenseRow<1>,
}

impl<T: Real, W: Fn(usize) -> f64> RowSource for PairRows<'_, T, W> {
    fn fill(&mut self, i: usize, entries: &mut Vec<Entry>) -> f64 {
        if self.observer.cancelled() {
            return f64::INFINITY;
        }
        let Self { kind, h, values, weight, .. } = self;
        self.dense.clear();
        // Rows without weight must not even shift the exponents.
        let counts = |&&place: &&u32| weight(place as usize / *h) > 0.0;
        let pairs = || {
            self.by_cluster.of(i).iter().filter(counts).flat_map(|&place| {
                let (own, point) = (place as usize, place as usize / *h);
                (point * *h..(point + 1) * *h).filter(move |&k| k != own).map(move |k| (point, own, k))
            })
        };
        let sum = |own: usize, k: usize| values[own].to_f64() + values[k].to_f64();
        let shift = match kind {
            Pairs::Posterior => 0.0,
            Pairs::Kernel => pairs().map(|(_, own, k)| sum(own, k)).fold(f64::INFINITY, f64::min),
        };
        for (point, own, k) in pairs() {
            let value = match kind {
                Pairs::Posterior => values[own].to_f64() * values[k].to_f64(),
                Pairs::Kernel => (shift - sum(own, k)).exp(),
            };
            self.dense.add(self.members[k], [value], weight(point));
        }
        entries.extend(self.dense.entries());
        shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use crate::rng::{Stage, stream};
    use crate::step::memberships::draw_distinct;
    use crate::step::posterior::take_posterior;
    use ndarray::Array2;
    use std::ops::Range;

    const CLUSTERS: usize = 9;
    const H: usize = 4;
    const KINDS: [Pairs; 2] = [Pairs::Posterior, Pairs::Kernel];

    /// Random truncated sets of rows with weights 0, 1 and 2; distances start at `base`.
    struct Points {
        weights: Vec<f64>,
        members: Vec<u32>,
        distances: Vec<f64>,
        posterior: Vec<f64>,
    }

    fn points(rows: usize, base: f64) -> Points {
        let mut rng = stream(5, Stage::Sample, 0, 0);
        let mut members = vec![0; rows * H];
        members.chunks_exact_mut(H).for_each(|set| draw_distinct(set, CLUSTERS, &mut rng));
        let distances: Vec<f64> = (0..rows * H).map(|_| base + 5.0 * rng.unit()).collect();
        let mut posterior = vec![0.0; rows * H];
        for (d, q) in distances.chunks_exact(H).zip(posterior.chunks_exact_mut(H)) {
            take_posterior(d, 1.0, q);
        }
        let weights = (0..rows).map(|n| (n % 3) as f64).collect();
        Points { weights, members, distances, posterior }
    }

    impl Points {
        fn sparse(&self, kind: Pairs, rows: Range<usize>) -> PairCounts {
            let places = rows.start * H..rows.end * H;
            let members = &self.members[places.clone()];
            let values = if kind == Pairs::Kernel { &self.distances } else { &self.posterior };
            let by_cluster = ByCluster::new(members, CLUSTERS, |_| true).unwrap();
            kind.count(H, members, &values[places], |r| self.weights[rows.start + r], &by_cluster, &Silent).unwrap()
        }

        /// S as in its formula, without the diagonal, with each row scaled to sum 1: a double loop over a dense array.
        fn dense(&self, kind: Pairs) -> Array2<f64> {
            let base = self.distances.iter().copied().fold(f64::INFINITY, f64::min);
            let mut s = Array2::zeros((CLUSTERS, CLUSTERS));
            for n in 0..self.weights.len() {
                for a in n * H..(n + 1) * H {
                    for b in (n * H..(n + 1) * H).filter(|&b| b != a) {
                        let value = match kind {
                            Pairs::Posterior => self.posterior[a] * self.posterior[b],
                            Pairs::Kernel => (2.0 * base - self.distances[a] - self.distances[b]).exp(),
                        };
                        s[[self.members[a] as usize, self.members[b] as usize]] += self.weights[n] * value;
                    }
                }
            }
            s.rows_mut().into_iter().for_each(|mut row| row /= row.sum());
            s
        }
    }

    fn row_of(counts: &PairCounts, i: usize) -> (&[u32], &[f32]) {
        (&counts.ids[counts.range(i)], &counts.counts[counts.range(i)])
    }

    fn assert_rows_are(sparse: &PairCounts, dense: &Array2<f64>, what: &str) {
        assert_eq!(sparse.rows(), dense.nrows());
        for (i, dense) in dense.rows().into_iter().enumerate() {
            let (ids, values) = row_of(sparse, i);
            let total: f64 = values.iter().map(|&v| f64::from(v)).sum();
            let mut row = vec![0.0; dense.len()];
            ids.iter().zip(values).for_each(|(&j, &v)| row[j as usize] = f64::from(v) / total);
            assert!(values.is_sorted_by(|a, b| a >= b) && !ids.contains(&(i as u32)), "{what}: columns of row {i}");
            for (a, b) in row.iter().zip(dense) {
                assert!((a - b).abs() < 1e-6, "{what}: {a} against {b} in row {i}");
            }
        }
    }

    #[test]
    fn rows_are_those_of_a_dense_double_loop_for_each_weighting() {
        for kind in KINDS {
            let points = points(100, 1.0);
            assert_rows_are(&points.sparse(kind, 0..100), &points.dense(kind), &format!("{kind:?}"));
        }
    }

    #[test]
    fn the_kernel_keeps_its_rows_when_its_values_would_underflow() {
        let (near, far) = (points(100, 0.0), points(100, 1e7));
        assert_eq!((-2.0 * far.distances[0]).exp(), 0.0);
        let far = far.sparse(Pairs::Kernel, 0..100);
        let near = near.dense(Pairs::Kernel);
        for i in 0..CLUSTERS {
            let (ids, values) = row_of(&far, i);
            let total: f64 = values.iter().map(|&v| f64::from(v)).sum();
            ids.iter().zip(values).for_each(|(&j, &v)| {
                assert!((f64::from(v) / total - near[[i, j as usize]]).abs() < 1e-6, "row {i}, column {j}");
            });
        }
    }

    #[test]
    fn two_halves_merge_to_the_whole_even_if_their_shifts_differ() {
        for kind in KINDS {
            let points = points(101, 700.0);
            let (first, second) = (points.sparse(kind, 0..40), points.sparse(kind, 40..101));
            if kind == Pairs::Kernel {
                assert_ne!(first.shifts, second.shifts);
            }
            let dense = points.dense(kind);
            assert_rows_are(&first.clone().merge(second.clone()).unwrap(), &dense, &format!("{kind:?}"));
            assert_rows_are(&second.merge(first).unwrap(), &dense, &format!("{kind:?}"));
        }
    }

    #[test]
    fn an_empty_row_of_one_half_becomes_that_of_the_other_half() {
        // The first row has weight 0, and three of the nine clusters are in no set of the first two rows.
        let points = points(60, 3.0);
        let (first, second) = (points.sparse(Pairs::Kernel, 0..2), points.sparse(Pairs::Kernel, 2..60));
        assert!((0..CLUSTERS).any(|i| first.range(i).is_empty()));
        assert_rows_are(&first.merge(second).unwrap(), &points.dense(Pairs::Kernel), "kernel");
    }

    #[test]
    fn a_row_without_weight_does_not_hide_others_from_the_kernel() {
        let (members, d) = ([0, 1, 0, 2], [0.0_f32, 0.0, 900.0, 901.0]);
        let by_cluster = ByCluster::new(&members, 3, |_| true).unwrap();
        let rows = Pairs::Kernel.count(2, &members, &d, |point| point as f64, &by_cluster, &Silent).unwrap();
        assert_eq!(row_of(&rows, 0), (&[2][..], &[1.0][..]));
        assert!(rows.range(1).is_empty());
    }

    #[test]
    fn a_cancelled_count_does_not_wait_for_the_rows() {
        struct Gone;
        impl Observer for Gone {
            fn cancelled(&self) -> bool {
                true
            }
        }
        let (members, q) = ([0, 1], [0.5_f32, 0.5]);
        let by_cluster = ByCluster::new(&members, 2, |_| true).unwrap();
        let rows = |observer| Pairs::Posterior.count(2, &members, &q, |_| 1.0, &by_cluster, observer).unwrap();
        assert_eq!((rows(&Silent).range(0).len(), rows(&Gone).range(0).len()), (1, 0));
    }
}
