//! When and how a transaction spills.

use super::hidden_keys::HiddenKeys;
use super::spiller::{SpillTarget, Spiller};
use crate::error::{Error, Result};
use crate::failpoint::Failpoint;
use crate::transaction::staged::table_buffer::TableBuffer;
use crate::transaction::stored::base::Base;
use crate::transaction::stored::spilled_rows::SpilledRows;
use crate::transaction::table::Table;
use crate::transaction::transaction::Transaction;
use std::path::Path;
use std::sync::Arc;

/// The fewest staged bytes between two measurements: a measurement costs as much as some puts.
/// Limits below 8 MiB have a shorter step.
const SHORTEST_STEP: usize = 32 << 10;

impl Transaction {
    /// Spills if the staged records have outgrown the memory. Call it between the rows of a batch,
    /// where no earlier read of staged or stored rows is still used.
    ///
    /// # Errors
    /// `Io` for a full disk, or another failure of the disk; nothing is lost or changed then.
    #[inline]
    pub(crate) fn make_room(&mut self) -> Result<()> {
        if self.staged_bytes < self.memory_limit.measure_at {
            Ok(())
        } else {
            self.measure()
        }
    }

    /// Whether the next record may make the transaction spill.
    #[inline]
    pub(crate) fn may_spill(&self) -> bool {
        self.staged_bytes >= self.memory_limit.measure_at && self.memory_limit.spiller.is_some()
    }

    /// Whether the transaction can have this many bytes of staged records without a spill.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let memory = &self.memory_limit;
        let spiller = memory.spiller.as_ref();
        spiller.is_none_or(|spiller| bytes < memory.limit(spiller))
    }

    #[cold]
    fn measure(&mut self) -> Result<()> {
        let Some(spiller) = self.memory_limit.spiller.clone() else {
            self.memory_limit.measure_at = u64::MAX;
            return Ok(());
        };
        let limit = self.memory_limit.limit(&spiller);
        let bytes = self
            .spillable(&spiller)
            .map(|(_, buffer, _)| buffer.bytes())
            .sum::<usize>();
        let left = if bytes >= limit {
            self.spill()?;
            limit
        } else {
            limit - bytes
        };
        // The memory grows no faster than the staged bytes. Until the next measurement it exceeds
        // the limit by at most the shortest step and one record.
        let shortest = SHORTEST_STEP.min(limit / 256);
        self.memory_limit.measure_at = self.staged_bytes + left.max(shortest) as u64;
        Ok(())
    }

    fn spillable<'a>(
        &'a mut self,
        spiller: &'a Spiller,
    ) -> impl Iterator<Item = (Table, &'a mut TableBuffer, &'a SpillTarget)> {
        let buffers = self
            .tables
            .iter()
            .zip(&mut self.buffers)
            .zip(spiller.targets());
        buffers.filter_map(|((table, buffer), target)| Some((*table, buffer, target.as_ref()?)))
    }

    /// Moves the staged records into sorted files, as the transaction does by itself when they
    /// outgrow its memory. Does nothing in a database that never spills. After an error the records
    /// are still staged.
    ///
    /// # Errors
    /// `Io` for a full disk, or another failure of the disk.
    pub fn spill(&mut self) -> Result<()> {
        let Some(spiller) = self.memory_limit.spiller.clone() else {
            return Ok(());
        };
        if self
            .spillable(&spiller)
            .all(|(_, buffer, _)| buffer.is_empty())
        {
            return Ok(());
        }
        self.base.files().rocks().check_open()?;
        self.memory_limit.peak = self.peak_bytes();
        let rows = self
            .spill_rows(&spiller)
            .map_err(|error| spill_failure(error, spiller.directory()))?;
        self.set_base(Base::with_spilled(self.base.committed(), rows));
        self.spillable(&spiller)
            .for_each(|(_, buffer, _)| buffer.clear_all());
        Failpoint::AfterSpill.pass()
    }

    fn spill_rows(&mut self, spiller: &Spiller) -> Result<SpilledRows> {
        Failpoint::BeforeSpill.pass()?;
        let (rocks, families) = match self.base.spilled() {
            Some(rows) => (
                Arc::clone(rows.snapshot.rocks()),
                Arc::clone(&rows.families),
            ),
            None => {
                let rocks = spiller.rocks()?;
                let families = spiller.families(&rocks)?;
                (rocks, families)
            }
        };
        let base = Arc::clone(&self.base);
        let mut added = base
            .spilled()
            .map_or_else(|| vec![0; self.tables.len()], |rows| rows.added.to_vec());
        self.spillable(spiller)
            .try_for_each(|(table, buffer, target)| {
                added[table.number] += buffer.added_rows();
                let mut hidden = HiddenKeys::new(&base, table, buffer)?;
                spiller.spill_table(&rocks, buffer, target, &mut hidden)
            })?;
        Ok(SpilledRows {
            snapshot: rocks.snapshot()?,
            families,
            added: added.into(),
        })
    }

    /// Lowers the memory at which this transaction spills, for transactions that share a budget.
    pub fn limit_memory(&mut self, bytes: usize) {
        self.memory_limit.bytes = Some(bytes);
        self.memory_limit.measure_at = 0;
    }

    /// Returns whether a part of the transaction has been spilled.
    pub fn has_spilled(&self) -> bool {
        self.base.spilled().is_some()
    }

    /// Returns the most memory that the transaction has used, in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.memory_limit.peak.max(self.uncommitted_bytes())
    }
}

fn spill_failure(error: Error, directory: &Path) -> Error {
    let words = format!("moving the transaction's records to files failed: {error}");
    Error::new(error.kind(), words).path(directory)
}
