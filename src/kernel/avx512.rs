//! AVX-512: vectors of 512 bits. As in [`avx2`](super::avx2), everything is inlined into functions that have the
//! feature.
#![allow(unsafe_code)]

use super::avx2::{F32x8, F64x4, instructions};
use super::simd::Simd;
use std::arch::x86_64::*;

/// Sixteen `f32`.
#[derive(Clone, Copy)]
pub struct F32x16(__m512);
/// Eight `f64`.
#[derive(Clone, Copy)]
pub struct F64x8(__m512d);

/// Comparison, blend, and partial loads and stores, with masks in mask registers.
macro_rules! register_masks {
    ($t:ty, $mask:ty, $cmp:ident, $blend:ident, $maskload:ident, $maskstore:ident, $compress:ident) => {
        type Mask = $mask;
        #[inline(always)]
        fn lt(self, o: Self) -> $mask {
            // SAFETY: a vector exists, so the instruction set does.
            unsafe { $cmp::<_CMP_LT_OQ>(self.0, o.0) }
        }
        #[inline(always)]
        fn le(self, o: Self) -> $mask {
            // SAFETY: as for `lt`.
            unsafe { $cmp::<_CMP_LE_OQ>(self.0, o.0) }
        }
        #[inline(always)]
        unsafe fn pick(self, mask: $mask, p: *mut $t) -> usize {
            // SAFETY: as for `lt`; the caller vouches for a vector's room, and a whole store is faster than a masked one.
            unsafe { Self($compress(mask, self.0)).store(p) };
            mask.count_ones() as usize
        }
        #[inline(always)]
        fn any(mask: $mask) -> bool {
            mask != 0
        }
        #[inline(always)]
        fn select(mask: $mask, yes: Self, no: Self) -> Self {
            // SAFETY: as for `lt`.
            Self(unsafe { $blend(mask, no.0, yes.0) })
        }
        #[inline(always)]
        unsafe fn load_partial(p: *const $t, n: usize) -> Self {
            // SAFETY: the caller vouches for the instruction set and lends n numbers; lanes beyond are not read.
            Self(unsafe { $maskload(((1u32 << n) - 1) as $mask, p) })
        }
        #[inline(always)]
        unsafe fn store_partial(self, p: *mut $t, n: usize) {
            // SAFETY: the caller lends room for n numbers; lanes beyond are not written.
            unsafe { $maskstore(p, ((1u32 << n) - 1) as $mask, self.0) }
        }
    };
}

impl Simd for F32x16 {
    type Wide = F64x8;
    const GROUP: usize = 14;
    instructions!(
        f32,
        _mm512_set1_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_fmadd_ps,
        _mm512_min_ps,
        _mm512_max_ps
    );
    register_masks!(
        f32,
        __mmask16,
        _mm512_cmp_ps_mask,
        _mm512_mask_blend_ps,
        _mm512_maskz_loadu_ps,
        _mm512_mask_storeu_ps,
        _mm512_maskz_compress_ps
    );

    #[inline(always)]
    unsafe fn load_wide(p: *const f32) -> F64x8 {
        // SAFETY: the caller vouches for the instruction set and lends as many numbers as there are lanes.
        F64x8(unsafe { _mm512_cvtps_pd(_mm256_loadu_ps(p)) })
    }
    #[inline(always)]
    unsafe fn transposed(row: impl Fn(usize) -> *const f32) -> [Self; 4] {
        // SAFETY: the caller vouches for the instruction set and lends 4 numbers of each row.
        unsafe {
            let (a, b, c, d) = (four(&row, 0), four(&row, 1), four(&row, 2), four(&row, 3));
            let (ab, ab2) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let (cd, cd2) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            [
                Self(_mm512_shuffle_ps::<0x44>(ab, cd)),
                Self(_mm512_shuffle_ps::<0xEE>(ab, cd)),
                Self(_mm512_shuffle_ps::<0x44>(ab2, cd2)),
                Self(_mm512_shuffle_ps::<0xEE>(ab2, cd2)),
            ]
        }
    }
    #[inline(always)]
    fn sum4([a, b, c, d]: [Self; 4]) -> [f32; 4] {
        F32x8::sum4([a.halved(), b.halved(), c.halved(), d.halved()])
    }
    #[inline(always)]
    fn add_exponent(self, t: Self) -> Self {
        // SAFETY: a vector exists, so the instruction set does.
        unsafe {
            let shifted = _mm512_slli_epi32::<23>(_mm512_castps_si512(t.0));
            Self(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(self.0), shifted)))
        }
    }
}

