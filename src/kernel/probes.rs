//! Which rows of a block probe which coarse center: their nearest, and all that are only slightly farther.
//!
//! The values of all centers are held, centers x rows, so that the rows that probe a center can be picked out a vector
//! at a time.
#![allow(unsafe_code)]

use super::block::{Centers, RowBlock};
use super::buffer::Buffer;
use super::dense::for_chunks;
use super::dispatch::{Element, Operation, run};
use super::int8::Visits;
use super::simd::Simd;
use crate::error::Result;

/// Maximum number of lanes of a vector of `f32`.
const MOST_LANES: usize = 16;

/// The rows that probe each center; reused from block to block.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    /// |mu|^2 - 2 y.mu, centers x rows.
    values: Buffer<f32>,
    chunk: Buffer<f32>,
    /// The largest |mu|^2 - 2 y.mu with which a row probes a center.
    limits: Vec<f32>,
    /// 0, 1, ... as bits, to pick row indices from.
    numbers: Vec<f32>,
    rows: Vec<u32>,
    bases: Vec<f32>,
    ends: Vec<usize>,
}

impl Probes {
    /// Lets each row of the block probe the centers that are at most `reach` farther than its nearest.
    pub(crate) fn find(&mut self, block: &RowBlock<f32>, centers: &Centers<'_, f32>, reach: f32) -> Result<()> {
        let (tile, isa) = (block.tile(), block.isa());
        let width = block.rows.next_multiple_of(tile);
        self.values.try_resize(centers.len() * width)?;
        let values = &mut self.values[..];
        self.limits.clear();
        self.limits.resize(width, f32::INFINITY);
        for_chunks(block, centers, &mut self.chunk, |t, first, chunk| {
            let place = t * tile..(t + 1) * tile;
            run(
                isa,
                Spread {
                    chunk,
                    first,
                    width,
                    start: place.start,
                    limits: &mut self.limits[place],
                    values: &mut *values,
                },
            );
        });
        let norms = (0..width / tile).flat_map(|t| block.tile_norms(t));
        for (r, (limit, &norm)) in self.limits.iter_mut().zip(norms).enumerate() {
            let farthest = (*limit + norm).max(0.0).sqrt() + reach;
            // The nearest itself is probed regardless of rounding; the padding of the last tile never probes.
            *limit = if r < block.rows { limit.max(farthest * farthest - norm) } else { f32::NEG_INFINITY };
        }
        self.numbers.clear();
        self.numbers.extend((0..width as u32).map(f32::from_index));
        self.ends.clear();
        let mut end = 0;
        for values in values.chunks_exact(width) {
            self.rows.resize(self.rows.len().max(end + width + MOST_LANES), 0);
            self.bases.resize(self.rows.len(), 0.0);
            let (rows, bases) = (&mut self.rows[end..], &mut self.bases[end..]);
            end += run(isa, Pick { values, limits: &self.limits, numbers: &self.numbers, rows, bases });
            self.ends.push(end);
        }
        Ok(())
    }

    /// The rows that probe center `c`, ascending, and |mu|^2 - 2 y.mu of each.
    pub(crate) fn visits(&self, c: usize) -> Visits<'_> {
        let range = if c == 0 { 0 } else { self.ends[c - 1] }..self.ends[c];
        Visits { rows: &self.rows[range.clone()], bases: &self.bases[range] }
    }
}

/// IN `chunk`, centers (the first is `first`) x tile. OUT `values`, centers x `width`, the tile's rows from `start` on.
/// IN OUT `limits`, the smallest value of each row of the tile.
struct Spread<'a> {
    chunk: &'a [f32],
    first: usize,
    width: usize,
    start: usize,
    limits: &'a mut [f32],
    values: &'a mut [f32],
}

