//! Moves a transaction's staged records into a commit, or lists them.

use super::staged::record::StagedRecord;
use super::stored::memory_table::MemoryTable;
use super::table::Table;
use super::transaction::Transaction;
use crate::error::{Error, ErrorKind, Result};
use crate::rocks::Batch;
use std::sync::Arc;

impl Transaction {
    /// Moves the staged rows of a table in memory into its committed rows; `expired` as for
    /// [`MemoryTable::push`].
    pub(crate) fn move_to_memory(
        &mut self,
        table: Table,
        rows: &mut MemoryTable,
        expired: &mut dyn FnMut(&[u8]) -> bool,
    ) {
        if let Some(layer) = self.buffers[table.number].take() {
            rows.push(layer, table.family_id(), table.suffix(), expired);
        }
    }

    /// Moves the `latest` rows of the staged versions in the same way. Call it before the versions
    /// are moved.
    pub(crate) fn move_latest_to_memory(
        &mut self,
        versions: Table,
        latest: Table,
        rows: &mut MemoryTable,
    ) {
        let mut layer = self.latest_layer(versions, latest);
        layer.freeze();
        rows.push(Arc::new(layer), latest.family_id(), 0, &mut |_| false);
    }

    /// Calls `f` with each key's last staged record, in key order, and with its encoding in a write
    /// batch. The records are then dropped.
    pub(crate) fn drain(&mut self, table: Table, f: impl FnMut(StagedRecord<'_>, &[u8])) {
        self.buffers[table.number].drain_in_order(f);
    }

    /// Calls `f` with each key's last staged or spilled record, in key order. The records remain.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a reader's view of a transaction with spilled and staged records:
    /// a reader cannot spill. Those of `f`, of reads and of a spill.
    pub(crate) fn for_each_staged(
        &mut self,
        table: Table,
        mut f: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        self.expand_cleared(table)?;
        if self.has_spilled() {
            self.spill()?;
        }
        match self.base.spilled() {
            Some(rows) if rows.has(table) && self.is_staged(table) => Err(Error::new(
                ErrorKind::UnsupportedOperation,
                "a reader's view cannot list the changes of a transaction that has spilled: list \
                 those of the transaction itself",
            )),
            Some(rows) if rows.has(table) => rows.for_each(table, f),
            _ => self.buffers[table.number].for_each_newest(|staged| f(staged.key, staged.value)),
        }
    }

    /// Moves the range deletes into a batch. Call it before the table is drained: a row that was
    /// put after a range delete must follow it in the batch.
    pub(crate) fn drain_cleared(&mut self, table: Table, batch: &mut Batch) {
        for interval in self.buffers[table.number].take_cleared().iter() {
            batch.push_delete_range(table.family_id(), &interval.from, &interval.to);
        }
    }
}
