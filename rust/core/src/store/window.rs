//! The window store, with timestamps or without: (key, window start[, duplicate number]) → value.

use super::key_part::push_key_part;
use super::timestamped::Stamped;
use super::versioned::VersionRow;
use super::window_value::{PLAIN, STAMPED, decode};
use super::windowed::{KeySpan, RowScan, Selection, WindowedKey, WindowedRow, WindowedRows};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Call, Operation};
use crate::time::Timestamp;
use crate::transaction::Transaction;

/// A handle to a window store of a database. Every call takes the transaction to work in.
#[derive(Clone)]
pub struct WindowStore {
    pub(crate) rows: WindowedRows,
    pub(crate) window_size: i64,
    pub(crate) retain_duplicates: bool,
}

/// A window to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowPut<'a> {
    /// The key.
    pub key: &'a [u8],
    /// `None` deletes; in a store with duplicates it is ignored.
    pub value: Option<&'a [u8]>,
    /// The window's start.
    pub start: Timestamp,
    /// The value's own timestamp, in a timestamped store.
    pub timestamp: Option<Timestamp>,
}

impl WindowStore {
    /// Returns the store's name.
    pub fn name(&self) -> &str {
        self.rows.name()
    }

    /// Returns the length of a window, in microseconds.
    pub fn window_size(&self) -> i64 {
        self.window_size
    }

    /// Returns how far behind stream time windows are retained, in microseconds.
    pub fn retention(&self) -> i64 {
        self.rows.retention()
    }

    /// Returns the greatest window start of an accepted write over all keys, or the time of
    /// [`Self::advance_stream_time`] if it is greater, the calls of this transaction included.
    pub fn stream_time(&self, tx: &Transaction) -> Option<Timestamp> {
        self.rows.stream_time(tx)
    }

    /// Raises the stream time, as a write at that time does. Windows that are then older than the
    /// retention expire.
    pub fn advance_stream_time(&self, tx: &mut Transaction, time: Timestamp) {
        self.rows.raise_stream_time(tx, time.0);
    }

    /// Returns how many writes were refused since the database was opened, because they were older
    /// than the retention.
    pub fn dropped_records(&self) -> u64 {
        self.rows.dropped_records()
    }

    /// Memory that the store's staged records hold, in bytes.
    pub fn uncommitted_bytes(&self, tx: &Transaction) -> usize {
        self.rows.uncommitted_bytes(tx)
    }

    /// Puts the value of a key's window, or deletes it for `None`.
    ///
    /// If `start < stream time - retention + 1`, the put is counted as dropped and not written. An
    /// open with a longer retention does not lower this limit. In a store with duplicates every put
    /// is another row, and a put of `None` is ignored.
    ///
    /// # Errors
    /// `InvalidValue` for a key or value of more than 1 GiB.
    pub fn put(&self, tx: &mut Transaction, put: WindowPut<'_>) -> Result<()> {
        let _call = self.rows.call(Operation::Put);
        self.admit(tx, &put, false, &mut Vec::new())
    }

