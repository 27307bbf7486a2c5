//! The view that READ_UNCOMMITTED readers use while the writer's lock is taken.
//!
//! A call that may be long *publishes* a view before it changes anything. It withdraws the view
//! before new views of the last commit can show its changes, and before it releases the lock. A
//! reader that finds the lock taken uses the view. The view has the writes of all calls that have
//! returned, so no key falls back to an older value. A view freezes the staged records, which costs
//! the writer time, so none is published before the first such reader.

use crate::sync::Mutex;
use crate::transaction::Transaction;
use std::sync::atomic::{AtomicBool, Ordering};

/// The published view, if a long call runs.
#[derive(Default)]
pub(in crate::database) struct Uncommitted {
    /// Whether READ_UNCOMMITTED readers exist or are expected.
    wanted: AtomicBool,
    view: Mutex<Option<Transaction>>,
}

impl Uncommitted {
    /// Publishes views from now on.
    pub(super) fn expect_readers(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    pub(super) fn publish(&self, view: impl FnOnce() -> Option<Transaction>) -> Published<'_> {
        if self.wanted.load(Ordering::Relaxed) {
            *self.view.lock() = view();
        }
        Published(self)
    }

    pub(in crate::database) fn withdraw(&self) {
        let view = self.view.lock().take();
        // Dropped after the lock: the view may be the last reference to much memory.
        drop(view);
    }

    pub(super) fn view(&self) -> Option<Transaction> {
        self.view.lock().as_mut().map(Transaction::reader)
    }
}

/// Readers use the published view until this is dropped.
pub(in crate::database) struct Published<'a>(&'a Uncommitted);

impl Drop for Published<'_> {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}
