//! A growable buffer of numbers that starts on a cache line, so that no vector straddles two.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::kernel::Real;
use crate::memory::reserve;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// As many numbers as last requested; their values are up to the user.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffer<T> {
    lines: Vec<Line>,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Real> Buffer<T> {
    /// A copy of `numbers`.
    pub fn of(numbers: &[T]) -> Result<Self> {
        let mut buffer = Self { lines: Vec::new(), len: 0, kind: PhantomData };
        buffer.try_resize(numbers.len())?;
        buffer.copy_from_slice(numbers);
        Ok(buffer)
    }

    /// [`resize`](Self::resize), or an error if memory runs out.
    pub fn try_resize(&mut self, len: usize) -> Result<()> {
        let more = (len * size_of::<T>()).div_ceil(size_of::<Line>()).saturating_sub(self.lines.len());
        reserve(&mut self.lines, more, "numbers")?;
        self.resize(len);
        Ok(())
    }

    /// Sets the length to `len`; old values may remain.
    pub fn resize(&mut self, len: usize) {
        let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; 64]));
        }
        self.len = len;
    }

    /// Sets the length to `len`: the current numbers, then zeros.
    pub fn resize_with_zeros(&mut self, len: usize) {
        let held = self.len;
        self.resize(len);
        self[held.min(len)..].fill(T::ZERO);
    }
}

impl<T: Real> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` initialized numbers, and any bits are a number.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<T: Real> DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_start_on_a_line_and_new_ones_are_zeros() {
        let mut buffer = Buffer::of(&[1.0_f32, 2.0, 3.0]).unwrap();
        buffer.resize(1);
        buffer.resize_with_zeros(100);
        assert_eq!(buffer.as_ptr() as usize % 64, 0);
        assert!(buffer.len() == 100 && buffer[0] == 1.0 && buffer[1..].iter().all(|&x| x == 0.0));
        buffer.resize_with_zeros(2);
        assert_eq!(buffer[..], [1.0, 0.0]);
        assert_eq!(buffer.clone()[..], buffer[..]);
    }
}
