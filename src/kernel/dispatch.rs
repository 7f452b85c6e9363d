//! Choice of the instruction set, detected once, and the functions compiled for each.
//!
//! An [`Operation`] is a kernel's arguments with a body generic over the vector; [`run`] instantiates the body inside a
//! function that has the target feature. Only detection creates an [`Isa`], so holding one proves that the CPU has it.
//!
//! The environment variable `DGMM_ISA` (`baseline`, `avx2` or `avx512`) sets the highest level to use, for tests and
//! comparisons. It is read once, at first use. If the CPU lacks the level, the best available one is used; any other
//! text is ignored.
#![allow(unsafe_code)]

use super::simd::{Plain, Simd};
#[cfg(target_arch = "x86_64")]
use super::{
    avx2::{F32x8, F64x4},
    avx512::{F32x16, F64x8},
};
use crate::kernel::Real;
use std::sync::OnceLock;

/// The environment variable that names the highest level to use.
const VARIABLE: &str = "DGMM_ISA";

/// An instruction set that this machine supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Isa(Level);

/// Levels, lowest first; a CPU that supports one supports those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Baseline,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// All levels, lowest first.
const LEVELS: &[Level] = &[
    Level::Baseline,
    #[cfg(target_arch = "x86_64")]
    Level::Avx2,
    #[cfg(target_arch = "x86_64")]
    Level::Avx512,
];

impl Level {
    /// The level with this name; `None` for any other text.
    fn named(text: &str) -> Option<Self> {
        match text {
            "baseline" => Some(Level::Baseline),
            #[cfg(target_arch = "x86_64")]
            "avx2" => Some(Level::Avx2),
            #[cfg(target_arch = "x86_64")]
            "avx512" => Some(Level::Avx512),
            _ => None,
        }
    }

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
    /// The levels of this machine, lowest first.
    #[cfg(test)]
    pub(crate) fn available() -> impl Iterator<Item = Isa> {
        LEVELS.iter().filter(|l| l.present()).map(|&l| Isa(l))
    }

    /// The best level of this machine that `DGMM_ISA` allows.
    #[inline]
    pub(crate) fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Isa::allowed(std::env::var(VARIABLE).ok().as_deref()))
    }

    /// The best level of this machine up to the one that `name` gives, if any.
    fn allowed(name: Option<&str>) -> Isa {
        let highest = name.and_then(Level::named);
        let allowed = |level: Level| highest.is_none_or(|highest| level <= highest) && level.present();
        Isa(LEVELS.iter().copied().rfind(|&level| allowed(level)).unwrap_or(Level::Baseline))
    }

    /// Its level.
    pub(super) fn level(self) -> Level {
        self.0
    }

    /// Number of lanes of its vectors of `T`.
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

/// A floating-point type with its vector types.
pub trait Element: Copy + 'static {
    /// The vector for any machine.
    type Baseline: Simd<Elem = Self>;
    /// The vector of AVX2.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Simd<Elem = Self>;
    /// The vector of AVX-512.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Simd<Elem = Self>;
    /// A number with the bits of `index`.
    fn from_index(index: u32) -> Self;
    /// The index given to [`from_index`](Self::from_index).
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

/// A kernel with its arguments. `run` must be `inline(always)`, otherwise its instructions become calls.
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
        // SAFETY: an `Isa` of that level exists, so the machine has it.
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

/// Prefetches the first 16 cache lines of `slice`; the CPU itself follows longer runs.
#[inline(always)]
pub(crate) fn prefetch<T>(slice: &[T]) {
    prefetch_at(slice.as_ptr(), slice.len());
}

/// [`prefetch`] for the `len` numbers at `p`, which may be any address.
#[inline(always)]
pub(super) fn prefetch_at<T>(p: *const T, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for_lines(p, len, |line| {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line) }
    });
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (p, len);
}

/// Prefetches `slice` into the second-level cache only, where more requests can be in flight.
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

/// Calls `ask` for each of the first 16 cache lines of the `len` numbers at `p`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn for_lines<T>(p: *const T, len: usize, ask: impl Fn(*const i8)) {
    const LINE: usize = 64;
    // Includes the line of the last number if the run straddles one line more than its length needs.
    let bytes = len * size_of::<T>();
    for offset in (0..bytes.min(16 * LINE)).step_by(LINE).chain([bytes.saturating_sub(1)]) {
        ask(p.cast::<i8>().wrapping_add(offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_level_is_the_highest_and_other_text_is_ignored() {
        let best = Isa(*LEVELS.iter().rfind(|l| l.present()).unwrap());
        assert_eq!(Isa::allowed(Some("baseline")).level(), Level::Baseline);
        for text in [None, Some(""), Some("AVX9"), Some("avx2 ")] {
            assert_eq!(Isa::allowed(text), best, "{text:?}");
        }
        #[cfg(target_arch = "x86_64")]
        for (text, level) in [("avx2", Level::Avx2), ("avx512", Level::Avx512)] {
            assert_eq!(Isa::allowed(Some(text)).level(), level.min(best.level()));
        }
    }

    #[test]
    fn the_environment_decides_what_a_process_uses() {
        const CHILD: &str = "kernel::dispatch::tests::the_environment_decides_what_a_process_uses";
        if let Ok(expected) = std::env::var("DGMM_ISA_EXPECTED") {
            assert_eq!(format!("{:?}", Isa::best().level()), expected);
            return;
        }
        for text in ["baseline", "avx2", "avx512", "none of these"] {
            let expected = format!("{:?}", Isa::allowed(Some(text)).level());
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", CHILD]).env(VARIABLE, text).env("DGMM_ISA_EXPECTED", expected);
            assert!(child.output().unwrap().status.success(), "{text}");
        }
    }
}
