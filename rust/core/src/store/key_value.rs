//! The key-value store: unsigned lexicographic key order, `None` deletes, `b""` is a value.

use super::key_range::{between, with_prefix};
use crate::error::Result;
use crate::metrics::{Operation, StoreCounts};
use crate::table::Bounds;
use crate::transaction::{Scan, Table, Transaction};
use std::sync::Arc;

/// A handle to a key-value store of a database. Every call takes the transaction to work in.
#[derive(Clone)]
pub struct KeyValueStore {
    pub(crate) name: String,
    pub(crate) table: Table,
    pub(crate) counts: Arc<StoreCounts>,
}

impl KeyValueStore {
    /// Returns the store's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a value, or deletes the key for `None`.
    ///
    /// # Errors
    /// `InvalidValue` for a key or value of more than 1 GiB.
    pub fn put(&self, tx: &mut Transaction, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let _call = self.counts.call(Operation::Put);
        self.stage(tx, key, value)
    }

    fn stage(&self, tx: &mut Transaction, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let staged = tx.make_room().and_then(|()| {
            tx.stage(
                self.table,
                &[key],
                value.as_ref().map(std::slice::from_ref),
                false,
            )
        });
        staged.map_err(|e| e.store(&self.name).key(key))
    }

    /// Reads a value and calls `f` with it, without a copy.
    pub fn get<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let _call = self.counts.call(Operation::Get);
        self.read(tx, key, f)
    }

    fn read<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        tx.get(self.table, key, f).map_err(|e| e.store(&self.name))
    }

    /// Puts a value if the key has none; returns the value that it had.
    ///
    /// # Errors
    /// As `put`.
    pub fn put_if_absent(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>> {
        let _call = self.counts.call(Operation::PutIfAbsent);
        let found = self.read(tx, key, |found| found.map(<[u8]>::to_vec))?;
        if found.is_none() && value.is_some() {
            self.stage(tx, key, value)?;
        }
        Ok(found)
    }

    /// Deletes a key; returns the value that it had.
    pub fn delete(&self, tx: &mut Transaction, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let _call = self.counts.call(Operation::Delete);
        let found = self.read(tx, key, |found| found.map(<[u8]>::to_vec))?;
        if found.is_some() {
            self.stage(tx, key, None)?;
        }
        Ok(found)
    }

    /// Deletes all keys in `[from, to]`, both inclusive, `None` open; `from > to` is empty.
    ///
    /// In files this costs two seeks, for any number of rows, and a delete of each staged row in
    /// the range. In memory it costs a scan.
    pub fn delete_range(
        &self,
        tx: &mut Transaction,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        let _call = self.counts.call(Operation::DeleteRange);
        tx.delete_range(self.table, &between(from, to))
            .map_err(|e| e.store(&self.name))
    }

    /// Puts many values, in order; `None` deletes.
    ///
    /// # Errors
    /// As `put`; the rows before the failed one are then staged.
    pub fn put_batch<'a>(
        &self,
        tx: &mut Transaction,
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        self.put_rows(Operation::PutBatch, tx, rows)
    }

    /// As `put_batch`, counted as `put_all`, for callers that have rows one by one.
    ///
    /// # Errors
    /// As `put_batch`.
    pub fn put_all<'a>(
        &self,
        tx: &mut Transaction,
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        self.put_rows(Operation::PutAll, tx, rows)
    }

    /// Deletes many keys.
    ///
    /// # Errors
    /// As `put_batch`.
    pub fn delete_batch<'a>(
        &self,
        tx: &mut Transaction,
        keys: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<()> {
        self.put_rows(
            Operation::DeleteBatch,
            tx,
            keys.into_iter().map(|key| (key, None)),
        )
    }

    fn put_rows<'a>(
        &self,
        operation: Operation,
        tx: &mut Transaction,
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        let mut call = self.counts.call(operation);
        let mut taken = 0;
        let rows = rows.into_iter().inspect(|_| taken += 1);
        let staged = tx.stage_rows(self.table, rows);
        call.records(taken - usize::from(staged.is_err()));
        staged.map_err(|e| e.store(&self.name))
    }

    /// Reads many keys and calls `f` once for each, in no particular order.
    pub fn get_batch(
        &self,
        tx: &mut Transaction,
        keys: &[&[u8]],
        f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut call = self.counts.call(Operation::GetBatch);
        call.records(keys.len());
        tx.get_batch(self.table, keys, f)
            .map_err(|e| e.store(&self.name))
    }

    /// Returns a scan of `[from, to]`, both inclusive, `None` open; `from > to` is empty.
    pub fn range(
        &self,
        tx: &mut Transaction,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        reverse: bool,
    ) -> Result<Scan> {
        let _call = self.counts.call(if from.is_none() && to.is_none() {
            Operation::All
        } else {
            Operation::Range
        });
        self.scan(tx, between(from, to), reverse)
    }

    /// Returns a scan of the keys that start with `prefix`, or, if there is an `end`, of the keys
    /// in `[prefix, end)`, which is empty if `end` is not above `prefix`. A prefix of 0xFF bytes
    /// scans to the end of the store.
    pub fn prefix_scan(
        &self,
        tx: &mut Transaction,
        prefix: &[u8],
        end: Option<&[u8]>,
        reverse: bool,
    ) -> Result<Scan> {
        let _call = self.counts.call(Operation::PrefixScan);
        self.scan(tx, with_prefix(prefix, end), reverse)
    }

    fn scan(&self, tx: &mut Transaction, bounds: Bounds, reverse: bool) -> Result<Scan> {
        let scan = tx
            .scan(self.table, bounds, reverse)
            .map_err(|e| e.store(&self.name))?;
        Ok(scan.counted(self.counts.iterator()))
    }

    /// Stages rows from a changelog.
    pub(crate) fn restore<'a>(
        &self,
        tx: &mut Transaction,
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<()> {
        self.put_rows(Operation::Restore, tx, rows)
    }

    /// Estimates how many entries there are. Each put of the transaction counts as a new entry, and
    /// each delete as a removed entry. The entries of a range that was deleted in files count until
    /// a compaction removes them.
    pub fn approximate_num_entries(&self, tx: &Transaction) -> Result<u64> {
        tx.approximate_rows(self.table)
            .map_err(|e| e.store(&self.name))
    }

    /// Memory that the store's staged records hold, in bytes.
    pub fn uncommitted_bytes(&self, tx: &Transaction) -> usize {
        tx.table_bytes(self.table)
    }
}
