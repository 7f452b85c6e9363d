//! The R clusters that a row draws from its row of S: all different, none in K(n).

use crate::data::Dataset;
use crate::error::Result;
use crate::kernel::{Real, prefetch};
use crate::memory::{collected, filled};
use crate::rng::Rng;
use crate::step::alias::AliasTable;
use crate::step::similarity::Similarity;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

/// Draws from a row of S per wanted cluster, before uniform draws fill up.
const TRIES: usize = 2;
/// Number of clusters that the uniform draws of a task are made from, so that their centers are in cache when they are
/// measured.
const POOL: usize = 64;
/// Number of rows ahead whose sets are prefetched.
const AHEAD: usize = 16;

/// The source of draws.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// All clusters with equal probability.
    Uniform,
    /// The members of the group's rows: co-occurrence.
    Sets,
    /// Given rows of S.
    Rows(&'a Similarity),
}

/// What the rows of a group hold, and draws for them.
#[derive(Debug)]
pub(super) struct Draws {
    /// The members of the group's rows except the first of each, which is the group's own cluster.
    others: Vec<u32>,
    /// Draws the row whose members are drawn from, if rows have weights.
    lots: Option<AliasTable>,
    /// The clusters that uniform draws are made from.
    pool: Vec<u32>,
    /// The number of the last row for which each cluster was a candidate.
    marks: Vec<u32>,
    point: u32,
}

impl Draws {
    pub fn new(clusters: usize) -> Result<Self> {
        let marks = filled(0, clusters, "marks of clusters")?;
        Ok(Self { others: Vec::new(), lots: None, pool: Vec::new(), marks, point: 0 })
    }

    /// Draws the clusters for the uniform draws of a task whose rows have `width` candidates: one cluster from each of
    /// [`POOL`] parts, or all clusters if there are not many more.
    pub fn draw_pool(&mut self, width: usize, rng: &mut Rng) -> Result<()> {
        let clusters = self.marks.len();
        if clusters >= 4 * POOL && width < POOL {
            let bound = |i: usize| i * clusters / POOL;
            self.pool.clear();
            self.pool.extend((0..POOL).map(|i| (bound(i) + rng.below(bound(i + 1) - bound(i))) as u32));
        } else if self.pool.len() != clusters {
            self.pool = collected(0..clusters as u32, "marks of clusters")?;
        }
        Ok(())
    }

    /// Reads what a group's rows hold: the rows at `places` of the `order`, with sets of `h`.
    pub fn open<T: Real>(
        &mut self,
        data: &Dataset<'_, T>,
        order: &[u32],
        places: Range<usize>,
        members: &[AtomicU32],
        h: usize,
    ) {
        self.others.clear();
        let rows = &order[places.clone()];
        let set = |n: u32| &members[n as usize * h + 1..(n as usize + 1) * h];
        for (i, &n) in rows.iter().enumerate() {
            if let Some(&ahead) = order.get(places.start + i + AHEAD) {
                prefetch(set(ahead));
            }
            self.others.extend(set(n).iter().map(|member| member.load(Ordering::Relaxed)));
        }
        // Without any weight in the group its row of S is empty; counting all rows equally is as good.
        self.lots = data.weights().and_then(|w| {
            let weights: Vec<f64> = rows.iter().map(|&n| w[n as usize]).collect();
            AliasTable::new(&weights).ok()
        });
    }

