//! Arrays of the six types that a file may hold, and their little-endian bytes.
//!
//! Bytes are converted one chunk at a time, so neither direction needs a second copy of an array.

use crate::error::{Error, Result};
use std::borrow::Cow;

/// Number of bytes converted at once: few enough for the cache, and to react quickly to a cancellation.
pub(super) const CHUNK: usize = 1 << 20;

/// Maximum number of dimensions of an array, as in NumPy 1.
const MOST_DIMENSIONS: usize = 32;

/// The values of an array in C order, borrowed or owned.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Values<'a> {
    /// 32-bit floating-point numbers.
    F32(Cow<'a, [f32]>),
    /// 64-bit floating-point numbers.
    F64(Cow<'a, [f64]>),
    /// 32-bit integers.
    I32(Cow<'a, [i32]>),
    /// 64-bit integers.
    I64(Cow<'a, [i64]>),
    /// 32-bit unsigned integers.
    U32(Cow<'a, [u32]>),
    /// 64-bit unsigned integers.
    U64(Cow<'a, [u64]>),
}

/// Evaluates an expression that is generic in the type of the values.
macro_rules! each_type {
    ($values:expr, $v:ident => $body:expr) => {
        match $values {
            Values::F32($v) => $body,
            Values::F64($v) => $body,
            Values::I32($v) => $body,
            Values::I64($v) => $body,
            Values::U32($v) => $body,
            Values::U64($v) => $body,
        }
    };
}

/// An array: its shape and its values.
///
/// ```
/// use dgmm::files::{Tensor, Values};
/// let eye = Tensor::new(vec![2, 2], Values::F32([1.0, 0.0, 0.0, 1.0][..].into()))?;
/// assert_eq!((eye.shape(), eye.values().type_name()), (&[2, 2][..], "F32"));
/// # Ok::<(), dgmm::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor<'a> {
    shape: Vec<usize>,
    values: Values<'a>,
}

impl<'a> Tensor<'a> {
    /// An array with this shape, of at most 32 dimensions; their product must be the number of values.
    pub fn new(shape: Vec<usize>, values: Values<'a>) -> Result<Self> {
        if entries(&shape) == Some(values.len()) {
            return Ok(Self { shape, values });
        }
        let allowed = format!("at most {MOST_DIMENSIONS} sizes whose product is {}", values.len());
        Err(Error::BadParameter { name: "shape", value: format!("{shape:?}"), allowed })
    }

    /// The size of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The values.
    pub fn values(&self) -> &Values<'a> {
        &self.values
    }

    /// The shape and the values.
    pub fn into_parts(self) -> (Vec<usize>, Values<'a>) {
        (self.shape, self.values)
    }
}

impl Values<'_> {
    /// The name of the type in files, such as `F32`.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::F32(_) => "F32",
            Self::F64(_) => "F64",
            Self::I32(_) => "I32",
            Self::I64(_) => "I64",
            Self::U32(_) => "U32",
            Self::U64(_) => "U64",
        }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        each_type!(self, v => v.len())
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes per value.
    pub(super) fn size(&self) -> usize {
        each_type!(self, v => size_of_val(v.as_ref()).checked_div(v.len()).unwrap_or_default())
    }

    /// Passes all bytes to `take`, in order, at most [`CHUNK`] at a time.
    pub(super) fn for_each_chunk(&self, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        each_type!(self, v => for_each_chunk(v, take))
    }
}

/// The product of the dimensions, if an array can have this shape: even if one is 0, the product of the others must not
/// overflow.
pub(super) fn entries(shape: &[usize]) -> Option<usize> {
    let bytes = shape.iter().filter(|&&n| n > 0).try_fold(size_of::<u64>(), |product, &n| product.checked_mul(n))?;
    let possible = shape.len() <= MOST_DIMENSIONS && isize::try_from(bytes).is_ok();
    possible.then(|| shape.iter().product())
}

/// A number with little-endian bytes.
pub(super) trait Number: Copy {
    /// Writes the number; `bytes` has its size.
    fn put(self, bytes: &mut [u8]);
    /// Reads the number; `bytes` has its size.
    fn get(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            fn put(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
            fn get(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as the number has"))
            }
        }
    )*};
}
number!(f32, f64, i32, i64, u32, u64);

fn for_each_chunk<T: Number>(values: &[T], take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut bytes = vec![0; size_of_val(values).min(CHUNK)];
    for part in values.chunks(CHUNK / size_of::<T>()) {
        let bytes = &mut bytes[..size_of_val(part)];
        for (place, &x) in bytes.chunks_exact_mut(size_of::<T>()).zip(part) {
            x.put(place);
        }
        take(bytes)?;
    }
    Ok(())
}

/// `count` numbers from bytes that `fill` writes to the slices it gets, at most [`CHUNK`] at a time.
pub(super) fn collect<T: Number>(count: usize, fill: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Vec<T>> {
    let mut values = reserved(count)?;
    let mut bytes = vec![0; (count * size_of::<T>()).min(CHUNK)];
    while values.len() < count {
        let part = (count - values.len()).min(CHUNK / size_of::<T>());
        let bytes = &mut bytes[..part * size_of::<T>()];
        fill(bytes)?;
        values.extend(bytes.chunks_exact(size_of::<T>()).map(T::get));
    }
    Ok(values)
}

/// An empty vector with room for `count` values, or an error if memory runs out.
pub(super) fn reserved<T>(count: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let bytes = count.saturating_mul(size_of::<T>());
    values.try_reserve_exact(count).map_err(|_| Error::OutOfMemory { what: "what a file holds", bytes })?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn come_back<T: Number + PartialEq + std::fmt::Debug>(values: &[T]) {
        let mut all = Vec::new();
        for_each_chunk(values, &mut |chunk| {
            all.extend_from_slice(chunk);
            Ok(())
        })
        .unwrap();
        let mut rest = &all[..];
        let back = collect::<T>(values.len(), &mut |bytes| {
            let (now, later) = rest.split_at(bytes.len());
            bytes.copy_from_slice(now);
            rest = later;
            Ok(())
        });
        assert_eq!((back.unwrap(), rest.len()), (values.to_vec(), 0));
    }

    #[test]
    fn numbers_come_back_to_the_bit() {
        come_back::<f32>(&[]);
        come_back(&[0.1f64, -0.0, f64::MIN_POSITIVE, 1e300].map(f64::to_bits));
        come_back(&[0.1f32, 1e-44, 3e38, -7.0]);
        come_back(&[0.1f64, 5e-324, f64::MAX, -7.0]);
        come_back(&[i32::MIN, -1, i32::MAX]);
        come_back(&[i64::MIN, -1, i64::MAX]);
        come_back(&(0..CHUNK as u32 / 2 + 3).collect::<Vec<_>>());
    }

    #[test]
    fn shapes_that_no_array_can_have_are_refused() {
        assert_eq!(entries(&[]), Some(1));
        assert_eq!(entries(&[3, 0, 2]), Some(0));
        assert_eq!(entries(&[usize::MAX, 0]), None);
        assert_eq!(entries(&[1 << 40, 1 << 40]), None);
        assert_eq!(entries(&[1; 33]), None);
        assert!(Tensor::new(vec![2, 2], Values::I32(vec![1, 2, 3].into())).is_err());
    }
}
