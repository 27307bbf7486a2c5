//! A memory limit that the sessions and partitions of a host share.
//!
//! Each holder has a share. A holder may use the memory that the other shares do not use, and
//! always at least its fair part: limit / number of shares. A holder that needs more spills to
//! disk, works in smaller batches or fails (a reader's large request); no holder waits. So a single
//! partition may use all of the memory, and the total stays near the limit: a holder may still use
//! what it reserved before the others took theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The minimum memory of a transaction, even if its share is smaller. Each spill writes sorted
/// files, so with less memory a transaction would write many small ones.
pub const MIN_TRANSACTION_BYTES: usize = 1 << 20;

/// A memory limit, and how much of it is in use.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    held: AtomicUsize,
    /// The part of `held` that holders have reserved and may not use yet.
    reserved: AtomicUsize,
    shares: AtomicUsize,
    spills: AtomicU64,
}

impl Budget {
    /// A budget with nothing in use.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(limit),
            held: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            shares: AtomicUsize::new(0),
            spills: AtomicU64::new(0),
        })
    }

    /// Sets the limit, in bytes.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// The bytes in use, with those that are reserved.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// How many times holders have spilled to disk since the budget was made.
    #[must_use]
    pub fn spills(&self) -> u64 {
        self.spills.load(Ordering::Relaxed)
    }

    /// Counts that a holder has spilled to disk.
    pub fn count_spill(&self) {
        self.spills.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns a new, empty share.
    #[must_use]
    pub fn share(self: &Arc<Self>) -> Share {
        self.shares.fetch_add(1, Ordering::Relaxed);
        Share {
            budget: Arc::clone(self),
            held: 0,
            reserved: 0,
        }
    }
}

/// One holder's part of a budget; dropping it returns the memory.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    held: usize,
    /// How many of the bytes are reserved: `held` or 0.
    reserved: usize,
}

impl Share {
    /// How many bytes this holder may use now.
    #[must_use]
    pub fn room(&self) -> usize {
        let limit = self.budget.limit.load(Ordering::Relaxed);
        let others = self.budget.held().saturating_sub(self.held);
        let fair = limit / self.budget.shares.load(Ordering::Relaxed).max(1);
        fair.max(limit.saturating_sub(others))
    }

    /// The limit of the budget, in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.budget.limit()
    }

    /// Whether all shares together exceed the limit. Bytes that are only reserved do not count: a
    /// session reserves its whole room, and usually uses a small part of it.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        let reserved = self.budget.reserved.load(Ordering::Relaxed);
        self.budget.held().saturating_sub(reserved) > self.limit()
    }

    /// Sets the bytes that this holder uses, in place of those that it used or reserved.
    pub fn set(&mut self, bytes: usize) {
        self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        self.budget.held.fetch_sub(self.held, Ordering::Relaxed);
        self.budget
            .reserved
            .fetch_sub(self.reserved, Ordering::Relaxed);
        (self.held, self.reserved) = (bytes, 0);
    }

    /// Reserves bytes that this holder may use later, in place of those that it used or reserved.
    pub fn reserve(&mut self, bytes: usize) {
        self.set(bytes);
        self.budget.reserved.fetch_add(bytes, Ordering::Relaxed);
        self.reserved = bytes;
    }

    /// Adds to the bytes that this holder uses; returns whether it exceeds its room.
    pub fn add(&mut self, bytes: usize) -> bool {
        self.set(self.held + bytes);
        self.held > self.room()
    }

    /// Counts that this holder has spilled to disk.
    pub fn count_spill(&self) {
        self.budget.count_spill();
    }

    /// The budget.
    #[must_use]
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
        self.budget.shares.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_share_may_use_all_and_several_at_least_their_fair_part() {
        let budget = Budget::new(100);
        let mut first = budget.share();
        assert!(!first.add(90), "there is no other share");
        let mut second = budget.share();
        assert_eq!(
            second.room(),
            50,
            "its fair part, although the first has more"
        );
        assert!(!second.add(50) && second.add(1));
        assert!(
            first.add(1),
            "above its fair part while the second uses its own"
        );
        second.set(5);
        assert_eq!(first.room(), 95, "all but what the second uses");
        second.set(60);
        assert!(second.is_exceeded());
        second.set(5);
        drop(first);
        assert_eq!((budget.held(), second.room()), (5, 100));
        drop(second);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn reserved_bytes_are_not_available_and_do_not_exceed_the_limit() {
        let budget = Budget::new(100);
        let (mut running, mut ended) = (budget.share(), budget.share());
        running.reserve(100);
        ended.reserve(ended.room());
        assert_eq!(ended.room(), 50, "its fair part");
        ended.set(1);
        assert!(!ended.is_exceeded(), "the other share has used nothing yet");
        ended.set(101);
        assert!(ended.is_exceeded());
        ended.set(1);
        running.set(100);
        assert!(running.is_exceeded());
        drop((running, ended));
        assert_eq!(budget.held(), 0);
        assert_eq!(budget.reserved.load(Ordering::Relaxed), 0);
    }
}
