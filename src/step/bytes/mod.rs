//! Serialization of rounds, memberships, statistics, summaries and trainers, to move them between processes and
//! machines of any kind.
//!
//! A header names the content, its version and the numeric type. Arrays follow their lengths, and everything is
//! little-endian. Reading checks every length and index, so that damaged bytes are refused without side effects.

mod reader;
mod refine;
mod shape;
mod trainer;
mod writer;

use super::cells::{Cells, Level};
use super::memberships::Memberships;
use super::round::{Phase, Request, Round, Search};
use super::similarity::{PairCounts, Similarity};
use super::statistics::{FarRow, Statistics};
use super::summary::Summary;
use crate::bytes::{Reader, Writer};
use crate::data::{Moments, PrioritySample, Sampled};
use crate::error::Result;
use crate::kernel::Real;
use crate::model::Model;
use crate::options::{Metric, SimilarityKind};
use ndarray::ArrayView2;
use std::sync::Arc;

const SIMILARITIES: [SimilarityKind; 4] =
    [SimilarityKind::Cooccurrence, SimilarityKind::Posterior, SimilarityKind::Kernel, SimilarityKind::Uniform];

fn write_metric(metric: Metric, out: &mut Writer) {
    out.byte(u8::from(metric == Metric::Cosine));
}

fn read_metric(reader: &mut Reader<'_>) -> Result<Metric> {
    Ok(if reader.flag()? { Metric::Cosine } else { Metric::Euclidean })
}

impl Search {
    fn write(self, out: &mut Writer) {
        let similarity = |kind| SIMILARITIES.iter().position(|&k| k == kind).expect("all kinds are there");
        let (tag, numbers) = match self {
            Self::Exhaustive { truncation } => (0, [truncation, 0, 0]),
            Self::Neighbors { truncation, neighbors, random } => (1, [truncation, neighbors, usize::from(random)]),
            Self::Pointwise { truncation, proposals, similarity: kind } => {
                (2, [truncation, proposals, similarity(kind)])
            }
            Self::Grouped { truncation, candidates } => (3, [truncation, candidates, 0]),
        };
        out.byte(tag);
        numbers.iter().for_each(|&x| out.number(x as u64));
    }

    fn read(reader: &mut Reader<'_>, clusters: usize) -> Result<Self> {
        let (tag, truncation, second, third) = (reader.byte()?, reader.size()?, reader.size()?, reader.size()?);
        reader.check((1..=clusters).contains(&truncation), "the truncation is out of range")?;
        match (tag, SIMILARITIES.get(third)) {
            (0, _) => Ok(Self::Exhaustive { truncation }),
            (1, _) if second > 0 => Ok(Self::Neighbors { truncation, neighbors: second, random: third != 0 }),
            (2, Some(&similarity)) => Ok(Self::Pointwise { truncation, proposals: second, similarity }),
            (3, _) => Ok(Self::Grouped { truncation, candidates: second }),
            _ => Err(reader.bad("unknown search")),
        }
    }
}

impl<T: Real> Cells<T> {
    fn write(&self, out: &mut Writer) {
        out.number(self.levels.len() as u64);
        for level in &self.levels {
            out.reals(&level.centers);
            out.ids(&level.starts);
        }
        out.number(self.lists.len() as u64);
        self.lists.iter().for_each(|list| out.ids(list));
    }

    fn read(reader: &mut Reader<'_>, clusters: usize, dim: usize, h: usize) -> Result<Self> {
        let (mut levels, mut lists, mut cells) = (Vec::new(), Vec::new(), 1);
        for _ in 0..reader.size()? {
            let (centers, starts): (Vec<T>, _) = (reader.reals()?, reader.ids(usize::MAX)?);
            let count = centers.len() / dim;
            let cut = starts.len() == cells + 1 && starts[0] == 0 && starts[cells] as usize == count;
            reader.check(cut && starts.is_sorted_by(|a, b| a < b), "cells are missing")?;
            reader.check(centers.iter().all(|x| x.is_finite()), "a cell is not finite")?;
            levels.push(Level { centers, starts });
            cells = count;
        }
        for _ in 0..reader.size()? {
            let list = reader.ids(clusters)?;
            reader.check(list.len() >= h, "a list is too short")?;
            lists.push(list);
        }
        reader.check(lists.len() == cells && !levels.is_empty(), "lists are missing")?;
        Ok(Self { levels, lists })
    }
}

