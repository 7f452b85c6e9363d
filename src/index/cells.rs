//! The centers in coarse cells, rounded to eight bits; [`int8`](crate::kernel::int8) describes what is stored.

use crate::data::{nearest_centers, sample_rows};
use crate::error::Result;
use crate::kernel::Real;
use crate::kernel::int8::{Int8Isa, LANES, LARGEST, List, Rows, stride};
use crate::memory::{collected, filled, reserve};
use crate::observer::Observer;
use crate::rng::{Stage, stream};
use crate::seeding::{KMeansStart, cells::view, k_means};
use crate::step::ByCluster;
use rayon::prelude::*;

/// Number of cells relative to sqrt(M): comparing a row with the cells and with the centers in them then costs about
/// the same.
const CELLS: f64 = 4.0;
/// Number of centers sampled per cell for k-means, its iterations, and the chain length of its seeding.
const SAMPLE_A_CELL: usize = 32;
const K_MEANS: KMeansStart = KMeansStart { chain_length: 2, iterations: 4 };
/// Coordinates of rows are clipped to this, so that no square leaves the range of `f32`; nothing beyond it is near.
const FARTHEST: f32 = 1e6;
/// Steps to either side of 0, for rows and for centers; and what is added to rows to make them unsigned.
const STEPS: f32 = 127.0;
const RAISED: f32 = 128.0;

/// Coarse cells and their centers. Coordinates are relative to the model's origin, times `scale`, in `f32`.
#[derive(Clone)]
pub(super) struct Cells {
    pub dim: usize,
    /// A power of 2 that brings the largest coordinate of the centers near 1.
    pub scale: f64,
    /// The cells' own centers z.
    pub coarse: Vec<f32>,
    /// The cell of each center.
    pub of: Vec<u32>,
    /// 8-bit steps per unit, for each column.
    steps: Vec<f32>,
    packed: Vec<Packed>,
    /// Index of each cell's first vector.
    first: Vec<u32>,
    /// The center in each lane of each vector.
    pub ids: Vec<[u32; LANES]>,
}

/// The centers of a cell in the form of a [`List`].
#[derive(Clone)]
struct Packed {
    values: Vec<i8>,
    constants: Vec<i32>,
    unit: f32,
    ids: Vec<[u32; LANES]>,
}

impl Cells {
    /// Divides `centers` (M x `dim`, relative to the origin) into cells. Must run inside a pool.
    pub fn new<T: Real>(centers: &[T], dim: usize, observer: &dyn Observer) -> Result<Self> {
        let largest = centers.iter().map(|x| x.to_f64().abs()).fold(0.0, f64::max);
        let scale = if largest > 0.0 { (-largest.log2().ceil()).clamp(-1000.0, 1000.0).exp2() } else { 1.0 };
        let mut local = filled(0.0f32, centers.len(), "an index")?;
        local.iter_mut().zip(centers).for_each(|(out, x)| *out = (x.to_f64() * scale) as f32);
        let data = view(&local, dim)?;
        let all = collected(0..data.rows() as u32, "an index")?;
        let count = ((CELLS * (all.len() as f64).sqrt()) as usize).clamp(1, all.len());
        let (sample, _) = sample_rows(&data, &all, SAMPLE_A_CELL * count, || stream(0, Stage::Cells, 0, 0))?;
        let (model, _) = k_means(&view(&sample, dim)?, count, None, K_MEANS, 0, observer)?;
        let (labels, _) = nearest_centers(&data, &all, model.local_centers(), None, 1, observer)?;

        let members = ByCluster::new(&labels, count, |_| true)?;
        let kept: Vec<usize> = (0..count).filter(|&k| !members.of(k).is_empty()).collect();
        let coarse: Vec<f32> =
            kept.iter().flat_map(|&k| &model.local_centers()[k * dim..(k + 1) * dim]).copied().collect();
        let mut of = filled(0, all.len(), "an index")?;
        for (cell, &k) in kept.iter().enumerate() {
            members.of(k).iter().for_each(|&c| of[c as usize] = cell as u32);
        }
        let mut widest = vec![0.0f32; dim];
        for row in local.chunks_exact(dim) {
            widest.iter_mut().zip(row).for_each(|(w, x)| *w = w.max(x.abs()));
        }
        let packed: Vec<Packed> = (kept.par_iter().zip(coarse.par_chunks_exact(dim)))
            .map(|(&k, z)| Packed::new(&local, z, members.of(k), &widest))
            .collect::<Result<_>>()?;
        let (mut first, mut ids) = (Vec::with_capacity(packed.len()), Vec::new());
        reserve(&mut ids, packed.iter().map(|cell| cell.ids.len()).sum(), "an index")?;
        for cell in &packed {
            first.push(ids.len() as u32);
            ids.extend_from_slice(&cell.ids);
        }
        let steps = widest.iter().map(|&w| if w > 0.0 { STEPS / w } else { 0.0 }).collect();
        Ok(Self { dim, scale, coarse, of, steps, packed, first, ids })
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.packed.len()
    }

