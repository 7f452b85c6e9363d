//! The posterior of a row over its members,
//!
//! q_c(n) = exp(-d_c(n) / 2 s2) / sum_{c' in K(n)} exp(-d_c'(n) / 2 s2),
//!
//! by log-sum-exp relative to the nearest member (the paper's eq. for the truncated posterior). Negligible shares count
//! as 0 everywhere, so that F, s2 and the sums refer to the same posterior.

use crate::kernel::Real;

/// Summary of a row's posterior.
pub(crate) struct PointPosterior {
    /// Index of the nearest member (ties: the first).
    pub slot: usize,
    /// sum_c q_c d_c.
    pub mean_distance: f64,
    /// log sum_c exp(-d_c / 2 s2).
    pub log_sum: f64,
}

/// -1 / 2 s2, the factor of distances in the exponent, in the type of the data, clipped to its range.
pub(crate) fn scale_of<T: Real>(variance: f64) -> T {
    T::from_f64((-0.5 / variance).max(-T::MAX.to_f64()))
}

/// The posterior of one row over its members, written to `q` (OUT).
pub(crate) fn take_posterior<T: Real>(d: &[T], variance: f64, q: &mut [T]) -> PointPosterior {
    exponents(d, scale_of(variance), q);
    T::exp_neg(q);
    normalize(d, variance, q)
}

/// Index of the smallest (ties: the first).
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

/// q = `scale` (d - the smallest d), at most 0.
#[inline]
pub(crate) fn exponents<T: Real>(d: &[T], scale: T, q: &mut [T]) {
    let near = d[smallest(d)];
    q.iter_mut().zip(d).for_each(|(q, &x)| *q = (x - near) * scale);
}

/// Normalizes the exponentials in `q` (IN OUT) to sum 1.
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

/// sum_n w_n log t_n, with one logarithm for many rows of equal weight.
pub(crate) struct LogSum {
    weight: f64,
    /// The product of the totals of the last rows, which all have this weight.
    product: f64,
    sum: f64,
}

impl Default for LogSum {
    fn default() -> Self {
        Self { weight: 0.0, product: 1.0, sum: 0.0 }
    }
}

impl LogSum {
    /// Products above this are replaced by their logarithm; one more total does not overflow.
    const LARGE: f64 = 1e150;

    /// Adds w log t, with t between 1 and the number of clusters.
    #[inline]
    pub fn add(&mut self, weight: f64, total: f64) {
        if weight != self.weight || self.product > Self::LARGE {
            self.sum = self.value();
            (self.weight, self.product) = (weight, 1.0);
        }
        self.product *= total;
    }

    /// The sum so far.
    pub fn value(&self) -> f64 {
        self.sum + self.weight * self.product.ln()
    }
}

/// A posterior entirely at the nearest member.
pub(crate) fn hard_posterior<T: Real>(d: &[T], variance: f64, q: &mut [T]) -> PointPosterior {
    let slot = smallest(d);
    q.fill(T::ZERO);
    q[slot] = T::ONE;
    let near = d[slot].to_f64();
    PointPosterior { slot, mean_distance: near, log_sum: near * (-0.5 / variance) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_of_products_sum_like_logarithms() {
        for (scale, period) in [(1.0, 1), (1e-3, 1), (0.5, 2), (3.0, 1000)] {
            let (mut sum, mut expected) = (LogSum::default(), 0.0);
            for n in 0..5000 {
                let (w, t) = (scale * f64::from(n / period % 7), 1.0 + f64::from(n % 1013) * 40.0);
                sum.add(w, t);
                expected += w * t.ln();
            }
            approx::assert_relative_eq!(sum.value(), expected, max_relative = 1e-12);
        }
    }
}
