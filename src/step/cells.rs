//! Candidates for rows that have no K(n) yet: coarse cells of the data, and the clusters with which the rows of each
//! are compared.

use super::by_cluster::ByCluster;
use crate::data::{Dataset, nearest_centers};
use crate::error::Result;
use crate::kernel::Real;
use crate::memory::collected;
use crate::observer::Observer;

/// A tree of cells. A row goes to the nearest cell of the first level, then to the nearest of its children, and is
/// compared with the clusters that the last cell lists.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cells<T> {
    pub levels: Vec<Level<T>>,
    /// For each cell of the last level the clusters with which its rows are compared, at least H.
    pub lists: Vec<Vec<u32>>,
}

/// The cells of one level.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level<T> {
    /// Their centers, relative to the model's origin.
    pub centers: Vec<T>,
    /// Start of the children of each cell of the previous level, followed by the end of the last.
    pub starts: Vec<u32>,
}

impl<T: Real> Cells<T> {
    /// The rows of `data` by their cell of the last level.
    pub fn assign(&self, data: &Dataset<'_, T>, origin: Option<&[T]>, observer: &dyn Observer) -> Result<ByCluster> {
        let dim = data.dim();
        let mut groups = vec![collected((0..data.rows()).map(|n| n as u32), "rows by cell")?];
        for level in &self.levels {
            let mut next = vec![Vec::new(); level.centers.len() / dim];
            for (rows, bounds) in groups.iter().zip(level.starts.windows(2)) {
                let (first, last) = (bounds[0] as usize, bounds[1] as usize);
                let (labels, _) =
                    nearest_centers(data, rows, &level.centers[first * dim..last * dim], origin, 1, observer)?;
                let own = ByCluster::new(&labels, last - first, |_| true)?;
                for (cell, next) in next[first..last].iter_mut().enumerate() {
                    *next = collected(own.of(cell).iter().map(|&i| rows[i as usize]), "rows by cell")?;
                }
            }
            groups = next;
        }
        ByCluster::of_lists(groups)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;

    #[test]
    fn rows_go_down_level_by_level() {
        let values = [0.0, 1.0, 9.0, 10.0, 11.5, 30.0];
        let data = Dataset::from_slice(&values, 1).unwrap();
        let levels = vec![
            Level { centers: vec![0.0, 12.0], starts: vec![0, 2] },
            // The nearest of all to 9 would be the cell at 8, which is in the other branch.
            Level { centers: vec![0.0, 8.0, 11.0, 20.0], starts: vec![0, 2, 4] },
        ];
        let cells = Cells { levels, lists: Vec::new() };
        let rows = cells.assign(&data, None, &Silent).unwrap();
        assert_eq!((0..4).map(|k| rows.of(k)).collect::<Vec<_>>(), [&[0, 1][..], &[], &[2, 3, 4], &[5]]);
        assert_eq!(rows.slice(1..5).unwrap().into_entries(), [0, 1, 2, 3]);
    }
}
