//! The waiting rows of one side: those in the store, and those that an epoch changes.

use holdfast_core::transaction::LARGEST;
use holdfast_core::{
    Database, Error, ErrorKind, Result, Timestamp, Transaction, WindowPut, WindowStore,
};

use super::changed_records::{ChangedRecords, SpillLimit};
use super::close_limit::CloseLimit;
use super::found_rows::FoundWaitingRows;
use super::record::{Visit, WaitingRow, rows_of, unreadable_row, visit};
use super::record_runs::RunRecord;

/// The waiting rows of one side. If a record cannot be decoded, a read fails with `Serialization`.
pub struct WaitingRows {
    store: WindowStore,
    changed: ChangedRecords,
}

/// The stored rows of a key between two times.
pub struct RowRequest<'a> {
    /// The number by which the caller knows the request.
    pub number: u32,
    /// The key.
    pub key: &'a [u8],
    /// First time, inclusive.
    pub from: i64,
    /// Last time, inclusive.
    pub to: i64,
}

impl WaitingRows {
    /// The rows in a store.
    pub fn new(db: &Database, store: &str) -> Result<Self> {
        Ok(Self {
            store: db.window(store)?,
            changed: ChangedRecords::default(),
        })
    }

    /// Limits the memory of the changed records.
    pub fn limit_memory(&mut self, limit: SpillLimit) {
        self.changed.limit_memory(limit);
    }

    /// The stream time of the store.
    pub fn stream_time(&self, tx: &Transaction) -> Option<i64> {
        self.store.stream_time(tx).map(|time| time.0)
    }

