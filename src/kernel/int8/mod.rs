//! Many centers in eight bits: which centers of a cell are approximately nearest to each of some rows.
//!
//! A center is mu = z + r, where z is the center of its cell, so |y - mu|^2 = |y - z|^2 + (|r|^2 + 2 z.r) - 2 y.r. The
//! first term is known from the choice of the cells and the second is a constant. The product is taken between rows
//! rounded to unsigned and centers rounded to signed 8-bit integers, which is exact in 32 bits. Sixteen centers are
//! processed side by side, and each row keeps the nearest center seen in each of these 16 lanes: one comparison per
//! vector, and the nearest few of a row are most likely in different lanes.
//!
//! All instruction sets give the same bits: the sums are of integers, and each number and each fused multiplication is
//! then rounded once.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx2;
mod plain;
#[cfg(target_arch = "x86_64")]
mod vnni;

use super::dispatch::{Isa, Level};

/// Number of centers side by side.
pub(crate) const LANES: usize = 16;
/// Maximum number of columns for which no sum overflows 32 bits: 255 x 127 x 2^14 plus a constant of at most
/// [`LARGEST`].
pub(crate) const MOST_COLUMNS: usize = 1 << 14;
/// Constants of centers are clipped to this.
pub(crate) const LARGEST: f64 = 1e9;

/// Bytes per row of `dim` columns: whole quadruples.
pub(crate) fn stride(dim: usize) -> usize {
    dim.next_multiple_of(4)
}

/// An instruction set for 8-bit products that this machine supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Int8Isa(Kind);

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
    /// Whether this machine, which has the given level, supports it.
    fn present(self, level: Level) -> bool {
        match self {
            Kind::Plain => true,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => level >= Level::Avx2,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => level >= Level::Avx512 && is_x86_feature_detected!("avx512vnni"),
        }
    }
}

impl Int8Isa {
    /// Those that belong to `isa`, slowest first.
    pub(super) fn of(isa: Isa) -> impl DoubleEndedIterator<Item = Self> {
        let level = isa.level();
        KINDS.iter().filter(move |kind| kind.present(level)).map(|&kind| Self(kind))
    }

    /// The best of this machine that the level of the other kernels allows.
    pub(crate) fn best() -> Self {
        Self::of(Isa::best()).next_back().expect("the plain one is always there")
    }

    /// Whether it is about as fast per product as the dense kernels are in `f32`, or faster.
    pub(crate) fn is_fast(self) -> bool {
        self.cost() <= 1.0
    }

    /// Approximate cost of a product, relative to the dense kernels in `f32`.
    pub(crate) fn cost(self) -> f64 {
        match self.0 {
            Kind::Plain => 6.0,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => 1.0,
            #[cfg(target_arch = "x86_64")]
            Kind::Vnni => 0.5,
        }
    }
}

/// The centers of one cell, in vectors of [`LANES`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct List<'a> {
    /// -r: vectors x quadruples of columns x lanes x 4.
    pub values: &'a [i8],
    /// r|^2 + 2 z.r in units, with the correction for unsigned rows: vectors x lanes.
    pub constants: &'a [i32],
    /// The value of a product of 1.
    pub unit: f32,
    /// Index of the first vector.
    pub first: u32,
}

impl<'a> List<'a> {
    /// Number of vectors.
    pub(crate) fn vectors(&self) -> usize {
        self.constants.len() / LANES
    }

    /// The list of vector `v` alone.
    pub(crate) fn vector(&self, v: usize) -> List<'a> {
        let size = self.values.len() / self.vectors();
        List {
            values: &self.values[v * size..(v + 1) * size],
            constants: &self.constants[v * LANES..(v + 1) * LANES],
            unit: self.unit,
            first: self.first + v as u32,
        }
    }
}

/// Rows in 8 bits, in the layout of the instruction set.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    stride: usize,
    bytes: Vec<u8>,
    /// For each quadruple its even, then its odd columns in 16 bits; empty unless the instruction set needs it.
    pairs: Vec<u16>,
}

impl Rows {
    /// Loads rows with `dim` columns: `fill` writes one row after another; the padding of each row up to the [`stride`]
    /// is 0.
    pub(crate) fn load(&mut self, isa: Int8Isa, rows: usize, dim: usize, mut fill: impl FnMut(usize, &mut [u8])) {
        self.stride = stride(dim);
        self.bytes.clear();
        self.bytes.resize(rows * self.stride, 0);
        for (r, row) in self.bytes.chunks_exact_mut(self.stride).enumerate() {
            fill(r, &mut row[..dim]);
        }
        self.pairs.clear();
        #[cfg(target_arch = "x86_64")]
        if isa.0 == Kind::Avx2 {
            self.pairs.extend(self.bytes.chunks_exact(4).flat_map(|y| [y[0], y[2], y[1], y[3]].map(u16::from)));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = isa;
    }

    /// Row `r`, in bytes.
    pub(super) fn row(&self, r: u32) -> &[u8] {
        &self.bytes[r as usize * self.stride..][..self.stride]
    }

    fn len(&self) -> usize {
        self.bytes.len() / self.stride.max(1)
    }
}

/// The rows that search a cell, and |y - z|^2 of each up to a constant per row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visits<'a> {
    pub rows: &'a [u32],
    pub bases: &'a [f32],
}

