//! Every point looks at all M clusters, through the blocked kernel: O(N M D). k-means (H = 1) and exact GMM (H = M).

use super::{Block, Scratch, Search};
use crate::kernel;
use crate::real::Real;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Exhaustive {
    pub truncation: usize,
}

impl<T: Real> Search<T> for Exhaustive {
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
        scratch: &mut Scratch<T>,
    ) -> u64 {
        let (h, clusters) = (self.truncation, block.centres.len());
        scratch.block.load(block.data.range(block.rows.clone()), block.data.dim(), block.origin);
        if h == clusters && h > 1 {
            scratch.block.distances(block.centres, distances);
            members.chunks_exact_mut(h).for_each(|set| set.iter_mut().zip(0..).for_each(|(m, c)| *m = c));
            measure_near(block, distances, scratch);
        } else {
            scratch.block.nearest(block.centres, h, members, distances);
            // The kernel's |y|^2 - 2 y.mu + |mu|^2 may cancel; what is kept is measured again, by differences.
            for (r, n) in block.rows.clone().enumerate() {
                let row = block.data.local(n, block.origin, &mut scratch.row);
                let set = r * h..(r + 1) * h;
                T::gathered_distances(row, block.centres.values, &members[set.clone()], &mut distances[set]);
            }
        }
        (block.rows.len() * clusters) as u64
    }
}

/// Measures again, by differences, the distances that are so small beside the norms that |y|^2 - 2 y.mu + |mu|^2 may have
/// lost their digits.
fn measure_near<T: Real>(block: &Block<'_, T>, distances: &mut [T], scratch: &mut Scratch<T>) {
    let clusters = block.centres.len();
    let largest = block.centres.norms.iter().fold(T::ZERO, |a, &b| a.max(b));
    let share = T::from_f64(1e-3);
    for (n, d) in block.rows.clone().zip(distances.chunks_exact_mut(clusters)) {
        let row = block.data.local(n, block.origin, &mut scratch.row);
        let norm: T = row.iter().map(|&x| x * x).sum();
        let small = share * (norm + largest);
        scratch.ids.clear();
        scratch.ids.extend((0..clusters as u32).filter(|&c| d[c as usize] < small));
        scratch.distances.resize(scratch.ids.len(), T::ZERO);
        T::gathered_distances(row, block.centres.values, &scratch.ids, &mut scratch.distances);
        scratch.ids.iter().zip(&scratch.distances).for_each(|(&c, &x)| d[c as usize] = x);
    }
}
