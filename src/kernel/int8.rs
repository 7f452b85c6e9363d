//! Many centers in eight bits: which of a cell's centers are about nearest to each of some rows.
//!
//! A center is mu = z + r with z the center of its cell, so that |y - mu|^2 = |y - z|^2 + (|r|^2 + 2 z.r) - 2 y.r. The first
//! term is known from the choice of the cells and the second is a constant; the product is taken between rows rounded to
//! 8 bits without and centers rounded to 8 bits with a sign, which is exact in 32 bits. Sixteen centers stand side by side,
//! and a row keeps the nearest it has seen in each of these 16 lanes: one comparison a vector, and the nearest few of a
//! row are most likely in lanes of their own.
//!
//! All ways give the same bits: the sums are of integers, and what follows is one rounding a number, and one a fused
//! multiplication.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Centers side by side.
pub(crate) const LANES: usize = 16;
/// Columns up to which no sum can leave 32 bits: 255 x 127 x 2^14 and a constant of at most [`LARGEST`].
pub(crate) const MOST_COLUMNS: usize = 1 << 14;
/// Constants of centers are cut to this.
pub(crate) const LARGEST: f64 = 1e9;

/// Bytes that a row of `dim` columns takes: whole quadruples.
pub(crate) fn stride(dim: usize) -> usize {
    dim.next_multiple_of(4)
}

/// How the products are made, on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Vnni,
}

const KINDS: &[Kind] = &[
    Kind::Plain,
    #[cfg(target_arch = "x86_64")]
    Kind::Avx2,
    #[cfg(target_arch = "x86_64")]
    Kind::Vnni,
];

impl Kind {
    fn present(self) -> bool {
        match self {
            Kind::Plain => true,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni"),
        }
    }
}

impl Way {
    /// Those of this machine, from the plainest.
    pub(crate) fn available() -> impl DoubleEndedIterator<Item = Way> {
        KINDS.iter().filter(|k| k.present()).map(|&k| Way(k))
    }

    /// The best of this machine.
    pub(crate) fn best() -> Way {
        Way::available().next_back().expect("the plain way is always there")
    }
}

/// The centers of one cell, in vectors of [`LANES`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile<'a> {
    /// -r: vectors x quadruples of columns x lanes x 4.
    pub values: &'a [i8],
    /// |r|^2 + 2 z.r in units, and what rows without a sign ask for: vectors x lanes.
    pub constants: &'a [i32],
    /// What a product of 1 is worth.
    pub unit: f32,
    /// The number of the first vector.
    pub first: u32,
}

/// Which rows look at a cell, and |y - z|^2 of each up to a constant of the row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visits<'a> {
    pub rows: &'a [u32],
    pub bases: &'a [f32],
}

/// A number a lane, on a cache line of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub [T; LANES]);

/// The nearest that rows have seen in each lane, as values and as numbers of vectors.
#[derive(Debug, Default)]
pub(crate) struct Nearest {
    pub values: Vec<Line<f32>>,
    pub vectors: Vec<Line<u32>>,
}

impl Nearest {
    /// Nothing seen by any of `rows`.
    pub fn clear(&mut self, rows: usize) {
        self.values.clear();
        self.values.resize(rows, Line([f32::INFINITY; LANES]));
        self.vectors.clear();
        self.vectors.resize(rows, Line([0; LANES]));
    }
}

