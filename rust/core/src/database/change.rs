//! Reads a transaction's changes in the form of changelog records, and applies such changes.
//!
//! A change's key, value and time, by the store's kind:
//!
//! | kind | key | value | time |
//! | --- | --- | --- | --- |
//! | key-value | key | value; the last record of a key wins | ignored |
//! | timestamped key-value | key | value | the value's timestamp |
//! | versioned | key | value or tombstone | begin of validity |
//! | window | key | value | the window's start |
//! | timestamped window | key | timestamp (8 bytes, big-endian), value | the window's start |
//! | session | key, end, start (both 8 bytes big-endian) | value | ignored |

use super::database::Database;
use super::stores::{Store, StoreEntry};
use crate::error::{Error, ErrorKind, Result};
use crate::store::StoreKind;
use crate::store::timestamped::Stamped;
use crate::store::versioned::VersionRow;
use crate::store::window::WindowPut;
use crate::time::Timestamp;
use crate::transaction::Transaction;

impl Database {
    /// Calls `f` with the changes that a transaction has staged for a store: the last change of
    /// each row, in the order of the store's rows. [`Database::apply_changes`] accepts the same
    /// key, value and time.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database does not have; those of `f`.
    pub fn for_each_change(
        &self,
        store: &str,
        tx: &mut Transaction,
        f: &mut dyn FnMut(VersionRow<'_>) -> Result<()>,
    ) -> Result<()> {
        const NO_TIME: Timestamp = Timestamp(0);
        match &self.entry(store)?.store {
            Store::KeyValue(store) => tx.for_each_staged(store.table, |key, value| {
                f(VersionRow {
                    key,
                    value,
                    timestamp: NO_TIME,
                })
            }),
            Store::Timestamped(store) => tx.for_each_staged(store.table, |key, row| {
                let stamped = row.map(Stamped::decode);
                f(VersionRow {
                    key,
                    value: stamped.map(|s| s.value),
                    timestamp: stamped.map_or(NO_TIME, |s| s.timestamp),
                })
            }),
            Store::Versioned(store, _) => store.for_each_change(tx, f),
            Store::Window(store, _) => store.for_each_change(tx, f),
            Store::Session(store, _) => store.for_each_change(tx, f),
        }
    }

    /// Stages changes that a store has accepted before, and raises the store's stream time to
    /// `stream_time`. Changes of different rows may be in any order.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database does not have, or for a record that the store
    /// cannot hold. If a key or value is longer than 1 GiB, the changes before it are staged.
    pub fn apply_changes(
        &self,
        store: &str,
        tx: &mut Transaction,
        rows: &[VersionRow<'_>],
        stream_time: Option<Timestamp>,
    ) -> Result<()> {
        let entry = self.entry(store)?;
        entry.apply_changes(tx, rows)?;
        match (&entry.store, stream_time) {
            (Store::Versioned(store, _), Some(time)) => store.raise_stream_time(tx, time.0),
            (Store::Window(store, _), Some(time)) => store.rows.raise_stream_time(tx, time.0),
            (Store::Session(store, _), Some(time)) => store.rows.raise_stream_time(tx, time.0),
            _ => {}
        }
        Ok(())
    }

    /// Returns a store's stream time, the greatest time of an accepted write, as a transaction
    /// reads it. Key-value stores, with timestamps or without, have none.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database does not have.
    pub fn stream_time(&self, store: &str, tx: &Transaction) -> Result<Option<Timestamp>> {
        Ok(match &self.entry(store)?.store {
            Store::KeyValue(_) | Store::Timestamped(_) => None,
            Store::Versioned(store, _) => store.stream_time(tx),
            Store::Window(store, _) => store.stream_time(tx),
            Store::Session(store, _) => store.stream_time(tx),
        })
    }
}

impl StoreEntry {
    /// Stages records in changelog order.
    pub(super) fn restore(&self, tx: &mut Transaction, records: &[VersionRow<'_>]) -> Result<()> {
        match &self.store {
            Store::Versioned(store, _) => store.restore_in_order(tx, records),
            Store::Window(store, _) => store.restore_in_order(tx, &self.window_records(records)?),
            Store::Session(store, _) => {
                store.restore_in_order(tx, records.iter().map(|row| (row.key, row.value)))
            }
            _ => self.apply_changes(tx, records),
        }
    }

    fn apply_changes(&self, tx: &mut Transaction, rows: &[VersionRow<'_>]) -> Result<()> {
        match &self.store {
            Store::KeyValue(store) => {
                store.restore(tx, rows.iter().map(|row| (row.key, row.value)))?
            }
            Store::Timestamped(store) => store.restore(
                tx,
                rows.iter().map(|row| (row.key, row.value, row.timestamp)),
            )?,
            Store::Versioned(store, _) => store.restore(tx, rows, None)?,
            Store::Window(store, _) => store.restore(tx, &self.window_records(rows)?)?,
            Store::Session(store, _) => {
                store.restore(tx, rows.iter().map(|row| (row.key, row.value)))?
            }
        }
        Ok(())
    }

    fn window_records<'a>(&self, rows: &[VersionRow<'a>]) -> Result<Vec<WindowPut<'a>>> {
        let timestamped = matches!(
            self.spec.kind,
            StoreKind::Window {
                timestamped: true,
                ..
            }
        );
        let record = |(n, row): (usize, &VersionRow<'a>)| {
            let plain = WindowPut {
                key: row.key,
                value: row.value,
                start: row.timestamp,
                timestamp: None,
            };
            match row.value {
                Some(value) if timestamped => {
                    let (time, value) = value.split_first_chunk().ok_or_else(|| {
                        let words = format!(
                            "row {n}: the value has {} bytes; wanted: 8 bytes of timestamp, then \
                             the value",
                            value.len()
                        );
                        Error::new(ErrorKind::InvalidValue, words)
                            .store(&self.spec.name)
                            .key(row.key)
                    })?;
                    Ok(WindowPut {
                        value: Some(value),
                        timestamp: Some(Timestamp(i64::from_be_bytes(*time))),
                        ..plain
                    })
                }
                _ => Ok(plain),
            }
        };
        rows.iter().enumerate().map(record).collect()
    }
}
