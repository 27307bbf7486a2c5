//! Writes, flushes, and the numbers of the commits among them.

use crate::error::Result;
use crate::failpoint::Failpoint;
use crate::rocks::batch::Batch;
use crate::rocks::failure::{failure, is_disk_full};
use crate::rocks::recovery::{commit_number, last_commit};
use crate::rocks::rocks_db::RocksDb;
use crate::table::{FamilyKind, FamilySpec};
use rust_rocksdb::{ReadOptions, ReadTier, WriteBatch, WriteOptions};
use std::time::{Duration, Instant};

/// How long RocksDB may take to find that a full disk has space again: it checks every 5 s.
const RESUMES_WITHIN: Duration = Duration::from_secs(11);

/// How often a rollback checks whether RocksDB accepts writes again.
const POLL: Duration = Duration::from_millis(20);

impl RocksDb {
    /// Writes a batch and the number of the commit in one atomic write. With `Durability::Sync` the
    /// write is on disk on return.
    pub fn write(&self, batch: &mut Batch) -> Result<()> {
        let guard = self.guard()?;
        Failpoint::BeforeCommit.pass()?;
        let mut options = WriteOptions::default();
        if self.options.sync {
            options.set_sync(true);
        } else {
            options.disable_wal(true);
        }
        let db = self.opened(&guard)?;
        let metadata = self.family(&FamilySpec::new(FamilyKind::Metadata, ""))?;
        let number = self
            .commits
            .next(|number| {
                // The batch has room for the number. RocksDB's copy of the batch has none: to add
                // the number to the copy would copy it once more.
                batch.push(metadata.id, commit_number::KEY, Some(&number.to_be_bytes()));
                db.write_opt(&WriteBatch::from_data(batch.finish()), &options)
            })
            .map_err(|e| failure("a commit", &self.path, e))?;
        if self.options.sync {
            self.commits.mark_durable(number);
        }
        Failpoint::AfterCommit.pass()
    }

    /// Waits until RocksDB accepts writes.
    ///
    /// After an error of the disk, RocksDB refuses writes. If the disk was full, RocksDB checks
    /// every few seconds whether there is space again, and then continues by itself. After any
    /// other error the database must be opened again.
    ///
    /// # Errors
    /// `Io` if RocksDB still refuses writes.
    pub fn wait_until_writable(&self) -> Result<()> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        let end = Instant::now() + RESUMES_WITHIN;
        loop {
            match db.write_opt(&WriteBatch::default(), &options) {
                Ok(()) => return Ok(()),
                Err(e) if is_disk_full(&e) && Instant::now() < end => std::thread::sleep(POLL),
                Err(e) => return Err(failure("continuing after a failed write", &self.path, e)),
            }
        }
    }

    /// Returns the number of the last known write: the last one that returned without an error, or
    /// the one that [`RocksDb::find_last_write`] found.
    pub fn last_write(&self) -> u64 {
        self.commits.last()
    }

    /// Reads the number of the last write from the database, since a write may return an error and
    /// still have taken place.
    pub fn find_last_write(&self) -> Result<u64> {
        let guard = self.guard()?;
        let last = last_commit::number(self.opened(&guard)?)
            .map_err(|e| failure("reading the number of the last commit", &self.path, e))?;
        Ok(self.commits.raise(last))
    }

    /// Records that the commit of this number has a commit file and cannot be lost any more.
    pub fn note_commit_file(&self, number: u64) {
        self.commits.mark_durable(number);
    }

    /// Writes the memtables of all families to files, at one sequence number. With `wait` the files
    /// are complete on return.
    pub fn flush(&self, wait: bool) -> Result<()> {
        let guard = self.guard()?;
        Failpoint::BeforeFlush.pass()?;
        self.flush_all(self.opened(&guard)?, wait)?;
        Failpoint::AfterFlush.pass()
    }

    /// Returns the last commit in the files, without a replay of the log, as text for a message.
    pub fn last_in_files(&self) -> Option<String> {
        last_commit::in_files(&self.path, &self.options).map(|last| last.to_string())
    }

    /// Returns the number of the last commit that is wholly in files.
    pub fn flushed_commit(&self) -> Result<u64> {
        let guard = self.guard()?;
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::Persisted);
        let metadata = self.family(&FamilySpec::new(FamilyKind::Metadata, ""))?;
        let number = self
            .opened(&guard)?
            .get_pinned_cf_opt(&metadata.handle, commit_number::KEY, &options)
            .map_err(|e| {
                failure(
                    "reading the number of the last flushed commit",
                    &self.path,
                    e,
                )
            })?;
        Ok(commit_number::parse(number.as_deref()))
    }
}
