//! Memory of a host that its sessions and partitions share.
//!
//! Whoever holds memory has a share. It may use what the others leave, and at least its fair part,
//! one of as many as there are shares; whoever is above that when more is wanted goes to disk. So
//! what is held stays near the limit, whoever comes first, and one partition alone has all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What may be held together, and what is.
#[derive(Debug)]
pub struct Budget {
    limit: AtomicUsize,
    held: AtomicUsize,
    shares: AtomicUsize,
}

impl Budget {
    /// A budget of which nothing is held.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit: AtomicUsize::new(limit),
            held: AtomicUsize::new(0),
            shares: AtomicUsize::new(0),
        })
    }

    /// Sets the limit, in bytes.
    pub fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// What is held, in bytes.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// A share that holds nothing yet.
    #[must_use]
    pub fn share(self: &Arc<Self>) -> Share {
        self.shares.fetch_add(1, Ordering::Relaxed);
        Share {
            budget: Arc::clone(self),
            held: 0,
        }
    }
}

/// One holder's part; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    held: usize,
}

impl Share {
    /// What this holder may hold now, in bytes.
    #[must_use]
    pub fn room(&self) -> usize {
        let limit = self.budget.limit.load(Ordering::Relaxed);
        let others = self.budget.held().saturating_sub(self.held);
        let fair = limit / self.budget.shares.load(Ordering::Relaxed).max(1);
        fair.max(limit.saturating_sub(others))
    }

    /// Whether all together hold more than they may.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.budget.held() > self.budget.limit.load(Ordering::Relaxed)
    }

    /// Holds so many bytes instead of what it held.
    pub fn set(&mut self, bytes: usize) {
        self.budget.held.fetch_add(bytes, Ordering::Relaxed);
        self.budget.held.fetch_sub(self.held, Ordering::Relaxed);
        self.held = bytes;
    }

    /// Holds so many bytes more; returns whether that is above what it may.
    pub fn add(&mut self, bytes: usize) -> bool {
        self.set(self.held + bytes);
        self.held > self.room()
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
    fn one_holder_has_all_and_several_have_what_is_fair() {
        let budget = Budget::new(100);
        let mut first = budget.share();
        assert!(!first.add(90), "nobody else wants any");
        let mut second = budget.share();
        assert_eq!(second.room(), 50, "its fair part, whatever the first has");
        assert!(!second.add(50) && second.add(1));
        assert!(
            first.add(1),
            "above its fair part while the second has its own"
        );
        second.set(5);
        assert_eq!(first.room(), 95, "what the second leaves");
        second.set(60);
        assert!(second.is_exceeded());
        second.set(5);
        drop(first);
        assert_eq!((budget.held(), second.room()), (5, 100));
        drop(second);
        assert_eq!(budget.held(), 0);
    }
}
