//! The sparse similarity S of clusters, from the truncated sets:
//!
//! S_ij = sum over the points n with i and j in K(n) of w_n times 1 (co-occurrence), q_i q_j (posterior), or
//! exp(-(d_i + d_j)) (kernel, the paper's eq. for S).
//!
//! A dense S would have M^2 entries; at most N H^2 are not zero and each row keeps its [`ROW_BOUND`] strongest. The
//! kernel's exponent depends on the data's units and underflows: it is taken relative to the row's smallest, which
//! leaves the row's distribution as it is. The diagonal is left out: a row is only ever asked for other clusters.
//! Cost: O(N H^2).

use crate::alias::AliasRows;
use crate::em::members::{ByCluster, Sets};
use crate::em::statistics::ShardRows;
use crate::params::SimilarityKind;
use crate::real::Real;
use rayon::prelude::*;

/// Entries that a row of S keeps at most.
pub(crate) const ROW_BOUND: usize = 64;

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

    /// Adds `scale` times `value`, whose strength must be positive to count.
    #[inline]
    pub fn add(&mut self, j: u32, value: E, scale: f64) {
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

/// The rows of S that a shard's truncated sets give.
pub(crate) fn similarity<T: Real>(
    kind: SimilarityKind,
    shard: &ShardRows<'_, T>,
    sets: &Sets<T>,
    by_cluster: &ByCluster,
    clusters: usize,
) -> SparseRows<[f64; 1]> {
    SparseRows::build(clusters, ROW_BOUND, |i, dense| {
        let places = by_cluster.of(i);
        let shift = match kind {
            SimilarityKind::Kernel => smallest_exponent(sets, places),
            _ => 0.0,
        };
        for &place in places {
            let (point, own) = (sets.point(place), place as usize);
            let w = shard.weight(own / sets.h);
            if w == 0.0 {
                continue;
            }
            for k in point.filter(|&k| k != own) {
                let value = match kind {
                    SimilarityKind::Cooccurrence | SimilarityKind::Uniform => 1.0,
                    SimilarityKind::Posterior => sets.posterior[own].to_f64() * sets.posterior[k].to_f64(),
                    SimilarityKind::Kernel => (shift - sets.distances[own].to_f64() - sets.distances[k].to_f64()).exp(),
                };
                dense.add(sets.members[k], [value], w);
            }
        }
        shift
    })
}

/// The smallest d_i + d_j over the points that hold i, j being another member.
fn smallest_exponent<T: Real>(sets: &Sets<T>, places: &[u32]) -> f64 {
    let pairs = places.iter().flat_map(|&place| {
        let own = place as usize;
        let others = sets.point(place).filter(move |&k| k != own);
        others.map(move |k| sets.distances[own].to_f64() + sets.distances[k].to_f64())
    });
    pairs.fold(f64::INFINITY, f64::min)
}
