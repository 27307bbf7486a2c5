//! The rows of one window or session store.

use super::layout;
use crate::error::{Error, Result};
use crate::expiry::retention::first_retained_window;
use crate::metrics::{Call, Operation, StoreCounts};
use crate::store::key_part::{push_key, push_key_part};
use crate::time::Timestamp;
use crate::transaction::{Table, Transaction};
use std::sync::Arc;

/// The rows of one window or session store.
#[derive(Clone)]
pub(crate) struct WindowedRows {
    pub(super) inner: Arc<WindowedInner>,
}

pub(super) struct WindowedInner {
    name: String,
    /// The store's position among the stores of its database.
    number: usize,
    pub(super) windowed: Table,
    pub(super) times: Table,
    retention: i64,
    pub(super) counts: Arc<StoreCounts>,
}

impl WindowedRows {
    pub(crate) fn new(
        name: &str,
        number: usize,
        [windowed, times]: [Table; 2],
        retention: i64,
        counts: Arc<StoreCounts>,
    ) -> Self {
        Self {
            inner: Arc::new(WindowedInner {
                name: name.to_owned(),
                number,
                windowed,
                times,
                retention,
                counts,
            }),
        }
    }

    pub(in crate::store) fn name(&self) -> &str {
        &self.inner.name
    }

    pub(crate) fn retention(&self) -> i64 {
        self.inner.retention
    }

    /// The table of the rows, then the table of their keys by time.
    pub(crate) fn tables(&self) -> [Table; 2] {
        [self.inner.windowed, self.inner.times]
    }

