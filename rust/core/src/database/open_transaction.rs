//! The transaction that is the database's own: begun with the first call, ended by a commit or a
//! rollback.

use super::spilled::Unfinished;
use super::{Commit, Database};
use crate::error::{Error, ErrorKind, Result};
use crate::offset::OffsetChange;
use crate::store::versioned::VersionRow;
use crate::sync::{MappedMutexGuard, MutexGuard};
use crate::transaction::{Table, Transaction};
use std::path::Path;

/// The database's own transaction.
pub(super) enum Open {
    /// Nothing was staged since the last commit; a transaction begins with the next call.
    Fresh,
    Active(Box<Transaction>),
    /// A commit failed: nothing more until a rollback or a reopen.
    Poisoned(String),
    /// The commit of a spilled transaction is under way, or was interrupted.
    Unfinished(Box<Unfinished>),
}

impl Open {
    /// Fails if a commit failed or was interrupted.
    pub(super) fn check_usable(&self, path: &Path) -> Result<()> {
        if let Self::Poisoned(why) = self {
            let words = format!(
                "a commit failed ({why}); call rollback() to go on from the last commit, or open \
                 the database again"
            );
            return Err(Error::new(ErrorKind::InvalidState, words).path(path));
        }
        self.check_finished(path)
    }

    /// Fails if a commit was interrupted.
    pub(super) fn check_finished(&self, path: &Path) -> Result<()> {
        let Self::Unfinished(unfinished) = self else {
            return Ok(());
        };
        let words = format!(
            "a commit was interrupted ({}); call rollback() or recover() to end it, or open the \
             database again",
            unfinished.why
        );
        Err(Error::new(ErrorKind::InvalidState, words).path(path))
    }

    pub(super) fn forget_if_empty(&mut self) {
        if matches!(self, Self::Active(tx) if tx.is_empty()) {
            *self = Self::Fresh;
        }
    }
}

/// The database's own transaction, locked for one call; other writers wait.
pub type OpenTransaction<'a> = MappedMutexGuard<'a, Transaction>;