/// Shows the centers of `tile` to the rows that visit. `rows` has [`stride`] bytes for each row.
pub(crate) fn scan(way: Way, tile: Tile<'_>, rows: &[u8], stride: usize, visits: Visits<'_>, seen: &mut Nearest) {
    let vectors = tile.constants.len() / LANES;
    assert!(stride.is_multiple_of(4) && stride > 0, "rows of whole quadruples");
    assert!(tile.constants.len() == vectors * LANES && tile.values.len() == vectors * LANES * stride);
    let count = (rows.len() / stride).min(seen.values.len()).min(seen.vectors.len());
    assert!(visits.rows.len() == visits.bases.len() && visits.rows.iter().all(|&r| (r as usize) < count));
    match way.0 {
        Kind::Plain => plain(tile, rows, stride, visits, seen),
        // SAFETY: there is a `Way` of that kind, so the machine has it; the sizes are those asserted.
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => unsafe { avx2(tile, rows, stride, visits, seen) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Kind::Vnni => unsafe { vnni(tile, rows, stride, visits, seen) },
    }
}

/// The plain body, which the compiler makes vectors of where it is compiled for them.
#[inline(always)]
fn plain(tile: Tile<'_>, rows: &[u8], stride: usize, visits: Visits<'_>, seen: &mut Nearest) {
    for (&row, &base) in visits.rows.iter().zip(visits.bases) {
        let row = row as usize;
        let y = &rows[row * stride..(row + 1) * stride];
        let (values, vectors) = (&mut seen.values[row].0, &mut seen.vectors[row].0);
        let mus = tile.values.chunks_exact(LANES * stride).zip(tile.constants.chunks_exact(LANES));
        for ((mu, constants), vector) in mus.zip(tile.first..) {
            // Two sums a lane, as the instruction that multiplies 16 bits adds up pairs.
            let mut sums = [0i32; 2 * LANES];
            for (y, mu) in y.chunks_exact(4).zip(mu.chunks_exact(4 * LANES)) {
                let y: [i16; 4] = std::array::from_fn(|j| i16::from(y[j]));
                for (p, sum) in sums.iter_mut().enumerate() {
                    let (a, b) = (i16::from(mu[2 * p]), i16::from(mu[2 * p + 1]));
                    let (u, v) = (y[2 * (p % 2)], y[2 * (p % 2) + 1]);
                    *sum += i32::from(a) * i32::from(u) + i32::from(b) * i32::from(v);
                }
            }
            for lane in 0..LANES {
                let sum = constants[lane] + sums[2 * lane] + sums[2 * lane + 1];
                let value = (sum as f32).mul_add(tile.unit, base);
                let nearer = value < values[lane];
                values[lane] = if nearer { value } else { values[lane] };
                vectors[lane] = if nearer { vector } else { vectors[lane] };
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2(tile: Tile<'_>, rows: &[u8], stride: usize, visits: Visits<'_>, seen: &mut Nearest) {
    plain(tile, rows, stride, visits, seen);
}

/// Rows that share the loads of centers.
#[cfg(target_arch = "x86_64")]
const TOGETHER: usize = 8;

/// # Safety
/// Sizes as asserted in [`scan`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn vnni(tile: Tile<'_>, rows: &[u8], stride: usize, visits: Visits<'_>, seen: &mut Nearest) {
    let chunks = visits.rows.chunks(TOGETHER).zip(visits.bases.chunks(TOGETHER));
    for (ids, bases) in chunks {
        // SAFETY: the caller's, and there are as many ids and bases as rows are taken.
        unsafe {
            if ids.len() == TOGETHER {
                vnni_rows::<TOGETHER>(tile, rows, stride, ids, bases, seen);
                continue;
            }
            let (four, rest) = (ids.len() & 4, ids.len() & 6);
            if four > 0 {
                vnni_rows::<4>(tile, rows, stride, ids, bases, seen);
            }
            if rest > four {
                vnni_rows::<2>(tile, rows, stride, &ids[four..], &bases[four..], seen);
            }
            if ids.len() > rest {
                vnni_rows::<1>(tile, rows, stride, &ids[rest..], &bases[rest..], seen);
            }
        }
    }
}

/// The first `R` of the rows, with two vectors of centers at a time, then with the one that may be left.
/// # Safety
/// Sizes as asserted in [`scan`]; at least R ids and bases.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn vnni_rows<const R: usize>(
    tile: Tile<'_>,
    rows: &[u8],
    stride: usize,
    ids: &[u32],
    bases: &[f32],
    seen: &mut Nearest,
) {
    let vectors = tile.constants.len() / LANES;
    // SAFETY: the caller's; `v + V` stays within the vectors.
    unsafe {
        let mut v = 0;
        while v + 2 <= vectors {
            vnni_vectors::<R, 2>(tile, v, rows, stride, ids, bases, seen);
            v += 2;
        }
        if v < vectors {
            vnni_vectors::<R, 1>(tile, v, rows, stride, ids, bases, seen);
        }
    }
}

/// The first `R` of the rows, and `V` vectors from `v` on.
/// # Safety
/// Sizes as asserted in [`scan`]; at least R ids and bases; the tile has V vectors from `v` on.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn vnni_vectors<const R: usize, const V: usize>(
    tile: Tile<'_>,
    v: usize,
    rows: &[u8],
    stride: usize,
    ids: &[u32],
    bases: &[f32],
    seen: &mut Nearest,
) {
    // SAFETY: all reads and writes are within the sizes that the caller vouches for.
    unsafe {
        let mu = tile.values.as_ptr().add(v * LANES * stride);
        let constants = tile.constants.as_ptr().add(v * LANES);
        let mut y = [rows.as_ptr(); R];
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
        let unit = _mm512_set1_ps(tile.unit);
        for (r, sums) in sums.iter().enumerate() {
            let row = *ids.get_unchecked(r) as usize;
            let values = seen.values.as_mut_ptr().add(row).cast::<f32>();
            let vectors = seen.vectors.as_mut_ptr().add(row).cast::<i32>();
            let (mut best, mut index) = (_mm512_loadu_ps(values), _mm512_loadu_epi32(vectors));
            let base = _mm512_set1_ps(*bases.get_unchecked(r));
            for (k, &sum) in sums.iter().enumerate() {
                let value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), unit, base);
                let nearer = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(value, best);
                best = _mm512_mask_mov_ps(best, nearer, value);
                index = _mm512_mask_set1_epi32(index, nearer, (tile.first + (v + k) as u32) as i32);
            }
            _mm512_storeu_ps(values, best);
            _mm512_storeu_epi32(vectors, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use crate::rng::{Rng, Stage, stream};
    use proptest::prelude::*;

    fn bytes(n: usize, rng: &mut Rng, extreme: bool) -> Vec<u8> {
        (0..n).map(|_| if extreme { [0, 127, 128, 255][rng.below(4)] } else { rng.below(256) as u8 }).collect()
    }

    proptest! {
        #[test]
        fn every_way_agrees_with_the_twin_to_the_bit(
            dim in 1usize..150, vectors in 1usize..6, count in 1usize..40, seed in 0u64..1000, extreme: bool,
        ) {
            let (stride, mut rng) = (stride(dim), stream(seed, Stage::Sample, 0, 0));
            let rows = bytes(count * stride, &mut rng, extreme);
            let values: Vec<i8> = bytes(vectors * LANES * stride, &mut rng, extreme).iter().map(|&x| x as i8).collect();
            let constants: Vec<i32> = (0..vectors * LANES).map(|_| rng.below(1 << 20) as i32 - (1 << 19)).collect();
            let tile = Tile { values: &values, constants: &constants, unit: 0.37, first: 5 };
            let ids: Vec<u32> = (0..count as u32).filter(|_| rng.below(3) > 0).collect();
            let bases: Vec<f32> = ids.iter().map(|_| rng.unit() as f32).collect();
            let visits = Visits { rows: &ids, bases: &bases };
            let mut twin = Nearest::default();
            twin.clear(count);
            reference::scan(tile, &rows, stride, visits, &mut twin);
            for way in Way::available() {
                let mut seen = Nearest::default();
                seen.clear(count);
                // A second look finds nothing nearer.
                for _ in 0..2 {
                    scan(way, tile, &rows, stride, visits, &mut seen);
                    prop_assert_eq!(&seen.values, &twin.values, "{:?}", way);
                    prop_assert_eq!(&seen.vectors, &twin.vectors, "{:?}", way);
                }
            }
        }
    }

    #[test]
    fn the_largest_sums_fit_for_the_most_columns() {
        assert!(255.0 * 128.0 * MOST_COLUMNS as f64 + LARGEST < f64::from(i32::MAX));
    }

    #[test]
    #[should_panic]
    fn a_row_that_is_not_there_is_refused() {
        let tile = Tile { values: &[0; 64], constants: &[0; 16], unit: 1.0, first: 0 };
        let mut seen = Nearest::default();
        seen.clear(1);
        scan(Way::best(), tile, &[0; 4], 4, Visits { rows: &[1], bases: &[0.0] }, &mut seen);
    }
}
