//! The posterior of a point over its members,
//!
//! q_c(n) = exp(-d_c(n) / 2 s2) / sum_{c' in K(n)} exp(-d_c'(n) / 2 s2),
//!
//! by log-sum-exp against the nearest (the paper's eq. for the truncated posterior). What is negligible counts as 0
//! everywhere, so that F, s2 and the sums speak of the same posterior.

use crate::kernel::Real;

/// What a point's posterior comes to.
pub(crate) struct PointPosterior {
    /// Slot of the nearest member, the first of equals.
    pub slot: usize,
    /// sum_c q_c d_c.
    pub mean_distance: f64,
    /// log sum_c exp(-d_c / 2 s2).
    pub log_sum: f64,
}

/// -1 / 2 s2, what distances are multiplied by, in the type of the data: at most as large as it can hold.
pub(crate) fn scale_of<T: Real>(variance: f64) -> T {
    T::from_f64((-0.5 / variance).max(-T::MAX.to_f64()))
}

/// The posterior of one point over its members, into `q` (OUT).
pub(crate) fn take_posterior<T: Real>(d: &[T], variance: f64, q: &mut [T]) -> PointPosterior {
    exponents(d, scale_of(variance), q);
    T::exp_neg(q);
    normalize(d, variance, q)
}

/// Slot of the smallest, the first of equals.
#[inline]
fn smallest<T: Real>(d: &[T]) -> usize {
    let mut slot = 0;
    for (k, x) in d.iter().enumerate() {
        if *x < d[slot] {
            slot = k;
        }
    }
    slot
}

/// q = `scale` (d - the smallest d), none of them positive.
#[inline]
pub(crate) fn exponents<T: Real>(d: &[T], scale: T, q: &mut [T]) {
    let near = d[smallest(d)];
    q.iter_mut().zip(d).for_each(|(q, &x)| *q = (x - near) * scale);
}

/// Makes the exponentials in `q` (IN and OUT) sum to 1.
#[inline]
pub(crate) fn normalize<T: Real>(d: &[T], variance: f64, q: &mut [T]) -> PointPosterior {
    let slot = smallest(d);
    let mut total = 0.0;
    for q in q.iter_mut() {
        *q = if *q < T::NEGLIGIBLE { T::ZERO } else { *q };
        total += q.to_f64();
    }
    let share = T::from_f64(1.0 / total);
    let mut mean_distance = 0.0;
    for (q, &x) in q.iter_mut().zip(d) {
        *q = *q * share;
        mean_distance += q.to_f64() * x.to_f64();
    }
    PointPosterior { slot, mean_distance, log_sum: d[slot].to_f64() * (-0.5 / variance) + total.ln() }
}

/// All of the posterior at the nearest member.
pub(crate) fn hard_posterior<T: Real>(d: &[T], variance: f64, q: &mut [T]) -> PointPosterior {
    let slot = smallest(d);
    q.fill(T::ZERO);
    q[slot] = T::ONE;
    let near = d[slot].to_f64();
    PointPosterior { slot, mean_distance: near, log_sum: near * (-0.5 / variance) }
}