impl<T: Real> Round<T> {
    /// Serializes the round: about t M D bytes for the centers, where t is the size of a number, and 8 for each entry
    /// of S.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(b'R', size_of::<T>());
        out.number(self.model.dim() as u64);
        out.reals(self.model.local_centers());
        out.reals(self.model.origin().unwrap_or_default());
        out.real(self.model.variance());
        write_metric(self.model.metric(), &mut out);
        out.shape(self.model.shape());
        out.moments(self.moments);
        self.search.write(&mut out);
        [self.phase == Phase::Hard, self.learn, self.relocate].iter().for_each(|&x| out.byte(u8::from(x)));
        out.number(self.seed);
        out.number(self.iteration);
        out.real(self.unit);
        out.real(self.weight_unit);
        out.pairs(self.similarity.as_ref().map_or(&PairCounts::none(), |s| &s.counts));
        out.byte(u8::from(self.cells.is_some()));
        self.cells.iter().for_each(|cells| cells.write(&mut out));
        out.ids(&self.sequence.clusters);
        out.number(self.adopted.len() as u64);
        for &(row, c) in &self.adopted {
            out.number(row);
            out.number(u64::from(c));
        }
        self.request.write(&mut out);
        out.0
    }

    /// The round serialized by [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "a round", b'R', size_of::<T>())?;
        let (dim, centers, origin): (_, Vec<T>, Vec<T>) = (reader.size()?, reader.reals()?, reader.reals()?);
        let (variance, metric) = (reader.real()?, read_metric(&mut reader)?);
        reader.check(metric == Metric::Euclidean || origin.is_empty(), "directions have no origin")?;
        reader.check(dim > 0 && !centers.is_empty() && centers.len().is_multiple_of(dim), "the centers are cut off")?;
        reader.check(origin.is_empty() || origin.len() == dim, "the origin is cut off")?;
        reader.check(centers.iter().chain(&origin).all(|x| x.is_finite()), "a center is not finite")?;
        reader.check(variance.is_finite() && variance > 0.0, "the variance is not positive")?;
        let clusters = centers.len() / dim;
        let local = ArrayView2::from_shape((clusters, dim), &centers).expect("as many as the shape says");
        let mut model = Model::of_local(local, Some(origin).filter(|o| !o.is_empty()), variance, metric)?;
        reader.shape(clusters, dim)?.into_iter().for_each(|shape| model.set_shape(shape));
        let moments = reader.moments()?;
        let search = Search::read(&mut reader, clusters)?;
        let (hard, learn, relocate) = (reader.flag()?, reader.flag()?, reader.flag()?);
        let phase = if hard { Phase::Hard } else { Phase::Soft };
        let (seed, iteration, unit, weight_unit) = (reader.number()?, reader.number()?, reader.real()?, reader.real()?);
        reader.check(iteration < u64::MAX / 2, "the iteration is out of range")?;
        let positive = |x: f64| x.is_finite() && x > 0.0;
        reader.check(positive(unit) && positive(weight_unit), "the unit of weights is not positive")?;
        let pairs = reader.pairs(clusters)?;
        let similarity = if pairs.rows() > 0 { Some(Arc::new(Similarity::new(pairs)?)) } else { None };
        let cells = match reader.flag()? {
            true => Some(Arc::new(Cells::read(&mut reader, clusters, dim, search.truncation())?)),
            false => None,
        };
        let sequence = Arc::new(reader.sequence(clusters)?);
        let ordered = !sequence.clusters.is_empty() || !matches!(search, Search::Grouped { .. });
        reader.check(ordered, "the order of the clusters is missing")?;
        let mut adopted = Vec::new();
        for _ in 0..reader.size()? {
            let (row, c) = (reader.number()?, reader.number()?);
            reader.check(c < clusters as u64, "a cluster is out of range")?;
            adopted.push((row, c as u32));
        }
        let request = Request::read(&mut reader, clusters)?;
        reader.end()?;
        Ok(Self {
            model,
            search,
            phase,
            learn,
            moments,
            relocate,
            seed,
            iteration,
            unit,
            weight_unit,
            similarity,
            cells,
            sequence,
            adopted,
            request,
        })
    }
}

impl Memberships {
    /// Serializes the memberships: 4 bytes for each cluster that each row keeps.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(b'K', 0);
        out.number(self.kept as u64);
        out.ids(&self.members);
        out.byte(u8::from(self.cells.is_some()));
        self.cells.iter().for_each(|cells| out.by_cluster(cells));
        out.ids(&self.sequence.clusters);
        out.ids(&self.saved);
        out.0
    }

    /// The memberships serialized by [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "memberships", b'K', 0)?;
        let (kept, members) = (reader.size()?, reader.ids(usize::MAX)?);
        let whole = if kept == 0 { members.is_empty() } else { members.len().is_multiple_of(kept) };
        reader.check(whole, "sets are cut off")?;
        let cells = if reader.flag()? { Some(reader.by_cluster()?) } else { None };
        let count = reader.rest.get(..8).map_or(0, |x| u64::from_le_bytes(x.try_into().expect("eight bytes")));
        let sequence = reader.sequence(usize::try_from(count).unwrap_or(0))?;
        let saved = reader.ids(usize::MAX)?;
        reader.end()?;
        Ok(Self { kept, members, cells, sequence, saved })
    }
}

