//! A vector of numbers as the kernels' bodies see it: [`Simd`], and [`Plain`], its implementation for every machine.
//!
//! Bodies are written once over `V: Simd` and instantiated for each instruction set by [`dispatch`](super::dispatch).
//! Only creating a vector is unsafe: once a vector exists, its instruction set is available, so arithmetic on it is
//! safe. Indices of centers travel as bits in vectors of floating-point numbers (see
//! [`Element::from_index`](super::dispatch::Element::from_index)); blends preserve them.
#![allow(unsafe_code)]

use crate::kernel::Real;

/// A fixed number of floating-point lanes.
pub trait Simd: Copy {
    /// The type of a lane.
    type Elem: Real;
    /// The `f64` vector of the same instruction set.
    type Wide: Simd<Elem = f64>;
    /// One truth value per lane.
    type Mask: Copy;
    /// Number of lanes.
    const LANES: usize;
    /// Number of centers that the dense kernel takes at a time: two sums each, two vectors of rows and a center's value
    /// fill the registers.
    const GROUP: usize;

    /// `x` in each lane.
    /// # Safety
    /// The CPU has the instruction set.
    unsafe fn splat(x: Self::Elem) -> Self;
    /// The `LANES` numbers at `p`.
    /// # Safety
    /// The CPU has the instruction set; `p` is readable for `LANES` numbers.
    unsafe fn load(p: *const Self::Elem) -> Self;
    /// The `n` < `LANES` numbers at `p`, then zeros.
    /// # Safety
    /// The CPU has the instruction set; `p` is readable for `n` numbers.
    unsafe fn load_partial(p: *const Self::Elem, n: usize) -> Self;
    /// Loads as many of the numbers at `p` as `Wide` has lanes, as `f64`.
    /// # Safety
    /// The CPU has the instruction set; `p` is readable for this many numbers.
    unsafe fn load_wide(p: *const Self::Elem) -> Self::Wide;
    /// Four columns: lane r of vector c is number c at `row(r)`.
    /// # Safety
    /// The CPU has the instruction set; `row(r)` is readable for 4 numbers for each r < `LANES`.
    unsafe fn transposed(row: impl Fn(usize) -> *const Self::Elem) -> [Self; 4];
    /// Writes all lanes to `p`.
    /// # Safety
    /// `p` is writable for `LANES` numbers.
    unsafe fn store(self, p: *mut Self::Elem);
    /// Writes the first `n` < `LANES` lanes to `p`.
    /// # Safety
    /// `p` is writable for `n` numbers.
    unsafe fn store_partial(self, p: *mut Self::Elem, n: usize);

    /// self + other.
    fn add(self, other: Self) -> Self;
    /// self - other.
    fn sub(self, other: Self) -> Self;
    /// self times `b` plus `c`, rounded once where the instruction set can.
    fn fma(self, b: Self, c: Self) -> Self;
    /// The smaller.
    fn min(self, other: Self) -> Self;
    /// The larger.
    fn max(self, other: Self) -> Self;
    /// self < other; false if one is NaN.
    fn lt(self, other: Self) -> Self::Mask;
    /// self <= other; false if one is NaN.
    fn le(self, other: Self) -> Self::Mask;
    /// Writes the lanes where the mask holds to `p`, consecutively, and returns their number. What follows them may be
    /// overwritten, up to `LANES` numbers in all.
    /// # Safety
    /// `p` is writable for `LANES` numbers.
    unsafe fn pick(self, mask: Self::Mask, p: *mut Self::Elem) -> usize;
    /// Whether the mask holds in any lane.
    fn any(mask: Self::Mask) -> bool;
    /// `yes` where the mask holds, else `no`, bit by bit.
    fn select(mask: Self::Mask, yes: Self, no: Self) -> Self;
    /// The sum over the lanes of each of four vectors, all in the same order.
    fn sum4(v: [Self; 4]) -> [Self::Elem; 4];
    /// Adds the integer in the low bits of `t` to the exponent: self times 2^t.
    fn add_exponent(self, t: Self) -> Self;
}

/// An array of lanes, 16 bytes in total, which the compiler vectorizes on most machines.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct Plain<T, const N: usize>([T; N]);

