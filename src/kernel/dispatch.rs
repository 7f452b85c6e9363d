//! Which instruction set to use, found once, and the functions compiled for each.
//!
//! An [`Operation`] is a kernel's arguments with a body generic over the vector; [`run`] instantiates the body inside a
//! function that has the target feature. An [`Isa`] is only to be had from detection, so that holding one is the proof.
#![allow(unsafe_code)]

use super::simd::{Plain, Simd};
#[cfg(target_arch = "x86_64")]
use super::{
    avx2::{F32x8, F64x4},
    avx512::{F32x16, F64x8},
};
use crate::real::Real;
use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that this machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa(Level);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// All levels, from the plainest.
const LEVELS: &[Level] = &[
    Level::Baseline,
    #[cfg(target_arch = "x86_64")]
    Level::Avx2,
    #[cfg(target_arch = "x86_64")]
    Level::Avx512,
];

impl Level {
    fn present(self) -> bool {
        match self {
            Level::Baseline => true,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => {
                Level::Avx2.present()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }
}

impl Isa {
    /// Those of this machine, from the plainest.
    #[cfg(test)]
    pub(crate) fn available() -> impl Iterator<Item = Isa> {
        LEVELS.iter().filter(|l| l.present()).map(|&l| Isa(l))
    }

    /// The best of this machine.
    #[inline]
    pub(crate) fn best() -> Isa {
        // 0 while unknown, else 1 + the index of the level; threads that race find the same.
        static BEST: AtomicU8 = AtomicU8::new(0);
        match BEST.load(Ordering::Relaxed) {
            0 => {
                let best = LEVELS.iter().rposition(|l| l.present()).unwrap_or(0);
                BEST.store(best as u8 + 1, Ordering::Relaxed);
                Isa(LEVELS[best])
            }
            n => Isa(LEVELS[n as usize - 1]),
        }
    }

    /// Lanes of its vectors of `T`.
    pub(crate) fn lanes<T: Element>(self) -> usize {
        match self.0 {
            Level::Baseline => T::Baseline::LANES,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => T::Avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => T::Avx512::LANES,
        }
    }

    /// [`Simd::GROUP`] of its vectors of `T`.
    pub(crate) fn group<T: Element>(self) -> usize {
        match self.0 {
            Level::Baseline => T::Baseline::GROUP,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => T::Avx2::GROUP,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => T::Avx512::GROUP,
        }
    }
}

impl Default for Isa {
    fn default() -> Self {
        Self::best()
    }
}

/// A floating-point type with its vectors.
pub trait Element: Copy + 'static {
    /// The vector that any machine has.
    type Baseline: Simd<Elem = Self>;
    /// The vector of AVX2.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Simd<Elem = Self>;
    /// The vector of AVX-512.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Simd<Elem = Self>;
    /// A number whose bits are those of `index`.
    fn from_index(index: u32) -> Self;
    /// The index of [`from_index`](Self::from_index).
    fn to_index(self) -> u32;
}

impl Element for f32 {
    type Baseline = Plain<f32, 4>;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = F32x8;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = F32x16;
    #[inline(always)]
    fn from_index(index: u32) -> Self {
        f32::from_bits(index)
    }
    #[inline(always)]
    fn to_index(self) -> u32 {
        self.to_bits()
    }
}

impl Element for f64 {
    type Baseline = Plain<f64, 2>;
    #[cfg(target_arch = "x86_64")]
    type Avx2 = F64x4;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = F64x8;
    #[inline(always)]
    fn from_index(index: u32) -> Self {
        f64::from_bits(u64::from(index))
    }
    #[inline(always)]
    fn to_index(self) -> u32 {
        self.to_bits() as u32
    }
}

/// A kernel with its arguments. `run` must be `inline(always)`, or its instructions are calls.
pub(super) trait Operation<T: Real> {
    type Output;
    /// The body.
    /// # Safety
    /// The CPU has the instruction set of `V`.
    unsafe fn run<V: Simd<Elem = T>>(self) -> Self::Output;
}

/// Runs `op` with the vectors of `isa`.
#[inline]
pub(super) fn run<T: Real, O: Operation<T>>(isa: Isa, op: O) -> O::Output {
    match isa.0 {
        // SAFETY: plain arrays need no instruction set.
        Level::Baseline => unsafe { op.run::<T::Baseline>() },
        // SAFETY: there is an `Isa` of that level, so the machine has it.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2(op) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512(op) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<T: Real, O: Operation<T>>(op: O) -> O::Output {
    // SAFETY: this function has the feature, and its caller vouches for the CPU.
    unsafe { op.run::<T::Avx2>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512dq,avx512bw,avx512vl")]
unsafe fn avx512<T: Real, O: Operation<T>>(op: O) -> O::Output {
    // SAFETY: as for `avx2`.
    unsafe { op.run::<T::Avx512>() }
}

/// Asks for the memory of `slice` to be brought near: its first 16 lines, as the CPU itself follows a longer run.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T]) {
    prefetch_at(slice.as_ptr(), slice.len());
}

/// The same for the `len` numbers at `p`, which may be any address.
#[inline(always)]
pub(super) fn prefetch_at<T>(p: *const T, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for_lines(p, len, |line| {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and faults nowhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) }
    });
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (p, len);
}

/// Asks for `slice` to be brought as near as the second-level cache, where more can be under way at a time.
#[inline(always)]
pub(crate) fn prefetch_far<T>(slice: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for_lines(slice.as_ptr(), slice.len(), |line| {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: as above.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line) }
    });
    #[cfg(not(target_arch = "x86_64"))]
    let _ = slice;
}

/// Calls `ask` for each of the first 16 lines of memory of the `len` numbers at `p`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn for_lines<T>(p: *const T, len: usize, ask: impl Fn(*const i8)) {
    const LINE: usize = 64;
    // The last number's line too, where the run straddles one line more than its length needs.
    let bytes = len * size_of::<T>();
    for offset in (0..bytes.min(16 * LINE)).step_by(LINE).chain([bytes.saturating_sub(1)]) {
        ask(p.cast::<i8>().wrapping_add(offset));
    }
}
