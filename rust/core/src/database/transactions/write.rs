//! A write call on the database's own transaction: all of it is applied, or none.

use crate::database::database::Database;
use crate::error::Result;
use crate::transaction::Transaction;

impl Database {
    /// Runs the write call of one record. Then writes through what the call has staged for stores
    /// without transactions.
    ///
    /// Other writers and commits wait until the call returns. READ_UNCOMMITTED readers wait for
    /// `work` at most, not for the disk.
    ///
    /// # Errors
    /// Those of `work`, of [`Database::transaction`] and of [`Database::write_through`]. If `work`
    /// panics, or fails after it has staged something, the staged part must be neither committed
    /// nor read. From then on, calls on the database's own transaction except `rollback`, and
    /// READ_UNCOMMITTED reads, fail with `InvalidState`.
    pub fn write<T>(&self, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut tx = self.transaction()?;
        let _published = tx.may_spill().then(|| self.publish_transaction(&mut tx));
        self.write_locked(&mut tx, work)
    }

    /// As [`Database::write`], for many records. READ_UNCOMMITTED readers do not wait for it.
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
        tx.as_one(|tx| {
            let value = work(tx)?;
            self.write_through(tx)?;
            Ok(value)
        })
    }
}
