//! The floating-point types of the data: `f32` and `f64`, behind one sealed trait.

use crate::kernel::Kernel;
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// `f32` or `f64`. Long sums and the lower bound are always held in `f64`.
pub trait Real:
    sealed::Sealed
    + Kernel
    + Copy
    + Default
    + Debug
    + Display
    + PartialEq
    + PartialOrd
    + Send
    + Sync
    + Sum
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + 'static
{
    /// The type's name, for messages.
    const NAME: &'static str;
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// The gap between 1 and the next larger number.
    const EPSILON: Self;
    /// Posteriors below this share of the largest count as 0: what they would add is lost in rounding.
    const NEGLIGIBLE: Self;
    /// The largest finite number.
    const MAX: Self;
    /// The smallest s2 that can be worked with: 1 / s2 must fit.
    const LEAST_VARIANCE: f64;

    /// Rounds an `f64` to this type.
    fn from_f64(x: f64) -> Self;
    /// Widens to `f64`, exactly.
    fn to_f64(self) -> f64;
    /// Neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// Natural exponential.
    fn exp(self) -> Self;
    /// The larger of two numbers, neither of them NaN.
    fn max(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
    /// Total order, as of `f64::total_cmp`.
    fn total_cmp(&self, other: &Self) -> std::cmp::Ordering;
}

macro_rules! real {
    ($t:ty, $name:literal, $negligible:literal, $least_variance:literal) => {
        impl Real for $t {
            const NAME: &'static str = $name;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = <$t>::INFINITY;
            const EPSILON: Self = <$t>::EPSILON;
            const NEGLIGIBLE: Self = $negligible;
            const MAX: Self = <$t>::MAX;
            const LEAST_VARIANCE: f64 = $least_variance;
            #[inline]
            fn from_f64(x: f64) -> Self {
                x as $t
            }
            #[inline]
            fn to_f64(self) -> f64 {
                self as f64
            }
            #[inline]
            fn is_finite(self) -> bool {
                <$t>::is_finite(self)
            }
            #[inline]
            fn exp(self) -> Self {
                <$t>::exp(self)
            }
            #[inline]
            fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
                <$t>::total_cmp(self, other)
            }
        }
    };
}
real!(f32, "float32", 1e-6, 1e-30);
real!(f64, "float64", 1e-13, 1e-280);
