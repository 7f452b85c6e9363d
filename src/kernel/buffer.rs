//! A growing buffer of numbers that starts on a cache line, so that no vector straddles two.
#![allow(unsafe_code)]

use crate::real::Real;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// As many numbers as last asked for; what they are is up to the user.
#[derive(Debug, Default)]
pub(crate) struct Buffer<T> {
    lines: Vec<Line>,
    len: usize,
    kind: std::marker::PhantomData<T>,
}

impl<T: Real> Buffer<T> {
    /// Makes it hold `len` numbers; old values may stay.
    pub(super) fn resize(&mut self, len: usize) {
        let lines = (len * size_of::<T>()).div_ceil(size_of::<Line>());
        if self.lines.len() < lines {
            self.lines.resize(lines, Line([0; 64]));
        }
        self.len = len;
    }

    pub(super) fn as_slice(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` numbers, all bits of which are set; any bits are a number.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as for `as_slice`, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}
