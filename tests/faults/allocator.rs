//! The system's allocator, which can be made to fail.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::env;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Allocations of this size or more are large: those that grow with the rows or with the clusters. What a thread
/// allocates per block is smaller here and grows with neither.
pub const LARGE: usize = 128 << 10;
/// No allocation fails.
const NEVER: usize = usize::MAX;

/// Number of large allocations until one fails.
static LEFT: AtomicUsize = AtomicUsize::new(NEVER);
static HAPPENED: AtomicBool = AtomicBool::new(false);

/// While this exists, one of the large allocations fails.
pub struct Faults;

impl Faults {
    /// Makes the large allocation with this number, counted from now, fail; later ones succeed.
    pub fn at(number: usize) -> Self {
        HAPPENED.store(false, Ordering::SeqCst);
        LEFT.store(number, Ordering::SeqCst);
        Self
    }

    /// No allocation fails from now on: what follows is not part of the library.
    pub fn end() {
        LEFT.store(NEVER, Ordering::SeqCst);
    }

    /// Whether the allocation was reached.
    pub fn happened(self) -> bool {
        HAPPENED.load(Ordering::SeqCst)
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        Self::end();
    }
}

/// Whether this is the allocation that fails.
fn fails(bytes: usize) -> bool {
    if bytes < LARGE {
        return false;
    }
    // 0 becomes NEVER: only one fails.
    let count_down = |left: usize| (left != NEVER).then(|| left.wrapping_sub(1));
    let fails = LEFT.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count_down) == Ok(0);
    if fails {
        HAPPENED.store(true, Ordering::SeqCst);
        if env::var_os("DGMM_FAULTS").is_some_and(|what| what == "trace") {
            eprintln!("{bytes} bytes\n{}", Backtrace::force_capture());
        }
    }
    fails
}

pub struct Failing;

// SAFETY: all memory is the system's, and a null pointer is a failure that callers must handle.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails(size) {
            return null_mut();
        }
        // SAFETY: as the caller promises.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(old, layout) }
    }
}
