//! Reads of a transaction: staged records first, then spilled and committed rows.

use super::scan::Scan;
use super::sort_prefix::{sort_by_prefix, sort_prefix};
use super::staged::latest_rows::LatestRows;
use super::staged::layer::Layer;
use super::staged::record::StagedRecord;
use super::stored::cursor::{CursorRows, TableCursor};
use super::table::{Place, Table};
use super::transaction::Transaction;
use crate::error::Result;
use crate::table::{Bounds, TIME_BYTES};
use std::convert::Infallible;
use std::sync::Arc;

impl Transaction {
    /// Reads one key; `f` gets the value without a copy.
    pub(crate) fn get<R>(
        &mut self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        match buffer.find(key) {
            Some(staged) => Ok(f(staged.value)),
            None if buffer.hides_stored(key) => Ok(f(None)),
            None => self.base.get(table, key, f),
        }
    }

    /// Reads a stored key; staged records are ignored.
    pub(crate) fn get_stored<R>(
        &self,
        table: Table,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        self.base.get(table, key, f)
    }

    /// Estimates how many rows a table has. Each put of the transaction counts as a new row, and
    /// each delete as a removed row. The stored rows of a deleted range count until a compaction
    /// removes them, which may be long after the commit.
    pub(crate) fn approximate_rows(&self, table: Table) -> Result<u64> {
        Ok(self
            .base
            .approximate_rows(table)?
            .saturating_add_signed(self.buffers[table.number].added_rows()))
    }

    /// Reads many keys and calls `f` once for each, in no particular order.
    pub(crate) fn get_batch(
        &mut self,
        table: Table,
        keys: &[&[u8]],
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        let order = &mut self.read_order;
        order.clear();
        for (n, key) in keys.iter().enumerate() {
            match buffer.find(key) {
                Some(staged) => f(n, staged.value),
                None if buffer.hides_stored(key) => f(n, None),
                None => order.push((sort_prefix(key), n as u32)),
            }
        }
        let by_key = |a: &(u64, u32), b: &(u64, u32)| {
            a.0.cmp(&b.0)
                .then_with(|| keys[a.1 as usize].cmp(keys[b.1 as usize]))
        };
        sort_by_prefix(order, |entry| entry.0, by_key);
        // A key that is requested several times is read once.
        let mut sorted: Vec<&[u8]> = Vec::with_capacity(order.len());
        for (n, (prefix, asker)) in order.iter().enumerate() {
            let key = keys[*asker as usize];
            if n == 0 || order[n - 1].0 != *prefix || sorted.last() != Some(&key) {
                sorted.push(key);
            }
        }
        if sorted.len() == order.len() {
            return self
                .base
                .get_sorted(table, &sorted, |n, value| f(order[n].1 as usize, value));
        }
        let mut askers = order.iter().map(|(_, asker)| *asker as usize).peekable();
        self.base.get_sorted(table, &sorted, |n, value| {
            while let Some(asker) = askers.next_if(|asker| keys[*asker] == sorted[n]) {
                f(asker, value);
            }
        })
    }

    /// Reads many stored keys in ascending order and calls `f` for each, in order. Staged records
    /// are ignored.
    pub(crate) fn get_stored_sorted(
        &self,
        table: Table,
        keys: &[&[u8]],
        f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.base.get_sorted(table, keys, f)
    }

    /// The newest staged version of a key (versioned tables).
    pub(crate) fn newest_staged(&mut self, table: Table, part: &[u8]) -> Option<StagedRecord<'_>> {
        let buffer = &mut self.buffers[table.number];
        buffer.catch_up();
        buffer.newest(part)
    }

    /// The first staged record at or after a key, and the last one before it, within the same key
    /// part (versioned tables).
    pub(crate) fn staged_neighbours(
        &mut self,
        table: Table,
        key: &[u8],
    ) -> (Option<StagedRecord<'_>>, Option<StagedRecord<'_>>) {
        let buffer = &mut self.buffers[table.number];
        buffer.order();
        let part = &key[..key.len() - TIME_BYTES];
        let same = |staged: &StagedRecord<'_>| {
            staged.key.len() == key.len() && staged.key.starts_with(part)
        };
        (
            buffer.at_or_after(key).filter(same),
            buffer.before(key).filter(same),
        )
    }

    /// Runs `f` on a cursor over stored rows; later calls reuse the cursor. With `within_key`
    /// (versioned tables) a seek stays within its key and checks the files' filters first. Such a
    /// cursor cannot move backward.
    pub(crate) fn with_seeker<R>(
        &mut self,
        table: Table,
        within_key: bool,
        f: impl FnOnce(&mut CursorRows<'_>) -> R,
    ) -> Result<R> {
        if self.seekers.is_empty() {
            self.seekers
                .resize_with(self.tables.len(), Default::default);
        }
        let slot = &mut self.seekers[table.number][usize::from(within_key)];
        let cursor = match slot {
            Some(cursor) => cursor,
            None => {
                let bounds = Bounds {
                    within_key,
                    ..Bounds::default()
                };
                slot.insert(TableCursor::new(&self.base, table, &bounds)?)
            }
        };
        let result = cursor.with(f);
        if result.is_err() {
            // RocksDB's iterator may report a disk error again after the disk is repaired.
            *slot = None;
        }
        result
    }

    /// A scan of staged and stored rows as they are now.
    pub(crate) fn scan(&mut self, table: Table, bounds: Bounds, reverse: bool) -> Result<Scan> {
        let staged = self.buffers[table.number].freeze().to_vec();
        self.open_scan(table, staged, bounds, reverse)
    }

    fn open_scan(
        &self,
        table: Table,
        staged: Vec<Arc<Layer>>,
        bounds: Bounds,
        reverse: bool,
    ) -> Result<Scan> {
        match table.place {
            Place::Files(_) => {
                let cleared = self.buffers[table.number].cleared().clone();
                Ok(Scan::new(
                    staged,
                    TableCursor::new(&self.base, table, &bounds)?,
                    cleared,
                    bounds,
                    reverse,
                ))
            }
            // Committed rows in memory are layers too, older than the staged ones.
            Place::Memory(number) => {
                let layers = self
                    .base
                    .table(number)?
                    .layers()
                    .iter()
                    .cloned()
                    .chain(staged)
                    .collect();
                Ok(Scan::in_memory(
                    layers,
                    Arc::clone(self.base.files()),
                    bounds,
                    reverse,
                ))
            }
        }
    }

    /// Scans the newest versions: stored `latest` rows, and rows made from newer staged versions.
    pub(crate) fn scan_latest(&mut self, versions: Table, latest: Table) -> Result<Scan> {
        let layer = self.latest_layer(versions, latest);
        self.open_scan(latest, vec![Arc::new(layer)], Bounds::default(), false)
    }

    /// Makes the `latest` rows of the staged versions.
    pub(super) fn latest_layer(&mut self, versions: Table, latest: Table) -> Layer {
        let (mut layer, mut rows) = (Layer::new(latest.family_id(), 0), LatestRows::default());
        let Ok(()) = self.buffers[versions.number].for_each_newest(|staged| {
            if let Some((key, value)) = rows.of(staged) {
                layer.push(&[key], Some(&value), true);
            }
            Ok::<(), Infallible>(())
        });
        layer.pushed_in_order();
        layer
    }
}
