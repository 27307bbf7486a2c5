//! Rows of one side that wait. The rows of one key and one time are one record of a window store.
//!
//! ```text
//! record   row, row, …
//! row      1 if it has been matched, else 0 | length of its payload, 4 bytes big-endian | payload
//! ```

use std::collections::BTreeMap;

use holdfast_core::transaction::LARGEST;
use holdfast_core::{
    Database, Error, ErrorKind, Result, Timestamp, Transaction, WindowPut, WindowStore,
};

/// A row that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingRow {
    /// Whether it has been matched. This is recorded only if unmatched rows of its side go out.
    pub matched: bool,
    /// Its payload.
    pub payload: Vec<u8>,
}

/// A function that takes a row's key, its time, and the row.
type Visit<'a> = dyn FnMut(&[u8], i64, &WaitingRow) -> Result<()> + 'a;

/// The waiting rows of one side. If a record cannot be decoded, a read fails with `Serialization`.
pub struct WaitingRows {
    store: WindowStore,
    /// Records that this epoch changes, by time and key.
    changed: BTreeMap<(i64, Vec<u8>), Vec<WaitingRow>>,
}

impl WaitingRows {
    /// The rows in a store.
    pub fn new(db: &Database, store: &str) -> Result<Self> {
        Ok(Self {
            store: db.window(store)?,
            changed: BTreeMap::new(),
        })
    }

    /// The stream time of the store.
    pub fn stream_time(&self, tx: &Transaction) -> Option<i64> {
        self.store.stream_time(tx).map(|time| time.0)
    }

    /// Reads the stored rows of keys, for each key between two times, both included. `f` takes the
    /// key's position, a time and the rows of that time.
    pub fn find(
        &self,
        tx: &mut Transaction,
        keys: &[&[u8]],
        times: &[(i64, i64)],
        f: &mut dyn FnMut(usize, i64, Vec<WaitingRow>),
    ) -> Result<()> {
        let (from, to): (Vec<Timestamp>, Vec<Timestamp>) = times
            .iter()
            .map(|(from, to)| (Timestamp(*from), Timestamp(*to)))
            .unzip();
        let mut failed = Ok(());
        self.store.fetch_ranges(
            tx,
            keys,
            &from,
            &to,
            &mut |number, window, record| match decode(record.value) {
                Some(rows) => f(number, window.start.0, rows),
                None => failed = Err(unreadable_row(self.store.name(), window.key)),
            },
        )?;
        failed
    }

    /// Replaces a record with the rows that it has after this epoch.
    pub fn put(&mut self, key: &[u8], time: i64, rows: Vec<WaitingRow>) {
        self.changed.insert((time, key.to_vec()), rows);
    }

    /// Passes all closed rows to `f`. No row can match them any more. Stored rows come first, then
    /// the rows of records that this epoch changes, both in the order of time and key.
    pub fn closed(&self, tx: &mut Transaction, limit: CloseLimit, f: &mut Visit<'_>) -> Result<()> {
        let Some(last) = limit.last() else {
            return Ok(());
        };
        let mut failed = Ok(());
        let mut scan =
            self.store
                .fetch_range(tx, None, None, Timestamp::MIN, Timestamp(last), false)?;
        scan.for_each(&mut |window, record| {
            if self
                .changed
                .contains_key(&(window.start.0, window.key.to_vec()))
            {
                return true;
            }
            let rows =
                decode(record.value).ok_or_else(|| unreadable_row(self.store.name(), window.key));
            failed = rows.and_then(|rows| {
                rows.iter()
                    .try_for_each(|row| f(window.key, window.start.0, row))
            });
            failed.is_ok()
        })?;
        failed?;
        for ((time, key), rows) in self
            .changed
            .iter()
            .take_while(|((time, _), _)| *time <= last)
        {
            rows.iter().try_for_each(|row| f(key, *time, row))?;
        }
        Ok(())
    }