    /// Writes the candidates of the group's row `r` to `ids` (OUT): its K(n) of `h`, then draws from the row of S of
    /// its cluster `c`.
    #[inline]
    pub fn propose(&mut self, source: Source<'_>, c: u32, r: usize, h: usize, ids: &mut [u32], rng: &mut Rng) {
        let Self { others, lots, pool, marks, point } = self;
        ids[0] = c;
        ids[1..h].copy_from_slice(&others[r * (h - 1)..(r + 1) * (h - 1)]);
        if *point == u32::MAX {
            marks.fill(0);
            *point = 0;
        }
        *point += 1;
        ids[..h].iter().for_each(|&j| marks[j as usize] = *point);
        let found = match (source, &lots) {
            // All clusters.
            _ if ids.len() == marks.len() => h,
            (Source::Uniform, _) => h,
            (Source::Sets, _) if h == 1 => h,
            (Source::Sets, None) => {
                // Half a random number is enough: there are far fewer than 2^32 to choose from.
                let pick = |bits: u64| others[(((bits & 0xffff_ffff) * others.len() as u64) >> 32) as usize];
                fill(ids, h, marks, *point, || {
                    let bits = rng.bits();
                    Some([pick(bits), pick(bits >> 32)])
                })
            }
            (Source::Sets, Some(lots)) => {
                let mut pick = || others[lots.draw(rng) * (h - 1) + rng.below(h - 1)];
                fill(ids, h, marks, *point, || Some([pick(), pick()]))
            }
            (Source::Rows(rows), _) => {
                let mut pick = || rows.draw(c, rng);
                fill(ids, h, marks, *point, || Some([pick()?, pick()?]))
            }
        };
        for id in &mut ids[found..] {
            // Few are left when the candidates nearly exhaust the clusters: walk on from the draw instead of drawing
            // again.
            let mut place = rng.below(pool.len());
            while marks[pool[place] as usize] == *point {
                place = if place + 1 == pool.len() { 0 } else { place + 1 };
            }
            *id = pool[place];
            marks[*id as usize] = *point;
        }
    }
}

