//! The sparse similarity S of clusters, from the truncated sets:
//!
//! S_ij = sum over the points n with i and j in K(n) of w_n times q_i q_j (posterior) or exp(-(d_i + d_j)) (kernel, the
//! paper's eq. for S). Co-occurrence, where each such point counts 1, is not added up: see [`sampled`](crate::sampled).
//!
//! A dense S would have M^2 entries; at most N H^2 are not zero and each row keeps its [`ROW_BOUND`] strongest. The
//! kernel's exponent depends on the data's units and underflows: it is taken relative to the row's smallest, which
//! leaves the row's distribution as it is. The diagonal is left out: a row is only ever asked for other clusters.
//! Cost: O(N H^2).

use crate::alias::AliasRows;
use crate::em::members::ByCluster;
use crate::observer::Observer;
use crate::params::SimilarityKind;
use crate::real::Real;
use rayon::prelude::*;

/// Entries that a row of S keeps at most.
pub const ROW_BOUND: usize = 64;

/// Clusters whose rows one task makes.
const ROWS_A_TASK: usize = 32;

/// What an entry of a sparse matrix holds: sums, of which the first says how strong the entry is.
pub(crate) trait Entry: Copy + Default + Send + Sync {
    fn add(&mut self, other: Self, scale: f64);
    fn strength(self) -> f64;
}

impl<const K: usize> Entry for [f64; K]
where
    Self: Default,
{
    fn add(&mut self, other: Self, scale: f64) {
        self.iter_mut().zip(other).for_each(|(a, b)| *a += scale * b);
    }

    fn strength(self) -> f64 {
        self[0]
    }
}

/// A sparse matrix by rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct SparseRows<E> {
    pub offsets: Vec<usize>,
    pub ids: Vec<u32>,
    pub values: Vec<E>,
    /// By what each row was shifted in the log domain (kernel only).
    shifts: Vec<f64>,
}

impl<E: Entry> SparseRows<E> {
    /// The columns and values of row `i`.
    pub fn row(&self, i: usize) -> (&[u32], &[E]) {
        let range = self.offsets[i]..self.offsets[i + 1];
        (&self.ids[range.clone()], &self.values[range])
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Makes the rows 0..`rows` in parallel; `fill` adds what belongs to a row and returns the row's shift.
    pub fn build(rows: usize, bound: usize, fill: impl Fn(usize, &mut DenseRow<E>) -> f64 + Sync) -> Self {
        let tasks: Vec<Self> = (0..rows.div_ceil(ROWS_A_TASK))
            .into_par_iter()
            .map_init(
                || DenseRow::new(rows),
                |dense, task| {
                    let mut part = Self::default();
                    for i in task * ROWS_A_TASK..((task + 1) * ROWS_A_TASK).min(rows) {
                        let shift = fill(i, dense);
                        dense.drain_strongest(bound, &mut part.ids, &mut part.values);
                        part.offsets.push(part.ids.len());
                        part.shifts.push(shift);
                    }
                    part
                },
            )
            .collect();
        let mut all = Self { offsets: vec![0], ..Self::default() };
        for part in tasks {
            let base = all.ids.len();
            all.offsets.extend(part.offsets.iter().map(|o| o + base));
            all.ids.extend(part.ids);
            all.values.extend(part.values);
            all.shifts.extend(part.shifts);
        }
        all
    }

    /// The sum of two matrices of the same shape.
    pub fn merge(&self, other: &Self, bound: usize) -> Self {
        Self::build(self.len(), bound, |i, dense| {
            let shift = self.shifts[i].min(other.shifts[i]);
            for part in [self, other] {
                let scale = (shift - part.shifts[i]).exp();
                let (ids, values) = part.row(i);
                if !ids.is_empty() {
                    ids.iter().zip(values).for_each(|(&j, &v)| dense.add(j, v, scale));
                }
            }
            shift
        })
    }
}

impl SparseRows<[f64; 1]> {
    /// The alias tables of the rows.
    pub fn alias_rows(&self) -> AliasRows {
        let mut weights = vec![0.0; self.ids.len()];
        for i in 0..self.len() {
            let range = self.offsets[i]..self.offsets[i + 1];
            let largest = self.values[range.clone()].iter().fold(0.0, |a: f64, v| a.max(v[0]));
            weights[range.clone()].iter_mut().zip(&self.values[range]).for_each(|(w, v)| *w = (v[0] / largest) as f32);
        }
        AliasRows::new(&self.offsets, &self.ids, &weights).expect("rows hold positive, finite shares")
    }
}

/// A row of S while it is being added up: M values and the list of those that are not zero.
#[derive(Debug)]
pub(crate) struct DenseRow<E> {
    values: Vec<E>,
    touched: Vec<u32>,
}

impl<E: Entry> DenseRow<E> {
    fn new(len: usize) -> Self {
        Self { values: vec![E::default(); len], touched: Vec::new() }
    }

