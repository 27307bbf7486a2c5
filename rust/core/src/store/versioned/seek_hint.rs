//! The distance by which a read seeks beyond its time. The read needs the next newer version,
//! because the version that is valid at its time ends where that one begins.

use std::sync::atomic::{AtomicI64, Ordering};

/// How far ahead to seek, learned from reads. If it is too small, the read seeks again; if it is
/// too large, the read steps over other versions.
#[derive(Default)]
pub(super) struct SeekHint(AtomicI64);

impl SeekHint {
    #[inline]
    pub(super) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Records how far ahead the next newer version was found.
    ///
    /// The hint is twice the moving mean of these distances. If versions are evenly spaced and
    /// reads are at random times, that is the time between two versions. The wanted version is
    /// rarely further away, and the read passes few other versions before it.
    #[inline]
    pub(super) fn learn(&self, distance: i64) {
        let now = self.get();
        self.0.store(
            now + (distance.saturating_mul(2) - now) / 8,
            Ordering::Relaxed,
        );
    }
}