macro_rules! plain {
    ($t:ty, $n:literal, $mantissa:literal) => {
        impl Simd for Plain<$t, $n> {
            type Elem = $t;
            type Wide = Plain<f64, 2>;
            type Mask = [bool; $n];
            const LANES: usize = $n;
            const GROUP: usize = 4;

            #[inline(always)]
            unsafe fn splat(x: $t) -> Self {
                Self([x; $n])
            }
            #[inline(always)]
            unsafe fn load(p: *const $t) -> Self {
                // SAFETY: the caller lends LANES numbers.
                Self(unsafe { p.cast::<[$t; $n]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn load_partial(p: *const $t, n: usize) -> Self {
                // SAFETY: the caller lends n numbers.
                Self(std::array::from_fn(|i| if i < n { unsafe { *p.add(i) } } else { 0.0 }))
            }
            #[inline(always)]
            unsafe fn load_wide(p: *const $t) -> Plain<f64, 2> {
                // SAFETY: the caller lends 2 numbers.
                Plain(std::array::from_fn(|i| f64::from(unsafe { *p.add(i) })))
            }
            #[inline(always)]
            unsafe fn transposed(row: impl Fn(usize) -> *const $t) -> [Self; 4] {
                // SAFETY: the caller lends 4 numbers of each row.
                std::array::from_fn(|c| Self(std::array::from_fn(|r| unsafe { *row(r).add(c) })))
            }
            #[inline(always)]
            unsafe fn store(self, p: *mut $t) {
                // SAFETY: the caller lends room for LANES numbers.
                unsafe { p.cast::<[$t; $n]>().write_unaligned(self.0) }
            }
            #[inline(always)]
            unsafe fn store_partial(self, p: *mut $t, n: usize) {
                for i in 0..n.min($n) {
                    // SAFETY: the caller lends room for n numbers.
                    unsafe { *p.add(i) = self.0[i] };
                }
            }
            #[inline(always)]
            fn add(self, o: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] + o.0[i]))
            }
            #[inline(always)]
            fn sub(self, o: Self) -> Self {
                Self(std::array::from_fn(|i| self.0[i] - o.0[i]))
            }
            #[inline(always)]
            fn fma(self, b: Self, c: Self) -> Self {
                // Without the instruction, rounding once would take a call to the C library.
                Self(std::array::from_fn(|i| match cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
                    true => self.0[i].mul_add(b.0[i], c.0[i]),
                    false => self.0[i] * b.0[i] + c.0[i],
                }))
            }
            #[inline(always)]
            fn min(self, o: Self) -> Self {
                Self(std::array::from_fn(|i| if self.0[i] < o.0[i] { self.0[i] } else { o.0[i] }))
            }
            #[inline(always)]
            fn max(self, o: Self) -> Self {
                Self(std::array::from_fn(|i| if self.0[i] > o.0[i] { self.0[i] } else { o.0[i] }))
            }
            #[inline(always)]
            fn lt(self, o: Self) -> [bool; $n] {
                std::array::from_fn(|i| self.0[i] < o.0[i])
            }
            #[inline(always)]
            fn le(self, o: Self) -> [bool; $n] {
                std::array::from_fn(|i| self.0[i] <= o.0[i])
            }
            #[inline(always)]
            unsafe fn pick(self, mask: [bool; $n], p: *mut $t) -> usize {
                let mut count = 0;
                for i in 0..$n {
                    // SAFETY: `count` is at most i, and the caller vouches for `LANES` numbers.
                    unsafe { *p.add(count) = self.0[i] };
                    count += usize::from(mask[i]);
                }
                count
            }
            #[inline(always)]
            fn any(mask: [bool; $n]) -> bool {
                mask.iter().fold(false, |a, &m| a | m)
            }
            #[inline(always)]
            fn select(mask: [bool; $n], yes: Self, no: Self) -> Self {
                Self(std::array::from_fn(|i| if mask[i] { yes.0[i] } else { no.0[i] }))
            }
            #[inline(always)]
            fn sum4(v: [Self; 4]) -> [$t; 4] {
                std::array::from_fn(|k| v[k].0.iter().sum())
            }
            #[inline(always)]
            fn add_exponent(self, t: Self) -> Self {
                Self(std::array::from_fn(|i| {
                    <$t>::from_bits(self.0[i].to_bits().wrapping_add(t.0[i].to_bits() << $mantissa))
                }))
            }
        }
    };
}
plain!(f32, 4, 23);
plain!(f64, 2, 52);
