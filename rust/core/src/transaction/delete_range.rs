//! Range deletes: an interval that hides stored rows, and deletes over the staged ones.

use super::spill::hidden_keys::HiddenKeys;
use super::staged::cleared::Interval;
use super::staged::layer::Layer;
use super::stored::cursor::TableCursor;
use super::table::{Place, Table};
use super::transaction::Transaction;
use crate::error::Result;
use crate::table::Bounds;

impl Transaction {
    /// Deletes all rows within bounds, staged ones and stored ones.
    pub(crate) fn delete_range(&mut self, table: Table, bounds: &Bounds) -> Result<()> {
        let Place::Files(_) = table.place else {
            return self.delete_each(table, bounds);
        };
        // From the first row to the last one: the interval has two ends even if the bounds are
        // open.
        let interval = TableCursor::new(&self.base, table, bounds)?.with(|rows| {
            rows.seek_to_first();
            let from = rows.key()?.to_vec();
            rows.seek_to_last();
            Some(Interval {
                from,
                to: [rows.key()?, &[0]].concat(),
            })
        })?;
        let buffer = &mut self.buffers[table.number];
        if let Some(interval) = interval {
            buffer.clear(interval);
        }
        buffer.delete_staged(bounds);
        // The deletes over staged rows do not count as staged bytes.
        self.memory_limit.measure_at = 0;
        Ok(())
    }

    /// Stages a delete of each row. Committed rows in memory are layers like staged ones, and each
    /// of them would have to check an interval.
    fn delete_each(&mut self, table: Table, bounds: &Bounds) -> Result<()> {
        self.scan(table, bounds.clone(), false)?
            .each_key(&mut |key| self.stage(table, &[key], None, false))
    }

    /// Replaces range deletes by a staged delete of each stored row that they hide. Spills if these
    /// outgrow the memory.
    ///
    /// A row that has a staged record needs none. After an error, the transaction reads the same
    /// rows as before.
    pub(super) fn expand_cleared(&mut self, table: Table) -> Result<()> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        let mut hidden = HiddenKeys::new(&self.base, table, buffer)?;
        while let Some(keys) = hidden.next_keys()? {
            let buffer = &mut self.buffers[table.number];
            for key in keys {
                if buffer.find(&key).is_none() {
                    self.staged_bytes += (key.len() + Layer::RECORD_BYTES) as u64;
                    buffer.push(&[&key], None, false);
                }
            }
            self.make_room()?;
            if self.buffers[table.number].cleared().is_empty() {
                // It has spilled, and a spill also writes the deletes of the rows that follow.
                return Ok(());
            }
        }
        self.buffers[table.number].take_cleared();
        Ok(())
    }
}
