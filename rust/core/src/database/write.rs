//! A write call on the database's own transaction: one unit, whatever it holds.

use super::Database;
use crate::error::Result;
use crate::transaction::Transaction;

impl Database {
    /// Does the work of a write call for one record, and writes what it staged for stores without
    /// transactions through. Nobody else writes or commits before it has ended. READ_UNCOMMITTED
    /// readers wait for `work`, not for the disk.
    ///
    /// # Errors
    /// Those of `work`; those of [`Database::transaction`] and [`Database::write_through`]. If
    /// `work` had staged something before its error, or panics, a part of it must not be committed:
    /// all calls but `rollback` and reads are `InvalidState` from then on.
    pub fn write<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut tx = self.transaction()?;
        let _published = tx.may_spill().then(|| self.publish_transaction(&mut tx));
        self.write_locked(&mut tx, work)
    }

    /// The same for many records: READ_UNCOMMITTED readers do not wait for its end.
    ///
    /// # Errors
    /// As [`Database::write`].
    pub fn write_batch<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.write_locked(&mut *self.long_call()?, work)
    }

    fn write_locked<T>(
        &self,
        tx: &mut Transaction,
        work: impl FnOnce(&mut Transaction) -> Result<T>,
    ) -> Result<T> {
        tx.check_not_poisoned()
            .map_err(|error| error.path(self.path()))?;
        tx.as_one(|tx| {
            let value = work(tx)?;
            self.write_through(tx)?;
            Ok(value)
        })
    }
}
