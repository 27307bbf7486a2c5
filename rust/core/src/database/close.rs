//! Closing a database.

use super::database::Database;
use super::options::{Durability, ProcessingGuarantee};
use super::rows::offset_rows;
use super::rows::open_marker::{self, OpenMarker};
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint::Failpoint;
use crate::rocks::RocksDb;
use crate::store::StoreSpec;
use std::sync::atomic::Ordering;

impl Database {
    /// Writes all commits to files and closes the database.
    ///
    /// Open transactions, scans and handles then fail with `StoreClosed`. A second close does
    /// nothing.
    ///
    /// # Errors
    /// Those of the file system; the database is closed even then. With `Durability::Sync` the
    /// message says that no commit is lost. With `Durability::Changelog` it names the commit that
    /// the files hold, if it is known.
    pub fn close(&self) -> Result<()> {
        self.rocks.check_owner()?;
        let closed = self.close_locked();
        self.reclaimer.log();
        closed
    }

    fn close_locked(&self) -> Result<()> {
        Failpoint::BeforeClose.pass()?;
        let mut writer = self.transactions.writer.lock();
        let _published = self.publish_writer(&mut writer);
        let closing = CloseOnDrop(&self.rocks);
        let finished = self.finish(&mut writer);
        let marked = finished.and_then(|()| self.mark_closed());
        let flushed = match marked.and_then(|()| self.flush(true)) {
            Err(error) if error.kind() == ErrorKind::StoreClosed => return Ok(()),
            result => result,
        };
        writer.close();
        let written = flushed.map_err(|error| self.not_flushed(&error));
        self.reclaimer.stop();
        if let Some(spiller) = &self.spiller {
            spiller.close();
        }
        // The spilled rows must be deleted before the directory's lock is released: the next open
        // deletes the rows that it finds there.
        self.transactions.uncommitted.withdraw();
        drop(closing);
        written
    }

    /// Removes the `open` marker, or leaves only stores in it that are suspect or have uncommitted
    /// writes.
    fn mark_closed(&self) -> Result<()> {
        let left = self.uncommitted_stores()?;
        let closed = OpenMarker::of(
            &left,
            ProcessingGuarantee::ExactlyOnce,
            &self.markers.suspect,
        );
        if closed == self.markers.open {
            return Ok(());
        }
        open_marker::put(closed.as_ref(), &self.rocks, self.families.metadata)
    }

    /// The stores without transactions that hold writes made after their committed offsets. Under
    /// exactly-once, a replay from these offsets would apply the writes twice.
    fn uncommitted_stores(&self) -> Result<Vec<StoreSpec>> {
        let mut found = Vec::new();
        if self.options.guarantee == ProcessingGuarantee::AtLeastOnce {
            return Ok(found);
        }
        let base = self.base();
        for entry in &self.stores.entries {
            if entry.spec.persistent && entry.written.load(Ordering::Relaxed) {
                let name = &entry.spec.name;
                let offsets = offset_rows::read(base.files(), self.families.offsets, name)?;
                if offsets.values().any(Option::is_some) {
                    found.push(entry.spec.clone());
                }
            }
        }
        Ok(found)
    }

    /// Ends the thread that frees expired space, if there is one, and compactions with it, without
    /// a close. Waits until the thread has ended. The drop of the last reference does the same. A
    /// caller that drops the last reference while it holds a lock calls `stop` before it takes the
    /// lock.
    pub fn stop(&self) {
        self.reclaimer.stop();
    }

    /// Adds the commit that the files hold to the error of a close.
    fn not_flushed(&self, error: &Error) -> Error {
        let left = match self.options.durability {
            Durability::Sync => "the database is closed, and no commit is lost: all are in the \
                                 write-ahead log, and the next open restores them once the cause \
                                 is fixed"
                .to_owned(),
            Durability::Changelog => match self.rocks.last_in_files() {
                Some(last) => format!(
                    "the database is closed; its files hold commit {last}, and the changelog \
                     restores the later ones"
                ),
                None => "the database is closed; the next open reports which commit its files \
                         hold, and the changelog restores the later ones"
                    .to_owned(),
            },
        };
        Error::new(error.kind(), format!("{error}; {left}")).path(self.path())
    }
}

/// Closes the database even if a close fails or panics. Otherwise a panic would leave the database
/// usable with its `open` marker removed, and the next open would take a later crash for a clean
/// stop.
struct CloseOnDrop<'a>(&'a RocksDb);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
