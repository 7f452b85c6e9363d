//! The von Mises-Fisher distribution: unit vectors y of D columns around a mean direction mu,
//!
//! ```text
//! p(y) = C_D(k) exp(k mu.y),        C_D(k) = k^(D/2 - 1) / ((2 pi)^(D/2) I_{D/2-1}(k)),
//! ```
//!
//! with the concentration k and the modified Bessel function I of the first kind. With d = |y - mu|^2 = 2 - 2 mu.y the
//! exponent is k - k d / 2: that of a Gaussian with variance 1/k. Only the leading factor differs, log C_D(k) + k
//! ([`log_peak`]).
//!
//! For a given mean R of mu.y over the rows, the likelihood is largest if A_D(k) = I_{D/2}(k) / I_{D/2-1}(k) = R
//! (Banerjee, Dhillon, Ghosh and Sra, "Clustering on the unit hypersphere using von Mises-Fisher distributions", JMLR
//! 2005). [`concentration`] solves this by Newton's method, starting from their approximation (R D - R^3) / (1 - R^2),
//! within bounds on the solution (Hornik and Grün, "On maximum likelihood estimation of the concentration parameter of
//! von Mises-Fisher distributions", Computational Statistics, 2014).
//!
//! The ratio is Perron's continued fraction (Gautschi and Slavik, "On the computation of modified Bessel function
//! ratios", Mathematics of Computation, 1978), in a form that keeps the digits of 1 - A_D, which is about (D - 1) / 2 k
//! for large k. The logarithm of I comes from Debye's expansion (Abramowitz and Stegun, 9.7.7), uniform in k, at an
//! order of at least 64; lower orders follow from ratios. Both have at least 12 digits for any D and k.

use std::f64::consts::PI;

/// Concentrations are clipped to these bounds: rows that all coincide with their centers would have an infinite one,
/// and evenly spread rows none.
pub(crate) const LEAST: f64 = 1e-12;
pub(crate) const MOST: f64 = 1e12;

/// Order from which Debye's expansion is used ...
const DEBYE_ORDER: f64 = 64.0;
/// ... and its number of terms after the first.
const DEBYE_TERMS: usize = 8;
/// Relative accuracy of the continued fraction and of Newton's method.
const PRECISION: f64 = 1e-15;

/// log C_D(k) + k: the log-density at the mean direction, on the unit sphere of `dim` columns.
pub(crate) fn log_peak(dim: usize, concentration: f64) -> f64 {
    let (k, order) = (concentration, 0.5 * dim as f64 - 1.0);
    let raised = (DEBYE_ORDER - order).ceil().max(0.0) as usize;
    let top = order + raised as f64;
    // log (k^top / I_top(k)) + k, and then down: I_v = I_{v+1} (2 (v + 1) + k r_{v+1}) / k with r_v = I_{v+1} / I_v.
    let s = top.hypot(k);
    let mut log = top * (top + s).ln() - top * top / (s + k) + 0.5 * (2.0 * PI * s).ln() - debye(top, top / s).ln();
    let mut ratio = k / (k + shortfall(top + 1.0, k));
    for step in (0..raised).rev() {
        let sum = 2.0 * (order + step as f64 + 1.0) + k * ratio;
        log -= sum.ln();
        ratio = k / sum;
    }
    log - 0.5 * dim as f64 * (2.0 * PI).ln()
}

/// The k at which A_D(k) = 1 - `apart`, where `apart` is the mean of 1 - mu.y; within [`LEAST`] and [`MOST`].
pub(crate) fn concentration(dim: usize, apart: f64) -> f64 {
    let along = 1.0 - apart;
    if apart <= 0.0 || along <= 0.0 {
        return if apart <= 0.0 { MOST } else { LEAST };
    }
    if dim == 1 {
        return (0.5 * ((2.0 - apart) / apart).ln()).clamp(LEAST, MOST);
    }
    // A = k / (k + y) with y between (D - 1) / 2 and D, so k = y A / (1 - A).
    let (d, odds) = (dim as f64, along / apart);
    let (mut low, mut high) = (0.5 * (d - 1.0) * odds, d * odds);
    let mut k = (along * (d - along * along) / (apart * (2.0 - apart))).clamp(low, high);
    for _ in 0..100 {
        let y = shortfall(0.5 * d, k);
        let value = k * apart - y * along;
        if value > 0.0 {
            high = k
        } else {
            low = k
        }
        // y = k (1 / A - 1) and A' = 1 - A^2 - A (D - 1) / k.
        let (a, u) = (k / (k + y), y / (k + y));
        let slope = u * (2.0 - u) - (d - 1.0) * a / k;
        let next = k - value / (apart - along * (y / k - k * slope / (a * a)));
        if (next - k).abs() <= 4.0 * PRECISION * k {
            break;
        }
        k = if next >= low && next <= high { next } else { 0.5 * (low + high) };
    }
    k.clamp(LEAST, MOST)
}

/// 1 - A_D(k), the mean of 1 - mu.y.
pub(crate) fn apart(dim: usize, concentration: f64) -> f64 {
    if dim == 1 {
        return 2.0 / (1.0 + (2.0 * concentration).exp());
    }
    let y = shortfall(0.5 * dim as f64, concentration);
    y / (concentration + y)
}