    /// Reads the stored rows of requests, whose numbers ascend.
    ///
    /// The stream time of the store is the greatest time of its rows or a later one. So nothing is
    /// read for a request of later times.
    ///
    /// # Errors
    /// As [`Self::find_within`].
    pub fn find<'a>(
        &self,
        tx: &mut Transaction,
        requests: impl IntoIterator<Item = RowRequest<'a>>,
    ) -> Result<FoundWaitingRows> {
        self.find_within(tx, requests, usize::MAX)
            .map(|(found, _)| found)
    }

    /// As [`Self::find`], but stops when the rows exceed `most` bytes. Then also returns the number
    /// of the request at which it stopped: the rows of this request and of later ones may be
    /// incomplete.
    ///
    /// # Errors
    /// Those of the store; `Serialization` if a record cannot be decoded.
    pub fn find_within<'a>(
        &self,
        tx: &mut Transaction,
        requests: impl IntoIterator<Item = RowRequest<'a>>,
        most: usize,
    ) -> Result<(FoundWaitingRows, Option<u32>)> {
        let (mut found, mut failed) = (FoundWaitingRows::default(), Ok(()));
        let mut end = None;
        let Some(newest) = self.stream_time(tx) else {
            return Ok((found, end));
        };
        let (mut numbers, mut keys) = (Vec::new(), Vec::new());
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for request in requests {
            if request.from <= request.to.min(newest) {
                numbers.push(request.number);
                keys.push(request.key);
                from.push(Timestamp(request.from));
                to.push(Timestamp(request.to));
            }
        }
        self.store
            .fetch_ranges(tx, &keys, &from, &to, &mut |n, window, record| {
                if end.is_some() {
                    return;
                }
                for row in rows_of(record.value) {
                    match row {
                        Some(row) => found.push(numbers[n], window.start.0, row),
                        None => failed = Err(unreadable_row(self.store.name(), window.key)),
                    }
                }
                if found.bytes() > most {
                    end = Some(numbers[n]);
                }
            })?;
        failed.map(|()| (found, end))
    }

    /// Passes the stored rows of a request to `f`, in the order of time.
    ///
    /// # Errors
    /// Those of the store and of `f`.
    pub fn for_each_stored(
        &self,
        tx: &mut Transaction,
        request: &RowRequest<'_>,
        f: &mut Visit<'_>,
    ) -> Result<()> {
        let RowRequest { key, from, to, .. } = *request;
        let newest = self.stream_time(tx);
        if newest.is_none_or(|newest| from > to.min(newest)) {
            return Ok(());
        }
        let (key, mut failed) = (Some(key), Ok(()));
        let (from, to) = (Timestamp(from), Timestamp(to));
        let mut scan = self.store.fetch_range(tx, key, key, from, to, false)?;
        scan.for_each(&mut |window, record| {
            let place = (window.key, window.start.0);
            failed = visit(self.store.name(), place, record.value, f);
            failed.is_ok()
        })?;
        failed
    }

    /// Replaces a record with the rows that it has after this epoch. An epoch replaces a record at
    /// most once. Records of one key should follow each other.
    ///
    /// # Errors
    /// `InvalidValue` for a row of more than 4 GiB; `Io` if the disk is full or fails.
    pub fn put<'a>(
        &mut self,
        key: &[u8],
        time: i64,
        rows: impl IntoIterator<Item = WaitingRow<'a>>,
    ) -> Result<()> {
        self.changed.push(key, time, rows)
    }

    /// Passes all closed rows to `f`. No row can match them any more. Stored rows come first, then
    /// the rows of records that this epoch changes, both in the order of time and key.
    ///
    /// # Errors
    /// Those of the store and of `f`; `Serialization` if a record cannot be decoded; `Io` if the
    /// disk is full or fails.
    pub fn for_each_closed(
        &mut self,
        tx: &mut Transaction,
        limit: CloseLimit,
        f: &mut Visit<'_>,
    ) -> Result<()> {
        let Some(last) = limit.last() else {
            return Ok(());
        };
        let mut scan =
            self.store
                .fetch_range(tx, None, None, Timestamp::MIN, Timestamp(last), false)?;
        if let Some(runs) = self.changed.on_disk()? {
            return runs.for_each_closed(self.store.name(), scan, limit, f);
        }
        let changed = self.changed.closed_records(limit);
        let mut failed = Ok(());
        scan.for_each(&mut |window, record| {
            let (key, time) = (window.key, window.start.0);
            let is_changed = changed
                .binary_search_by(|changed| (changed.time, changed.key).cmp(&(time, key)))
                .is_ok();
            if !is_changed {
                failed = visit(self.store.name(), (key, time), record.value, f);
            }
            failed.is_ok()
        })?;
        failed?;
        for record in changed {
            visit(
                self.store.name(),
                (record.key, record.time),
                record.bytes,
                f,
            )?;
        }
        Ok(())
    }

    /// Stages the changed records that are not closed, and raises the stream time. The store then
    /// drops the records that are older than its retention.
    ///
    /// # Errors
    /// `InvalidValue` for a record that is too large; those of the store.
    pub fn stage(
        mut self,
        tx: &mut Transaction,
        limit: CloseLimit,
        stream_time: Option<i64>,
    ) -> Result<()> {
        // A put raises the stream time of the store, so the records are put in the order of time.
        if let Some(runs) = self.changed.on_disk()? {
            let mut changed = runs.merge()?;
            while let Some(RunRecord {
                time, key, bytes, ..
            }) = changed.next()?
            {
                if !limit.is_closed(time) {
                    check_size(self.store.name(), (&key[..], time), bytes.len())?;
                    self.store.put(tx, record_put(&key, time, &bytes))?;
                }
            }
        } else {
            self.changed.retain_open(limit);
            for record in self.changed.iter() {
                let place = (record.key, record.time);
                check_size(self.store.name(), place, record.bytes.len())?;
            }
            let records = self.changed.iter();
            let puts = records.map(|record| record_put(record.key, record.time, record.bytes));
            self.store.put_batch(tx, puts)?;
        }
        if let Some(time) = stream_time {
            self.store.advance_stream_time(tx, Timestamp(time));
        }
        Ok(())
    }
}

