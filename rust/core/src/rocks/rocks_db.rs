//! One open RocksDB database, and how it closes.
//!
//! Every call holds the shared side of the lock `db` until it returns. [`RocksDb::close`] first
//! refuses new calls with `StoreClosed`. It then takes the exclusive side and destroys all
//! iterators, then the database: an iterator must not outlive its database.
//!
//! RocksDB's threads do not survive a fork, so a forked child must not use the database and does
//! not destroy it.

use super::directory_lock::DirectoryLock;
use super::failure::failure;
use super::family::Family;
use super::forks::process::Process;
use super::options::{RocksOptions, rocks_options};
use super::raw_iterator::IteratorSlots;
use super::recovery::commit_number::CommitNumber;
use super::statistics::Statistics;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{self, Mutex, RwLock, RwLockReadGuard};
use crate::table::FamilySpec;
use rust_rocksdb::{DB, FlushOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// An open database.
pub struct RocksDb {
    pub(super) db: RwLock<Option<Box<DB>>>,
    /// Whether a close has begun. New calls then fail: if several threads took the shared lock
    /// again and again, the close would wait forever.
    pub(super) closing: AtomicBool,
    /// Released after the database is closed; `None` if the database is temporary or in memory.
    pub(super) lock: Mutex<Option<DirectoryLock>>,
    pub(super) iterators: IteratorSlots,
    pub(super) statistics: Statistics,
    pub(super) handles: Vec<(String, Family)>,
    pub(super) path: PathBuf,
    /// The process that opened the database.
    pub(super) process: Process,
    pub(super) commits: CommitNumber,
    pub(super) options: RocksOptions,
}

/// The database, held open for one call.
pub(super) type OpenGuard<'a> = RwLockReadGuard<'a, Option<Box<DB>>>;

impl RocksDb {
    /// Returns the directory of the files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the handle of an open family.
    ///
    /// # Errors
    /// `InvalidValue` for a family that is not open.
    pub fn family(&self, spec: &FamilySpec) -> Result<Family> {
        self.find_family(&spec.name()).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidValue,
                "there is no such store in this database",
            )
            .store(&spec.store)
            .path(&self.path)
        })
    }

    fn find_family(&self, name: &str) -> Option<Family> {
        self.handles
            .iter()
            .find(|(other, _)| other == name)
            .map(|(_, family)| *family)
    }

    pub(super) fn guard(&self) -> Result<OpenGuard<'_>> {
        if self.closing.load(Ordering::Acquire) {
            return Err(self.closed());
        }
        let guard = sync::read_recursive(&self.db);
        if guard.is_none() {
            return Err(self.closed());
        }
        Ok(guard)
    }

    pub(super) fn opened<'g>(&self, guard: &'g OpenGuard<'_>) -> Result<&'g DB> {
        guard.as_deref().ok_or_else(|| self.closed())
    }

    /// Fails with `StoreClosed` if the database is closed.
    pub fn check_open(&self) -> Result<()> {
        self.guard().map(drop)
    }

    /// Fails with `ForkedProcess` in a child of the process that opened the database.
    ///
    /// Callers check this before they take any lock: another thread may have held the lock when the
    /// process forked.
    pub fn check_owner(&self) -> Result<()> {
        self.process.check().map_err(|e| e.path(&self.path))
    }

    pub(super) fn closed(&self) -> Error {
        Error::new(
            ErrorKind::StoreClosed,
            "the store is closed; open the database again",
        )
        .path(&self.path)
    }

    pub(super) fn flush_all(&self, db: &DB, wait: bool) -> Result<()> {
        let handles: Vec<_> = self
            .handles
            .iter()
            .map(|(_, family)| &family.handle)
            .collect();
        let mut options = FlushOptions::default();
        options.set_wait(wait);
        let number = self.commits.last();
        db.flush_cfs_opt(&handles, &options)
            .map_err(|e| failure("writing the memtables to files", &self.path, e))?;
        if wait {
            self.commits.mark_durable(number);
        }
        Ok(())
    }

    /// Destroys all iterators, then the database. Flush first: RocksDB may write the memtables
    /// here, but returns no error if that fails.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        let mut db = self.db.write();
        self.end_cursors();
        drop(db.take());
        drop(self.lock.lock().take());
    }

    pub(super) fn end_cursors(&self) {
        for (_, slot) in self.iterators.slots.lock().drain() {
            drop(slot.lock().take());
        }
    }

    /// Whether this process opened the database; false in a forked child.
    pub(crate) fn in_owner_process(&self) -> bool {
        self.process.is_current()
    }

    /// Deletes a closed temporary database. If files remain, the next open of the transaction's
    /// database deletes them.
    fn destroy(&self) {
        let destroyed = rocks_options(&self.options)
            .is_ok_and(|options| DB::destroy(&options, self.path()).is_ok());
        if destroyed {
            let _ = std::fs::remove_dir_all(self.path());
        }
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        if self.in_owner_process() {
            self.close();
            if self.options.temporary {
                self.destroy();
            }
        } else {
            // RocksDB's background threads do not exist in a forked child, and joining them would
            // hang.
            std::mem::forget(self.db.get_mut().take());
            for (_, slot) in self.iterators.slots.get_mut().drain() {
                std::mem::forget(slot);
            }
        }
    }
}