/// Completes `ids` (IN OUT), the first `h` of which are given, with different ones that `draw` yields, as far as
/// possible. Returns their number. `marks` (IN OUT) has this `point`'s number for each of them.
#[inline(always)]
fn fill(ids: &mut [u32], h: usize, marks: &mut [u32], point: u32, mut draw: impl FnMut() -> Option<[u32; 2]>) -> usize {
    let mut filled = h;
    for _ in 0..(TRIES * (ids.len() - h)).div_ceil(2) {
        let Some(pair) = draw() else { break };
        for j in pair {
            // No branch on whether it is new, which would be unpredictable.
            ids[filled] = j;
            let mark = &mut marks[j as usize];
            filled += usize::from(*mark != point);
            *mark = point;
            if filled == ids.len() {
                return filled;
            }
        }
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Stage, stream};
    use crate::step::groups::shared;
    use crate::step::similarity::PairCounts;
    use ndarray::{Array1, Array2};
    use proptest::prelude::*;

    /// Five rows of cluster 7, with sets of three.
    const SETS: [[u32; 3]; 5] = [[7, 1, 2], [7, 1, 3], [7, 2, 4], [7, 9, 1], [7, 5, 1]];

    /// How often each of 20 clusters is drawn for the first row, one draw at a time.
    fn drawn(weights: Option<[f64; 5]>) -> [f64; 20] {
        const TIMES: usize = 40_000;
        let x = Array2::<f32>::zeros((5, 1));
        let mut data = Dataset::new(x.view()).unwrap();
        if let Some(weights) = weights {
            data = data.weighted(Array1::from_vec(weights.to_vec()).view()).unwrap();
        }
        let members = shared(SETS.concat());
        let mut draws = Draws::new(20).unwrap();
        let mut rng = stream(3, Stage::Proposals, 0, 0);
        draws.draw_pool(4, &mut rng).unwrap();
        draws.open(&data, &[0, 1, 2, 3, 4], 0..5, &members, 3);
        let mut counts = [0.0; 20];
        for _ in 0..TIMES {
            let mut ids = [0; 4];
            draws.propose(Source::Sets, 7, 0, 3, &mut ids, &mut rng);
            assert_eq!(ids[..3], SETS[0]);
            counts[ids[3] as usize] += 1.0 / TIMES as f64;
        }
        counts
    }

    #[test]
    fn draws_are_in_proportion_to_the_row_of_s_without_the_rows_own_set() {
        for weights in [None, Some([1.0, 2.0, 0.0, 4.0, 0.5])] {
            let own = |j: u32| SETS[0].contains(&j);
            let mut row = [0.0; 20];
            for (n, set) in SETS.iter().enumerate() {
                set[1..].iter().for_each(|&j| row[j as usize] += weights.map_or(1.0, |w| w[n]));
            }
            let total: f64 = row.iter().sum();
            let rejected = (0..20).filter(|&j| own(j)).map(|j| row[j as usize]).sum::<f64>() / total;
            // If all tries end in the row's own set, a uniform draw follows, which walks on from that set.
            let uniform = rejected.powi(TRIES as i32);
            for (j, count) in (0..20).zip(drawn(weights)) {
                let before = (0..j).rev().take_while(|&i| own(i)).count() as f64;
                let expected = if own(j) {
                    0.0
                } else {
                    (1.0 - uniform) * row[j as usize] / (total * (1.0 - rejected)) + uniform * (1.0 + before) / 20.0
                };
                assert!((count - expected).abs() < 0.01, "cluster {j}: {count}, expected {expected} ({weights:?})");
            }
        }
    }

    proptest! {
        #[test]
        fn candidates_are_the_set_and_different_others(
            clusters in 1usize..40, h in 1usize..9, r in 0usize..40, points in 1usize..20, seed in 0u64..99, source in 0..3,
        ) {
            let (h, r) = (h.min(clusters), r.min(clusters - h.min(clusters)));
            let mut rng = stream(seed, Stage::Proposals, 0, 0);
            let c = rng.below(clusters);
            // The first member of each set is c.
            let set = |n: usize| (0..h).map(move |k| ((c + k * (1 + n % 2)) % clusters) as u32);
            let distinct = |n: usize| set(n).collect::<std::collections::BTreeSet<_>>().len() == h;
            let sets: Vec<u32> = (0..points).flat_map(|n| set(if distinct(n) { n } else { 0 })).collect();
            let counts = PairCounts { row_of: (0..clusters as u32).collect(), offsets: vec![0; clusters + 1], ..PairCounts::none() };
            let rows = Similarity::new(counts).unwrap();
            let source = [Source::Uniform, Source::Sets, Source::Rows(&rows)][source as usize];
            let x = Array2::<f32>::zeros((points, 1));
            let order: Vec<u32> = (0..points as u32).collect();
            let mut draws = Draws::new(clusters).unwrap();
            draws.draw_pool(h + r, &mut rng).unwrap();
            draws.open(&Dataset::new(x.view()).unwrap(), &order, 0..points, &shared(sets.clone()), h);
            for n in 0..points {
                let mut ids = vec![u32::MAX; h + r];
                draws.propose(source, c as u32, n, h, &mut ids, &mut rng);
                prop_assert_eq!(&ids[..h], &sets[n * h..(n + 1) * h]);
                ids.sort_unstable();
                ids.dedup();
                prop_assert!(ids.len() == h + r && ids.iter().all(|&j| (j as usize) < clusters));
            }
        }
    }

    #[test]
    fn uniform_draws_of_many_clusters_are_uniform_over_tasks() {
        const CLUSTERS: usize = 2000;
        let x = Array2::<f32>::zeros((1, 1));
        let (data, members) = (Dataset::new(x.view()).unwrap(), shared(vec![0, 1]));
        let mut draws = Draws::new(CLUSTERS).unwrap();
        let mut counts = [0usize; 20];
        for task in 0..2000 {
            let mut rng = stream(1, Stage::Proposals, 0, task);
            draws.draw_pool(7, &mut rng).unwrap();
            draws.open(&data, &[0], 0..1, &members, 2);
            for _ in 0..4 {
                let mut ids = [0; 7];
                draws.propose(Source::Uniform, 0, 0, 2, &mut ids, &mut rng);
                ids[2..].iter().for_each(|&j| counts[j as usize * 20 / CLUSTERS] += 1);
            }
        }
        // 40,000 draws over 20 parts.
        let chi2: f64 = counts.iter().map(|&c| (c as f64 - 2000.0).powi(2) / 2000.0).sum();
        assert!(chi2 < 43.8, "chi-square {chi2} with 19 degrees of freedom");
    }
}
