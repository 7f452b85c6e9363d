//! Every row is compared with all M clusters, by the blocked kernel, and keeps the H nearest: O(N M D).

use super::Task;
use super::blocks::{Block, BlockScratch, BlockSearch};
use crate::kernel::{self, Real};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Exhaustive {
    pub truncation: usize,
}

impl<T: Real> BlockSearch<T> for Exhaustive {
    fn truncation(&self) -> usize {
        self.truncation
    }

    fn block_rows(&self, dim: usize) -> usize {
        kernel::block_rows::<T>(dim)
    }

    fn search(
        &self,
        block: &Block<'_, T>,
        _old: &[u32],
        members: &mut [u32],
        distances: &mut [T],
        scratch: &mut BlockScratch<T>,
    ) -> u64 {
        let (h, clusters) = (self.truncation, block.centers.len());
        load(block, scratch);
        scratch.block.nearest(block.centers, h, members, distances);
        // The kernel's |y|^2 - 2 y.mu + |mu|^2 may cancel; kept distances are measured again, by differences.
        for (r, n) in block.rows.clone().enumerate() {
            let row = block.row(n, &mut scratch.row);
            let (members, distances) = (&mut members[r * h..(r + 1) * h], &mut distances[r * h..(r + 1) * h]);
            if let Some(check) = block.distance_check {
                check.remeasure(&scratch.block, r, row, members, distances);
            }
            block.measure(row, members, distances);
            if let Some(check) = block.score_check {
                check.remeasure(&scratch.block, r, row, members, distances);
            }
        }
        (block.rows.len() * clusters) as u64
    }
}

/// Loads the block's rows into the kernel's layout, lifted if their scores require it.
fn load<T: Real>(block: &Block<'_, T>, scratch: &mut BlockScratch<T>) {
    let Task { data, scores, .. } = *block.task;
    let dim = data.dim();
    let Some(lift) = scores.lift() else {
        let rows = data.range(block.rows.clone(), &mut scratch.row);
        return scratch.block.load(rows, dim, block.task.model().origin());
    };
    scratch.rows.clear();
    for n in block.rows.clone() {
        scratch.rows.extend_from_slice(block.row(n, &mut scratch.row));
    }
    scratch.block.load_lifted(&scratch.rows, dim, lift.columns(dim));
}
