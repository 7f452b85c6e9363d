//! exp(x) for x <= 0, a vector at a time, for the numerators of the posterior.
//!
//! With n = round(x / ln 2) and r = x - n ln 2, exp(x) = 2^n exp(r) with |r| <= ln 2 / 2. There, the error of the
//! Taylor polynomial of degree 7 (`f32`) or 13 (`f64`) is below half a unit in the last place. exp(0) is 1, and
//! subnormal results become 0. The result does not depend on the position in the slice, because the remainder runs
//! through the same instructions.
#![allow(unsafe_code)]

use super::dispatch::{Isa, Operation, run};
use super::simd::Simd;
use crate::kernel::Real;

/// Constants of the range reduction and the polynomial.
pub trait Exponential: Sized + 'static {
    /// 1 / ln 2.
    const PER_LN2: Self;
    /// ln 2 with few enough bits that its product with n is exact.
    const LN2_HIGH: Self;
    /// The rest of ln 2.
    const LN2_LOW: Self;
    /// 1.5 times 2^(bits of the mantissa): adding it rounds to an integer and leaves that in the low bits.
    const ROUND: Self;
    /// Arguments below it have subnormal results.
    const LEAST: Self;
    /// 1 / k!, from the highest k down to 0.
    const TAYLOR: &'static [Self];
}

impl Exponential for f32 {
    const PER_LN2: Self = std::f32::consts::LOG2_E;
    const LN2_HIGH: Self = 355.0 / 512.0;
    const LN2_LOW: Self = -0.000_212_194_44;
    const ROUND: Self = 12_582_912.0;
    const LEAST: Self = -87.336;
    const TAYLOR: &'static [Self] = &[1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
}

impl Exponential for f64 {
    const PER_LN2: Self = std::f64::consts::LOG2_E;
    const LN2_HIGH: Self = 0.693_147_180_369_123_8;
    const LN2_LOW: Self = 1.908_214_929_270_587_7e-10;
    const ROUND: Self = 6_755_399_441_055_744.0;
    const LEAST: Self = -708.396;
    const TAYLOR: &'static [Self] = &[
        1.0 / 6_227_020_800.0,
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
}

/// Replaces each of `xs` (IN OUT), none above 0, by its exponential.
#[inline]
pub(super) fn exp_neg<T: Real>(isa: Isa, xs: &mut [T]) {
    run(isa, ExpNeg { xs });
}

struct ExpNeg<'a, T> {
    xs: &'a mut [T],
}

impl<T: Real> Operation<T> for ExpNeg<'_, T> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = T>>(self) {
        let n = self.xs.len();
        let xs = self.xs.as_mut_ptr();
        // SAFETY: V is available, and reads and writes stay below n.
        unsafe {
            let mut i = 0;
            while i + V::LANES <= n {
                exp(V::load(xs.add(i))).store(xs.add(i));
                i += V::LANES;
            }
            if i < n {
                exp(V::load_partial(xs.add(i), n - i)).store_partial(xs.add(i), n - i);
            }
        }
    }
}

/// exp of each lane.
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn exp<V: Simd>(x: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe { V::select(x.lt(V::splat(V::Elem::LEAST)), V::splat(V::Elem::ZERO), exp_of_normal(x)) }
}

/// [`exp`] in lanes whose result is not subnormal; arbitrary in other lanes.
/// # Safety
/// The CPU has the instruction set of `V`.
#[inline(always)]
pub(super) unsafe fn exp_of_normal<V: Simd>(x: V) -> V {
    // SAFETY: the caller vouches for the instruction set.
    unsafe {
        let round = V::splat(V::Elem::ROUND);
        let t = x.fma(V::splat(V::Elem::PER_LN2), round);
        let n = t.sub(round);
        let r = n.fma(V::splat(-V::Elem::LN2_LOW), n.fma(V::splat(-V::Elem::LN2_HIGH), x));
        let mut p = V::splat(V::Elem::TAYLOR[0]);
        for &c in &V::Elem::TAYLOR[1..] {
            p = p.fma(r, V::splat(c));
        }
        p.add_exponent(t)
    }
}
