//! The E-step of one task: block by block, each row draws, then all rows of the block are measured and summed.

use super::draws::{Draws, Source};
use crate::error::{Error, Result};
use crate::kernel::{Kept, Look, Part, Posteriors, Real, prefetch_far};
use crate::memory::{filled, resize};
use crate::model::Model;
use crate::model::score::Scores;
use crate::rng::{Stage, stream};
use crate::step::groups::{Partial, Segment};
use crate::step::pairs::Pairs;
use crate::step::posterior::scale_of;
use crate::step::search::Task;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of rows that are measured together, so that they are still in cache when they are summed.
const BLOCK_BYTES: usize = 8 << 10;

/// What all tasks of an E-step share.
pub(super) struct Frame<'a, T: Real> {
    pub task: &'a Task<'a, T>,
    pub model: &'a Model<T>,
    pub source: Source<'a>,
    /// The rows of the data, group after group.
    pub order: &'a [u32],
    pub truncation: usize,
    pub proposals: usize,
    pub learn: bool,
    /// What S needs to know about the members.
    pub pairs: Option<Pairs>,
    /// K(n), N x H.
    pub members: &'a [AtomicU32],
}

/// One worker's buffers.
#[derive(Debug)]
pub(crate) struct Worker<T> {
    draws: Draws,
    /// 1 + position of each cluster among the task's targets; 0 if it is not one.
    targets: Vec<u32>,
    /// The candidates of the block's rows, row after row.
    candidates: Vec<u32>,
    /// The block's rows, if they must be computed or are relative to an origin, and their numbers.
    local: Vec<T>,
    numbers: Vec<u32>,
    kept: Kept<T>,
    /// Posteriors of a tile in lanes, in the order of its distances; and per lane their sum, and the sum of them times
    /// d - the nearest d.
    shares: Vec<T>,
    total: Vec<T>,
    spread: Vec<T>,
    parts: Vec<Part<T>>,
}

impl<T: Real> Worker<T> {
    pub fn new(clusters: usize) -> Result<Self> {
        Ok(Self {
            draws: Draws::new(clusters)?,
            targets: filled(0, clusters, "positions of clusters")?,
            candidates: Vec::new(),
            local: Vec::new(),
            numbers: Vec::new(),
            kept: Kept::default(),
            shares: Vec::new(),
            total: Vec::new(),
            spread: Vec::new(),
            parts: Vec::new(),
        })
    }

    /// The E-step of a task, whose segments are consecutive: sums to `partial` (OUT). Returns what S needs to know
    /// about each row's members.
    pub(super) fn expectation(
        &mut self,
        frame: &Frame<'_, T>,
        segments: &[Segment],
        partial: &mut Partial<T>,
    ) -> Result<Vec<T>> {
        partial.clear();
        let mut values = Vec::new();
        let (data, dim, h) = (frame.task.data, frame.model.dim(), frame.truncation);
        let (tile, width) = (self.kept.tile(), h + frame.proposals);
        let size = (BLOCK_BYTES / (dim * size_of::<T>())).clamp(tile, 8 * tile).next_multiple_of(tile);
        resize(&mut self.candidates, size * width, 0, "candidates")?;
        self.shares.resize(h * tile, T::ZERO);
        self.total.resize(tile, T::ZERO);
        self.spread.resize(tile, T::ZERO);
        let (mut start, mut count) = (segments.first().map_or(0, |s| s.start), 0);
        let mut rng = stream(frame.task.seed, Stage::Proposals, frame.task.round.iteration, start as u64);
        self.draws.draw_pool(width, &mut rng)?;
        ask_for(frame, start, size);
        for segment in segments {
            self.draws.open(data, frame.order, segment.start..segment.end, frame.members, h);
            for r in 0..segment.end - segment.start {
                let ids = &mut self.candidates[count * width..(count + 1) * width];
                self.draws.propose(frame.source, segment.leader, r, h, ids, &mut rng);
                count += 1;
                if count == size {
                    self.block(frame, &frame.order[start..start + count], partial, &mut values)?;
                    (start, count) = (start + count, 0);
                    ask_for(frame, start, size);
                }
            }
        }
        if count > 0 {
            self.block(frame, &frame.order[start..start + count], partial, &mut values)?;
        }
        partial.targets.iter().for_each(|&j| self.targets[j as usize] = 0);
        Ok(values)
    }

