//! Posteriors of rows over all centers, and the sums of the rows weighted by them, as matrix products.
//!
//! The [dense](super::dense) kernel gives the values of a tile of rows, rows in lanes. Still in lanes, the values
//! become differences from each row's smallest value, and these the shares of the [posterior](shares). Centers in which
//! no row of the tile has a share above the threshold are dropped from there on. The rest is multiplied by the
//! [rows](products).
//!
//! The caller defines what the numbers of a row mean. If a value is a squared distance less |y|^2, small distances are
//! measured again by differences.

mod products;
mod shares;

use super::block::{Centers, DELICATE, RowBlock};
use super::buffer::Buffer;
use super::dense::all_values;
use super::dispatch::run;
use super::distance::gathered_distances;
use super::hard::CenterSums;
use super::pack::MAX_TILE;
use super::select::insert;
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::resize;
use products::{Products, Weighed};
use shares::{Raise, Shares};

/// Bytes of values that fit in any second-level cache with room to spare.
const VALUES_BYTES: usize = 256 << 10;
/// Maximum number of lanes of a vector.
const MAX_LANES: usize = MAX_TILE / 2;
/// Numbers required after the last row, so that whole vectors of it can be read.
pub(crate) const ROOM: usize = MAX_LANES;
/// Factors that every type can hold, with room for products.
const MODERATE: std::ops::Range<f64> = 1e-30..1e30;

/// A block of rows to be shared among all centers.
pub struct SoftBlock<'a, T> {
    /// The rows in lanes.
    pub(crate) block: &'a RowBlock<T>,
    /// The same rows, row-major, followed by [`ROOM`] more numbers.
    pub(crate) rows: &'a [T],
    /// The centers, with what is added to -2 y.mu of each.
    pub(crate) centers: &'a Centers<'a, T>,
    /// Whether a value is |mu|^2 - 2 y.mu, to which |y|^2 is added; otherwise it is used as is.
    pub(crate) squared: bool,
    /// Factor of values in the exponent; negative.
    pub(crate) scale: T,
    /// Whether all sums are in `f64`. If not, the sums of a tile are in the type of the data unless a row of the tile
    /// is very near a center.
    pub(crate) wide: bool,
    /// The weight of each row; 1 if none.
    pub(crate) weights: Option<&'a [f64]>,
    /// OUT: the center with the smallest value for each row (ties: the first).
    pub(crate) labels: &'a mut [u32],
    /// OUT: that value.
    pub(crate) nearest: &'a mut [T],
    /// IN OUT: the sums to which the rows are added, if wanted.
    pub(crate) sums: Option<&'a mut CenterSums>,
}

/// Sums over rows of values v and posteriors q.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct SoftTotals {
    /// sum w v of the nearest center.
    pub nearest: f64,
    /// sum w sum_c q_c v_c.
    pub mean: f64,
    /// sum w log sum_c exp(scale (v_c - v of the nearest)).
    pub log: f64,
}

/// Reused memory.
#[derive(Debug, Default)]
pub(crate) struct SoftScratch<T> {
    values: Buffer<T>,
    places: Vec<u32>,
    weighed: Weighed<T>,
}

/// Numbers of a tile, one per row.
struct Lanes<T> {
    /// Smallest values, then their indices: the list for [`insert`].
    best: [T; 2 * MAX_TILE],
    /// What must be added to the values.
    base: [T; MAX_TILE],
    total: [f64; MAX_TILE],
    spread: [f64; MAX_TILE],
    factors: [f64; MAX_TILE],
}

/// Number of rows for a block: whole tiles, whose values stay in the second-level cache.
pub(crate) fn soft_rows<T: Real>(block: &RowBlock<T>, centers: usize, most: usize) -> usize {
    let tile = block.tile();
    tile * (VALUES_BYTES / (tile * centers * size_of::<T>())).clamp(1, (most / tile).max(1))
}