    /// Adds `scale` times `value`; what has no strength does not count.
    #[inline]
    pub fn add(&mut self, j: u32, value: E, scale: f64) {
        if scale * value.strength() <= 0.0 {
            return;
        }
        let sum = &mut self.values[j as usize];
        if sum.strength() == 0.0 {
            self.touched.push(j);
        }
        sum.add(value, scale);
    }

    /// Moves the `bound` strongest values to the ends of `ids` and `out` (ids ascending) and clears the row.
    fn drain_strongest(&mut self, bound: usize, ids: &mut Vec<u32>, out: &mut Vec<E>) {
        let strength = |j: u32| self.values[j as usize].strength();
        if self.touched.len() > bound {
            self.touched.select_nth_unstable_by(bound, |a, b| strength(*b).total_cmp(&strength(*a)).then(a.cmp(b)));
            self.touched[bound..].iter().for_each(|&j| self.values[j as usize] = E::default());
            self.touched.truncate(bound);
        }
        self.touched.sort_unstable();
        for &j in &self.touched {
            let value = std::mem::take(&mut self.values[j as usize]);
            if value.strength() > 0.0 {
                ids.push(j);
                out.push(value);
            }
        }
        self.touched.clear();
    }
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
    /// That of a similarity, if it is of this kind.
    pub fn of(kind: SimilarityKind) -> Option<Self> {
        match kind {
            SimilarityKind::Uniform | SimilarityKind::Cooccurrence => None,
            SimilarityKind::Posterior => Some(Self::Posterior),
            SimilarityKind::Kernel => Some(Self::Kernel),
        }
    }

