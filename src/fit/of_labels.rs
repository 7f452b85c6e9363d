//! Inertia and empty clusters, from the labels of the rows.

use crate::data::Dataset;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::{collected, filled};
use crate::model::Model;
use crate::model::score::Scores;

/// The weighted sum of the squared distances of rows to the clusters of their labels, in units of the variances if
/// clusters differ in them.
pub(super) fn inertia_of<T: Real>(labels: &[u32], data: &Dataset<'_, T>, model: &Model<T>) -> Result<f64> {
    let scores = Scores::of(model)?;
    let (mut local, mut score, mut inertia) = (Vec::new(), [T::ZERO], 0.0);
    for (n, &c) in labels.iter().enumerate() {
        scores.measure(data.local(n, model.origin(), &mut local), model.local_centers(), &[c], &mut score);
        inertia += data.weight(n) * (score[0] - scores.offset(c)).to_f64();
    }
    Ok(inertia)
}

/// Number of clusters that are not the label of any row, or share their center with one that is.
pub(super) fn count_empty<T: Real>(labels: &[u32], model: &Model<T>) -> Result<usize> {
    let mut used = filled(false, model.clusters(), "labels")?;
    labels.iter().for_each(|&c| used[c as usize] = true);
    let dim = model.dim();
    let bits = |c: u32| model.local_centers()[c as usize * dim..][..dim].iter().map(|x| x.to_f64().to_bits());
    let mut distinct = collected(0..model.clusters() as u32, "labels")?;
    distinct.retain(|&c| used[c as usize]);
    distinct.sort_unstable_by(|&a, &b| bits(a).cmp(bits(b)));
    distinct.dedup_by(|a, b| bits(*a).eq(bits(*b)));
    Ok(model.clusters() - distinct.len())
}
