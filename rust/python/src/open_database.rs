//! An open database.

use crate::run::drop_without_gil;
use holdfast_core::{
    Commit, Database, Error, ErrorKind, Offset, OffsetChange, Process, Result, TopicPartition,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open database, and the state of its writer between two calls.
pub struct OpenDatabase {
    db: Arc<Database>,
    process: Process,
    closed: AtomicBool,
    growth: Mutex<TransactionGrowth>,
}

/// How much a transaction grows between two calls of `commit_requested`.
///
/// Between two calls a program applies one record or one batch, with all the writes that it causes.
#[derive(Default)]
struct TransactionGrowth {
    /// Bytes of the transaction at the last call.
    bytes: usize,
    /// Bytes by which the transaction last grew between two calls.
    step: usize,
}

impl OpenDatabase {
    /// Wraps a database that this process opened.
    pub fn new(db: Arc<Database>) -> Self {
        Self {
            db,
            process: Process::current(),
            closed: AtomicBool::new(false),
            growth: Mutex::default(),
        }
    }

    /// Returns the engine's database.
    pub fn db(&self) -> &Arc<Database> {
        &self.db
    }

    /// Returns the process that opened the database.
    pub fn process(&self) -> Process {
        self.process
    }

    /// Whether `close` has not been called.
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst)
    }

    /// Drops the open transaction, flushes the last commit and closes the database.
    pub fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        self.db.close()
    }

    /// Fails if the database is closed.
    ///
    /// Writes are staged in memory: without this check a closed database would accept writes that
    /// are never committed.
    pub fn check_open(&self) -> Result<()> {
        if self.is_open() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::StoreClosed,
            "the store is closed; open the database again",
        )
        .path(self.db.path()))
    }

    /// Records the offset of the input record that the following writes come from.
    pub fn observe(&self, tp: TopicPartition, offset: Offset) -> Result<()> {
        self.check_open()?;
        self.db.transaction()?.observe(tp, offset)
    }

    /// Fails if a commit would fail before it writes anything.
    pub fn check_commit(&self, offsets: &OffsetChange) -> Result<()> {
        self.check_open()?;
        self.db.check_commit(offsets)
    }

    /// Commits the open transaction.
    pub fn commit(&self, commit: &Commit) -> Result<()> {
        self.check_open()?;
        self.db.commit_with(commit)?;
        self.reset_growth();
        Ok(())
    }

    /// Drops the open transaction.
    pub fn rollback(&self) -> Result<()> {
        self.db.rollback()?;
        self.reset_growth();
        Ok(())
    }

    fn reset_growth(&self) {
        *self.growth.lock() = TransactionGrowth::default();
    }

    /// Whether the transaction has reached its limit, or would reach it if it grew by the last step
    /// again. `more_bytes` is the size of the user stores' uncommitted writes.
    pub fn commit_requested(&self, more_bytes: usize) -> bool {
        let bytes = self.db.peak_bytes().saturating_add(more_bytes);
        let Ok(limit) = usize::try_from(self.db.uncommitted_max_bytes()) else {
            return false;
        };
        let mut growth = self.growth.lock();
        if bytes > growth.bytes {
            *growth = TransactionGrowth {
                bytes,
                step: bytes - growth.bytes,
            };
        }
        bytes > 0 && bytes.saturating_add(growth.step) >= limit
    }
}

impl Drop for OpenDatabase {
    fn drop(&mut self) {
        // The last reference was dropped without a call of `close`.
        if self.is_open() {
            drop_without_gil(|| self.db.stop());
        }
    }
}