impl Simd for F64x8 {
    type Wide = F64x8;
    const GROUP: usize = 14;
    instructions!(
        f64,
        _mm512_set1_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_fmadd_pd,
        _mm512_min_pd,
        _mm512_max_pd
    );
    register_masks!(
        f64,
        __mmask8,
        _mm512_cmp_pd_mask,
        _mm512_mask_blend_pd,
        _mm512_maskz_loadu_pd,
        _mm512_mask_storeu_pd,
        _mm512_maskz_compress_pd
    );

    #[inline(always)]
    unsafe fn load_wide(p: *const f64) -> F64x8 {
        // SAFETY: the caller vouches for the instruction set and lends as many numbers as there are lanes.
        unsafe { Self::load(p) }
    }
    #[inline(always)]
    unsafe fn transposed(row: impl Fn(usize) -> *const f64) -> [Self; 4] {
        // SAFETY: the caller vouches for the instruction set and lends 4 numbers of each row.
        unsafe {
            let (a, b, c, d) = (four_f64(&row, 0, 0), four_f64(&row, 1, 0), four_f64(&row, 0, 2), four_f64(&row, 1, 2));
            [
                Self(_mm512_unpacklo_pd(a, b)),
                Self(_mm512_unpackhi_pd(a, b)),
                Self(_mm512_unpacklo_pd(c, d)),
                Self(_mm512_unpackhi_pd(c, d)),
            ]
        }
    }
    #[inline(always)]
    fn sum4([a, b, c, d]: [Self; 4]) -> [f64; 4] {
        F64x4::sum4([a.halved(), b.halved(), c.halved(), d.halved()])
    }
    #[inline(always)]
    fn add_exponent(self, t: Self) -> Self {
        // SAFETY: a vector exists, so the instruction set does.
        unsafe {
            let shifted = _mm512_slli_epi64::<52>(_mm512_castpd_si512(t.0));
            Self(_mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(self.0), shifted)))
        }
    }
}

impl F32x16 {
    /// The lower half plus the upper half.
    #[inline(always)]
    fn halved(self) -> F32x8 {
        // SAFETY: a vector exists, so the instruction set does.
        unsafe { F32x8(_mm256_add_ps(_mm512_castps512_ps256(self.0), _mm512_extractf32x8_ps::<1>(self.0))) }
    }
}

impl F64x8 {
    /// The lower half plus the upper half.
    #[inline(always)]
    fn halved(self) -> F64x4 {
        // SAFETY: a vector exists, so the instruction set does.
        unsafe { F64x4(_mm256_add_pd(_mm512_castpd512_pd256(self.0), _mm512_extractf64x4_pd::<1>(self.0))) }
    }
}

// As in `avx2`: sixteen bytes each of four rows.

#[inline(always)]
unsafe fn four(row: &impl Fn(usize) -> *const f32, j: usize) -> __m512 {
    // SAFETY: the caller's.
    unsafe {
        let v = _mm512_castps128_ps512(_mm_loadu_ps(row(j)));
        let v = _mm512_insertf32x4::<1>(v, _mm_loadu_ps(row(4 + j)));
        let v = _mm512_insertf32x4::<2>(v, _mm_loadu_ps(row(8 + j)));
        _mm512_insertf32x4::<3>(v, _mm_loadu_ps(row(12 + j)))
    }
}

#[inline(always)]
unsafe fn four_f64(row: &impl Fn(usize) -> *const f64, j: usize, column: usize) -> __m512d {
    // SAFETY: the caller's.
    unsafe {
        let v = _mm512_castpd128_pd512(_mm_loadu_pd(row(j).add(column)));
        let v = _mm512_insertf64x2::<1>(v, _mm_loadu_pd(row(2 + j).add(column)));
        let v = _mm512_insertf64x2::<2>(v, _mm_loadu_pd(row(4 + j).add(column)));
        _mm512_insertf64x2::<3>(v, _mm_loadu_pd(row(6 + j).add(column)))
    }
}