    /// Stages the changed records that are not closed, and raises the stream time. The store then
    /// drops the records that are older than its retention.
    ///
    /// # Errors
    /// `InvalidValue` for a record that is too large; those of the store.
    pub fn stage(
        self,
        tx: &mut Transaction,
        limit: CloseLimit,
        stream_time: Option<i64>,
    ) -> Result<()> {
        let mut record = Vec::new();
        for ((time, key), rows) in &self.changed {
            if limit.is_closed(*time) {
                continue;
            }
            check_size(
                self.store.name(),
                (key.as_slice(), *time),
                record_bytes(rows),
            )?;
            record.clear();
            encode(rows, &mut record)?;
            self.store.put(
                tx,
                WindowPut {
                    key,
                    value: Some(&record),
                    start: Timestamp(*time),
                    timestamp: None,
                },
            )?;
        }
        if let Some(time) = stream_time {
            self.store.advance_stream_time(tx, Timestamp(time));
        }
        Ok(())
    }
}

/// The error of a stored row that cannot be decoded.
pub fn unreadable_row(store: &str, key: &[u8]) -> Error {
    let text = "a stored row cannot be read: restore the state from a backup";
    Error::new(ErrorKind::Serialization, text)
        .store(store)
        .key(key)
}

/// The time up to which rows are closed.
#[derive(Debug, Clone, Copy)]
pub enum CloseLimit {
    /// Rows before this time are closed.
    Before(i64),
    /// All rows are closed: no epoch follows this one.
    End,
}

impl CloseLimit {
    /// Whether rows of a time are closed.
    pub fn is_closed(self, time: i64) -> bool {
        match self {
            Self::Before(limit) => time < limit,
            Self::End => true,
        }
    }

    /// The last time that is closed.
    fn last(self) -> Option<i64> {
        match self {
            Self::Before(limit) => limit.checked_sub(1),
            Self::End => Some(i64::MAX),
        }
    }
}

/// The bytes of a row in a record, without its payload.
const ROW_BYTES: usize = 5;

/// The number of bytes that [`encode`] writes.
fn record_bytes(rows: &[WaitingRow]) -> usize {
    let bytes = rows.iter().map(|row| ROW_BYTES + row.payload.len());
    bytes.fold(0, usize::saturating_add)
}

/// Fails if a record is too large for its store or for the log.
///
/// The store adds a byte to a value, and the log limits key and value together.
fn check_size(store: &str, (key, time): (&[u8], i64), bytes: usize) -> Result<()> {
    if key.len().saturating_add(bytes) < LARGEST {
        return Ok(());
    }
    let text = format!(
        "the waiting rows of one key and one time ({time} µs) have {bytes} bytes together, and a \
         store accepts at most {LARGEST}: select fewer or smaller columns before the join, or \
         join by more columns"
    );
    Err(Error::new(ErrorKind::InvalidValue, text)
        .store(store)
        .key(key))
}

fn encode(rows: &[WaitingRow], out: &mut Vec<u8>) -> Result<()> {
    for row in rows {
        let length = u32::try_from(row.payload.len())
            .map_err(|_| Error::new(ErrorKind::InvalidValue, "a row has more than 4 GiB"))?;
        out.push(u8::from(row.matched));
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&row.payload);
    }
    Ok(())
}

fn decode(mut record: &[u8]) -> Option<Vec<WaitingRow>> {
    let mut rows = Vec::new();
    while let Some((matched, rest)) = record.split_first() {
        let (length, rest) = rest.split_first_chunk()?;
        let (payload, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        rows.push(WaitingRow {
            matched: *matched != 0,
            payload: payload.to_vec(),
        });
        record = rest;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_never_change() {
        let rows = [
            WaitingRow {
                matched: true,
                payload: b"ab".to_vec(),
            },
            WaitingRow {
                matched: false,
                payload: Vec::new(),
            },
        ];
        let mut record = Vec::new();
        encode(&rows, &mut record).expect("short");
        assert_eq!(record, [1, 0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0, 0]);
        assert_eq!(decode(&record).as_deref(), Some(rows.as_slice()));
        assert_eq!(decode(&record[..8]), None);
        assert_eq!(record_bytes(&rows), record.len());
    }

    #[test]
    fn record_that_the_store_or_the_log_cannot_hold_is_refused_by_name() {
        let check = |bytes| check_size("left", (&b"EUR"[..], 7), bytes);
        assert!(check(LARGEST - 4).is_ok());
        for bytes in [LARGEST - 3, usize::MAX] {
            let error = check(bytes).expect_err("too large");
            assert_eq!(error.kind(), ErrorKind::InvalidValue);
            assert_eq!(error.store_name(), Some("left"));
            let text = error.to_string();
            assert!(
                text.contains("EUR") && text.contains("select fewer or smaller columns"),
                "{text}"
            );
        }
    }
}