impl<T: Real> Statistics<T> {
    /// Serializes the statistics: 8 M D bytes for the sums, and 8 for each entry of S.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(b'S', size_of::<T>());
        [self.dim as u64, self.extra as u64, self.rows, self.evaluations].iter().for_each(|&x| out.number(x));
        [self.weight, self.weighted_distance, self.log_sum, self.inertia].iter().for_each(|&x| out.real(x));
        out.reals(&self.sums);
        out.reals(&self.mass);
        out.pairs(&self.pairs);
        out.number(self.farthest.len() as u64);
        for far in &self.farthest {
            out.number(far.row);
            out.real(far.distance.to_f64());
            out.reals(&far.values);
        }
        [&self.error, &self.removal].iter().for_each(|x| out.reals(x));
        out.0
    }

    /// The statistics serialized by [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "statistics", b'S', size_of::<T>())?;
        let (dim, extra, rows, evaluations) = (reader.size()?, reader.size()?, reader.number()?, reader.number()?);
        let (weight, weighted_distance) = (reader.real()?, reader.real()?);
        let (log_sum, inertia) = (reader.real()?, reader.real()?);
        let (sums, mass): (Vec<f64>, Vec<f64>) = (reader.reals()?, reader.reals()?);
        let right = dim > 0 && [0, 1, dim].contains(&extra) && mass.len().checked_mul(dim + extra) == Some(sums.len());
        reader.check(right, "sums are missing")?;
        let numbers = [weight, weighted_distance, log_sum, inertia];
        let finite = numbers.iter().chain(&sums).chain(&mass).all(|x| x.is_finite());
        reader.check(finite && weight >= 0.0 && mass.iter().all(|&x| x >= 0.0), "a sum is negative or not finite")?;
        let pairs = reader.pairs(mass.len())?;
        let mut farthest = Vec::new();
        for _ in 0..reader.size()? {
            let (row, distance): (_, T) = (reader.number()?, T::from_f64(reader.real()?));
            let values: Vec<T> = reader.reals()?;
            reader.check(values.len() == dim, "a row is cut off")?;
            reader.check(values.iter().chain([&distance]).all(|x| x.is_finite()), "a row is not finite")?;
            farthest.push(FarRow { distance, row, values });
        }
        let (error, removal): (Vec<f64>, Vec<f64>) = (reader.reals()?, reader.reals()?);
        for worth in [&error, &removal] {
            reader.check([0, mass.len()].contains(&worth.len()), "the worth of the clusters is cut off")?;
            reader.check(worth.iter().all(|&x| x.is_finite() && x >= 0.0), "the worth of a cluster is out of range")?;
        }
        reader.end()?;
        let statistics = Self {
            dim,
            extra,
            rows,
            weight,
            sums,
            mass,
            weighted_distance,
            log_sum,
            inertia,
            evaluations,
            pairs,
            farthest,
            error,
            removal,
        };
        Ok(statistics)
    }
}

impl<T: Real> Summary<T> {
    /// Serializes the summary: about t D bytes for each row of the sample, where t is the size of a number.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { rows, positive_rows, moments, sample, metric } = self;
        let mut out = Writer::new(b'Y', size_of::<T>());
        write_metric(*metric, &mut out);
        [sample.dim as u64, *rows, *positive_rows, sample.size as u64].iter().for_each(|&x| out.number(x));
        [moments.weight, moments.scatter, sample.bound].iter().for_each(|&x| out.real(x));
        [&moments.mean, &moments.min, &moments.max].iter().for_each(|x| out.reals(x));
        out.number(sample.rows.len() as u64);
        for s in &sample.rows {
            out.number(s.row);
            [s.key, s.weight, s.importance].iter().for_each(|&x| out.real(x));
        }
        out.reals(&sample.values);
        out.0
    }

    /// The summary serialized by [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes, "a summary", b'Y', size_of::<T>())?;
        let metric = read_metric(&mut reader)?;
        let (dim, rows, positive_rows, size) = (reader.size()?, reader.number()?, reader.number()?, reader.size()?);
        let (weight, scatter, bound) = (reader.real()?, reader.real()?, reader.real()?);
        let (mean, min, max): (Vec<f64>, Vec<f64>, Vec<f64>) = (reader.reals()?, reader.reals()?, reader.reals()?);
        let columns = [&mean, &min, &max];
        reader.check(dim > 0 && columns.iter().all(|x| x.len() == dim), "columns are missing")?;
        let finite = columns.iter().all(|x| x.iter().all(|x| x.is_finite())) && scatter >= 0.0 && weight.is_finite();
        reader.check(finite && weight >= 0.0 && positive_rows <= rows && !bound.is_nan(), "a sum is out of range")?;
        let mut sampled = Vec::new();
        for _ in 0..reader.size()? {
            let (row, key, weight, importance) = (reader.number()?, reader.real()?, reader.real()?, reader.real()?);
            let positive = [key, weight, importance].iter().all(|&x| x.is_finite() && x > 0.0);
            reader.check(positive, "a row of the sample is out of range")?;
            sampled.push(Sampled { key, row, weight, importance });
        }
        let values: Vec<T> = reader.reals()?;
        reader.check(sampled.len().checked_mul(dim) == Some(values.len()), "rows of the sample are missing")?;
        reader.check(values.iter().all(|x| x.is_finite()), "a row of the sample is not finite")?;
        reader.end()?;
        let sample = PrioritySample { rows: sampled, values, bound, ..PrioritySample::new(size, dim) };
        Ok(Self { rows, positive_rows, moments: Moments::of(weight, scatter, mean, min, max), sample, metric })
    }
}