    /// Counts a call, which ends when the result is dropped.
    #[inline]
    pub(in crate::store) fn call(&self, operation: Operation) -> Call<'_> {
        self.inner.counts.call(operation)
    }

    pub(crate) fn dropped_records(&self) -> u64 {
        self.inner.counts.dropped.total()
    }

    pub(in crate::store) fn stream_time(&self, tx: &Transaction) -> Option<Timestamp> {
        tx.stores[self.inner.number].stream_time.map(Timestamp)
    }

    pub(in crate::store) fn uncommitted_bytes(&self, tx: &Transaction) -> usize {
        self.tables()
            .into_iter()
            .map(|table| tx.table_bytes(table))
            .sum()
    }

    /// The earliest time that can be read and written.
    pub(in crate::store) fn horizon(&self, tx: &Transaction) -> i64 {
        let state = &tx.stores[self.inner.number];
        let retained = state.stream_time.map_or(i64::MIN, |time| {
            first_retained_window(time, self.inner.retention)
        });
        retained.max(state.first_retained.unwrap_or(i64::MIN))
    }

    /// Whether a write at a time is within the retention. If it is not, it is counted as dropped.
    pub(in crate::store) fn admit(&self, tx: &Transaction, time: i64) -> bool {
        let in_time = self.readmit(tx, time);
        if !in_time {
            self.inner.counts.dropped.add(1);
        }
        in_time
    }

    /// As `admit`, for rows from a changelog. These are not counted as dropped, since they are not
    /// new writes.
    pub(in crate::store) fn readmit(&self, tx: &Transaction, time: i64) -> bool {
        time >= self.horizon(tx)
    }

    pub(crate) fn raise_stream_time(&self, tx: &mut Transaction, time: i64) {
        let state = &mut tx.stores[self.inner.number];
        if state.stream_time.is_none_or(|now| now < time) {
            state.stream_time = Some(time);
            state.changed = true;
        }
    }

    /// The next unused number for a duplicate; `number` marks it as used.
    pub(in crate::store) fn next_sequence(&self, tx: &Transaction) -> u64 {
        tx.stores[self.inner.number].sequence + 1
    }

    /// Marks the number of a staged row as used.
    pub(in crate::store) fn number(&self, tx: &mut Transaction, sequence: u64) {
        let state = &mut tx.stores[self.inner.number];
        state.sequence = sequence;
        state.changed = true;
    }

    /// Stages a row (its value in parts) or, for `None`, its delete. The stream time rises last,
    /// since staging may fail.
    pub(in crate::store) fn stage(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        time: i64,
        more: &[u8],
        value: Option<&[&[u8]]>,
    ) -> Result<()> {
        let ordered = layout::ordered(time);
        self.stage_windowed(tx, [part, &ordered, more], value)?;
        tx.stage(
            self.inner.times,
            &[&ordered, part, more],
            value.map(|_| [].as_slice()),
            false,
        )?;
        self.raise_stream_time(tx, time);
        Ok(())
    }

    /// Stages the value of a row that the transaction can read. Its row in `times` stays: a row is
    /// in both tables or in neither, until its time is before the horizon.
    pub(in crate::store) fn stage_value(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        time: i64,
        value: &[&[u8]],
    ) -> Result<()> {
        self.stage_windowed(tx, [part, &layout::ordered(time), &[]], Some(value))
    }

    /// Stages the `windowed` row of a key part, a time and the bytes after the time.
    fn stage_windowed(
        &self,
        tx: &mut Transaction,
        row_key: [&[u8]; 3],
        value: Option<&[&[u8]]>,
    ) -> Result<()> {
        let named = |error| {
            let mut key = Vec::new();
            push_key(row_key[0], &mut key);
            self.named(error).key(&key)
        };
        tx.make_room().map_err(named)?;
        tx.stage(self.inner.windowed, &row_key, value, false)
            .map_err(named)
    }

    /// Reads the row of a key at a time and calls `f` with its value, without a copy.
    pub(in crate::store) fn get<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        time: i64,
        more: &[u8],
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        if time < self.horizon(tx) {
            return Ok(f(None));
        }
        let mut row_key = Vec::with_capacity(key.len() + 18);
        push_row_key(key, time, more, &mut row_key);
        tx.get(self.inner.windowed, &row_key, f)
            .map_err(|e| self.named(e).key(key))
    }

    /// Reads many rows, each (key, time, more), and calls `f` once for each, in no particular
    /// order.
    pub(in crate::store) fn get_batch<'a, M: AsRef<[u8]>>(
        &self,
        tx: &mut Transaction,
        rows: impl ExactSizeIterator<Item = (&'a [u8], i64, M)>,
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let horizon = self.horizon(tx);
        let mut bytes = Vec::with_capacity(rows.len() * 32);
        let mut places = Vec::with_capacity(rows.len());
        for (n, (key, time, more)) in rows.enumerate() {
            if time < horizon {
                f(n, None);
                continue;
            }
            let start = bytes.len();
            push_row_key(key, time, more.as_ref(), &mut bytes);
            places.push((n, start..bytes.len()));
        }
        let keys: Vec<&[u8]> = places
            .iter()
            .map(|(_, place)| &bytes[place.clone()])
            .collect();
        tx.get_batch(self.inner.windowed, &keys, |n, row| f(places[n].0, row))
            .map_err(|e| self.named(e))
    }

    /// Calls `f` with each staged row of a transaction: the user's key, the time, the bytes after
    /// the time, and the stored value.
    pub(in crate::store) fn for_each_staged(
        &self,
        tx: &mut Transaction,
        mut f: impl FnMut(&[u8], i64, &[u8], Option<&[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut key = Vec::new();
        tx.for_each_staged(self.inner.windowed, |row_key, value| {
            let (part, time, more) =
                layout::split_row(row_key).ok_or_else(|| self.named(layout::malformed(row_key)))?;
            key.clear();
            push_key(part, &mut key);
            f(&key, time, more, value)
        })
    }

    pub(super) fn named(&self, error: Error) -> Error {
        error.store(&self.inner.name)
    }
}

fn push_row_key(key: &[u8], time: i64, more: &[u8], out: &mut Vec<u8>) {
    push_key_part(key, out);
    out.extend_from_slice(&layout::ordered(time));
    out.extend_from_slice(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::window::{WindowPut, WindowStore};
    use crate::{Database, DatabaseOptions, OffsetChange, StoreKind, StoreSpec};

    fn open(retain_duplicates: bool) -> Result<Arc<Database>> {
        let kind = StoreKind::Window {
            retention: 50,
            window_size: 10,
            retain_duplicates,
            timestamped: false,
        };
        Database::open_in_memory(&[StoreSpec::new("w", kind)], DatabaseOptions::default())
    }

    fn put<'a>(key: &'a [u8], start: i64, value: Option<&'a [u8]>) -> WindowPut<'a> {
        WindowPut {
            key,
            value,
            start: Timestamp(start),
            timestamp: None,
        }
    }

    /// Start, key and value.
    type FoundWindow = (i64, Vec<u8>, Vec<u8>);

    /// The windows in the order of time.
    fn by_time(store: &WindowStore, tx: &mut Transaction) -> Result<Vec<FoundWindow>> {
        let mut found = Vec::new();
        let mut scan = store.fetch_range(tx, None, None, Timestamp::MIN, Timestamp::MAX, false)?;
        scan.for_each(&mut |window, stamped| {
            found.push((window.start.0, window.key.to_vec(), stamped.value.to_vec()));
            true
        })?;
        Ok(found)
    }

    #[test]
    fn replaced_windows_keep_their_rows_by_time() -> Result<()> {
        let db = open(false)?;
        let store = db.window("w")?;
        let mut tx = db.transaction()?;
        store.put_batch(
            &mut tx,
            [put(b"a", 5, Some(b"1")), put(b"b", 40, Some(b"2"))],
        )?;
        drop(tx);
        db.commit(OffsetChange::Keep)?;
        let mut tx = db.transaction()?;
        store.replace_batch(&mut tx, [put(b"a", 5, None), put(b"b", 40, Some(b"3"))])?;
        let staged = store.rows.tables().map(|table| {
            let mut staged = 0;
            let counted = tx.for_each_staged(table, |_, _| {
                staged += 1;
                Ok(())
            });
            counted.map(|()| staged)
        });
        assert!(matches!(staged, [Ok(2), Ok(1)]), "{staged:?}");
        let expected = [(40, b"b".to_vec(), b"3".to_vec())];
        assert_eq!(by_time(&store, &mut tx)?, expected);
        drop(tx);
        db.commit(OffsetChange::Keep)?;
        assert_eq!(by_time(&store, &mut db.begin()?)?, expected);
        Ok(())
    }

    #[test]
    fn replaced_windows_of_a_store_with_duplicates_are_added() -> Result<()> {
        let db = open(true)?;
        let store = db.window("w")?;
        let mut tx = db.begin()?;
        store.put(&mut tx, put(b"a", 5, Some(b"1")))?;
        store.replace_batch(&mut tx, [put(b"a", 5, Some(b"2"))])?;
        let rows = [b"1", b"2"].map(|value| (5, b"a".to_vec(), value.to_vec()));
        assert_eq!(by_time(&store, &mut tx)?, rows);
        Ok(())
    }
}
