//! Synthetic data for the tests, and a dense EM to compare with.

use dgmm::Event;
use dgmm::Real;
use ndarray::{Array1, Array2};
use std::ops::ControlFlow;

/// The tests' own random numbers: SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.unit(), self.unit());
        (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }
}

/// `rows` points around `clusters` random centers in `dim` columns: spread 1 around centers of spread 4.
pub fn blobs<T: Real>(rows: usize, dim: usize, clusters: usize, seed: u64) -> Array2<T> {
    let mut rng = Random(seed);
    let centers = Array2::from_shape_fn((clusters, dim), |_| 4.0 * rng.normal());
    Array2::from_shape_fn((rows, dim), |(n, d)| T::from_f64(centers[[n % clusters, d]] + rng.normal()))
}

/// Weights 0.5 .. 2.5.
pub fn weights(rows: usize) -> Array1<f64> {
    Array1::from_shape_fn(rows, |n| 0.5 + (n * 7 % 5) as f64 * 0.5)
}

/// An observer that stops a fit after this many iterations.
#[allow(dead_code)]
pub fn stop_at(last: usize) -> impl Fn(&Event) -> ControlFlow<()> + Sync {
    move |event| match event {
        Event::Iteration { iteration, .. } if *iteration == last => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    }
}

/// The result of [`dense_em`].
#[allow(dead_code)]
pub struct Dense {
    pub centers: Array2<f64>,
    pub variance: f64,
    pub bounds: Vec<f64>,
}

/// Textbook EM for the isotropic mixture, over all clusters, in f64.
#[allow(dead_code)]
pub fn dense_em(x: &Array2<f64>, w: &Array1<f64>, start: &Array2<f64>, iterations: usize) -> Dense {
    let (rows, dim) = x.dim();
    let clusters = start.nrows();
    let total = w.sum();
    let mean = (0..dim).map(|d| (0..rows).map(|n| w[n] * x[[n, d]]).sum::<f64>() / total).collect::<Vec<_>>();
    let scatter: f64 = (0..rows).map(|n| w[n] * (0..dim).map(|d| (x[[n, d]] - mean[d]).powi(2)).sum::<f64>()).sum();
    let (mut centers, mut variance) = (start.clone(), scatter / (total * dim as f64));
    let mut bounds = Vec::new();
    for _ in 0..iterations {
        let (mut sums, mut mass) = (Array2::<f64>::zeros((clusters, dim)), vec![0.0; clusters]);
        let mut log_sum = 0.0;
        let mut q = Array2::<f64>::zeros((rows, clusters));
        for n in 0..rows {
            let logits: Vec<f64> = (0..clusters)
                .map(|c| -(0..dim).map(|d| (x[[n, d]] - centers[[c, d]]).powi(2)).sum::<f64>() / (2.0 * variance))
                .collect();
            let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let z: f64 = logits.iter().map(|l| (l - top).exp()).sum();
            log_sum += w[n] * (top + z.ln());
            for c in 0..clusters {
                q[[n, c]] = (logits[c] - top).exp() / z;
                mass[c] += w[n] * q[[n, c]];
                (0..dim).for_each(|d| sums[[c, d]] += w[n] * q[[n, c]] * x[[n, d]]);
            }
        }
        let normalizer = 0.5 * dim as f64 * (2.0 * std::f64::consts::PI * variance).ln();
        bounds.push(-(clusters as f64).ln() - normalizer + log_sum / total);
        for c in 0..clusters {
            (0..dim).for_each(|d| centers[[c, d]] = sums[[c, d]] / mass[c]);
        }
        let mut error = 0.0;
        for n in 0..rows {
            for c in 0..clusters {
                error += w[n] * q[[n, c]] * (0..dim).map(|d| (x[[n, d]] - centers[[c, d]]).powi(2)).sum::<f64>();
            }
        }
        variance = error / (total * dim as f64);
    }
    Dense { centers, variance, bounds }
}
