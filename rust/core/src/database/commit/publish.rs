//! Makes a commit visible.

use crate::database::database::Database;
use crate::database::transactions::committed::{Committed, NextCommit};
use crate::error::{Error, Result};
use crate::transaction::{Base, Batch};

impl Database {
    /// Writes a commit and makes it visible to new views.
    pub(super) fn write_and_publish(&self, batch: &mut Batch, next: NextCommit) -> Result<()> {
        let before = self.rocks.last_write();
        let written = if batch.is_empty() {
            Ok(())
        } else {
            self.rocks.write(batch)
        };
        match written {
            Ok(()) => self.publish(next, batch.len()),
            Err(error) => {
                // The write may have been done despite the error. Then the next transaction begins
                // from it, as after a reopen.
                if self.rocks.find_last_write().is_ok_and(|now| now > before) {
                    self.publish(next, 0)?;
                }
                Err(error)
            }
        }
    }

    /// Makes a written commit visible to new views.
    pub(super) fn publish(&self, next: NextCommit, bytes: usize) -> Result<()> {
        let files = self.rocks.snapshot().map_err(|error| {
            let words = format!(
                "the commit is in the files, but they cannot be read ({error}); close the database \
                 and open it again"
            );
            Error::new(error.kind(), words).path(self.path())
        })?;
        let committed = Committed {
            base: Base::new(files, next.memory, next.position),
            states: next.states,
        };
        // A reader of the new commit must not get an older view afterwards.
        self.transactions.uncommitted.withdraw();
        *self.transactions.committed.write() = committed.clone();
        if let Err(error) = self.advance_horizons(&committed, bytes) {
            log::warn!(
                "{}: expiry is postponed to a later commit: {error}",
                self.path().display()
            );
        }
        Ok(())
    }
}
