//! Restores a store from its changelog.

use crate::database::commit::Commit;
use crate::database::database::Database;
use crate::error::{Error, ErrorKind, Result};
use crate::position::Position;
use crate::store::versioned::VersionRow;

impl Database {
    /// Applies changelog records of one store and commits them with their offsets, and with the
    /// properties of `commit`.
    ///
    /// A restore bypasses the open transaction. Its result does not depend on how the records are
    /// cut into batches. The records must be in the order in which they were written. A record
    /// older than the retention, measured from the stream time before that record, is skipped and
    /// not counted. The source topic of a table may have such records.
    ///
    /// `position` is the input position of the last record: it is merged into the database's
    /// position. A store that has lost its data counts as restored when `position` is at or after
    /// the database's position in each partition that `position` has. If `position` is empty, the
    /// store counts as restored at once.
    ///
    /// The meaning of a record's key, value and time depends on the store's kind: see `change.rs`.
    ///
    /// # Errors
    /// `InvalidState` if the database has uncommitted writes of any store, or uncommitted observed
    /// offsets (commit or roll back first), and after a failed commit, until `rollback`.
    /// `InvalidValue` for a record that the store cannot hold, for a store that the database was
    /// not opened with, and for a topic with a NUL character in it; nothing is applied then.
    pub fn restore(
        &self,
        store: &str,
        rows: &[VersionRow<'_>],
        commit: &Commit,
        position: &Position,
    ) -> Result<()> {
        self.rocks.check_owner()?;
        self.reclaimer.log();
        let mut writer = self.transactions.writer.lock();
        writer.check_usable(self.path())?;
        if writer.transaction().is_some_and(|tx| !tx.is_empty()) {
            return Err(Error::new(
                ErrorKind::InvalidState,
                "there are uncommitted writes or observed offsets; commit or roll back before a \
                 restore",
            )
            .store(store)
            .path(self.path()));
        }
        let _published = self.publish_writer(&mut writer);
        let mut tx = self.begin()?;
        for (tp, offset) in position.offsets() {
            tx.observe(tp.clone(), offset)?;
        }
        self.entry(store)?.restore(&mut tx, rows)?;
        writer.forget_if_empty();
        self.commit_locked(&mut writer, tx, commit, Some(store))
    }
}
