//! How much memory is asked for at once: a length that is a lie must be found before so much is
//! reserved.
#![allow(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, whose callers are looked at. RocksDB has its own way to it.
struct Watched;

#[global_allocator]
static WATCHED: Watched = Watched;

thread_local! {
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// Begins anew, for this thread.
pub fn forget() {
    MOST.set(0);
}

/// The most bytes that this thread has asked for at once since then.
pub fn most_at_once() -> usize {
    MOST.get()
}

fn note(bytes: usize) {
    MOST.set(MOST.get().max(bytes));
}

// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size);
        // SAFETY: the caller's.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(pointer, layout) }
    }
}