/// y where I_p(k) / I_{p-1}(k) = k / (k + y), for p above 0: 2p - (2p + 1) k / (2p + 1 + 2k - (2p + 3) k / (2p + 2 + 2k - ...)).
fn shortfall(p: f64, k: f64) -> f64 {
    // Lentz's method, as modified by Thompson and Barnett.
    let denominator = |j: f64| 2.0 * (p + k) + j;
    let mut value = denominator(1.0);
    let (mut c, mut d) = (value, 0.0);
    let mut j = 1.0;
    loop {
        let numerator = -(2.0 * (p + j) + 1.0) * k;
        j += 1.0;
        d = 1.0 / (denominator(j) + numerator * d);
        c = denominator(j) + numerator / c;
        value *= c * d;
        if (c * d - 1.0).abs() <= PRECISION || j > 1e6 {
            return 2.0 * p - (2.0 * p + 1.0) * k / value;
        }
    }
}

/// 1 + U_1(t) / v + U_2(t) / v^2 + ...: Debye's polynomials, each computed from the previous one (Abramowitz and
/// Stegun, 9.3.10).
fn debye(v: f64, t: f64) -> f64 {
    let mut polynomial = vec![1.0];
    let (mut sum, mut scale) = (1.0, 1.0);
    for _ in 0..DEBYE_TERMS {
        let mut next = vec![0.0; polynomial.len() + 3];
        for (n, &u) in polynomial.iter().enumerate() {
            let power = n as f64;
            next[n + 1] += u * (0.5 * power + 0.125 / (power + 1.0));
            next[n + 3] -= u * (0.5 * power + 0.625 / (power + 3.0));
        }
        scale /= v;
        sum += scale * next.iter().rev().fold(0.0, |value, &u| value * t + u);
        polynomial = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use approx::assert_relative_eq;

    /// log(sinh(k) exp(-k)).
    fn log_sinh(k: f64) -> f64 {
        (0.5 * -f64::exp_m1(-2.0 * k)).ln()
    }

    #[test]
    fn one_and_three_columns_have_closed_forms() {
        for k in [1e-9, 1e-3, 0.3, 1.0, 7.0, 123.0, 4e4, 1e8, 1e12] {
            let one = -f64::exp(-2.0 * k).ln_1p();
            approx::assert_abs_diff_eq!(log_peak(1, k), one, epsilon = 1e-11);
            let three = (k / (4.0 * PI)).ln() - log_sinh(k);
            assert_relative_eq!(log_peak(3, k), three, max_relative = 1e-12, epsilon = 1e-11);
        }
    }

    /// log I_v(k) for integer v by its series, for moderate k.
    fn log_series(v: usize, k: f64) -> f64 {
        let (mut term, mut sum) = (1.0, 1.0);
        for m in 1..400 {
            term *= 0.25 * k * k / (m as f64 * (m + v) as f64);
            sum += term;
        }
        sum.ln() + v as f64 * (0.5 * k).ln() - (1..=v).map(|i| (i as f64).ln()).sum::<f64>()
    }

    #[test]
    fn even_columns_follow_the_series() {
        for (dim, k) in [(2, 0.5), (2, 30.0), (4, 3.0), (10, 1e-4), (50, 12.0), (128, 90.0), (300, 100.0), (2000, 50.0)]
        {
            let v = dim / 2 - 1;
            let expected = v as f64 * f64::ln(k) - 0.5 * dim as f64 * (2.0 * PI).ln() - log_series(v, k) + k;
            assert_relative_eq!(log_peak(dim, k), expected, max_relative = 1e-12);
        }
    }

    #[test]
    fn the_concentration_maximizes_the_likelihood() {
        for dim in [1, 2, 3, 16, 50, 300, 20_000] {
            for k in [1e-6, 1e-2, 0.7, 12.0, 900.0, 5e5, 1e9] {
                let apart = apart(dim, k);
                if apart < 1e-300 || 1.0 - apart < 1e-9 {
                    continue;
                }
                // If the rows hardly point along mu, 1 - apart has lost digits, and so has k.
                let lost = f64::EPSILON / (1.0 - apart);
                assert_relative_eq!(concentration(dim, apart), k, max_relative = 1e-12 + 8.0 * lost);
                let likelihood = |k: f64| log_peak(dim, k) - k * apart;
                let best = likelihood(k);
                for other in [0.9 * k, 1.1 * k] {
                    assert!(likelihood(other) <= best + 1e-12 * best.abs(), "{dim} columns, {k}: {other}");
                }
            }
        }
    }

    #[test]
    fn the_concentration_has_bounds() {
        assert_eq!([0.0, -1e-9, 1e-300].map(|apart| concentration(7, apart)), [MOST; 3]);
        assert_eq!([1.0, 1.5].map(|apart| concentration(7, apart)), [LEAST; 2]);
        assert!(log_peak(20_000, MOST).is_finite() && log_peak(1, LEAST).is_finite());
    }
}
