//! Every point looks at all M clusters, through the blocked kernel: O(N M D). k-means (H = 1) and exact GMM (H = M).

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
        scratch.block.load(block.data.range(block.rows.clone(), &mut scratch.row), block.data.dim(), block.origin);
        if h == clusters && h > 1 {
            scratch.block.distances(block.centers, distances);
            members.chunks_exact_mut(h).for_each(|set| set.iter_mut().zip(0..).for_each(|(m, c)| *m = c));
            let row = |r: usize, y: &mut Vec<T>| {
                y.extend_from_slice(block.data.local(block.rows.start + r, block.origin, &mut scratch.row))
            };
            block.centers.measure_near(distances, row);
        } else {
            scratch.block.nearest(block.centers, h, members, distances);
            // The kernel's |y|^2 - 2 y.mu + |mu|^2 may cancel; what is kept is measured again, by differences.
            for (r, n) in block.rows.clone().enumerate() {
                let row = block.data.local(n, block.origin, &mut scratch.row);
                let set = r * h..(r + 1) * h;
                T::gathered_distances(row, block.centers.values, &members[set.clone()], &mut distances[set]);
            }
        }
        (block.rows.len() * clusters) as u64
    }
}
