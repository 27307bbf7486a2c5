//! Closed rows of a store, read in parts.

use std::ops::Range;

use holdfast_core::{Result, Timestamp, Transaction, WindowScan, WindowStore};

use super::close_limit::CloseLimit;
use super::record::{rows_of, unreadable_row};
use crate::operator::batch_size::BatchSize;

/// The closed rows of a store as they were when the read began, in the order of time and key. About
/// one batch of them is in memory.
pub struct ClosedRows {
    store: String,
    /// The rows that have not been read; none at the end.
    scan: Option<WindowScan>,
    places: Vec<ClosedRowPlace>,
    /// The keys of the records in memory, and the payloads of their rows.
    bytes: Vec<u8>,
    /// How many of the rows in memory have been passed.
    passed: usize,
}

/// A closed row.
#[derive(Clone, Copy)]
pub struct ClosedRow<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The time.
    pub time: i64,
    /// The payload.
    pub payload: &'a [u8],
}

/// Where a closed row is in the buffer.
struct ClosedRowPlace {
    time: i64,
    key: Range<usize>,
    payload: Range<usize>,
}

impl ClosedRows {
    /// Opens a read of the closed rows of a store.
    ///
    /// # Errors
    /// Those of the store.
    pub fn open(store: &WindowStore, tx: &mut Transaction, limit: CloseLimit) -> Result<Self> {
        let scan = limit.last().map(|last| {
            let (first, last) = (Timestamp::MIN, Timestamp(last));
            store.fetch_range(tx, None, None, first, last, false)
        });
        Ok(Self {
            store: store.name().to_owned(),
            scan: scan.transpose()?,
            places: Vec::new(),
            bytes: Vec::new(),
            passed: 0,
        })
    }

    /// Reads about a batch of rows if all rows in memory have been passed. The rows of a record are
    /// read together. If no row is in memory afterwards, none is left.
    ///
    /// # Errors
    /// Those of the store; `Serialization` if a row cannot be decoded.
    pub fn read(&mut self) -> Result<()> {
        let Self {
            store,
            scan,
            places,
            bytes,
            passed,
        } = self;
        if *passed < places.len() {
            return Ok(());
        }
        places.clear();
        bytes.clear();
        *passed = 0;
        let Some(open) = scan else { return Ok(()) };
        let (mut size, mut is_full, mut failed) = (BatchSize::default(), false, Ok(()));
        let is_paused = open.for_each(&mut |window, record| {
            let start = bytes.len();
            bytes.extend_from_slice(window.key);
            let key = start..bytes.len();
            for row in rows_of(record.value) {
                let Some(row) = row else {
                    failed = Err(unreadable_row(store, window.key));
                    return false;
                };
                is_full |= !size.try_add(window.key.len() + row.payload.len());
                let start = bytes.len();
                bytes.extend_from_slice(row.payload);
                places.push(ClosedRowPlace {
                    time: window.start.0,
                    key: key.clone(),
                    payload: start..bytes.len(),
                });
            }
            !is_full
        })?;
        failed?;
        if !is_paused {
            *scan = None;
        }
        Ok(())
    }

    /// Returns a row in memory by its number among those that have not been passed.
    pub fn get(&self, number: usize) -> Option<ClosedRow<'_>> {
        let place = self.places.get(self.passed + number)?;
        Some(ClosedRow {
            key: &self.bytes[place.key.clone()],
            time: place.time,
            payload: &self.bytes[place.payload.clone()],
        })
    }

    /// Passes the first `count` rows in memory.
    pub fn pass(&mut self, count: usize) {
        self.passed += count;
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{Database, DatabaseOptions, StoreSpec};

    use super::*;
    use crate::operator::batch_size::BATCH_ROWS;
    use crate::operator::spec::by_time;
    use crate::operator::waiting_rows::{WaitingRow, WaitingRows};

    #[test]
    fn closed_rows_are_read_in_parts_as_they_were_at_first() {
        let store = StoreSpec::new("waiting", by_time(1_000_000, 0));
        let db = Database::open_in_memory(&[store], DatabaseOptions::default()).expect("opens");
        let mut tx = db.begin().expect("begins");
        let put = |tx: &mut Transaction, rows: &[(i64, i64)]| {
            let mut waiting = WaitingRows::new(&db, "waiting").expect("has the store");
            for (time, number) in rows {
                let payload = &number.to_be_bytes();
                let row = WaitingRow {
                    matched: false,
                    payload,
                };
                let is_put = waiting.put(b"key", *time, [row, row]);
                is_put.expect("small");
            }
            let all_open = CloseLimit::Before(i64::MIN);
            waiting.stage(tx, all_open, None).expect("stages");
        };
        let stored: Vec<(i64, i64)> = (0..BATCH_ROWS as i64).map(|n| (n, n)).collect();
        put(&mut tx, &stored);
        let window = db.window("waiting").expect("has the store");
        let (last, limit) = (9_000, CloseLimit::Before(9_001));
        let mut closed = ClosedRows::open(&window, &mut tx, limit).expect("opens");
        put(&mut tx, &[(0, -1), (last, -1)]);
        let mut found = Vec::new();
        loop {
            closed.read().expect("reads");
            assert!(closed.places.len() <= BATCH_ROWS + 2, "part by part");
            let Some(row) = closed.get(0) else { break };
            let number = row.payload.try_into().map(i64::from_be_bytes);
            found.push((row.key.to_vec(), row.time, number.expect("8 bytes")));
            closed.pass(1);
        }
        let twice = (0..=last).flat_map(|n| [n, n]);
        let expected: Vec<_> = twice.map(|n| (b"key".to_vec(), n, n)).collect();
        assert!(found == expected, "{} rows", found.len());
        let nothing = CloseLimit::Before(i64::MIN);
        let mut closed = ClosedRows::open(&window, &mut tx, nothing).expect("opens");
        closed.read().expect("reads");
        assert!(closed.get(0).is_none());
    }
}
