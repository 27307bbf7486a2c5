//! What READ_UNCOMMITTED readers see (`stores.md` section 3): the open transaction between two
//! calls of the writer, and while a long call has the writer's lock the state at its beginning.
//!
//! A call that may be long *publishes* a view before it changes anything, and withdraws it before
//! new views of the last commit can show what it did, and before it lets go of the lock. A reader
//! that finds the lock taken uses the view: nothing that had returned is missing from it, and no
//! key falls back to an older value. A view freezes what is staged, which the writer pays for, so
//! none is published before the first such reader.

use super::Database;
use super::open_transaction::{Open, OpenTransaction};
use crate::error::Result;
use crate::sync::{self, Mutex};
use crate::transaction::{StoreState, Transaction};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(super) struct Uncommitted {
    /// Somebody reads at this level, or did.
    wanted: AtomicBool,
    view: Mutex<Option<Transaction>>,
}

impl Uncommitted {
    fn publish(&self, view: impl FnOnce() -> Option<Transaction>) -> Published<'_> {
        if self.wanted.load(Ordering::Relaxed) {
            *self.view.lock() = view();
        }
        Published(self)
    }

    pub(super) fn withdraw(&self) {
        let view = self.view.lock().take();
        // Behind the lock: it may be the last to hold a great deal.
        drop(view);
    }

    fn view(&self) -> Option<Transaction> {
        self.view.lock().as_mut().map(Transaction::reader)
    }
}

/// Readers see what was published until this is dropped.
pub(super) struct Published<'a>(&'a Uncommitted);

impl Drop for Published<'_> {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

/// The database's own transaction, locked for one call that may be long; READ_UNCOMMITTED readers
/// see it as it was at the beginning.
pub struct LongCall<'a> {
    /// Before the lock: it is to end first.
    _published: Published<'a>,
    tx: OpenTransaction<'a>,
}

impl Deref for LongCall<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.tx
    }
}

impl DerefMut for LongCall<'_> {
    fn deref_mut(&mut self) -> &mut Transaction {
        &mut self.tx
    }
}

impl Database {
    /// A repeatable view of the last commit and of what the database's own transaction has staged
    /// since: READ_UNCOMMITTED. While the writer is in a long call it is what was there before that
    /// call. It waits for short calls of the writer; the first views of all, taken while a long
    /// call runs, wait for its end.
    ///
    /// # Errors
    /// As [`Database::transaction`].
    pub fn read_uncommitted(&self) -> Result<Transaction> {
        self.rocks.check_owner()?;
        self.expect_uncommitted_readers();
        let mut lock = self.open.try_lock();
        loop {
            if let Some(mut open) = lock {
                open.check_usable(self.path())?;
                return match &mut *open {
                    Open::Active(tx) => Ok(tx.reader()),
                    _ => self.begin(),
                };
            }
            if let Some(view) = self.uncommitted.view() {
                return Ok(view);
            }
            lock = sync::lock_for_a_moment(&self.open);
        }
    }

    /// From the next long call on views are published. Who will read at this level later says so
    /// now, and then never waits for one.
    pub fn expect_uncommitted_readers(&self) {
        self.uncommitted.wanted.store(true, Ordering::Relaxed);
    }

    /// [`Database::transaction`] for one call that may take long.
    ///
    /// # Errors
    /// As [`Database::transaction`].
    pub fn long_call(&self) -> Result<LongCall<'_>> {
        let mut tx = self.transaction()?;
        Ok(LongCall {
            _published: self.publish_transaction(&mut tx),
            tx,
        })
    }

    pub(super) fn publish_transaction(&self, tx: &mut Transaction) -> Published<'_> {
        self.uncommitted.publish(|| Some(tx.reader()))
    }

    /// The same of a transaction whose rows for stores without transactions are in a batch already:
    /// the view shows these stores as they are committed.
    pub(super) fn publish_before_write_through(
        &self,
        tx: &mut Transaction,
        committed: &[StoreState],
    ) -> Published<'_> {
        self.uncommitted.publish(|| {
            let mut view = tx.reader();
            for ((entry, own), committed) in self.stores.iter().zip(&mut view.stores).zip(committed)
            {
                if entry.is_direct() {
                    *own = *committed;
                }
            }
            Some(view)
        })
    }

    /// The same of whatever is open. There may be nothing to show: then readers wait, to be told
    /// what is wrong.
    pub(super) fn publish_open(&self, open: &mut Open) -> Published<'_> {
        self.uncommitted.publish(|| match open {
            Open::Active(tx) => Some(tx.reader()),
            Open::Fresh => self.begin().ok(),
            Open::Poisoned(_) | Open::Unfinished(_) => None,
        })
    }
}
