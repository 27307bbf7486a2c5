//! Range deletes: an interval that hides stored rows, and deletes over the staged ones.

use super::scan::Step;
use super::staged::cleared::Interval;
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
        let keys = self.keys(table, bounds)?;
        keys.iter()
            .try_for_each(|key| self.stage(table, &[key], None, false))
    }

    /// The keys of all rows within bounds.
    pub(crate) fn keys(&mut self, table: Table, bounds: &Bounds) -> Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        self.scan(table, bounds.clone(), false)?
            .for_each(&mut |key, _| {
                keys.push(key.to_vec());
                Step::Next
            })?;
        Ok(keys)
    }

    /// Replaces range deletes by a staged delete of each stored row that they hide.
    ///
    /// A row that has a staged record needs none. After an error the range deletes are unchanged.
    pub(super) fn expand_cleared(&mut self, table: Table) -> Result<()> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for Interval { from, to } in buffer.cleared().iter() {
            let bounds = Bounds {
                lower: Some(from.clone()),
                upper: Some(to.clone()),
                within_key: false,
            };
            TableCursor::new(&self.base, table, &bounds)?.with(|rows| {
                rows.seek_to_first();
                while let Some(key) = rows.key() {
                    if buffer.find(key).is_none() {
                        keys.push(key.to_vec());
                    }
                    rows.next();
                }
            })?;
        }
        buffer.take_cleared();
        for key in keys {
            buffer.push(&[&key], None, false);
        }
        Ok(())
    }
}
