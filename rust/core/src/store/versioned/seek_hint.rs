//! How far ahead of a moment the version that ends the one in force is looked for.

use std::sync::atomic::{AtomicI64, Ordering};

/// Learned from the reads, and only ever a guess: a wrong one costs another seek.
#[derive(Default)]
pub(super) struct Ahead(AtomicI64);

impl Ahead {
    #[inline]
    pub(super) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Takes note of how far ahead it was found. Twice the mean of that is kept: where moments are
    /// random it is the mean time between versions, behind which the one that is sought lies
    /// rarely, and few others lie before it.
    #[inline]
    pub(super) fn learn(&self, distance: i64) {
        let now = self.get();
        self.0.store(
            now + (distance.saturating_mul(2) - now) / 8,
            Ordering::Relaxed,
        );
    }
}