impl Database {
    /// The database's own transaction, begun if there is none.
    ///
    /// # Errors
    /// `InvalidState` after a failed commit, until `rollback`; `StoreClosed`.
    pub fn transaction(&self) -> Result<OpenTransaction<'_>> {
        self.rocks.check_owner()?;
        let mut open = self.open.lock();
        open.check_usable(self.path())?;
        if let Open::Fresh = &*open {
            *open = Open::Active(Box::new(self.begin()?));
        }
        MutexGuard::try_map(open, |open| match open {
            Open::Active(tx) => Some(tx.as_mut()),
            _ => None,
        })
        .map_err(|_| {
            Error::new(ErrorKind::InvalidState, "no transaction is open").path(self.path())
        })
    }

    /// Fails where [`Database::commit`] would before it changes anything.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub fn check_commit(&self, offsets: &OffsetChange) -> Result<()> {
        self.transaction()?
            .check_not_poisoned()
            .map_err(|error| error.path(self.path()))?;
        offsets.check()
    }

    /// Commits the database's own transaction with offsets (`OffsetChange::Keep` leaves them as
    /// they are).
    ///
    /// # Errors
    /// `InvalidValue` for a topic with a NUL character in it, which changes nothing; `InvalidState`
    /// while a part of a write that failed is staged: only `rollback` helps then. After any other
    /// the database refuses work until `rollback` or a reopen. After a failed write the stores are
    /// unchanged, unless the error came after the fact: then `rollback` goes on from what was
    /// written, and [`Database::committed_offset`] says so.
    pub fn commit(&self, offsets: OffsetChange) -> Result<()> {
        self.rocks.check_owner()?;
        self.reclaimer.log();
        // Let go of behind the lock: deleting spilled rows takes a while.
        let _spilled;
        let mut open = self.open.lock();
        open.check_usable(self.path())?;
        if let Open::Active(tx) = &*open {
            tx.check_not_poisoned()
                .map_err(|error| error.path(self.path()))?;
        }
        offsets.check()?;
        let _published = self.publish_open(&mut open);
        let tx = match std::mem::replace(&mut *open, Open::Fresh) {
            Open::Active(tx) => *tx,
            _ => self.begin()?,
        };
        _spilled = tx.base().spilled().cloned();
        self.commit_locked(
            &mut open,
            tx,
            &Commit {
                offsets,
                properties: Vec::new(),
            },
            None,
        )
        .inspect_err(|error| {
            if error.kind() != ErrorKind::StoreClosed && !matches!(*open, Open::Unfinished(_)) {
                *open = Open::Poisoned(error.to_string());
            }
        })
    }

    /// Gives up everything since the last commit; heals a database whose commit failed.
    ///
    /// A commit of a spilled transaction that was interrupted is ended: forward if its commit file
    /// was written, since then it is committed, and else back. [`Database::recover`] tells what
    /// came of it.
    ///
    /// # Errors
    /// `Io` or `StoreCorrupted` where an interrupted commit cannot be ended.
    pub fn rollback(&self) -> Result<()> {
        self.rocks.check_owner()?;
        self.rocks.check_open()?;
        let mut open = self.open.lock();
        self.finish(&mut open)?;
        let given_up = std::mem::replace(&mut *open, Open::Fresh);
        drop(open);
        // Behind the lock: it may be a great deal, and nobody need wait for that.
        drop(given_up);
        Ok(())
    }

    /// Memory of the database's own transaction, in bytes: what the next commit would free.
    pub fn uncommitted_bytes(&self) -> usize {
        match &*self.open.lock() {
            Open::Active(tx) => tx.uncommitted_bytes(),
            _ => 0,
        }
    }

    /// The same of some of its tables.
    pub(super) fn uncommitted_bytes_of(&self, tables: &[Table]) -> usize {
        match &*self.open.lock() {
            Open::Active(tx) => tables.iter().map(|table| tx.table_bytes(*table)).sum(),
            _ => 0,
        }
    }

    /// The most memory that the database's own transaction has held, in bytes: more than now if it
    /// has spilled since.
    pub fn peak_bytes(&self) -> usize {
        match &*self.open.lock() {
            Open::Active(tx) => tx.peak_bytes(),
            _ => 0,
        }
    }

    /// Applies changelog records of one store past the open transaction, visible at once, with the
    /// offsets they reach. The same result however the records are cut into batches. They come in
    /// the order in which they were written: one that was older than the store keeps when it was,
    /// as the source of a table may have them, is passed over, uncounted.
    ///
    /// What a record's key, value and time are depends on the store's kind: see `change.rs`.
    ///
    /// # Errors
    /// `InvalidState` while the database has uncommitted writes or observed offsets, whichever
    /// store they are of: commit or roll back first; also after a failed commit, until `rollback`.
    /// `InvalidValue`, with the row, for a record that is none of the store's, for a store that the
    /// database was not opened with, and for a topic with a NUL character in it; nothing is applied
    /// then.
    pub fn restore(
        &self,
        store: &str,
        rows: &[VersionRow<'_>],
        offsets: OffsetChange,
    ) -> Result<()> {
        self.rocks.check_owner()?;
        let mut open = self.open.lock();
        open.check_usable(self.path())?;
        if matches!(&*open, Open::Active(tx) if !tx.is_empty()) {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "there are uncommitted writes; commit or roll back before a restore",
            )
            .store(store));
        }
        let _published = self.publish_open(&mut open);
        let mut tx = self.begin()?;
        self.entry(store)?.restore(&mut tx, rows)?;
        *open = Open::Fresh;
        self.commit_locked(
            &mut open,
            tx,
            &Commit {
                offsets,
                properties: Vec::new(),
            },
            Some(store),
        )
    }
}
