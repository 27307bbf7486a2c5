//! The calls of a timestamped key-value store.

use super::scan::StampedScan;
use super::stamped::{NO_TIMESTAMP, Stamped};
use crate::error::Result;
use crate::metrics::{Operation, StoreCounts};
use crate::store::key_range::{between, with_prefix};
use crate::table::Bounds;
use crate::time::Timestamp;
use crate::transaction::{Table, Transaction};
use std::sync::Arc;

/// A handle to a timestamped key-value store of a database. Every call takes the transaction to
/// work in.
#[derive(Clone)]
pub struct TimestampedKeyValueStore {
    pub(crate) name: String,
    pub(crate) table: Table,
    /// The rows of a former plain store of the same name.
    pub(crate) plain: Option<Table>,
    pub(crate) counts: Arc<StoreCounts>,
}

impl TimestampedKeyValueStore {
    /// Returns the store's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a value with its timestamp, or deletes the key for `None`.
    ///
    /// # Errors
    /// `InvalidValue` for a key or value of more than 1 GiB.
    pub fn put(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> Result<()> {
        let _call = self.counts.call(Operation::Put);
        self.stage(tx, key, value, timestamp)
    }

    fn stage(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> Result<()> {
        tx.make_room().map_err(|e| e.store(&self.name).key(key))?;
        let staged = match value {
            Some(value) => tx.stage(
                self.table,
                &[key],
                Some(&[&timestamp.0.to_be_bytes(), value]),
                false,
            ),
            None => tx.stage(self.table, &[key], None, false),
        };
        let rewritten = |()| {
            self.plain
                .map_or(Ok(()), |plain| tx.stage(plain, &[key], None, false))
        };
        staged
            .and_then(rewritten)
            .map_err(|e| e.store(&self.name).key(key))
    }

    /// Reads a value and calls `f` with it, without a copy.
    pub fn get<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        f: impl FnOnce(Option<Stamped<'_>>) -> R,
    ) -> Result<R> {
        let _call = self.counts.call(Operation::Get);
        self.read(tx, key, f)
    }

    fn read<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        f: impl FnOnce(Option<Stamped<'_>>) -> R,
    ) -> Result<R> {
        let named = |e: crate::Error| e.store(&self.name);
        let Some(plain) = self.plain else {
            return tx
                .get(self.table, key, |row| f(row.map(Stamped::decode)))
                .map_err(named);
        };
        let found = tx
            .get(self.table, key, |row| row.map(<[u8]>::to_vec))
            .map_err(named)?;
        match found {
            Some(row) => Ok(f(Some(Stamped::decode(&row)))),
            None => tx
                .get(plain, key, |row| f(row.map(Stamped::plain)))
                .map_err(named),
        }
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
        timestamp: Timestamp,
    ) -> Result<Option<(Vec<u8>, Timestamp)>> {
        let _call = self.counts.call(Operation::PutIfAbsent);
        let found = self.read(tx, key, |found| found.map(Stamped::to_owned))?;
        if found.is_none() && value.is_some() {
            self.stage(tx, key, value, timestamp)?;
        }
        Ok(found)
    }

    /// Deletes a key; returns the value that it had.
    pub fn delete(&self, tx: &mut Transaction, key: &[u8]) -> Result<Option<(Vec<u8>, Timestamp)>> {
        let _call = self.counts.call(Operation::Delete);
        let found = self.read(tx, key, |found| found.map(Stamped::to_owned))?;
        if found.is_some() {
            self.stage(tx, key, None, NO_TIMESTAMP)?;
        }
        Ok(found)
    }

    /// Deletes all keys in `[from, to]`, both inclusive, `None` open; see
    /// [`KeyValueStore::delete_range`]. The rows of a former plain store are read and deleted one
    /// by one.
    ///
    /// [`KeyValueStore::delete_range`]: super::key_value::KeyValueStore::delete_range
    pub fn delete_range(
        &self,
        tx: &mut Transaction,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<()> {
        let _call = self.counts.call(Operation::DeleteRange);
        let bounds = between(from, to);
        if let Some(plain) = self.plain {
            tx.scan(plain, bounds.clone(), false)
                .and_then(|mut rows| {
                    rows.each_key(&mut |key| self.stage(tx, key, None, NO_TIMESTAMP))
                })
                .map_err(|e| e.store(&self.name))?;
        }
        tx.delete_range(self.table, &bounds)
            .map_err(|e| e.store(&self.name))
    }

    /// Puts many values with their timestamps, in order; `None` deletes.
    ///
    /// # Errors
    /// As `put`; the rows before the failed one are then staged.
    pub fn put_batch<'a>(
        &self,
        tx: &mut Transaction,
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>, Timestamp)>,
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
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>, Timestamp)>,
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
            keys.into_iter().map(|key| (key, None, NO_TIMESTAMP)),
        )
    }

    /// Stages rows from a changelog.
    pub(crate) fn restore<'a>(
        &self,
        tx: &mut Transaction,
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>, Timestamp)>,
    ) -> Result<()> {
        self.put_rows(Operation::Restore, tx, rows)
    }

    fn put_rows<'a>(
        &self,
        operation: Operation,
        tx: &mut Transaction,
        rows: impl IntoIterator<Item = (&'a [u8], Option<&'a [u8]>, Timestamp)>,
    ) -> Result<()> {
        let mut call = self.counts.call(operation);
        for (n, (key, value, timestamp)) in rows.into_iter().enumerate() {
            self.stage(tx, key, value, timestamp)?;
            call.records(n + 1);
        }
        Ok(())
    }

    /// Reads many keys and calls `f` once for each, in no particular order.
    pub fn get_batch(
        &self,
        tx: &mut Transaction,
        keys: &[&[u8]],
        mut f: impl FnMut(usize, Option<Stamped<'_>>),
    ) -> Result<()> {
        let mut call = self.counts.call(Operation::GetBatch);
        call.records(keys.len());
        let named = |e: crate::Error| e.store(&self.name);
        let mut missing = Vec::new();
        tx.get_batch(self.table, keys, |n, row| match row {
            None if self.plain.is_some() => missing.push(n),
            row => f(n, row.map(Stamped::decode)),
        })
        .map_err(named)?;
        let Some(plain) = self.plain else {
            return Ok(());
        };
        let rest: Vec<&[u8]> = missing.iter().map(|n| keys[*n]).collect();
        tx.get_batch(plain, &rest, |n, row| {
            f(missing[n], row.map(Stamped::plain))
        })
        .map_err(named)
    }

    /// Returns a scan of `[from, to]`, both inclusive, `None` open; `from > to` is empty.
    pub fn range(
        &self,
        tx: &mut Transaction,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        reverse: bool,
    ) -> Result<StampedScan> {
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
    ) -> Result<StampedScan> {
        let _call = self.counts.call(Operation::PrefixScan);
        self.scan(tx, with_prefix(prefix, end), reverse)
    }

    fn scan(&self, tx: &mut Transaction, bounds: Bounds, reverse: bool) -> Result<StampedScan> {
        let named = |e: crate::Error| e.store(&self.name);
        let plain = self
            .plain
            .map(|plain| tx.scan(plain, bounds.clone(), reverse))
            .transpose()
            .map_err(named)?;
        let stamped = tx.scan(self.table, bounds, reverse).map_err(named)?;
        let stamped = stamped.counted(self.counts.iterator());
        Ok(StampedScan::new(stamped, plain, reverse))
    }

    /// About how many entries there are; see [`KeyValueStore::approximate_num_entries`].
    ///
    /// [`KeyValueStore::approximate_num_entries`]:
    /// super::key_value::KeyValueStore::approximate_num_entries
    pub fn approximate_num_entries(&self, tx: &Transaction) -> Result<u64> {
        let named = |e: crate::Error| e.store(&self.name);
        let entries = tx.approximate_rows(self.table).map_err(named)?;
        // The transaction's deletes of the plain table are not counted: every write makes one, even
        // if the plain table does not have the key.
        let committed = tx.base().committed();
        let plain = self
            .plain
            .map_or(Ok(0), |plain| committed.approximate_rows(plain))
            .map_err(named)?;
        Ok(entries + plain)
    }

    /// Memory that the store's staged records hold, in bytes.
    pub fn uncommitted_bytes(&self, tx: &Transaction) -> usize {
        self.tables().map(|table| tx.table_bytes(table)).sum()
    }

    pub(crate) fn tables(&self) -> impl Iterator<Item = Table> {
        [self.table].into_iter().chain(self.plain)
    }
}