impl Operation<f32> for Spread<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = f32>>(self) {
        for (i, chunk) in self.chunk.chunks_exact(self.limits.len()).enumerate() {
            let place = (self.first + i) * self.width + self.start;
            self.values[place..place + chunk.len()].copy_from_slice(chunk);
            self.limits.iter_mut().zip(chunk).for_each(|(least, &x)| *least = if x < *least { x } else { *least });
        }
    }
}

/// OUT `rows` and `bases`: indices and values of the rows whose value is at most their limit. Returns their number;
/// there must be room for one vector more than there are rows.
struct Pick<'a> {
    values: &'a [f32],
    limits: &'a [f32],
    numbers: &'a [f32],
    rows: &'a mut [u32],
    bases: &'a mut [f32],
}

impl Operation<f32> for Pick<'_> {
    type Output = usize;

    #[inline(always)]
    unsafe fn run<V: Simd<Elem = f32>>(self) -> usize {
        let n = self.values.len();
        assert!(self.limits.len() == n && self.numbers.len() == n && n.is_multiple_of(V::LANES));
        assert!(self.rows.len() >= n + V::LANES && self.bases.len() >= n + V::LANES);
        let (rows, bases) = (self.rows.as_mut_ptr().cast::<f32>(), self.bases.as_mut_ptr());
        let mut count = 0;
        for i in (0..n).step_by(V::LANES) {
            // SAFETY: V is available; there are n numbers to read, and at most i of n + LANES were written. An `f32`
            // with the bits of an index is that index.
            unsafe {
                let value = V::load(self.values.as_ptr().add(i));
                let near = value.le(V::load(self.limits.as_ptr().add(i)));
                V::load(self.numbers.as_ptr().add(i)).pick(near, rows.add(count));
                count += value.pick(near, bases.add(count));
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::super::dispatch::Isa;
    use super::super::reference::squared_distance;
    use super::*;
    use crate::rng::{Stage, stream};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_to_the_centers_in_reach(
            dim in 1usize..20, rows in 1usize..100, m in 1usize..70, more in 0.0f32..1.0, seed in 0u64..1000,
        ) {
            let mut rng = stream(seed, Stage::Sample, 0, 0);
            let mut numbers = |n: usize| (0..n).map(|_| rng.unit() as f32 - 0.5).collect::<Vec<f32>>();
            let (y, mu) = (numbers(rows * dim), numbers(m * dim));
            let apart = |r: usize, c: usize| squared_distance(&y[r * dim..(r + 1) * dim], &mu[c * dim..(c + 1) * dim]);
            let nearest: Vec<f32> = (0..rows).map(|r| (0..m).map(|c| apart(r, c)).fold(f32::MAX, f32::min)).collect();
            for isa in Isa::available() {
                let (mut block, mut probes) = (RowBlock::with_isa(isa), Probes::default());
                block.load(&y, dim, None);
                // The second time in used buffers.
                for more in [2.0 * more, more] {
                    probes.find(&block, &Centers::with_isa(isa, &mu, dim), more).unwrap();
                    let mut came = vec![0; rows];
                    for c in 0..m {
                        let visits = probes.visits(c);
                        prop_assert!(visits.rows.is_sorted_by(|a, b| a < b));
                        for r in 0..rows {
                            let excess = apart(r, c).sqrt() - nearest[r].sqrt() - more;
                            let there = visits.rows.binary_search(&(r as u32));
                            came[r] += usize::from(there.is_ok());
                            // On the edge, rounding decides.
                            prop_assert!(there.is_ok() == (excess <= 0.0) || excess.abs() < 1e-2, "{excess}");
                            if let Ok(i) = there {
                                let norm: f32 = y[r * dim..(r + 1) * dim].iter().map(|x| x * x).sum();
                                prop_assert!((visits.bases[i] + norm - apart(r, c)).abs() < 1e-4);
                            }
                        }
                    }
                    prop_assert!(came.iter().all(|&n| n > 0), "each row comes somewhere");
                }
            }
        }
    }
}
