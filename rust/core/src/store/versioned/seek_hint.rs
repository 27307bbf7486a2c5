//! How far ahead of a moment a read seeks, to find the next newer version. The version that is
//! valid at the moment ends there.

use std::sync::atomic::{AtomicI64, Ordering};

/// How far ahead to seek. Learned from reads; a wrong hint costs another seek.
#[derive(Default)]
pub(super) struct SeekHint(AtomicI64);

impl SeekHint {
    #[inline]
    pub(super) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Records how far ahead the version was found. The hint is twice the mean distance, which for
    /// random moments is the mean time between versions. The wanted version is rarely further away,
    /// and few others precede it.
    #[inline]
    pub(super) fn learn(&self, distance: i64) {
        let now = self.get();
        self.0.store(
            now + (distance.saturating_mul(2) - now) / 8,
            Ordering::Relaxed,
        );
    }
}
