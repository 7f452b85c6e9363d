//! Small data are fitted in an order of their own: the rows of positive weight sorted by their values, equal rows as one
//! with their weights added.
//!
//! So their order, and whether a row stands twice or has the weight 2, or is absent or has the weight 0, changes no bit of
//! a fit, not even where random draws go by the place of a row. Larger data keep their order, because sorting and copying
//! them would cost more than it is worth: there these promises hold to rounding, from a given start, where the search is
//! exhaustive.

use crate::data::{BLOCK, Dataset, compare};
use crate::error::Result;
use crate::fit::{self, Fit};
use crate::observer::Observer;
use crate::parallel::Run;
use crate::params::Plan;
use crate::real::Real;
use ndarray::{Array2, ArrayView1, ArrayView2};

/// Data with at most so many rows are small.
const SMALL: usize = BLOCK;

/// Fits `data`, in an order of its own if it is small. See the [module](self).
pub(crate) fn fit<T: Real>(
    data: &Dataset<'_, T>,
    plan: &Plan,
    start: Option<ArrayView2<'_, T>>,
    observer: &dyn Observer,
) -> Result<Fit<T>> {
    let small = data.rows() <= SMALL && data.values().iter().all(|x| x.is_finite());
    let own = small.then(|| Canonical::of(data));
    // With fewer distinct rows than clusters, copies of a row have to serve as several centers.
    let Some(own) = own.filter(|own| own.weights.len() >= plan.clusters) else {
        return fit::fit(data, plan, start, observer);
    };
    let rows = Dataset::new(own.rows.view())?.weighted(ArrayView1::from(&own.weights))?;
    let mut fit = fit::fit(&rows, plan, start, observer)?;
    fit.labels = own.labels(&fit, data, &Run { threads: plan.threads(), observer })?;
    Ok(fit)
}

struct Canonical<T> {
    rows: Array2<T>,
    weights: Vec<f64>,
    /// Which of `rows` a row of the data is; none for those of weight 0.
    places: Vec<Option<usize>>,
}

impl<T: Real> Canonical<T> {
    fn of(data: &Dataset<'_, T>) -> Self {
        let mut order: Vec<usize> = (0..data.rows()).filter(|&n| data.weight(n) > 0.0).collect();
        let by_weight = |a: usize, b: usize| data.weight(a).total_cmp(&data.weight(b));
        order.sort_by(|&a, &b| compare(data.row(a), data.row(b)).then_with(|| by_weight(a, b)));
        let (mut chosen, mut weights, mut places) = (Vec::new(), Vec::new(), vec![None; data.rows()]);
        for n in order {
            match (chosen.last(), weights.last_mut()) {
                (Some(&last), Some(weight)) if compare(data.row(last), data.row(n)).is_eq() => {
                    *weight += data.weight(n)
                }
                _ => {
                    chosen.push(n);
                    weights.push(data.weight(n));
                }
            }
            places[n] = Some(chosen.len() - 1);
        }
        let rows = Array2::from_shape_fn((chosen.len(), data.dim()), |(i, d)| data.row(chosen[i])[d]);
        Self { rows, weights, places }
    }

    /// The labels of the rows as they were given; those of weight 0, which the fit has not seen, by exact search.
    fn labels(&self, fit: &Fit<T>, data: &Dataset<'_, T>, run: &Run<'_>) -> Result<Vec<u32>> {
        let seen = self.places.iter().all(Option::is_some);
        let nearest = if seen { Vec::new() } else { fit.model.predict(data, run)? };
        let label = |(n, place): (usize, &Option<usize>)| place.map_or_else(|| nearest[n], |i| fit.labels[i]);
        Ok(self.places.iter().enumerate().map(label).collect())
    }
}
