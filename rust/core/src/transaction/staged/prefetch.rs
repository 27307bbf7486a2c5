//! Prefetch: memory that is needed soon is brought into the processor's caches.

/// Prefetches all cache lines of a short record, and the start and the end of a long one.
#[inline]
pub(super) fn prefetch<T: Copy>(memory: &[T]) {
    let second_line = memory.get(64 / size_of::<T>());
    for place in [memory.first(), second_line, memory.last()] {
        place.map(fetch);
    }
}

/// Prefetches one cache line. The processor does not wait for it.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "Rust has no safe prefetch instruction")]
#[inline]
fn fetch<T: Copy>(place: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the instruction changes no memory, and cannot fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) }
}

/// Prefetches one cache line. It is read: stable Rust has no prefetch instruction for this
/// processor. The value is copied: for a reference only the address would be computed.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn fetch<T: Copy>(place: &T) {
    std::hint::black_box(*place);
}
