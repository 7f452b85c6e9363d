//! The floating-point types of the data: `f32` and `f64`, behind one sealed trait.

use super::Kernel;
use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A type for each floating-point type, for example the type of a function on it.
#[doc(hidden)]
pub trait Family {
    /// The type for `T`.
    type Of<T: Real>;
}

/// Defines a function generic over `T: Real` that is compiled for `f32` and `f64` in this crate, with its settings,
/// rather than again in each calling crate. The types may name `T`.
macro_rules! for_both {
    ($vis:vis fn $name:ident($($arg:ident: $kind:ty),* $(,)?) -> $out:ty $body:block) => {
        $vis fn $name<T: Real>($($arg: $kind),*) -> $out {
            struct Both;
            impl $crate::kernel::Family for Both {
                type Of<T: Real> = fn($($kind),*) -> $out;
            }
            mod single {
                #[allow(unused_imports)]
                use super::*;
                type T = f32;
                #[inline(never)]
                pub(super) fn call($($arg: $kind),*) -> $out $body
            }
            mod double {
                #[allow(unused_imports)]
                use super::*;
                type T = f64;
                #[inline(never)]
                pub(super) fn call($($arg: $kind),*) -> $out $body
            }
            T::pick::<Both>(single::call, double::call)($($arg),*)
        }
    };
}
pub(crate) use for_both;

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
    /// Posteriors below this fraction of the largest count as 0: what they would add is lost in rounding.
    const NEGLIGIBLE: Self;
    /// The largest finite number.
    const MAX: Self;
    /// The smallest positive normal number.
    const MIN_POSITIVE: Self;

    /// Rounds an `f64` to this type.
    fn from_f64(x: f64) -> Self;
    /// Widens to `f64`, exactly.
    fn to_f64(self) -> f64;
    /// Whether it is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// Natural exponential.
    fn exp(self) -> Self;
    /// The larger of two numbers, neither of which is NaN.
    fn max(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
    /// Chooses between the `f32` and the `f64` variant. See [`for_both`].
    #[doc(hidden)]
    fn pick<F: Family>(single: F::Of<f32>, double: F::Of<f64>) -> F::Of<Self>;
    /// Appends the little-endian bytes of `values`.
    #[doc(hidden)]
    fn write_le(values: &[Self], out: &mut Vec<u8>);
    /// The numbers with these little-endian bytes.
    #[doc(hidden)]
    fn read_le(bytes: &[u8]) -> Vec<Self>;
    /// Total order, as in `f64::total_cmp`.
    fn total_cmp(&self, other: &Self) -> std::cmp::Ordering;
}

macro_rules! real {
    ($t:ty, ($single:ident, $double:ident) => $own:ident, $name:literal, $negligible:literal) => {
        impl Real for $t {
            const NAME: &'static str = $name;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const INFINITY: Self = <$t>::INFINITY;
            const EPSILON: Self = <$t>::EPSILON;
            const NEGLIGIBLE: Self = $negligible;
            const MAX: Self = <$t>::MAX;
            const MIN_POSITIVE: Self = <$t>::MIN_POSITIVE;
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
            fn pick<F: Family>($single: F::Of<f32>, $double: F::Of<f64>) -> F::Of<Self> {
                $own
            }
            fn write_le(values: &[Self], out: &mut Vec<u8>) {
                out.extend(values.iter().flat_map(|x| x.to_le_bytes()));
            }
            fn read_le(bytes: &[u8]) -> Vec<Self> {
                let (numbers, _) = bytes.as_chunks();
                numbers.iter().map(|&x| <$t>::from_le_bytes(x)).collect()
            }
            #[inline]
            fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
                <$t>::total_cmp(self, other)
            }
        }
    };
}
real!(f32, (single, _double) => single, "float32", 1e-6);
real!(f64, (_single, double) => double, "float64", 1e-13);
