//! Records the largest allocation: a wrong length must be detected before memory is reserved for
//! it.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which records the size of allocations. RocksDB does not use it.
struct RecordingAllocator;

#[global_allocator]
static ALLOCATOR: RecordingAllocator = RecordingAllocator;

thread_local! {
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// Resets the record of this thread.
pub fn reset() {
    MOST.set(0);
}

/// The largest allocation of this thread since the reset, in bytes.
pub fn largest_allocation() -> usize {
    MOST.get()
}

fn note(bytes: usize) {
    MOST.set(MOST.get().max(bytes));
}

// SAFETY: every call is passed to the system's allocator.
unsafe impl GlobalAlloc for RecordingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller fulfils the same contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}
