//! 8-bit products with AVX-512 VNNI: one instruction for four columns of sixteen centers.

use super::{LANES, LaneBest, List, Rows, Visits};
use std::arch::x86_64::*;

/// Number of rows that share the loads of centers.
const TOGETHER: usize = 8;

/// See [`scan`](super::scan).
/// # Safety
/// The CPU has the features; sizes are as asserted there.
#[target_feature(enable = "avx512f,avx512vnni")]
pub(super) unsafe fn scan(list: List<'_>, rows: &Rows, visits: Visits<'_>, best: &mut LaneBest) {
    let chunks = visits.rows.chunks(TOGETHER).zip(visits.bases.chunks(TOGETHER));
    for (ids, bases) in chunks {
        // SAFETY: the caller's, and there are as many ids and bases as rows are taken.
        unsafe {
            if ids.len() == TOGETHER {
                scan_rows::<TOGETHER>(list, rows, ids, bases, best);
                continue;
            }
            let (four, rest) = (ids.len() & 4, ids.len() & 6);
            if four > 0 {
                scan_rows::<4>(list, rows, ids, bases, best);
            }
            if rest > four {
                scan_rows::<2>(list, rows, &ids[four..], &bases[four..], best);
            }
            if ids.len() > rest {
                scan_rows::<1>(list, rows, &ids[rest..], &bases[rest..], best);
            }
        }
    }
}

/// The first `R` of the rows, with two vectors of centers at a time, then the last one, if any.
/// # Safety
/// As for [`scan`]; at least R ids and bases.
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn scan_rows<const R: usize>(list: List<'_>, rows: &Rows, ids: &[u32], bases: &[f32], best: &mut LaneBest) {
    let vectors = list.vectors();
    // SAFETY: the caller's; `v + V` stays within the vectors.
    unsafe {
        let mut v = 0;
        while v + 2 <= vectors {
            scan_vectors::<R, 2>(list, v, rows, ids, bases, best);
            v += 2;
        }
        if v < vectors {
            scan_vectors::<R, 1>(list, v, rows, ids, bases, best);
        }
    }
}

/// The first `R` of the rows against the `V` vectors from `v` on.
/// # Safety
/// As for [`scan`]; at least R ids and bases; the list has V vectors from `v` on.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn scan_vectors<const R: usize, const V: usize>(
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
        let mut y = [rows.bytes.as_ptr(); R];
        for (y, &id) in y.iter_mut().zip(ids) {
            *y = y.add(id as usize * stride);
        }
        let mut start = [_mm512_setzero_si512(); V];
        for (k, start) in start.iter_mut().enumerate() {
            *start = _mm512_loadu_si512(constants.add(k * LANES).cast());
        }
        let mut sums = [start; R];
        for quad in 0..stride / 4 {
            let mut next = start;
            for (k, next) in next.iter_mut().enumerate() {
                *next = _mm512_loadu_si512(mu.add(k * LANES * stride + quad * 4 * LANES).cast());
            }
            for r in 0..R {
                let y = _mm512_set1_epi32(y[r].add(4 * quad).cast::<i32>().read_unaligned());
                for k in 0..V {
                    sums[r][k] = _mm512_dpbusd_epi32(sums[r][k], y, next[k]);
                }
            }
        }
        let unit = _mm512_set1_ps(list.unit);
        for (r, sums) in sums.iter().enumerate() {
            let row = *ids.get_unchecked(r) as usize;
            let values = best.values.as_mut_ptr().add(row).cast::<__m512>();
            let vectors = best.vectors.as_mut_ptr().add(row).cast::<__m512i>();
            // Volatile, otherwise the compiler uses masked stores below, which are slow on some CPUs.
            let (mut least, mut index) = (values.read_volatile(), vectors.read_volatile());
            let base = _mm512_set1_ps(*bases.get_unchecked(r));
            for (k, &sum) in sums.iter().enumerate() {
                let value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), unit, base);
                let nearer = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(value, least);
                least = _mm512_mask_mov_ps(least, nearer, value);
                index = _mm512_mask_set1_epi32(index, nearer, (list.first + (v + k) as u32) as i32);
            }
            values.write(least);
            vectors.write(index);
        }
    }
}
