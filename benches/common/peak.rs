//! The roof of the roofline: peak floating-point operations per second of one core.
#![allow(unsafe_code)] // one call of a function that has a target feature, after the machine was asked for it

use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 200_000;
/// Number of independent sums: more than latency times units of any current CPU.
const CHAINS: usize = 20;

/// GFLOP/s of f32 fused multiply-adds on one core, and the instruction set used; the best of ten tries.
pub fn gflops() -> (f64, &'static str) {
    let (name, lanes, work) = widest();
    let flops = (2 * lanes * CHAINS * ROUNDS) as f64;
    let seconds = (0..10).map(|_| {
        let clock = Instant::now();
        black_box(work());
        clock.elapsed().as_secs_f64()
    });
    (flops / seconds.fold(f64::INFINITY, f64::min) / 1e9, name)
}

#[cfg(target_arch = "x86_64")]
fn widest() -> (&'static str, usize, fn() -> f32) {
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has AVX-512F.
        ("AVX-512", 16, || unsafe { x86::avx512() })
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the CPU has AVX2 and FMA.
        ("AVX2", 8, || unsafe { x86::avx2() })
    } else {
        ("baseline", 4, plain)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn widest() -> (&'static str, usize, fn() -> f32) {
    ("baseline", 4, plain)
}

/// Four lanes that the compiler may vectorize.
fn plain() -> f32 {
    let (a, b) = (black_box(0.999f32), black_box(0.001f32));
    let mut sums = [[1.0f32; 4]; CHAINS];
    for _ in 0..ROUNDS {
        sums.iter_mut().flatten().for_each(|s| *s = *s * a + b);
    }
    sums.iter().flatten().sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{CHAINS, ROUNDS};
    use std::arch::x86_64::*;
    use std::hint::black_box;

    macro_rules! peak {
        ($name:ident, $features:literal, $set:ident, $fma:ident, $add:ident, $first:expr) => {
            #[target_feature(enable = $features)]
            pub fn $name() -> f32 {
                let (a, b) = ($set(black_box(0.999)), $set(black_box(0.001)));
                let mut sums = [$set(1.0); CHAINS];
                for _ in 0..ROUNDS {
                    sums.iter_mut().for_each(|s| *s = $fma(*s, a, b));
                }
                $first(sums.into_iter().fold($set(0.0), |x, y| $add(x, y)))
            }
        };
    }
    peak!(avx512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_reduce_add_ps);
    peak!(avx2, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_cvtss_f32);
}
