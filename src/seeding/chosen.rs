//! The centers that AFK-MC2 has chosen so far, and the replacement rows used when a chain ends on one of them.

use super::Seeds;
use super::random::weighted_order;
use crate::data::{Dataset, Moments, gather};
use crate::error::Result;
use crate::kernel::Real;
use crate::kernel::{Centers, RowBlock};
use crate::memory::{entries, reserve, reserve_set};
use crate::observer::Observer;
use crate::parallel::map_blocks;
use std::collections::{HashSet, VecDeque};

/// Number of centers that one parallel task compares with all rows of a batch.
const SLICE: usize = 128;

/// The centers chosen so far.
pub(super) struct Chosen<'a, 'd, T: Real> {
    pub(super) data: &'a Dataset<'d, T>,
    pub(super) indices: Vec<usize>,
    pub(super) evaluations: u64,
    members: HashSet<usize>,
    origin: Option<Vec<T>>,
    /// The chosen rows relative to the origin, for the dense kernel.
    shifted: Vec<T>,
}

impl<'a, 'd, T: Real> Chosen<'a, 'd, T> {
    pub(super) fn new(data: &'a Dataset<'d, T>, moments: &Moments, clusters: usize, first: usize) -> Result<Self> {
        let (mut indices, mut shifted, mut members) = (Vec::new(), Vec::new(), HashSet::new());
        reserve(&mut indices, clusters, "centers")?;
        reserve(&mut shifted, entries(clusters, data.dim(), "centers")?, "centers")?;
        reserve_set(&mut members, clusters, "centers")?;
        let mut new = Self { data, indices, evaluations: 0, members, origin: moments.origin(), shifted };
        new.push(first);
        Ok(new)
    }

    pub(super) fn push(&mut self, row: usize) {
        self.indices.push(row);
        self.members.insert(row);
        let mut values = Vec::new();
        self.shifted.extend_from_slice(self.data.local(row, self.origin.as_deref(), &mut values));
    }

    pub(super) fn contains(&self, row: usize) -> bool {
        self.members.contains(&row)
    }

    /// Squared distance of each of `rows` (row-major) to the nearest center. Parallel over slices of the centers,
    /// because there are many of them late in the seeding, when the cost matters.
    pub(super) fn distances(&self, rows: &[T], observer: &dyn Observer) -> Result<Vec<T>> {
        let dim = self.data.dim();
        let count = rows.len() / dim;
        let mut block = RowBlock::default();
        block.load(rows, dim, self.origin.as_deref());
        let slices = map_blocks(self.indices.len(), SLICE, observer, |_, slice| {
            let (mut ids, mut near) = (vec![0; count], vec![T::ZERO; count]);
            let values = &self.shifted[slice.start * dim..slice.end * dim];
            let centers = Centers::new(values, dim);
            block.nearest(&centers, 1, &mut ids, &mut near);
            let mut local = Vec::new();
            for (r, row) in rows.chunks_exact(dim).enumerate() {
                if block.has_lost_digits(r, near[r]) {
                    local.clear();
                    match &self.origin {
                        Some(origin) => local.extend(row.iter().zip(origin).map(|(&x, &o)| x - o)),
                        None => local.extend_from_slice(row),
                    }
                    centers.measure_nearest(&local, &mut ids[r..=r], &mut near[r..=r]);
                }
            }
            (slice.start, ids, near)
        })?;
        let nearest = |r: usize| {
            let (mut best, mut least) = (0, T::INFINITY);
            for (start, ids, near) in &slices {
                if near[r] < least {
                    (best, least) = (start + ids[r] as usize, near[r]);
                }
            }
            best
        };
        // Distances of the dense kernel cancel near 0, where precision matters most, so the nearest is measured again
        // by differences.
        let mut chosen = Vec::new();
        let exact = |(r, row)| T::squared_distance(row, self.data.row(self.indices[nearest(r)], &mut chosen));
        Ok(rows.chunks_exact(dim).enumerate().map(exact).collect())
    }

    pub(super) fn finish(self) -> Result<Seeds<T>> {
        Seeds::of_rows(self.data, self.indices, self.evaluations)
    }
}

/// Rows in the order in which they are drawn by weight, without replacement; computed when the first is needed. Each
/// row is examined once, because a row that coincides with a center always will.
pub(super) struct Spare {
    seed: u64,
    use_of: u64,
    tries: usize,
    order: Option<Vec<usize>>,
    at: usize,
    /// Rows that coincide with a center, used as a last resort.
    aside: VecDeque<usize>,
}

impl Spare {
    /// Replacement rows, of which `tries` are examined at a time.
    pub(super) fn new(seed: u64, use_of: u64, tries: usize) -> Self {
        Self { seed, use_of, tries, order: None, at: 0, aside: VecDeque::new() }
    }

    /// A row that is not chosen yet; one that coincides with no center if the next `tries` include one.
    pub(super) fn next<T: Real>(&mut self, chosen: &mut Chosen<'_, '_, T>, observer: &dyn Observer) -> Result<usize> {
        let data = chosen.data;
        let order = match self.order.take() {
            Some(order) => order,
            None => weighted_order(data, data.rows(), self.seed, self.use_of, |_| false, observer)?,
        };
        let open = order.iter().copied().enumerate().skip(self.at).filter(|&(_, n)| !chosen.contains(n));
        let (places, rows): (Vec<usize>, Vec<usize>) = open.take(self.tries).unzip();
        self.order = Some(order);
        let distances = chosen.distances(&gather(data, &rows)?, observer)?;
        chosen.evaluations += (rows.len() * chosen.indices.len()) as u64;
        let found = distances.iter().position(|&d| d > T::ZERO);
        self.aside.extend(&rows[..found.unwrap_or(rows.len())]);
        if let Some(place) = found.map_or(places.last().copied(), |f| Some(places[f])) {
            self.at = place + 1;
        }
        if let Some(f) = found {
            return Ok(rows[f]);
        }
        while let Some(n) = self.aside.pop_front() {
            if !chosen.contains(n) {
                return Ok(n);
            }
        }
        unreachable!("there are as many rows of positive weight as clusters")
    }
}
