//! AVX2 with FMA: vectors of 256 bits.
//!
//! The methods are `inline(always)` and have no target feature of their own: they become single instructions once
//! inlined into the functions of [`dispatch`](super::dispatch) that have it.
#![allow(unsafe_code)]

use super::simd::Simd;
use std::arch::x86_64::*;

/// Eight `f32`.
#[derive(Clone, Copy)]
pub struct F32x8(pub(super) __m256);
/// Four `f64`.
#[derive(Clone, Copy)]
pub struct F64x4(pub(super) __m256d);
/// Methods that are one instruction each.
macro_rules! instructions {
    ($t:ty, $splat:ident, $load:ident, $store:ident, $add:ident, $sub:ident, $fma:ident, $min:ident, $max:ident) => {
        type Elem = $t;
        const LANES: usize = size_of::<Self>() / size_of::<$t>();
        #[inline(always)]
        unsafe fn splat(x: $t) -> Self {
            // SAFETY: the caller vouches for the instruction set.
            Self(unsafe { $splat(x) })
        }
        #[inline(always)]
        unsafe fn load(p: *const $t) -> Self {
            // SAFETY: the caller vouches for the instruction set and lends LANES numbers.
            Self(unsafe { $load(p) })
        }
        #[inline(always)]
        unsafe fn store(self, p: *mut $t) {
            // SAFETY: a vector exists, so the instruction set does; the caller lends room for LANES numbers.
            unsafe { $store(p, self.0) }
        }
        #[inline(always)]
        fn add(self, o: Self) -> Self {
            // SAFETY: a vector exists, so the instruction set does.
            Self(unsafe { $add(self.0, o.0) })
        }
        #[inline(always)]
        fn sub(self, o: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $sub(self.0, o.0) })
        }
        #[inline(always)]
        fn fma(self, b: Self, c: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $fma(self.0, b.0, c.0) })
        }
        #[inline(always)]
        fn min(self, o: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $min(self.0, o.0) })
        }
        #[inline(always)]
        fn max(self, o: Self) -> Self {
            // SAFETY: as for `add`.
            Self(unsafe { $max(self.0, o.0) })
        }
    };
}

pub(super) use instructions;

/// Comparison, blend, and partial loads and stores, with masks in vectors as AVX2 has them.
macro_rules! vector_masks {
    ($t:ty, $int:ty, $lanes:literal, $vector:ty, $cmp:ident, $movemask:ident, $blend:ident, $maskload:ident, $maskstore:ident) => {
        type Mask = $vector;
        #[inline(always)]
        fn lt(self, o: Self) -> $vector {
            // SAFETY: a vector exists, so the instruction set does.
            unsafe { $cmp::<_CMP_LT_OQ>(self.0, o.0) }
        }
        #[inline(always)]
        fn le(self, o: Self) -> $vector {
            // SAFETY: as for `lt`.
            unsafe { $cmp::<_CMP_LE_OQ>(self.0, o.0) }
        }
        #[inline(always)]
        unsafe fn pick(self, mask: $vector, p: *mut $t) -> usize {
            let mut lanes = [0.0; $lanes];
            // SAFETY: as for `lt`; the array has as many numbers as there are lanes.
            let bits = unsafe {
                self.store(lanes.as_mut_ptr());
                $movemask(mask)
            };
            let mut count = 0;
            for (i, &x) in lanes.iter().enumerate() {
                // SAFETY: `count` is at most i, and the caller vouches for `LANES` numbers.
                unsafe { *p.add(count) = x };
                count += (bits >> i & 1) as usize;
            }
            count
        }
        #[inline(always)]
        fn any(mask: $vector) -> bool {
            // SAFETY: as for `lt`, which made the mask.
            unsafe { $movemask(mask) != 0 }
        }
        #[inline(always)]
        fn select(mask: $vector, yes: Self, no: Self) -> Self {
            // SAFETY: as for `lt`.
            Self(unsafe { $blend(no.0, yes.0, mask) })
        }
        #[inline(always)]
        unsafe fn load_partial(p: *const $t, n: usize) -> Self {
            // SAFETY: the caller vouches for the instruction set and lends n numbers; lanes beyond are not read.
            Self(unsafe { $maskload(p, first::<$int, $lanes>(n)) })
        }
        #[inline(always)]
        unsafe fn store_partial(self, p: *mut $t, n: usize) {
            // SAFETY: the caller lends room for n numbers; lanes beyond are not written.
            unsafe { $maskstore(p, first::<$int, $lanes>(n), self.0) }
        }
    };
}