impl<T: Real> SoftBlock<'_, T> {
    /// Shares the rows among the centers.
    pub(crate) fn share(mut self, scratch: &mut SoftScratch<T>) -> Result<SoftTotals> {
        let (tile, rows, m, dim) = (self.block.tile(), self.block.rows, self.centers.len(), self.block.dim);
        assert!(self.labels.len() == rows && self.nearest.len() == rows, "one label and distance per row");
        assert!(self.weights.is_none_or(|w| w.len() == rows), "one weight per row");
        assert!(self.rows.len() >= rows * dim + ROOM, "the rows and room");
        scratch.values.try_resize(rows.div_ceil(tile) * m * tile)?;
        resize(&mut scratch.places, m, 0, "the clusters of rows")?;
        all_values(self.block, self.centers, &mut scratch.values);
        let largest = self.centers.norms.iter().fold(T::ZERO, |a, &b| a.max(b));
        let mut totals = SoftTotals::default();
        for (t, values) in scratch.values.chunks_exact_mut(m * tile).enumerate() {
            self.share_tile(t, values, (&mut scratch.places, &mut scratch.weighed), largest, &mut totals);
        }
        Ok(totals)
    }

    fn share_tile(
        &mut self,
        t: usize,
        values: &mut [T],
        (places, weighed): (&mut [u32], &mut Weighed<T>),
        largest: T,
        totals: &mut SoftTotals,
    ) {
        let (isa, tile, dim) = (self.block.isa(), self.block.tile(), self.block.dim);
        let (first, scale) = (t * tile, self.scale);
        let rows = tile.min(self.block.rows - first);
        let mut lanes = Lanes {
            best: [T::ZERO; 2 * MAX_TILE],
            base: [T::ZERO; MAX_TILE],
            total: [0.0; MAX_TILE],
            spread: [0.0; MAX_TILE],
            factors: [0.0; MAX_TILE],
        };
        self.find_smallest(values, rows, &mut lanes);
        let mut wide = self.wide;
        if self.squared {
            lanes.base[..tile].copy_from_slice(self.block.tile_norms(t));
            wide |= self.measure_near([first, rows], values, places, largest, &mut lanes);
        }
        let Lanes { best, base, total, spread, factors } = &mut lanes;
        let (near, index) = best[..2 * tile].split_at(tile);
        let (total, spread) = (&mut total[..tile], &mut spread[..tile]);
        let count = run(isa, Shares { values, near, scale, places, total, spread });
        for lane in 0..rows {
            let (n, w) = (first + lane, self.weights.map_or(1.0, |w| w[first + lane]));
            let value = if self.squared { (near[lane] + base[lane]).max(T::ZERO) } else { near[lane] };
            (self.labels[n], self.nearest[n]) = (index[lane].to_index(), value);
            factors[lane] = w / total[lane];
            wide |= w > 0.0 && !MODERATE.contains(&factors[lane]);
            totals.nearest += w * value.to_f64();
            totals.mean += w * (value.to_f64() + spread[lane] / total[lane]);
        }
        totals.log += match self.weights {
            // Their product is below M^32.
            None => total[..rows].iter().product::<f64>().ln(),
            Some(w) => w[first..].iter().zip(&total[..rows]).map(|(w, total)| w * total.ln()).sum(),
        };
        if let Some(CenterSums { sums, mass }) = self.sums.as_deref_mut() {
            let (places, shares) = (&places[..count], &values[..count * tile]);
            let rows = &self.rows[first * dim..][..rows * dim + ROOM];
            run(isa, Products { rows, dim, places, shares, factors: &factors[..tile], wide, sums, mass, weighed });
        }
    }

    /// The smallest value of each lane, and the index of its center.
    fn find_smallest(&self, values: &[T], rows: usize, lanes: &mut Lanes<T>) {
        let tile = self.block.tile();
        let list = &mut lanes.best[..2 * tile];
        list[..tile].fill(T::INFINITY);
        list[tile..].fill(T::from_index(0));
        insert(self.block.isa(), 1, values, 0, rows, list);
    }

    /// For rows near a center, relative to the norms, values become squared distances, the small ones by differences,
    /// because |y|^2 - 2 y.mu + |mu|^2 may have lost their digits; nothing needs to be added to them any more. Returns
    /// whether there are such rows.
    fn measure_near(
        &self,
        [first, rows]: [usize; 2],
        values: &mut [T],
        places: &mut [u32],
        largest: T,
        lanes: &mut Lanes<T>,
    ) -> bool {
        let (isa, tile, dim) = (self.block.isa(), self.block.tile(), self.block.dim);
        let mut small = [-T::INFINITY; MAX_TILE];
        let mut any = false;
        for ((&near, &base), small) in lanes.best.iter().zip(&lanes.base).zip(&mut small).take(rows) {
            let limit = T::from_f64(DELICATE) * (base + largest);
            if near + base < limit {
                (*small, any) = (limit, true);
            }
        }
        if !any {
            return false;
        }
        let small = &small[..tile];
        let count = run(isa, Raise { values, base: &lanes.base[..tile], small, places });
        for &c in &places[..count] {
            let values = &mut values[c as usize * tile..][..rows];
            for (lane, (d, small)) in values.iter_mut().zip(small).enumerate() {
                if *d >= *small {
                    continue;
                }
                let y = &self.rows[(first + lane) * dim..][..dim];
                gathered_distances(isa, y, self.centers.values, &[c], std::slice::from_mut(d));
            }
        }
        for (base, small) in lanes.base.iter_mut().zip(small) {
            *base = if *small < T::ZERO { *base } else { T::ZERO };
        }
        self.find_smallest(values, rows, lanes);
        true
    }
}
