//! READ_UNCOMMITTED: reads of the open transaction (`docs/design/stores.md`).
//!
//! Between two calls of the writer, a reader gets the open transaction. During a long call, it gets
//! the state at the beginning of that call.

use super::open_transaction::OpenTransaction;
use super::uncommitted::Published;
use super::writer::Writer;
use crate::database::database::Database;
use crate::error::Result;
use crate::sync;
use crate::transaction::{StoreState, Transaction};
use std::ops::{Deref, DerefMut};

/// The database's own transaction, locked for one call that may be long.
///
/// READ_UNCOMMITTED readers see the transaction's state at the beginning of the call.
pub struct LongCall<'a> {
    /// Dropped before the lock is released.
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
    /// Returns a READ_UNCOMMITTED view: the last commit and the staged writes of the database's own
    /// transaction. The view is repeatable.
    ///
    /// While the writer is in a long call, the view is the state before that call. The reader waits
    /// for short calls of the writer. It also waits for a long call that began before the first
    /// READ_UNCOMMITTED reader, since that call has published no view.
    ///
    /// # Errors
    /// As [`Database::transaction`].
    pub fn read_uncommitted(&self) -> Result<Transaction> {
        self.rocks.check_owner()?;
        self.expect_uncommitted_readers();
        let mut lock = self.transactions.writer.try_lock();
        loop {
            if let Some(mut writer) = lock {
                writer.check_usable(self.path())?;
                return match writer.transaction_mut() {
                    // A partly staged write is never read.
                    Some(tx) => tx
                        .check_not_poisoned()
                        .map(|()| tx.reader())
                        .map_err(|error| error.path(self.path())),
                    None => self.begin(),
                };
            }
            if let Some(view) = self.transactions.uncommitted.view() {
                return Ok(view);
            }
            lock = sync::lock_for_a_moment(&self.transactions.writer);
        }
    }

    /// Makes every long call from now on publish a view.
    ///
    /// If a caller calls this before the first long call, its reads do not wait for a long call,
    /// except for the last steps of that call.
    pub fn expect_uncommitted_readers(&self) {
        self.transactions.uncommitted.expect_readers();
    }

    /// As [`Database::transaction`], for one call that may take long.
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

    pub(in crate::database) fn publish_transaction(&self, tx: &mut Transaction) -> Published<'_> {
        self.transactions.uncommitted.publish(|| Some(tx.reader()))
    }

    /// Publishes a view for a write to the stores without transactions. Their rows have already
    /// left the transaction, so the view shows these stores as of the last commit.
    pub(in crate::database) fn publish_before_write_through(
        &self,
        tx: &mut Transaction,
        committed: &[StoreState],
    ) -> Published<'_> {
        self.transactions.uncommitted.publish(|| {
            let mut view = tx.reader();
            let stores = self.stores.entries.iter().zip(&mut view.stores);
            for ((entry, state), committed) in stores.zip(committed) {
                if entry.is_direct() {
                    *state = *committed;
                }
            }
            Some(view)
        })
    }

    /// Publishes the database's own transaction. After a failed or interrupted commit, or a write
    /// that failed half-way, there is no view: readers wait for the lock and get the error.
    pub(in crate::database) fn publish_writer(&self, writer: &mut Writer) -> Published<'_> {
        self.transactions.uncommitted.publish(|| {
            if writer.is_idle() {
                self.begin().ok()
            } else {
                writer
                    .transaction_mut()
                    .filter(|tx| tx.check_not_poisoned().is_ok())
                    .map(|tx| tx.reader())
            }
        })
    }
}
