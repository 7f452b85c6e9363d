//! The grouped engine: D-GMM's E-step with the points of a cluster taken together.
//!
//! Point by point, a distance is a gather from memory, ten times below the speed of a dense block. Here the points whose
//! nearest cluster is c form group c and share one list of candidates L_c: c itself, the strongest of c's row of S, draws
//! from its neighbours' rows, and a few uniform ones. Their centres are packed once and the group's rows go through the
//! blocked kernel, which leaves the H nearest of each; posteriors, sums and F follow while the rows are in cache. A member
//! of a point's K(n) that is not in L_c is measured by itself, so nothing near is ever dropped and F never falls.
//!
//! Every other iteration groups the points by their second nearest cluster instead: they see another list, which finds
//! what the first one lacks.
//!
//! S is co-occurrence in the row of the group's cluster: S_cj = sum of w_n over the points n of group c with j in K(n).
//!
//! All sums are taken relative to the group's own centre, so that neither data far from 0 nor clusters far from each
//! other cost digits. Groups are cut into segments of fixed size; each leaves partial sums a target cluster, and each
//! target adds them in the order of the segments: the same bits for any number of threads.
//!
//! Cost: O(N G D + N H), G = |L_c|; memory N (4 H + 8) bytes, and the partial sums of one wave of segments.

mod candidates;
mod segment;

use crate::em::expectation::{Expectation, Task};
use crate::em::members::ByCluster;
use crate::em::statistics::Statistics;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::real::Real;
use crate::search::State;
use candidates::NeighbourRows;
use rayon::prelude::*;
use segment::{Frame, Partial, Scratch, Segment};
use std::sync::atomic::{AtomicU32, Ordering};

/// Rows of a group that one segment has at most.
const SEGMENT_ROWS: usize = 1024;
/// Rows whose partial sums wait to be merged at most, give or take a segment.
const WAVE_ROWS: usize = 1 << 17;
/// Iterations in which a point belongs to its nearest cluster alone: cheaper, and F rises all the same when the soft
/// posterior takes over, which is the best one for given centres.
const WARM_UP: u64 = 3;
/// Groups are by the nearest member in one iteration, by the next nearest in another.
const RANKS: usize = 2;
/// Rows that are worth a task of their own.
const TASK_ROWS: usize = 256;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Grouped {
    pub truncation: usize,
    /// G, the length of a candidate list.
    pub candidates: usize,
}

impl<T: Real> Expectation<T> for Grouped {
    fn step(
        &mut self,
        task: &Task<'_, T>,
        model: &Model<T>,
        state: &mut State<T>,
        iteration: u64,
        learn: bool,
    ) -> Result<Statistics> {
        let (data, clusters) = (task.data, model.clusters());
        let rank = (iteration as usize % RANKS).min(self.truncation - 1);
        let keys: Vec<u32> = state.members.iter().skip(rank).step_by(self.truncation).copied().collect();
        let groups = ByCluster::new(&keys, clusters, |_| true);
        let rows = NeighbourRows::count(data, &groups, &state.members, self.truncation, clusters);
        if task.observer.cancelled() {
            return Err(Error::Cancelled);
        }
        // Relaxed stores to places of different points: plain moves, without unsafe code.
        let members: Vec<AtomicU32> = std::mem::take(&mut state.members).into_iter().map(AtomicU32::new).collect();
        let nearest: Vec<AtomicU32> = (0..data.rows()).map(|_| AtomicU32::new(0)).collect();
        let frame = Frame {
            task,
            model,
            rows: &rows,
            truncation: self.truncation,
            candidates: self.candidates,
            iteration,
            hard: task.hard || iteration < WARM_UP,
            learn,
            members: &members,
            nearest: &nearest,
        };
        let statistics = waves(&frame, &groups);
        state.members = members.into_iter().map(AtomicU32::into_inner).collect();
        let bits = |x: AtomicU32| T::from_f64(f64::from(f32::from_bits(x.into_inner())));
        state.nearest = nearest.into_iter().map(bits).collect();
        statistics
    }
}

/// The segments of all groups, in the order of the clusters.
fn segments(groups: &ByCluster, clusters: usize) -> Vec<Segment<'_>> {
    let cut = |c: usize| groups.of(c).chunks(SEGMENT_ROWS).map(move |rows| Segment { cluster: c as u32, rows });
    (0..clusters).flat_map(cut).collect()
}

/// Works through the segments wave by wave and merges what they leave.
fn waves<T: Real>(frame: &Frame<'_, T>, groups: &ByCluster) -> Result<Statistics> {
    let (data, clusters) = (frame.task.data, frame.model.clusters());
    let mut statistics = Statistics::new(clusters, data.dim(), data.total_weight());
    let segments = segments(groups, clusters);
    let mut rest = segments.as_slice();
    while !rest.is_empty() {
        let mut rows = 0;
        let wave = rest.iter().take_while(|s| {
            let open = rows < WAVE_ROWS;
            rows += s.rows.len();
            open
        });
        let (wave, later) = rest.split_at(wave.count());
        let together = (TASK_ROWS * wave.len() / rows.max(1)).max(1);
        let partials: Vec<Partial<T>> = wave
            .par_iter()
            .with_min_len(together)
            .map_init(
                || Scratch::new(clusters),
                |scratch, segment| {
                    if frame.task.observer.cancelled() {
                        return Err(Error::Cancelled);
                    }
                    Ok(segment.expectation(frame, scratch))
                },
            )
            .collect::<Result<_>>()?;
        merge(&mut statistics, &partials, frame);
        rest = later;
    }
    Ok(statistics)
}

/// Adds the partial sums to the statistics: scalars in order, each target's sums in the order of the segments.
fn merge<T: Real>(statistics: &mut Statistics, partials: &[Partial<T>], frame: &Frame<'_, T>) {
    for p in partials {
        statistics.weighted_distance += p.weighted_distance;
        statistics.log_sum += p.log_sum;
        statistics.inertia += p.inertia;
        statistics.evaluations += p.evaluations;
    }
    if !frame.learn {
        return;
    }
    let dim = statistics.dim;
    let share = statistics.mass.len().div_ceil(64);
    let parts = statistics.sums.par_chunks_mut(share * dim).zip(statistics.mass.par_chunks_mut(share)).enumerate();
    parts.for_each(|(i, (sums, mass))| {
        let mine = (i * share) as u32..(i * share + mass.len()) as u32;
        for p in partials {
            for (k, &target) in p.targets.iter().enumerate() {
                if mine.contains(&target) {
                    let j = (target - mine.start) as usize;
                    mass[j] += p.mass[k];
                    let sum = &mut sums[j * dim..(j + 1) * dim];
                    T::add_scaled(sum, 1.0, &p.sums[k * dim..(k + 1) * dim]);
                    T::add_scaled(sum, p.mass[k], &p.offset);
                }
            }
        }
    });
}

#[inline]
fn load(members: &[AtomicU32], place: usize) -> u32 {
    members[place].load(Ordering::Relaxed)
}
