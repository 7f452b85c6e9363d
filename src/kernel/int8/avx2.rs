//! 8-bit products with AVX2.
//!
//! The instruction that multiplies bytes (`maddubs`) adds pairs with saturation to 16 bits, so centers are widened to
//! 16 bits instead, even and odd columns separately, once for all rows in the batch. `madd` then multiplies pairs of
//! columns exactly into 32 bits, one sum per center. Rows are widened in advance, in the same order of columns.

use super::{LANES, LaneBest, List, Rows, Visits};
use std::arch::x86_64::*;

/// Number of rows that share the loads of centers: their sums, a vector of centers and a row fill the registers.
const TOGETHER: usize = 4;
/// Number of centers per register.
const HALF: usize = LANES / 2;

/// See [`scan`](super::scan).
/// # Safety
/// The CPU has the features; sizes are as asserted there, and `pairs` covers all rows.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn scan(list: List<'_>, rows: &Rows, visits: Visits<'_>, best: &mut LaneBest) {
    let chunks = visits.rows.chunks(TOGETHER).zip(visits.bases.chunks(TOGETHER));
    for (ids, bases) in chunks {
        for v in 0..list.vectors() {
            // SAFETY: the caller's, and there are as many ids and bases as rows are taken.
            unsafe {
                match ids.len() {
                    1 => scan_vector::<1>(list, v, rows, ids, bases, best),
                    2 => scan_vector::<2>(list, v, rows, ids, bases, best),
                    3 => scan_vector::<3>(list, v, rows, ids, bases, best),
                    _ => scan_vector::<TOGETHER>(list, v, rows, ids, bases, best),
                }
            }
        }
    }
}

/// The `R` rows against vector `v` of the centers.
/// # Safety
/// As for [`scan`]; R ids and bases; the list has a vector `v`.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn scan_vector<const R: usize>(
    list: List<'_>,
    v: usize,
    rows: &Rows,
    ids: &[u32],
    bases: &[f32],
    best: &mut LaneBest,
) {
    let stride = rows.stride;
    // SAFETY: all reads and writes are within the sizes that the caller vouches for.
    unsafe {
        let mu = list.values.as_ptr().add(v * LANES * stride);
        let constants = list.constants.as_ptr().add(v * LANES);
        let mut y = [rows.pairs.as_ptr(); R];
        for (y, &id) in y.iter_mut().zip(ids) {
            *y = y.add(id as usize * stride);
        }
        let start = [load(constants.cast()), load(constants.add(HALF).cast())];
        let mut sums = [start; R];
        for quad in 0..stride / 4 {
            let mu = mu.add(quad * 4 * LANES);
            let mut next = [[_mm256_setzero_si256(); 2]; 2];
            for (k, next) in next.iter_mut().enumerate() {
                let bytes = load(mu.add(k * 4 * HALF).cast());
                *next = [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)), _mm256_srai_epi16::<8>(bytes)];
            }
            for r in 0..R {
                let pair = y[r].add(4 * quad).cast::<i32>();
                let even = _mm256_set1_epi32(pair.read_unaligned());
                let odd = _mm256_set1_epi32(pair.add(1).read_unaligned());
                for k in 0..2 {
                    let sum = _mm256_add_epi32(sums[r][k], _mm256_madd_epi16(next[k][0], even));
                    sums[r][k] = _mm256_add_epi32(sum, _mm256_madd_epi16(next[k][1], odd));
                }
            }
        }
        let unit = _mm256_set1_ps(list.unit);
        let number = _mm256_castsi256_ps(_mm256_set1_epi32((list.first + v as u32) as i32));
        for (r, sums) in sums.iter().enumerate() {
            let row = *ids.get_unchecked(r) as usize;
            let base = _mm256_set1_ps(*bases.get_unchecked(r));
            for (k, &sum) in sums.iter().enumerate() {
                let values = best.values.as_mut_ptr().add(row).cast::<__m256>().add(k);
                let vectors = best.vectors.as_mut_ptr().add(row).cast::<__m256>().add(k);
                // Volatile, otherwise the compiler uses masked stores below, which are slow on many CPUs.
                let (least, index) = (values.read_volatile(), vectors.read_volatile());
                let value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), unit, base);
                let nearer = _mm256_cmp_ps::<_CMP_LT_OQ>(value, least);
                values.write(_mm256_blendv_ps(least, value, nearer));
                vectors.write(_mm256_blendv_ps(index, number, nearer));
            }
        }
    }
}

/// The 32 bytes at `p`.
/// # Safety
/// The CPU has the feature; `p` is readable for 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(p: *const __m256i) -> __m256i {
    // SAFETY: the caller's.
    unsafe { _mm256_loadu_si256(p) }
}
