//! Range deletes: an interval hides the stored rows, and a staged delete hides each staged row.

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
        // The interval is from the first row to the last one, so it has two ends even if the bounds
        // are open.
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
        // The deletes over staged rows are not in `staged_bytes`, so the next check measures the
        // memory.
        self.memory_limit.measure_at = 0;
        Ok(())
    }

    /// Stages a delete of each row. An interval would not help: committed rows in memory are layers
    /// like staged rows, and reads would have to check the interval for each layer.
    fn delete_each(&mut self, table: Table, bounds: &Bounds) -> Result<()> {
        self.scan(table, bounds.clone(), false)?
            .each_key(&mut |key| self.stage(table, &[key], None, false))
    }

    /// Replaces range deletes by a staged delete of each stored row that they hide. Spills if these
    /// deletes outgrow the memory.
    ///
    /// A row with a staged record needs no such delete. After an error, the transaction reads the
    /// same rows as before.
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
                // The transaction has spilled, and a spill also writes the deletes of the rows that
                // follow.
                return Ok(());
            }
        }
        self.buffers[table.number].take_cleared();
        Ok(())
    }
}
