//! How a run begins: the first centers, and where rows look for those near them.

use crate::data::{Dataset, Moments};
use crate::error::Result;
use crate::kernel::Real;
use crate::model::Model;
use crate::observer::Observer;
use crate::plan::{Plan, Seeding};
use crate::seeding::cells::Splitter;
use crate::seeding::hierarchical::{FirstLook, look_at, seed_hierarchical};
use crate::seeding::{Seeds, seed_afkmc2, seed_plus_plus, seed_random};
use crate::step::{ByCluster, Search, Start};
use ndarray::ArrayView2;

/// s2 may not fall below this share of the data's.
const VARIANCE_FLOOR: f64 = 1e-12;

/// Chooses the first centers, unless they are given, and where to look for them. The rows of each cell are known where the
/// start has looked at all of them.
pub(super) fn start<T: Real>(
    data: &Dataset<'_, T>,
    moments: &Moments,
    plan: &Plan,
    given: Option<ArrayView2<'_, T>>,
    seed: u64,
    observer: &dyn Observer,
) -> Result<(Start<T>, Option<ByCluster>)> {
    let origin = moments.origin::<T>();
    let splitter = Splitter { data, origin: origin.as_deref(), seed, observer };
    let (clusters, h) = (plan.clusters, plan.search.truncation());
    let (seeds, look) = match (given, plan.seeding) {
        (Some(centers), _) => (Seeds { centers: centers.to_owned(), indices: Vec::new(), evaluations: 0 }, None),
        (None, Seeding::Hierarchical { chain_length }) => {
            let (seeds, look) = seed_hierarchical(&splitter, clusters, chain_length, h)?;
            (seeds, Some(look))
        }
        (None, Seeding::Random) => (seed_random(data, clusters, seed, observer)?, None),
        (None, Seeding::PlusPlus { trials }) => (seed_plus_plus(data, clusters, trials, seed, observer)?, None),
        (None, Seeding::AfkMc2 { chain_length }) => {
            (seed_afkmc2(data, moments, clusters, chain_length, seed, observer)?, None)
        }
    };
    let variance = moments.variance().max(variance_floor(moments));
    let model = Model::from_origin(seeds.centers.view(), origin.clone(), variance)?;
    let mut evaluations = seeds.evaluations;
    let look = match (plan.search, look) {
        // All clusters are looked at anyway.
        (Search::Exhaustive { .. }, _) => None,
        (Search::Grouped { .. }, None) => {
            let (look, count) = look_at(&splitter, model.local_centers(), h)?;
            evaluations += count;
            Some(look)
        }
        (_, look) => look,
    };
    let Some(FirstLook { cells, rows, sequence }) = look else {
        return Ok((Start { model, cells: None, sequence: Vec::new(), evaluations }, None));
    };
    Ok((Start { model, cells: Some(cells), sequence, evaluations }, Some(rows)))
}

/// The smallest s2 allowed: constant data and clusters of single points would have none, and an infinite F.
pub(super) fn variance_floor(moments: &Moments) -> f64 {
    let scale = match moments.variance() {
        0.0 => moments.mean.iter().map(|m| m * m).sum::<f64>() / moments.mean.len() as f64,
        variance => variance,
    };
    (VARIANCE_FLOOR * scale).max(f64::MIN_POSITIVE)
}
