//! Fallible allocation: memory that grows with the data is requested, and running out of it is an error.

use crate::error::{Error, Result};
use ndarray::Array2;
use rayon::prelude::*;
use std::collections::HashSet;

/// `len` copies of `value`. If memory runs out, the error names `what` they are.
pub(crate) fn filled<T: Clone>(value: T, len: usize, what: &'static str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    resize(&mut values, len, value, what)?;
    Ok(values)
}

/// Resizes `values` to `len`, filling with `value`.
pub(crate) fn resize<T: Clone>(values: &mut Vec<T>, len: usize, value: T, what: &'static str) -> Result<()> {
    let bytes = len.saturating_mul(size_of::<T>());
    let more = len.saturating_sub(values.len());
    values.try_reserve_exact(more).map_err(|_| Error::OutOfMemory { what, bytes })?;
    values.resize(len, value);
    Ok(())
}

/// A copy of `values`.
pub(crate) fn copied<T: Copy>(values: &[T], what: &'static str) -> Result<Vec<T>> {
    collected(values.iter().copied(), what)
}

/// The `items` in a vector of their exact length.
pub(crate) fn collected<T>(items: impl ExactSizeIterator<Item = T>, what: &'static str) -> Result<Vec<T>> {
    let mut values = Vec::new();
    reserve(&mut values, items.len(), what)?;
    values.extend(items);
    Ok(values)
}

/// [`collected`] in parallel.
pub(crate) fn par_collected<T: Send>(
    items: impl IndexedParallelIterator<Item = T>,
    what: &'static str,
) -> Result<Vec<T>> {
    let mut values = Vec::new();
    reserve(&mut values, items.len(), what)?;
    items.collect_into_vec(&mut values);
    Ok(values)
}

/// Appends `more` to `values`.
pub(crate) fn append<T: Clone>(values: &mut Vec<T>, more: &[T], what: &'static str) -> Result<()> {
    reserve(values, more.len(), what)?;
    values.extend_from_slice(more);
    Ok(())
}

/// Reserves memory for `more` values.
pub(crate) fn reserve<T>(values: &mut Vec<T>, more: usize, what: &'static str) -> Result<()> {
    let bytes = more.saturating_mul(size_of::<T>());
    values.try_reserve(more).map_err(|_| Error::OutOfMemory { what, bytes })
}

/// Reserves memory for `more` numbers in a set.
pub(crate) fn reserve_set(set: &mut HashSet<usize>, more: usize, what: &'static str) -> Result<()> {
    let bytes = more.saturating_mul(size_of::<usize>());
    set.try_reserve(more).map_err(|_| Error::OutOfMemory { what, bytes })
}

/// Refuses work that needs more memory than the system would grant at once. The memory is allocated and freed
/// untouched.
pub(crate) fn check_room(bytes: usize, what: &'static str) -> Result<()> {
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes).map_err(|_| Error::OutOfMemory { what, bytes })?;
    // Otherwise the compiler would remove the unused allocation.
    std::hint::black_box(&room);
    Ok(())
}

/// Bytes of address space that the process may still use, if the system limits and reports them (Linux). Asking the
/// allocator would not work for threads, whose stacks and heaps do not come from free memory within other heaps.
pub(crate) fn address_space_left() -> Option<usize> {
    let limit = number_in("/proc/self/limits", "Max address space")?;
    Some(limit.saturating_sub(number_in("/proc/self/status", "VmSize:")? << 10))
}

/// The number that follows `name` at the beginning of a line of a file.
fn number_in(path: &str, name: &str) -> Option<usize> {
    let text = std::fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The number of entries of a matrix; an overflow is an out-of-memory error.
pub(crate) fn entries(rows: usize, columns: usize, what: &'static str) -> Result<usize> {
    rows.checked_mul(columns).ok_or(Error::OutOfMemory { what, bytes: usize::MAX })
}

/// A matrix of whole rows of `columns` values.
pub(crate) fn matrix<T>(values: Vec<T>, columns: usize) -> Array2<T> {
    Array2::from_shape_vec((values.len() / columns, columns), values).expect("whole rows")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_lines_and_unlimited_is_none() {
        let file = std::env::temp_dir().join(format!("dgmm-limits-{}", std::process::id()));
        std::fs::write(&file, "Limit      Soft  Hard\nMax stack  10 20 bytes\nMax address space  unlimited\n").unwrap();
        let number = |name| number_in(file.to_str().unwrap(), name);
        assert_eq!((number("Max stack"), number("Max address space"), number("Min")), (Some(10), None, None));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(number("Max stack"), None);
    }

    #[test]
    fn failed_allocations_are_errors_that_name_their_purpose() {
        let error = filled(0u64, 1 << 60, "labels").unwrap_err();
        assert_eq!(error, Error::OutOfMemory { what: "labels", bytes: 1 << 63 });
        assert!(error.to_string().starts_with("not enough memory for labels: 9223372036854775808 bytes"), "{error}");
        assert!(entries(usize::MAX, 2, "distances").is_err());
        assert!(check_room(1 << 62, "a fit").is_err() && check_room(1 << 10, "a fit").is_ok());
        assert_eq!(filled(7u8, 3, "").unwrap(), [7, 7, 7]);
    }
}
