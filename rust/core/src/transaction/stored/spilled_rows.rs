//! Rows that a transaction has spilled.

use super::spilled_row;
use crate::error::Result;
use crate::rocks::{Family, Snapshot};
use crate::transaction::table::Table;
use std::sync::Arc;

/// The rows spilled so far, pinned.
#[derive(Clone)]
pub(crate) struct SpilledRows {
    pub(in crate::transaction) snapshot: Arc<Snapshot>,
    /// By table number. Tables in memory and tables of stores without transactions have none.
    pub(in crate::transaction) families: Arc<[Option<Family>]>,
    /// The puts less the deletes of each table, by table number.
    pub(in crate::transaction) added: Arc<[i64]>,
}

impl SpilledRows {
    /// Whether a table's rows are among them.
    pub(in crate::transaction) fn has(&self, table: Table) -> bool {
        self.families[table.number].is_some()
    }

    /// Calls `f` with the rows of a table, deletes included, in key order.
    pub(crate) fn for_each(
        &self,
        table: Table,
        mut f: impl FnMut(&[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let Some(family) = self.families[table.number] else {
            return Ok(());
        };
        self.snapshot
            .rocks()
            .for_each_row(family, &self.snapshot, |key, row| {
                f(key, spilled_row::decode(row))
            })
    }

    /// About how many bytes a table's rows take in files.
    pub(crate) fn file_bytes(&self, table: Table) -> Result<u64> {
        let Some(family) = self.families[table.number] else {
            return Ok(0);
        };
        self.snapshot
            .rocks()
            .family_property(family, "rocksdb.total-sst-files-size")
    }
}
