//! Nearest clusters without looking at all of them: a coarse start, then greedy steps from neighbour to neighbour.
//!
//! The centres are cut into cells; a row looks at those of its own cell and of the adjacent ones. Then rows that have the
//! same nearest cluster look together at all that any of them holds, which are that cluster's neighbours in the graph of
//! the rows' own sets, and so on. Whether that was enough is measured: a sample of the rows is searched exactly, and steps
//! are taken until nearly all of it is found.
//!
//! Cost: O(N (M^(1/2) + 500 + 100 steps) D) against O(N M D) of the exact search. It pays for some ten thousand clusters,
//! and finds most where the data have few dimensions of their own.

use crate::data::Dataset;
use crate::em::expectation::{Expectation, Task};
use crate::error::Result;
use crate::grouped::Grouped;
use crate::importance::gather;
use crate::model::Model;
use crate::observer::Observer;
use crate::real::Real;
use crate::rng::{Stage, stream};
use crate::search::State;
use crate::seeding::cells::{Ground, view};
use crate::seeding::hierarchical::look_at;

/// Clusters that a row holds on its way.
const HELD: usize = 5;
/// Rows that are searched exactly, to know the recall.
const SAMPLE: usize = 1024;
/// The recall at which the search ends ...
const ENOUGH: f64 = 0.98;
/// ... and the most steps after the first look.
const STEPS: u64 = 3;
/// A cluster counts as found if it is farther than the nearest by no more than this share of the squared distance: 1 % of
/// the distance.
const SLACK: f64 = 1.01 * 1.01;

/// What a search over the graph found.
#[derive(Debug, Clone)]
pub struct Found {
    /// For each row the nearest cluster that was seen.
    pub labels: Vec<u32>,
    /// Of a sample of the rows, the share whose label is the true nearest cluster or at most 1 % farther.
    pub recall: f64,
    /// Distance evaluations, those of the sample not included.
    pub evaluations: u64,
}

/// Searches for all rows. Must run inside a pool.
pub(crate) fn search<T: Real>(model: &Model<T>, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<Found> {
    let h = HELD.min(model.clusters());
    let ground = Ground { data, origin: model.origin(), seed: 0, observer };
    let (look, mut evaluations) = look_at(&ground, model.local_centres(), h)?;
    let audit = Audit::new(model, data, observer)?;
    let mut search = Grouped::new(h, h, look);
    let task = Task { data, hard: true, seed: 0, observer };
    let mut state = State::unknown(h);
    let mut recall = 0.0;
    for step in 0..=STEPS {
        evaluations += search.step(&task, model, &mut state, step, false)?.evaluations;
        recall = audit.recall(model, data, &state);
        if recall >= ENOUGH {
            break;
        }
    }
    Ok(Found { labels: state.labels(), recall, evaluations })
}

/// A sample of the rows and how far their nearest clusters are.
struct Audit<T> {
    rows: Vec<usize>,
    nearest: Vec<T>,
}

impl<T: Real> Audit<T> {
    fn new(model: &Model<T>, data: &Dataset<'_, T>, observer: &dyn Observer) -> Result<Self> {
        let mut rng = stream(0, Stage::Sample, 0, 0);
        let rows: Vec<usize> = match data.rows() {
            n if n <= SAMPLE => (0..n).collect(),
            n => (0..SAMPLE).map(|_| rng.below(n)).collect(),
        };
        let values = gather(data, &rows);
        let (_, nearest) = model.nearest(&view(&values, data.dim())?, observer)?;
        Ok(Self { rows, nearest })
    }

    /// The share of the sample whose nearest member is the nearest cluster, or nearly as near.
    fn recall(&self, model: &Model<T>, data: &Dataset<'_, T>, state: &State<T>) -> f64 {
        let mut local = Vec::new();
        let found = self.rows.iter().zip(&self.nearest).filter(|&(&n, &nearest)| {
            let mut d = [T::ZERO];
            let label = [state.members[n * state.kept]];
            T::gathered_distances(data.local(n, model.origin(), &mut local), model.local_centres(), &label, &mut d);
            d[0].to_f64() <= SLACK * nearest.to_f64()
        });
        found.count() as f64 / self.rows.len() as f64
    }
}