/// The put of a record.
fn record_put<'a>(key: &'a [u8], time: i64, bytes: &'a [u8]) -> WindowPut<'a> {
    WindowPut {
        key,
        value: Some(bytes),
        start: Timestamp(time),
        timestamp: None,
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use holdfast_core::{Commit, DatabaseOptions, StoreSpec};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::memory::budget::Budget;
    use crate::operator::spec::by_time;

    const RETENTION: i64 = 6;

    /// The rows of records, each with whether it has been matched, by time and key.
    type Records = BTreeMap<(i64, Vec<u8>), Vec<(bool, Vec<u8>)>>;

    /// Key, time, and the row.
    type Row = (Vec<u8>, i64, (bool, Vec<u8>));

    fn record() -> impl Strategy<Value = (i64, u8, Vec<(bool, Vec<u8>)>)> {
        let row = (any::<bool>(), vec(any::<u8>(), 0..3));
        (0..9_i64, 0..3_u8, vec(row, 1..4))
    }

    fn rows<'a>(
        records: impl Iterator<Item = (&'a (i64, Vec<u8>), &'a Vec<(bool, Vec<u8>)>)>,
    ) -> Vec<Row> {
        let rows = records.flat_map(|((time, key), rows)| {
            rows.iter().map(|row| (key.clone(), *time, row.clone()))
        });
        rows.collect()
    }

    proptest! {
        #[test]
        fn waiting_rows_equal_a_map_of_their_records(
            epochs in vec((vec(record(), 0..8), vec((-2..40_i64, -2..40_i64), 3)), 1..9),
            is_last in any::<bool>(),
            memory in prop::option::of(0..400_usize),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let store = StoreSpec::new("waiting", by_time(RETENTION, 0));
            let db = Database::open_in_memory(&[store], DatabaseOptions::default()).expect("opens");
            let (mut stored, mut time) = (Records::new(), i64::MIN);
            let count = epochs.len();
            for (number, (records, ranges)) in epochs.into_iter().enumerate() {
                let mut tx = db.begin().expect("begins");
                let mut waiting = WaitingRows::new(&db, "waiting").expect("has the store");
                if let Some(bytes) = memory {
                    let budget = Budget::new(bytes);
                    waiting.limit_memory(SpillLimit::new(bytes, folder.path(), budget));
                }

                let keys = [[0], [1], [2]];
                let requests = (0..).zip(&keys).zip(&ranges).map(|((number, key), (from, to))| {
                    RowRequest { number, key, from: *from, to: *to }
                });
                let most = memory.unwrap_or(usize::MAX);
                let (found, end) = waiting.find_within(&mut tx, requests, most).expect("reads");
                let mut cursor = found.cursor();
                for ((number, key), (from, to)) in (0..).zip(&keys).zip(&ranges) {
                    let found: Vec<Row> = cursor.take(number).map(|(time, row)| {
                        (key.to_vec(), time, (row.matched, row.payload.to_vec()))
                    }).collect();
                    let is_wanted = |(time, of): &(i64, Vec<u8>)| {
                        of == key && (*from..=*to).contains(time)
                    };
                    let expected = rows(stored.iter().filter(|(place, _)| is_wanted(place)));
                    if end.is_none_or(|end| number < end) {
                        prop_assert_eq!(&found, &expected);
                    }
                    let (mut passed, from, to) = (Vec::new(), *from, *to);
                    let request = RowRequest { number, key, from, to };
                    waiting.for_each_stored(&mut tx, &request, &mut |key, time, row| {
                        passed.push((key.to_vec(), time, (row.matched, row.payload.to_vec())));
                        Ok(())
                    }).expect("reads");
                    prop_assert_eq!(&passed, &expected);
                }

                // Later epochs have later rows. Rows before the horizon are late.
                let horizon = time.saturating_sub(RETENTION - 1);
                let records = records.into_iter()
                    .map(|(after, key, rows)| ((3 * number as i64 + after, vec![key]), rows));
                let changed: Records = records.filter(|((time, _), _)| *time >= horizon).collect();
                time = changed.keys().map(|(time, _)| *time).fold(time, i64::max);
                let limit = if is_last && number + 1 == count {
                    CloseLimit::End
                } else {
                    CloseLimit::Before(time.saturating_sub(RETENTION - 1))
                };
                let mut by_key: Vec<_> = changed.iter().collect();
                by_key.sort_by_key(|((time, key), _)| (key, *time));
                for ((time, key), rows) in by_key {
                    let rows = rows.iter()
                        .map(|(matched, payload)| WaitingRow { matched: *matched, payload });
                    waiting.put(key, *time, rows).expect("small");
                }

                let mut closed = Vec::new();
                waiting.for_each_closed(&mut tx, limit, &mut |key, time, row| {
                    closed.push((key.to_vec(), time, (row.matched, row.payload.to_vec())));
                    Ok(())
                }).expect("reads");
                let is_closed = |place: &(i64, Vec<u8>)| limit.is_closed(place.0);
                stored.retain(|place, _| !changed.contains_key(place));
                let mut expected = rows(stored.iter().filter(|(place, _)| is_closed(place)));
                expected.extend(rows(changed.iter().filter(|(place, _)| is_closed(place))));
                prop_assert_eq!(closed, expected);

                let stream_time = (time > i64::MIN).then_some(time);
                waiting.stage(&mut tx, limit, stream_time).expect("stages");
                db.commit_transaction(tx, Commit::default()).expect("commits");
                stored.extend(changed);
                stored.retain(|place, _| !is_closed(place));
            }
        }
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
