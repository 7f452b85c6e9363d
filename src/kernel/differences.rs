//! The nearest of all centers by differences, for rows whose |y|^2 - 2 y.mu + |mu|^2 cannot tell them apart.

use super::block::Centers;
use crate::kernel::Real;

/// Number of centers measured at a time.
const AT_ONCE: usize = 256;

/// 0, 1, 2, ...: the positions of the centers measured at a time.
static PLACES: [u32; AT_ONCE] = {
    let mut places = [0; AT_ONCE];
    let mut i = 0;
    while i < AT_ONCE {
        places[i] = i as u32;
        i += 1;
    }
    places
};

impl<T: Real> Centers<'_, T> {
    /// The nearest of all centers to `row`, by differences, nearest first (ties: lower index first), with their squared
    /// distances (OUT). There must be at least as many centers as requested.
    pub(crate) fn measure_nearest(&self, row: &[T], members: &mut [u32], distances: &mut [T]) {
        let h = members.len();
        let mut measured = [T::ZERO; AT_ONCE];
        let mut known = 0;
        for (part, values) in self.values.chunks(AT_ONCE * self.dim).enumerate() {
            let some = values.len() / self.dim;
            T::gathered_distances(row, values, &PLACES[..some], &mut measured[..some]);
            for (c, &d) in ((part * AT_ONCE) as u32..).zip(&measured[..some]) {
                if known == h && d >= distances[h - 1] {
                    continue;
                }
                known = (known + 1).min(h);
                let mut place = known - 1;
                while place > 0 && d < distances[place - 1] {
                    (members[place], distances[place]) = (members[place - 1], distances[place - 1]);
                    place -= 1;
                }
                (members[place], distances[place]) = (c, d);
            }
        }
    }
}