    /// The centers of cell `k`.
    pub fn list(&self, k: usize) -> List<'_> {
        let Packed { values, constants, unit, .. } = &self.packed[k];
        List { values, constants, unit: *unit, first: self.first[k] }
    }

    /// Rows less the origin, in the cells' scale, written to `out` (OUT).
    pub fn localize<T: Real>(&self, rows: &[T], origin: Option<&[T]>, out: &mut Vec<f32>) {
        let near = |x: T| ((x.to_f64() * self.scale) as f32).clamp(-FARTHEST, FARTHEST);
        out.clear();
        match origin {
            None => out.extend(rows.iter().map(|&x| near(x))),
            Some(origin) => rows
                .chunks_exact(self.dim)
                .for_each(|row| out.extend(row.iter().zip(origin).map(|(&x, &o)| near(x - o)))),
        }
    }

    /// Rows from [`localize`](Self::localize) rounded to 8 bits, written to `out` (OUT).
    pub fn round(&self, isa: Int8Isa, rows: &[f32], out: &mut Rows) {
        out.load(isa, rows.len() / self.dim, self.dim, |r, out| {
            for ((x, steps), out) in rows[r * self.dim..].iter().zip(&self.steps).zip(out) {
                // Truncation of a nonnegative number rounds down.
                *out = (x * steps + (RAISED + 0.5)).clamp(0.0, 255.0) as u8;
            }
        });
    }
}

impl Packed {
    /// The centers `members` of `local`, in a cell around `z`; `widest` is the value of step 127 in each column of a
    /// row.
    fn new(local: &[f32], z: &[f32], members: &[u32], widest: &[f32]) -> Result<Self> {
        let (dim, stride) = (z.len(), stride(z.len()));
        let mut residuals = Vec::new();
        reserve(&mut residuals, members.len() * dim, "an index")?;
        for &c in members {
            residuals.extend(local[c as usize * dim..][..dim].iter().zip(z).map(|(x, z)| x - z));
        }
        // Columns in which rows have coarse steps get finer steps here: the product of both is the same for all
        // columns.
        let largest = residuals.iter().zip(widest.iter().cycle()).map(|(r, w)| (r * w).abs()).fold(0.0, f32::max);
        let step = if largest > 0.0 { largest / STEPS } else { 1.0 };
        let unit = 2.0 * step / STEPS;
        let vectors = members.len().div_ceil(LANES);
        let mut values = filled(0i8, vectors * LANES * stride, "an index")?;
        // The padding of the last vector is farther than anything.
        let mut constants = filled(LARGEST as i32, vectors * LANES, "an index")?;
        let mut ids = filled([members[0]; LANES], vectors, "an index")?;
        for (i, (&c, r)) in members.iter().zip(residuals.chunks_exact(dim)).enumerate() {
            let (vector, lane) = (i / LANES, i % LANES);
            let (mut constant, mut sum) = (0.0f64, 0i32);
            for (d, ((&r, &z), &w)) in r.iter().zip(z).zip(widest).enumerate() {
                let rounded = (r * w / step).round().clamp(-STEPS, STEPS) as i8;
                values[vector * LANES * stride + (d / 4 * LANES + lane) * 4 + d % 4] = -rounded;
                sum += i32::from(rounded);
                constant += f64::from(r) * (f64::from(r) + 2.0 * f64::from(z));
            }
            let constant = constant / f64::from(unit) + f64::from(RAISED) * f64::from(sum);
            constants[i] = constant.round().clamp(-LARGEST, LARGEST) as i32;
            ids[vector][lane] = c;
        }
        Ok(Self { values, constants, unit, ids })
    }
}
