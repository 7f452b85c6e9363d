//! Which rows of a stream were seen, by their numbers.

use crate::error::{Error, Result};
use std::ops::Range;

/// A set of numbers as ascending ranges with gaps between them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Ranges(pub(super) Vec<Range<u64>>);

impl Ranges {
    /// How many numbers are in the set.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|range| range.end - range.start).sum()
    }

    /// Refuses numbers that are already in the set.
    pub(super) fn check(&self, new: &Range<u64>) -> Result<()> {
        match self.0.get(self.0.partition_point(|range| range.end <= new.start)) {
            Some(range) if range.start < new.end => {
                Err(Error::RepeatedRows { first: range.start.max(new.start), last: range.end.min(new.end) - 1 })
            }
            _ => Ok(()),
        }
    }

    /// Adds numbers that are not in the set.
    pub(super) fn insert(&mut self, mut new: Range<u64>) {
        // Merge it with the ranges that it touches.
        let from = self.0.partition_point(|range| range.end < new.start);
        let to = self.0.partition_point(|range| range.start <= new.end);
        if from < to {
            new = new.start.min(self.0[from].start)..new.end.max(self.0[to - 1].end);
        }
        self.0.splice(from..to, [new]);
    }

    /// The smallest number from `row` on that is not in the set.
    pub(super) fn next_free(&self, row: u64) -> u64 {
        self.0.iter().find(|range| range.contains(&row)).map_or(row, |range| range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_sets_of_numbers(given in prop::collection::vec((0u64..60, 1u64..9), 1..20)) {
            let (mut ranges, mut set) = (Ranges::default(), std::collections::BTreeSet::new());
            for (start, length) in given {
                let new = start..start + length;
                let repeated: Vec<u64> = new.clone().filter(|row| set.contains(row)).collect();
                match ranges.check(&new) {
                    Ok(()) => {
                        prop_assert!(repeated.is_empty());
                        ranges.insert(new.clone());
                        set.extend(new);
                    }
                    Err(Error::RepeatedRows { first, last }) => {
                        prop_assert_eq!(repeated.first(), Some(&first));
                        prop_assert!(repeated.contains(&last));
                    }
                    Err(other) => panic!("{other}"),
                }
                prop_assert_eq!(ranges.count(), set.len() as u64);
                prop_assert!(ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start));
                let free = (0..).find(|row| *row >= start && !set.contains(row));
                prop_assert_eq!(Some(ranges.next_free(start)), free);
            }
        }
    }
}