/// All ones in the first `n` of `N` lanes of 32 / N bytes.
#[inline(always)]
unsafe fn first<I: From<i8>, const N: usize>(n: usize) -> __m256i {
    let lanes: [I; N] = std::array::from_fn(|i| if i < n { I::from(-1) } else { I::from(0) });
    // SAFETY: the array is 32 bytes; the caller vouches for AVX.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

impl Simd for F32x8 {
    type Wide = F64x4;
    const GROUP: usize = 6;
    instructions!(
        f32,
        _mm256_set1_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_fmadd_ps,
        _mm256_min_ps,
        _mm256_max_ps
    );
    vector_masks!(
        f32,
        i32,
        8,
        __m256,
        _mm256_cmp_ps,
        _mm256_movemask_ps,
        _mm256_blendv_ps,
        _mm256_maskload_ps,
        _mm256_maskstore_ps
    );

    #[inline(always)]
    unsafe fn load_wide(p: *const f32) -> F64x4 {
        // SAFETY: the caller vouches for the instruction set and lends as many numbers as there are lanes.
        F64x4(unsafe { _mm256_cvtps_pd(_mm_loadu_ps(p)) })
    }
    #[inline(always)]
    unsafe fn transposed(row: impl Fn(usize) -> *const f32) -> [Self; 4] {
        // SAFETY: the caller vouches for the instruction set and lends 4 numbers of each row.
        unsafe {
            let (a, b, c, d) = (two(&row, 0), two(&row, 1), two(&row, 2), two(&row, 3));
            let (ab, ab2) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd, cd2) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            [
                Self(_mm256_shuffle_ps::<0x44>(ab, cd)),
                Self(_mm256_shuffle_ps::<0xEE>(ab, cd)),
                Self(_mm256_shuffle_ps::<0x44>(ab2, cd2)),
                Self(_mm256_shuffle_ps::<0xEE>(ab2, cd2)),
            ]
        }
    }
    #[inline(always)]
    fn sum4([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        // SAFETY: vectors exist, so the instruction set does; an array of four is as large as what is written.
        unsafe {
            let ab = _mm256_add_ps(_mm256_unpacklo_ps(a.0, b.0), _mm256_unpackhi_ps(a.0, b.0));
            let cd = _mm256_add_ps(_mm256_unpacklo_ps(c.0, d.0), _mm256_unpackhi_ps(c.0, d.0));
            let v = _mm256_add_ps(_mm256_shuffle_ps::<0x44>(ab, cd), _mm256_shuffle_ps::<0xEE>(ab, cd));
            let mut out = [0.0; 4];
            _mm_storeu_ps(out.as_mut_ptr(), _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v)));
            out
        }
    }
    #[inline(always)]
    fn add_exponent(self, t: Self) -> Self {
        // SAFETY: a vector exists, so the instruction set does.
        unsafe {
            let shifted = _mm256_slli_epi32::<23>(_mm256_castps_si256(t.0));
            Self(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(self.0), shifted)))
        }
    }
}

impl Simd for F64x4 {
    type Wide = F64x4;
    const GROUP: usize = 6;
    instructions!(
        f64,
        _mm256_set1_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_fmadd_pd,
        _mm256_min_pd,
        _mm256_max_pd
    );
    vector_masks!(
        f64,
        i64,
        4,
        __m256d,
        _mm256_cmp_pd,
        _mm256_movemask_pd,
        _mm256_blendv_pd,
        _mm256_maskload_pd,
        _mm256_maskstore_pd
    );

    #[inline(always)]
    unsafe fn load_wide(p: *const f64) -> F64x4 {
        // SAFETY: the caller vouches for the instruction set and lends as many numbers as there are lanes.
        unsafe { Self::load(p) }
    }
    #[inline(always)]
    unsafe fn transposed(row: impl Fn(usize) -> *const f64) -> [Self; 4] {
        // SAFETY: the caller vouches for the instruction set and lends 4 numbers of each row.
        unsafe {
            let (a, b, c, d) = (two_f64(&row, 0, 0), two_f64(&row, 1, 0), two_f64(&row, 0, 2), two_f64(&row, 1, 2));
            [
                Self(_mm256_unpacklo_pd(a, b)),
                Self(_mm256_unpackhi_pd(a, b)),
                Self(_mm256_unpacklo_pd(c, d)),
                Self(_mm256_unpackhi_pd(c, d)),
            ]
        }
    }
    #[inline(always)]
    fn sum4([a, b, c, d]: [Self; 4]) -> [f64; 4] {
        // SAFETY: vectors exist, so the instruction set does; an array of four is as large as what is written.
        unsafe {
            let ab = _mm256_add_pd(_mm256_unpacklo_pd(a.0, b.0), _mm256_unpackhi_pd(a.0, b.0));
            let cd = _mm256_add_pd(_mm256_unpacklo_pd(c.0, d.0), _mm256_unpackhi_pd(c.0, d.0));
            let low = _mm256_permute2f128_pd::<0x20>(ab, cd);
            let mut out = [0.0; 4];
            _mm256_storeu_pd(out.as_mut_ptr(), _mm256_add_pd(low, _mm256_permute2f128_pd::<0x31>(ab, cd)));
            out
        }
    }
    #[inline(always)]
    fn add_exponent(self, t: Self) -> Self {
        // SAFETY: a vector exists, so the instruction set does.
        unsafe {
            let shifted = _mm256_slli_epi64::<52>(_mm256_castpd_si256(t.0));
            Self(_mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(self.0), shifted)))
        }
    }
}

// Sixteen bytes each of rows j, j + w, ..., where w numbers are sixteen bytes. Functions rather than closures, because
// closures cannot be forced inline. All are unsafe for the same reason as `transposed`.

#[inline(always)]
unsafe fn two(row: &impl Fn(usize) -> *const f32, j: usize) -> __m256 {
    // SAFETY: the caller's.
    unsafe { _mm256_insertf128_ps::<1>(_mm256_castps128_ps256(_mm_loadu_ps(row(j))), _mm_loadu_ps(row(4 + j))) }
}

#[inline(always)]
unsafe fn two_f64(row: &impl Fn(usize) -> *const f64, j: usize, column: usize) -> __m256d {
    // SAFETY: the caller's.
    unsafe {
        let low = _mm256_castpd128_pd256(_mm_loadu_pd(row(j).add(column)));
        _mm256_insertf128_pd::<1>(low, _mm_loadu_pd(row(2 + j).add(column)))
    }
}
