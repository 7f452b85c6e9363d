//! The clusters that the rows of a segment are compared with.

use super::candidates::{Seen, propose};
use super::segment::{Frame, Worker};
use crate::kernel::{Real, prefetch};
use crate::rng::{Stage, stream};
use crate::step::groups::Segment;
use std::sync::atomic::Ordering;

/// A cluster is listed as a candidate of the group if at least one in this many rows holds it: measuring it for all
/// rows then costs less than for those rows alone.
const FEW_ROWS: f32 = 256.0;
/// Number of rows ahead for which sets are prefetched.
const SETS_AHEAD: usize = 16;

impl<T: Real> Worker<T> {
    /// Lists the given candidates.
    pub(super) fn list_all(&mut self, look: &[u32]) -> bool {
        self.list.clear();
        self.list.extend_from_slice(look);
        look.iter().zip(1..).for_each(|(&j, place)| self.places[j as usize] = place);
        true
    }

    /// Lists the members of the rows' sets, and candidates that no row holds. Returns whether all members are listed.
    pub(super) fn list_candidates(&mut self, frame: &Frame<'_, T>, segment: &Segment, seen: &mut Seen) -> bool {
        let all_listed = self.list_members(frame, segment, seen);
        let (c, h) = (segment.leader, frame.truncation);
        let mut rng = stream(frame.task.seed, Stage::Proposals, frame.task.round.iteration, u64::from(c));
        let similarity = frame.task.round.similarity.as_deref();
        propose(similarity, c, frame.candidates, h, &mut rng, &mut self.list, &mut self.places);
        all_listed
    }

    /// Begins the list: the leader and the members of the rows' sets, which count as seen together with it. Of a large
    /// group, only members that many rows hold: measuring the others row by row is cheaper. Returns whether all members
    /// are listed.
    fn list_members(&mut self, frame: &Frame<'_, T>, segment: &Segment, seen: &mut Seen) -> bool {
        let h = frame.truncation;
        self.list.clear();
        self.list.push(segment.leader);
        self.places[segment.leader as usize] = 1;
        self.counts.clear();
        self.counts.push(0.0);
        for place in segment.start..segment.end {
            if let Some(&n) = frame.order.get(place + SETS_AHEAD) {
                prefetch(&frame.members[n as usize * h..(n as usize + 1) * h]);
            }
            let n = frame.order[place] as usize;
            let w = (frame.task.data.weight(n) * frame.task.round.unit) as f32;
            for member in &frame.members[n * h..(n + 1) * h] {
                let j = member.load(Ordering::Relaxed);
                let place = &mut self.places[j as usize];
                if *place == 0 {
                    self.list.push(j);
                    self.counts.push(0.0);
                    *place = self.list.len() as u32;
                }
                self.counts[*place as usize - 1] += w;
            }
        }
        if frame.learn {
            seen.push(segment.leader, &self.list, &self.counts);
        }
        let few = (segment.end - segment.start) as f32 / FEW_ROWS;
        if few <= 1.0 {
            return true;
        }
        let (list, counts, places) = (&mut self.list, &self.counts, &mut self.places);
        let mut kept = 1;
        for i in 1..list.len() {
            let j = list[i];
            if counts[i] >= few {
                list[kept] = j;
                kept += 1;
                places[j as usize] = kept as u32;
            } else {
                places[j as usize] = 0;
            }
        }
        let all = kept == list.len();
        list.truncate(kept);
        all
    }
}