    /// The rows of S that sets of `h` members give, whose places are sorted `by_cluster`. `values` has q (posterior) or d
    /// (kernel) of each member, `weight(r)` is that of the r-th set's point. Where the `observer` gives up, rows stay empty.
    pub fn similarity<T: Real>(
        self,
        h: usize,
        members: &[u32],
        values: &[T],
        weight: impl Fn(usize) -> f64 + Sync,
        by_cluster: &ByCluster,
        observer: &dyn Observer,
    ) -> SparseRows<[f64; 1]> {
        SparseRows::build(by_cluster.clusters(), ROW_BOUND, |i, dense| {
            if observer.cancelled() {
                return f64::INFINITY;
            }
            // Points without weight must not even shift the exponents.
            let counts = |&&place: &&u32| weight(place as usize / h) > 0.0;
            let pairs = || {
                by_cluster.of(i).iter().filter(counts).flat_map(|&place| {
                    let own = place as usize;
                    let point = own / h;
                    (point * h..(point + 1) * h).filter(move |&k| k != own).map(move |k| (point, own, k))
                })
            };
            let sum = |own: usize, k: usize| values[own].to_f64() + values[k].to_f64();
            let shift = match self {
                Self::Posterior => 0.0,
                Self::Kernel => pairs().map(|(_, own, k)| sum(own, k)).fold(f64::INFINITY, f64::min),
            };
            for (point, own, k) in pairs() {
                let value = match self {
                    Self::Posterior => values[own].to_f64() * values[k].to_f64(),
                    Self::Kernel => (shift - sum(own, k)).exp(),
                };
                dense.add(members[k], [value], weight(point));
            }
            shift
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::em::expectation::take_posterior;
    use crate::observer::Silent;
    use crate::rng::{Stage, stream};
    use crate::search::draw_distinct;
    use ndarray::Array2;
    use std::ops::Range;

    const CLUSTERS: usize = 9;
    const H: usize = 4;
    const KINDS: [Pairs; 2] = [Pairs::Posterior, Pairs::Kernel];

    /// Random truncated sets of points with weights 0, 1 and 2; distances from `base` on.
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
        fn sparse(&self, kind: Pairs, rows: Range<usize>) -> SparseRows<[f64; 1]> {
            let places = rows.start * H..rows.end * H;
            let members = &self.members[places.clone()];
            let values = if kind == Pairs::Kernel { &self.distances } else { &self.posterior };
            let by_cluster = ByCluster::new(members, CLUSTERS, |_| true);
            kind.similarity(H, members, &values[places], |r| self.weights[rows.start + r], &by_cluster, &Silent)
        }

        /// S as its formula says, less the diagonal, with each row's sum scaled to 1: a double loop over a dense array.
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

    fn assert_rows_are(sparse: &SparseRows<[f64; 1]>, dense: &Array2<f64>, what: &str) {
        assert_eq!(sparse.len(), dense.nrows());
        for (i, dense) in dense.rows().into_iter().enumerate() {
            let (ids, values) = sparse.row(i);
            let total: f64 = values.iter().map(|v| v[0]).sum();
            let mut row = vec![0.0; dense.len()];
            ids.iter().zip(values).for_each(|(&j, v)| row[j as usize] = v[0] / total);
            assert!(ids.is_sorted_by(|a, b| a < b) && !ids.contains(&(i as u32)), "{what}: columns of row {i}");
            for (a, b) in row.iter().zip(dense) {
                assert!((a - b).abs() < 1e-12, "{what}: {a} against {b} in row {i}");
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
    fn the_kernel_keeps_its_rows_where_its_values_would_underflow() {
        let (near, far) = (points(100, 0.0), points(100, 1e7));
        assert_eq!((-2.0 * far.distances[0]).exp(), 0.0);
        let far = far.sparse(Pairs::Kernel, 0..100);
        let near = near.dense(Pairs::Kernel);
        for i in 0..CLUSTERS {
            let (ids, values) = far.row(i);
            let total: f64 = values.iter().map(|v| v[0]).sum();
            ids.iter().zip(values).for_each(|(&j, v)| {
                assert!((v[0] / total - near[[i, j as usize]]).abs() < 1e-6, "row {i}, column {j}");
            });
        }
    }

    #[test]
    fn two_halves_merge_to_the_whole_also_where_their_shifts_differ() {
        for kind in KINDS {
            let points = points(101, 700.0);
            let (first, second) = (points.sparse(kind, 0..40), points.sparse(kind, 40..101));
            if kind == Pairs::Kernel {
                assert_ne!(first.shifts, second.shifts);
            }
            let dense = points.dense(kind);
            assert_rows_are(&first.merge(&second, ROW_BOUND), &dense, &format!("{kind:?}"));
            assert_rows_are(&second.merge(&first, ROW_BOUND), &dense, &format!("{kind:?}"));
        }
    }

    #[test]
    fn a_row_of_one_half_that_is_empty_takes_the_other_half() {
        // The first point has weight 0 and three of the nine clusters are in no set of the first two points.
        let points = points(60, 3.0);
        let (first, second) = (points.sparse(Pairs::Kernel, 0..2), points.sparse(Pairs::Kernel, 2..60));
        assert!((0..CLUSTERS).any(|i| first.row(i).0.is_empty()));
        assert_rows_are(&first.merge(&second, ROW_BOUND), &points.dense(Pairs::Kernel), "kernel");
    }

    #[test]
    fn zeros_take_no_place_in_a_bounded_row() {
        let rows = SparseRows::build(10, 4, |_, dense| {
            for j in 0..4 {
                (0..20).for_each(|_| dense.add(j, [0.0], 1.0));
                dense.add(j, [1.0], 0.0);
                dense.add(j, [1.0 + f64::from(j)], 1.0);
            }
            0.0
        });
        assert_eq!(rows.row(7), (&[0, 1, 2, 3][..], &[[1.0], [2.0], [3.0], [4.0]][..]));
    }

    #[test]
    fn a_point_without_weight_does_not_hide_the_others_from_the_kernel() {
        let (members, d) = ([0, 1, 0, 2], [0.0_f32, 0.0, 900.0, 901.0]);
        let by_cluster = ByCluster::new(&members, 3, |_| true);
        let rows = Pairs::Kernel.similarity(2, &members, &d, |point| point as f64, &by_cluster, &Silent);
        assert_eq!(rows.row(0), (&[2][..], &[[1.0]][..]));
        assert!(rows.row(1).0.is_empty());
    }

    #[test]
    fn whoever_gives_up_does_not_wait_for_the_rows() {
        struct Gone;
        impl Observer for Gone {
            fn cancelled(&self) -> bool {
                true
            }
        }
        let (members, q) = ([0, 1], [0.5_f32, 0.5]);
        let by_cluster = ByCluster::new(&members, 2, |_| true);
        let rows = |observer| Pairs::Posterior.similarity(2, &members, &q, |_| 1.0, &by_cluster, observer);
        assert_eq!((rows(&Silent).row(0).0.len(), rows(&Gone).row(0).0.len()), (1, 0));
    }

    #[test]
    fn bounded_rows_keep_the_strongest_and_the_first_of_equals() {
        let strengths = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0];
        let bounded = |bound| {
            SparseRows::build(10, bound, |_, dense| {
                (0..10u32).rev().for_each(|j| dense.add(j, [strengths[j as usize]], 1.0));
                0.0
            })
        };
        for (bound, kept) in [(3, vec![4, 5, 7]), (6, vec![0, 2, 4, 5, 7, 8]), (10, (0..10).collect())] {
            let rows = bounded(bound);
            for i in 0..10 {
                assert_eq!(rows.row(i).0, kept, "{bound} a row");
                assert!(rows.row(i).0.iter().zip(rows.row(i).1).all(|(&j, v)| v[0] == strengths[j as usize]));
            }
        }
    }
}