/// One number per lane, on a cache line of its own.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub [T; LANES]);

/// The nearest center of each row in each lane, as values and as indices of vectors.
#[derive(Debug, Default)]
pub(crate) struct LaneBest {
    pub values: Vec<Line<f32>>,
    pub vectors: Vec<Line<u32>>,
}

impl LaneBest {
    /// Resets to nothing seen by any of the `rows`.
    pub fn clear(&mut self, rows: usize) {
        self.values.clear();
        self.values.resize(rows, Line([f32::INFINITY; LANES]));
        self.vectors.clear();
        self.vectors.resize(rows, Line([0; LANES]));
    }
}

/// Compares the visiting rows with the centers of `list`. The rows must have been loaded for the same `isa`.
pub(crate) fn scan(isa: Int8Isa, list: List<'_>, rows: &Rows, visits: Visits<'_>, best: &mut LaneBest) {
    let (vectors, stride) = (list.vectors(), rows.stride);
    assert!(stride.is_multiple_of(4) && stride > 0, "rows of whole quadruples");
    assert!(list.constants.len() == vectors * LANES && list.values.len() == vectors * LANES * stride);
    let count = rows.len().min(best.values.len()).min(best.vectors.len());
    assert!(visits.rows.len() == visits.bases.len() && visits.rows.iter().all(|&r| (r as usize) < count));
    match isa.0 {
        Kind::Plain => plain::scan(list, rows, visits, best),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => {
            assert_eq!(rows.pairs.len(), rows.bytes.len(), "rows loaded for another instruction set");
            // SAFETY: an `Int8Isa` of that kind exists, so the machine has it; the sizes are as asserted.
            unsafe { avx2::scan(list, rows, visits, best) }
        }
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Kind::Vnni => unsafe { vnni::scan(list, rows, visits, best) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference;
    use super::*;
    use crate::rng::{Rng, Stage, stream};
    use proptest::prelude::*;

    fn available() -> impl Iterator<Item = Int8Isa> {
        Int8Isa::of(Isa::available().last().unwrap())
    }

    fn bytes(n: usize, rng: &mut Rng, extreme: bool) -> Vec<u8> {
        (0..n).map(|_| if extreme { [0, 127, 128, 255][rng.below(4)] } else { rng.below(256) as u8 }).collect()
    }

    proptest! {
        #[test]
        fn every_instruction_set_agrees_with_the_twin_to_the_bit(
            dim in 1usize..150, vectors in 1usize..6, count in 1usize..40, seed in 0u64..1000, extreme: bool,
        ) {
            let (stride, mut rng) = (stride(dim), stream(seed, Stage::Sample, 0, 0));
            let numbers = bytes(count * dim, &mut rng, extreme);
            let values: Vec<i8> = bytes(vectors * LANES * stride, &mut rng, extreme).iter().map(|&x| x as i8).collect();
            let constants: Vec<i32> = (0..vectors * LANES).map(|_| rng.below(1 << 20) as i32 - (1 << 19)).collect();
            let list = List { values: &values, constants: &constants, unit: 0.37, first: 5 };
            let ids: Vec<u32> = (0..count as u32).filter(|_| rng.below(3) > 0).collect();
            let bases: Vec<f32> = ids.iter().map(|_| rng.unit() as f32).collect();
            let visits = Visits { rows: &ids, bases: &bases };
            let (mut rows, mut twin) = (Rows::default(), LaneBest::default());
            twin.clear(count);
            for isa in available() {
                rows.load(isa, count, dim, |r, row| row.copy_from_slice(&numbers[r * dim..(r + 1) * dim]));
                if isa == Int8Isa(Kind::Plain) {
                    reference::scan(list, &rows, visits, &mut twin);
                }
                let mut best = LaneBest::default();
                best.clear(count);
                // A second scan, one vector at a time, finds nothing nearer.
                scan(isa, list, &rows, visits, &mut best);
                for v in 0..vectors {
                    scan(isa, list.vector(v), &rows, visits, &mut best);
                }
                prop_assert_eq!(&best.values, &twin.values, "{:?}", isa);
                prop_assert_eq!(&best.vectors, &twin.vectors, "{:?}", isa);
            }
        }
    }

    #[test]
    fn the_largest_sums_fit_for_the_most_columns() {
        assert!(255.0 * 128.0 * MOST_COLUMNS as f64 + LARGEST < f64::from(i32::MAX));
    }

    #[test]
    fn the_kind_follows_the_level_of_the_other_kernels() {
        for isa in Isa::available() {
            let best = Int8Isa::of(isa).next_back().unwrap();
            assert_eq!(best.is_fast(), isa.level() > Level::Baseline);
            #[cfg(target_arch = "x86_64")]
            assert!(isa.level() != Level::Avx2 || best == Int8Isa(Kind::Avx2));
        }
    }

    #[test]
    #[should_panic]
    fn a_row_that_is_not_there_is_refused() {
        let list = List { values: &[0; 64], constants: &[0; 16], unit: 1.0, first: 0 };
        let (mut rows, mut best) = (Rows::default(), LaneBest::default());
        rows.load(Int8Isa::best(), 1, 4, |_, row| row.fill(0));
        best.clear(1);
        scan(Int8Isa::best(), list, &rows, Visits { rows: &[1], bases: &[0.0] }, &mut best);
    }
}