    /// Measures a block of rows against their candidates, keeps the nearest, computes posteriors and sums.
    fn block(
        &mut self,
        frame: &Frame<'_, T>,
        rows: &[u32],
        partial: &mut Partial<T>,
        values: &mut Vec<T>,
    ) -> Result<()> {
        if frame.task.observer.cancelled() {
            return Err(Error::Cancelled);
        }
        let (data, dim, h) = (frame.task.data, frame.model.dim(), frame.truncation);
        let (tile, width) = (self.kept.tile(), h + frame.proposals);
        let copied = frame.model.origin().is_some() || data.factors().is_some();
        if copied {
            self.numbers.clear();
            self.numbers.extend(0..rows.len() as u32);
            self.local.resize(rows.len() * dim, T::ZERO);
            T::gather(data.table(), rows, frame.model.origin(), &mut self.local);
        }
        let (values_of_rows, numbers) = match copied {
            true => (&self.local[..], &self.numbers[..]),
            false => (data.given(), rows),
        };
        let (centers, candidates) = (frame.model.local_centers(), &self.candidates[..rows.len() * width]);
        let scores = frame.task.scores;
        let look = Look { values: values_of_rows, dim, rows: numbers, centers, candidates, keep: h };
        find(&mut self.kept, look, scores);
        partial.evaluations += candidates.len() as u64;
        self.parts.clear();
        let tiles = rows.chunks(tile).zip(numbers.chunks(tile)).zip(candidates.chunks(width * tile));
        for (t, ((rows, numbers), candidates)) in tiles.enumerate() {
            let (distances, slots) = self.kept.tile_lists(t);
            let (shares, total, spread) = (&mut self.shares, &mut self.total, &mut self.spread);
            let scale = scale_of(scores.variance);
            T::posteriors(Posteriors { distances, scale, shares, total, spread });
            add_scalars(frame, rows, distances, total, spread, partial);
            for (lane, (&n, own)) in rows.iter().zip(candidates.chunks_exact(width)).enumerate() {
                if let Some(pairs) = frame.pairs {
                    note_members(pairs, &distances[lane..], &shares[lane..], total[lane], tile, values);
                }
                let share = if frame.learn { data.weight(n as usize) / total[lane].to_f64() } else { 0.0 };
                let set = &frame.members[n as usize * h..(n as usize + 1) * h];
                for (k, member) in set.iter().enumerate() {
                    let cluster = own[slots[k * tile + lane].to_index() as usize];
                    member.store(cluster, Ordering::Relaxed);
                    let weight = share * shares[k * tile + lane].to_f64();
                    partial.offsets += weight * scores.offset(cluster).to_f64();
                    if weight > 0.0 {
                        let place = partial.place(cluster, &mut self.targets);
                        partial.mass[place as usize] += weight;
                        self.parts.push(Part { row: numbers[lane], cluster, place, weight: T::from_f64(weight) });
                    }
                }
            }
        }
        if frame.learn {
            partial.add(values_of_rows, centers, dim, frame.task.round.extra(), &self.parts)?;
        }
        Ok(())
    }
}

/// The nearest candidates of each row, by distance or by score.
fn find<T: Real>(kept: &mut Kept<T>, look: Look<'_, T>, scores: &Scores<T>) {
    match scores.lift().is_none() && !scores.has_offsets() {
        true => kept.find(look),
        false => kept.find_scored(look, |row, ids, out| scores.measure(row, look.centers, ids, out)),
    }
}

/// Prefetches the rows at `size` positions of the order from `start` on, all at once, so that their addresses are
/// resolved in parallel.
fn ask_for<T: Real>(frame: &Frame<'_, T>, start: usize, size: usize) {
    for &n in frame.order.iter().skip(start).take(size) {
        prefetch_far(frame.task.data.given_row(n as usize));
    }
}

/// Appends to `values` what S needs to know about a row's members, which are `tile` numbers apart.
fn note_members<T: Real>(pairs: Pairs, distances: &[T], shares: &[T], total: T, tile: usize, values: &mut Vec<T>) {
    match pairs {
        Pairs::Kernel => values.extend(distances.iter().step_by(tile)),
        Pairs::Posterior => values.extend(shares.iter().step_by(tile).map(|&q| q / total)),
    }
}

/// Adds a tile's rows to the scalar sums, from the distances of their members in lanes and the sums of their
/// posteriors.
fn add_scalars<T: Real>(
    frame: &Frame<'_, T>,
    rows: &[u32],
    near: &[T],
    total: &[T],
    spread: &[T],
    partial: &mut Partial<T>,
) {
    let data = frame.task.data;
    partial.nearest.extend_from_slice(&near[..rows.len()]);
    let (mut inertia, mut apart, mut log_sum, mut product) = (0.0, 0.0, 0.0, 1.0);
    for (&n, ((near, total), spread)) in rows.iter().zip(near.iter().zip(total).zip(spread)) {
        let (w, total) = (data.weight(n as usize), total.to_f64());
        inertia += w * near.to_f64();
        apart += w * (spread.to_f64() / total);
        // If all weights are 1, one logarithm of a product is enough.
        match data.weights() {
            None => product *= total,
            Some(_) => log_sum += w * total.ln(),
        }
    }
    partial.inertia += inertia;
    partial.weighted_distance += inertia + apart;
    partial.log_sum += inertia * -0.5 / frame.task.scores.variance + log_sum + f64::ln(product);
}
