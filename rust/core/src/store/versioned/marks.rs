//! Watermarks by key hash: with them most puts need no read, and most reads need one lookup
//! (`docs/design/versioned-puts.md`).

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};

const SLOTS: usize = 1 << 17;

/// For each of 2^17 key hashes, a time at or after the newest begin of every key with that hash;
/// 1 MiB per store.
///
/// A mark that is too high makes a put read before it writes. A mark that is too low would let a
/// put take a late version for the newest one. So marks only rise, an open sets all of them to the
/// stored stream time, and a dropped transaction leaves them raised.
pub(super) struct Marks {
    slots: Box<[AtomicI64]>,
    hasher: foldhash::fast::FixedState,
}

impl Marks {
    pub(super) fn new(stream_time: Option<i64>) -> Self {
        let mark = stream_time.unwrap_or(i64::MIN);
        let slots = (0..SLOTS).map(|_| AtomicI64::new(mark)).collect();
        Self {
            slots,
            hasher: foldhash::fast::FixedState::default(),
        }
    }

    fn slot(&self, part: &[u8]) -> &AtomicI64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(part);
        &self.slots[hasher.finish() as usize & (SLOTS - 1)]
    }

    /// Raises the key's mark to `time`; true if no version of the key can be newer than it.
    #[inline]
    pub(super) fn raise(&self, part: &[u8], time: i64) -> bool {
        self.slot(part).fetch_max(time, Ordering::Relaxed) <= time
    }

    /// Whether no version of the key can be newer than `time`.
    #[inline]
    pub(super) fn covers(&self, part: &[u8], time: i64) -> bool {
        // A read of the newest version skips the access to the slot, which would be a cache miss.
        time == i64::MAX || self.slot(part).load(Ordering::Relaxed) <= time
    }
}
