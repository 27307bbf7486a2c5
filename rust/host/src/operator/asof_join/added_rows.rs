//! The left rows of an epoch that wait.

use holdfast_core::{Database, Result, Transaction};

use super::spec::WAITING;
use crate::codec::byte_list::ByteList;
use crate::operator::waiting_rows::{CloseLimit, RowRequest, WaitingRow, WaitingRows};

/// The maximum number of records to which rows are added at once. Their stored rows are in memory.
const RECORDS: usize = 1_000;

/// The left rows of an epoch that wait. They are added part by part to those that wait already.
///
/// The rows of a key and a time are one record of the store. Without `order_by` they are
/// consecutive, because rows of equal times are ordered by key first. The rows of a part's last
/// record are held until the next part, so a record is put once; with `order_by` it may be put once
/// in each part.
#[derive(Default)]
pub struct AddedRows {
    /// The last key and time.
    key: Vec<u8>,
    time: i64,
    /// The rows that have not been put: all are of the last key and time.
    payloads: ByteList,
}

/// A left row that waits.
#[derive(Clone, Copy)]
pub struct AddedRow<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The time.
    pub time: i64,
    /// The payload.
    pub payload: &'a [u8],
}

impl AddedRows {
    /// Adds rows, in order.
    ///
    /// # Errors
    /// Those of the store; `InvalidValue` for rows of one key and time that are too large together.
    pub fn add(
        &mut self,
        db: &Database,
        tx: &mut Transaction,
        rows: &[AddedRow<'_>],
    ) -> Result<()> {
        let is_of_last = |row: &&AddedRow<'_>| row.place() == (self.time, &self.key[..]);
        let (of_last, rows) = rows.split_at(rows.iter().take_while(is_of_last).count());
        self.hold(of_last);
        let Some(last) = rows.last() else {
            return Ok(());
        };
        let is_of_last = |row: &&AddedRow<'_>| row.place() == last.place();
        let of_last = rows.iter().rev().take_while(is_of_last).count();
        let (rows, of_last) = rows.split_at(rows.len() - of_last);
        self.put(db, tx, rows)?;
        self.key = last.key.to_vec();
        self.time = last.time;
        self.payloads.clear();
        self.hold(of_last);
        Ok(())
    }

    /// Puts the last rows.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn finish(self, db: &Database, tx: &mut Transaction) -> Result<()> {
        self.put(db, tx, &[])
    }

    /// Holds rows of the last key and time.
    fn hold(&mut self, rows: &[AddedRow<'_>]) {
        for row in rows {
            self.payloads.push(row.payload);
        }
    }

    /// Puts the rows that are held, and then `rows`.
    fn put(&self, db: &Database, tx: &mut Transaction, rows: &[AddedRow<'_>]) -> Result<()> {
        let held = (0..self.payloads.len()).map(|number| AddedRow {
            key: &self.key,
            time: self.time,
            payload: self.payloads.get(number),
        });
        let mut rows: Vec<AddedRow<'_>> = held.chain(rows.iter().copied()).collect();
        // The sort is stable: the rows of a record stay in their order. Records in the order of
        // time are mostly newer than all stored ones, which are then not read.
        rows.sort_by_key(AddedRow::place);
        let records: Vec<_> = rows.chunk_by(|a, b| a.place() == b.place()).collect();
        for records in records.chunks(RECORDS) {
            let mut waiting = WaitingRows::new(db, WAITING)?;
            let requests = (0..).zip(records).filter_map(|(number, record)| {
                let AddedRow { key, time, .. } = *record.first()?;
                Some(RowRequest {
                    number,
                    key,
                    from: time,
                    to: time,
                })
            });
            let found = waiting.find(tx, requests)?;
            let mut stored = found.cursor();
            for (number, record) in (0..).zip(records) {
                let stored = stored.take(number).map(|(_, row)| row);
                let new = record.iter().map(|row| WaitingRow {
                    matched: false,
                    payload: row.payload,
                });
                if let Some(AddedRow { key, time, .. }) = record.first() {
                    waiting.put(key, *time, stored.chain(new))?;
                }
            }
            let none_is_closed = CloseLimit::Before(i64::MIN);
            waiting.stage(tx, none_is_closed, None)?;
        }
        Ok(())
    }
}

impl<'a> AddedRow<'a> {
    /// Where its record is.
    fn place(&self) -> (i64, &'a [u8]) {
        (self.time, self.key)
    }
}