    /// Puts many windows, in order.
    ///
    /// # Errors
    /// As `put`; the rows before the failed one are then staged.
    pub fn put_batch<'a>(
        &self,
        tx: &mut Transaction,
        puts: impl IntoIterator<Item = WindowPut<'a>>,
    ) -> Result<()> {
        self.admit_batch(tx, puts, false)
    }

    /// As `put_batch`, for windows that the transaction has read and found. They have a row by time
    /// already, so only their values are written.
    ///
    /// # Errors
    /// As `put`; the rows before the failed one are then staged.
    pub fn replace_batch<'a>(
        &self,
        tx: &mut Transaction,
        puts: impl IntoIterator<Item = WindowPut<'a>>,
    ) -> Result<()> {
        self.admit_batch(tx, puts, true)
    }

    fn admit_batch<'a>(
        &self,
        tx: &mut Transaction,
        puts: impl IntoIterator<Item = WindowPut<'a>>,
        are_stored: bool,
    ) -> Result<()> {
        let mut call = self.rows.call(Operation::PutBatch);
        let mut part = Vec::new();
        for (n, put) in puts.into_iter().enumerate() {
            self.admit(tx, &put, are_stored, &mut part)?;
            call.records(n + 1);
        }
        Ok(())
    }

    fn admit(
        &self,
        tx: &mut Transaction,
        put: &WindowPut<'_>,
        is_stored: bool,
        part: &mut Vec<u8>,
    ) -> Result<()> {
        let is_passed_over = put.value.is_none() && self.retain_duplicates;
        if is_passed_over || !self.rows.admit(tx, put.start.0) {
            return Ok(());
        }
        self.stage(tx, *put, is_stored, part)
    }

    /// Stages windows that were accepted before, in any order. They are not checked against the
    /// retention again.
    pub(crate) fn restore(&self, tx: &mut Transaction, puts: &[WindowPut<'_>]) -> Result<()> {
        self.stage_puts(tx, puts, |_, _| true)
    }

    /// As `restore`, for windows in the order in which they were put. Windows older than the
    /// retention are skipped and not counted.
    pub(crate) fn restore_in_order(
        &self,
        tx: &mut Transaction,
        puts: &[WindowPut<'_>],
    ) -> Result<()> {
        self.stage_puts(tx, puts, |tx, put| self.rows.readmit(tx, put.start.0))
    }

    fn stage_puts(
        &self,
        tx: &mut Transaction,
        puts: &[WindowPut<'_>],
        admits: impl Fn(&Transaction, &WindowPut<'_>) -> bool,
    ) -> Result<()> {
        let _call = self.batch_call(Operation::Restore, puts.len());
        let mut part = Vec::new();
        for put in puts {
            if admits(tx, put) && (put.value.is_some() || !self.retain_duplicates) {
                self.stage(tx, *put, false, &mut part)?;
            }
        }
        Ok(())
    }

    /// Calls `f` with the staged windows of a transaction, as changes for a changelog.
    pub(crate) fn for_each_change(
        &self,
        tx: &mut Transaction,
        f: &mut dyn FnMut(VersionRow<'_>) -> Result<()>,
    ) -> Result<()> {
        self.rows.for_each_staged(tx, |key, start, _, row| {
            // The first byte, which distinguishes plain and timestamped values, is not part of the
            // change.
            f(VersionRow {
                key,
                value: row.and_then(|row| row.get(1..)),
                timestamp: Timestamp(start),
            })
        })
    }

    /// Stages a window. `is_stored` is whether its row exists.
    fn stage(
        &self,
        tx: &mut Transaction,
        put: WindowPut<'_>,
        is_stored: bool,
        part: &mut Vec<u8>,
    ) -> Result<()> {
        let number = self.retain_duplicates.then(|| self.rows.next_sequence(tx));
        let bytes = number.map(u64::to_be_bytes);
        let more = bytes
            .as_ref()
            .map_or([].as_slice(), |bytes| bytes.as_slice());
        part.clear();
        push_key_part(put.key, part);
        let mut stage = |value: Option<&[&[u8]]>| match value {
            // Each put of a store with duplicates is another row.
            Some(value) if is_stored && number.is_none() => {
                self.rows.stage_value(tx, part, put.start.0, value)
            }
            value => self.rows.stage(tx, part, put.start.0, more, value),
        };
        match (put.value, put.timestamp) {
            (None, _) => stage(None)?,
            (Some(value), None) => stage(Some(&[&[PLAIN], value]))?,
            (Some(value), Some(timestamp)) => {
                stage(Some(&[&[STAMPED], &timestamp.0.to_be_bytes(), value]))?;
            }
        }
        if let Some(number) = number {
            self.rows.number(tx, number);
        }
        Ok(())
    }

    /// Reads the value of a key's window and calls `f` with it, without a copy.
    ///
    /// # Errors
    /// `UnsupportedOperation` in a store with duplicates: one start may have many values.
    pub fn fetch<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        start: Timestamp,
        f: impl FnOnce(Option<Stamped<'_>>) -> R,
    ) -> Result<R> {
        let _call = self.rows.call(Operation::Fetch);
        self.check_single()?;
        self.rows
            .get(tx, key, start.0, &[], |row| f(row.map(decode)))
    }

    /// Reads many windows, each by key and start, and calls `f` once for each, in no particular
    /// order.
    ///
    /// # Errors
    /// `UnsupportedOperation` in a store with duplicates.
    pub fn fetch_batch(
        &self,
        tx: &mut Transaction,
        keys: &[&[u8]],
        starts: &[Timestamp],
        mut f: impl FnMut(usize, Option<Stamped<'_>>),
    ) -> Result<()> {
        let _call = self.batch_call(Operation::FetchBatch, keys.len());
        self.check_single()?;
        let rows = keys
            .iter()
            .zip(starts)
            .map(|(key, start)| (*key, start.0, [0; 0]));
        self.rows
            .get_batch(tx, rows, |n, row| f(n, row.map(decode)))
    }

    /// Returns a scan of the windows of keys in `[key_from, key_to]` (`None` open) that start in
    /// `[from, to]`, by (start, key), or backward.
    pub fn fetch_range(
        &self,
        tx: &mut Transaction,
        key_from: Option<&[u8]>,
        key_to: Option<&[u8]>,
        from: Timestamp,
        to: Timestamp,
        reverse: bool,
    ) -> Result<WindowScan> {
        let is_all = key_from.is_none()
            && key_to.is_none()
            && from == Timestamp::MIN
            && to == Timestamp::MAX;
        let _call = self.rows.call(if is_all {
            Operation::All
        } else {
            Operation::Fetch
        });
        let wanted = Selection {
            key_from,
            key_to,
            from: from.0,
            to: to.0,
            most: None,
            reverse,
        };
        Ok(WindowScan {
            scan: self.rows.scan(tx, wanted)?,
            window_size: self.window_size,
        })
    }

    /// Reads the windows of many keys, each within its own times (both inclusive). Calls `f` with
    /// the key's position and a window, in order of position, then of start.
    pub fn fetch_ranges(
        &self,
        tx: &mut Transaction,
        keys: &[&[u8]],
        from: &[Timestamp],
        to: &[Timestamp],
        f: &mut dyn FnMut(usize, WindowedKey<'_>, Stamped<'_>),
    ) -> Result<()> {
        let _call = self.batch_call(Operation::FetchBatch, keys.len());
        let times = from.iter().zip(to);
        let wanted: Vec<KeySpan<'_>> = keys
            .iter()
            .zip(times)
            .map(|(key, (from, to))| KeySpan {
                key,
                from: from.0,
                to: to.0,
                most: None,
            })
            .collect();
        self.rows.find(tx, &wanted, &mut |n, row| {
            f(n, window(row, self.window_size), decode(row.value))
        })
    }

    fn batch_call(&self, operation: Operation, records: usize) -> Call<'_> {
        let mut call = self.rows.call(operation);
        call.records(records);
        call
    }

    fn check_single(&self) -> Result<()> {
        if !self.retain_duplicates {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::UnsupportedOperation,
            "this store keeps duplicates, so one time may have many values; fetch a range of \
             times instead, with the window's start as both ends",
        )
        .store(self.name()))
    }
}

fn window<'a>(row: WindowedRow<'a>, size: i64) -> WindowedKey<'a> {
    WindowedKey {
        key: row.key,
        start: Timestamp(row.time),
        end: Timestamp(row.time.saturating_add(size)),
    }
}

/// A scan over windows, as they were when it was opened.
pub struct WindowScan {
    scan: RowScan,
    window_size: i64,
}

impl WindowScan {
    /// Calls `visit` with each window until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan, which can then be resumed.
    pub fn for_each(
        &mut self,
        visit: &mut dyn FnMut(WindowedKey<'_>, Stamped<'_>) -> bool,
    ) -> Result<bool> {
        let Self { scan, window_size } = self;
        scan.for_each(&mut |row| visit(window(row, *window_size), decode(row.value)))
    }
}
