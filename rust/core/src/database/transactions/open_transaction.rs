//! Calls on the database's own transaction. The first call begins it; a commit or a rollback ends
//! it.

use crate::database::commit::Commit;
use crate::database::database::Database;
use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, OffsetChange, TopicPartition};
use crate::sync::{MappedMutexGuard, MutexGuard};
use crate::transaction::{Table, Transaction};

/// The database's own transaction, locked for one call; other writers wait.
pub type OpenTransaction<'a> = MappedMutexGuard<'a, Transaction>;

impl Database {
    /// Returns the database's own transaction; begins one if none is open.
    ///
    /// # Errors
    /// `InvalidState` after a failed commit, and after a write that failed half-way, until
    /// `rollback`; `StoreClosed`.
    pub fn transaction(&self) -> Result<OpenTransaction<'_>> {
        self.rocks.check_owner()?;
        let mut writer = self.transactions.writer.lock();
        writer.check_usable(self.path())?;
        writer.begin(|| self.begin())?;
        if let Some(tx) = writer.transaction() {
            tx.check_not_poisoned()
                .map_err(|error| error.path(self.path()))?;
        }
        MutexGuard::try_map(writer, |writer| writer.transaction_mut()).map_err(|_| {
            Error::new(ErrorKind::InvalidState, "no transaction is open").path(self.path())
        })
    }

    /// Makes the checks that [`Database::commit`] makes before it changes anything.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn check_commit(&self, offsets: &OffsetChange) -> Result<()> {
        drop(self.transaction()?);
        offsets.check()
    }

    /// Commits the database's own transaction with offsets (`OffsetChange::Keep` leaves them
    /// unchanged).
    ///
    /// After an error, [`Database::committed_offset`] shows whether the write was done. If it was
    /// not, the stores are unchanged. If it was, `rollback` continues from the written commit. If
    /// the commit of a spilled transaction was interrupted, call [`Database::recover`] first: it
    /// ends the commit.
    ///
    /// # Errors
    /// `InvalidValue` for a topic with a NUL character in it, which changes nothing; `InvalidState`
    /// if a part of a failed write is staged, which only `rollback` repairs. After any other error,
    /// calls on the database's own transaction, restores and READ_UNCOMMITTED reads fail until
    /// `rollback` or a reopen.
    pub fn commit(&self, offsets: OffsetChange) -> Result<()> {
        self.commit_with(&Commit::of(offsets))
    }

    /// Commits the database's own transaction with offsets and properties.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn commit_with(&self, commit: &Commit) -> Result<()> {
        self.rocks.check_owner()?;
        self.reclaimer.log();
        // Dropped after the lock: deleting spilled rows takes a while.
        let _spilled;
        let mut writer = self.transactions.writer.lock();
        writer.check_usable(self.path())?;
        if let Some(tx) = writer.transaction() {
            tx.check_not_poisoned()
                .map_err(|error| error.path(self.path()))?;
        }
        commit.offsets.check()?;
        let _published = self.publish_writer(&mut writer);
        let tx = match writer.take() {
            Some(tx) => tx,
            None => self.begin()?,
        };
        _spilled = tx.base().spilled().cloned();
        writer.poison("it ended with a panic");
        let committed = self.commit_locked(&mut writer, tx, commit);
        match &committed {
            Ok(()) => {
                if commit.offsets.moves() {
                    self.stores.note_offsets();
                }
                writer.heal();
            }
            Err(error) if error.kind() == ErrorKind::StoreClosed => writer.heal(),
            Err(error) => writer.poison(&error.to_string()),
        }
        committed
    }

    /// Drops everything since the last commit. After a failed commit, this makes the database
    /// usable again.
    ///
    /// If the commit of a spilled transaction was interrupted, a rollback finishes it if its commit
    /// file was written, and undoes it otherwise: the commit file makes a transaction committed.
    /// [`Database::recover`] returns the resulting offsets.
    ///
    /// # Errors
    /// `Io` or `StoreCorrupted` if an interrupted commit cannot be ended; `Io` if the disk still
    /// refuses writes, or if the database accepts writes only after a reopen. The database then
    /// refuses work as before.
    pub fn rollback(&self) -> Result<()> {
        self.rocks.check_owner()?;
        self.rocks.check_open()?;
        let mut writer = self.transactions.writer.lock();
        if writer.has_failed() {
            // The files of a commit that is undone may be what fills the disk.
            self.free_unwritten(&writer)?;
            self.rocks.wait_until_writable()?;
        }
        self.finish(&mut writer)?;
        let discarded = writer.discard();
        drop(writer);
        // Dropped after the lock: freeing much memory takes a while, and other threads need not
        // wait.
        drop(discarded);
        Ok(())
    }

    /// Drops the open transaction, ends a commit that was interrupted as [`Database::rollback`]
    /// does, and returns the offsets of the resulting state. An open does the same by itself.
    ///
    /// # Errors
    /// `Io` or `StoreCorrupted` if the interrupted commit cannot be ended; the database then
    /// accepts only another attempt.
    pub fn recover(&self) -> Result<Vec<(TopicPartition, Offset)>> {
        self.rollback()?;
        self.committed_offsets()
    }

    /// Memory of the database's own transaction, in bytes, which the next commit frees.
    pub fn uncommitted_bytes(&self) -> usize {
        let writer = self.transactions.writer.lock();
        writer.transaction().map_or(0, |tx| tx.uncommitted_bytes())
    }

    /// Memory of the database's own transaction for one store, in bytes.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database was not opened with.
    pub fn store_uncommitted_bytes(&self, store: &str) -> Result<usize> {
        let tables = self.entry(store)?.store.tables();
        Ok(self.uncommitted_bytes_of(&tables))
    }

    /// Memory of a private transaction for one store, in bytes.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database was not opened with.
    pub fn uncommitted_bytes_in(&self, tx: &Transaction, store: &str) -> Result<usize> {
        let tables = self.entry(store)?.store.tables();
        Ok(tables.iter().map(|table| tx.table_bytes(*table)).sum())
    }

    /// Bytes of the files with the rows that the database's own transaction has spilled from some
    /// tables.
    pub(in crate::database) fn spilled_bytes_of(&self, tables: &[Table]) -> Result<u64> {
        let writer = self.transactions.writer.lock();
        let spilled = writer
            .transaction()
            .and_then(|tx| tx.base().spilled().cloned());
        drop(writer);
        spilled.map_or(Ok(0), |rows| {
            tables.iter().map(|table| rows.file_bytes(*table)).sum()
        })
    }

    /// Memory of the database's own transaction for some tables, in bytes.
    pub(in crate::database) fn uncommitted_bytes_of(&self, tables: &[Table]) -> usize {
        let writer = self.transactions.writer.lock();
        writer.transaction().map_or(0, |tx| {
            tables.iter().map(|table| tx.table_bytes(*table)).sum()
        })
    }

    /// Returns the most memory that the database's own transaction has used, in bytes. After a
    /// spill this may be more than it uses now.
    pub fn peak_bytes(&self) -> usize {
        let writer = self.transactions.writer.lock();
        writer.transaction().map_or(0, |tx| tx.peak_bytes())
    }
}
