//! Restores a store from its changelog.

use crate::database::commit::Commit;
use crate::database::database::Database;
use crate::database::stores::Store;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Operation;
use crate::position::Position;
use crate::store::key_value::KeyValueStore;
use crate::store::versioned::VersionRow;
use crate::transaction::{Batch, LARGEST, Place, Transaction, check_row, last_of_each_key};

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
        let entry = self.entry(store)?;
        let batch = match &entry.store {
            Store::KeyValue(store) => unstaged_rows(store, &tx, rows)?,
            _ => None,
        };
        let batch = match batch {
            Some(batch) => batch,
            None => {
                entry.restore(&mut tx, rows)?;
                Batch::with_capacity(0)
            }
        };
        writer.forget_if_empty();
        self.commit_rows(&mut writer, tx, batch, commit, Some(store))
    }
}

/// Returns the rows of a key-value store as the commit of a transaction writes them: the last row
/// of each key, in key order. No read needs them in the transaction, so they are not staged.
///
/// Returns `None` if they have to be staged: if the store is in memory, or if they would spill.
fn unstaged_rows(
    store: &KeyValueStore,
    tx: &Transaction,
    rows: &[VersionRow<'_>],
) -> Result<Option<Batch>> {
    let Place::Files(family) = store.table.place else {
        return Ok(None);
    };
    let sizes = rows
        .iter()
        .map(|row| Transaction::record_bytes(row.key, row.value));
    let bytes = sizes.sum();
    if !tx.fits(bytes) {
        return Ok(None);
    }
    let mut call = store.counts.call(Operation::Restore);
    if bytes > LARGEST {
        for row in rows {
            check_row(row.key, row.value).map_err(|e| e.store(&store.name).key(row.key))?;
        }
    }
    call.records(rows.len());
    let mut batch = Batch::with_capacity(bytes);
    for n in last_of_each_key(rows.len(), |n| rows[n as usize].key) {
        let row = &rows[n as usize];
        batch.push(family.id, row.key, row.value);
    }
    Ok(Some(batch))
}
