//! The store of a table, of any kind, and its reads.

use holdfast_core::{
    Database, Error, ErrorKind, KeyValueStore, Result, Scan, SessionQuery, SessionScan,
    SessionStore, Stamped, StampedScan, Step, StoreKind, Timestamp, TimestampedKeyValueStore,
    Transaction, Version, VersionScan, VersionedStore, WindowScan, WindowStore, WindowedKey,
};
use serde::{Deserialize, Serialize};

use super::key_range::KeyRange;
use super::stored_rows::{FoundRows, RowTimes, StoredRows};

/// A store in an open database.
pub enum StoreHandle {
    KeyValue(KeyValueStore),
    Timestamped(TimestampedKeyValueStore),
    Versioned(VersionedStore),
    Window(WindowStore),
    Session(SessionStore),
}

/// The times that a read names beside its keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moments {
    /// In a versioned store: the moment of each key; none: its newest version.
    pub as_of: Option<Vec<i64>>,
    /// In a window or session store: the start of each key's window or session.
    pub starts: Vec<i64>,
    /// In a session store: the end of each key's session.
    pub ends: Vec<i64>,
}

impl Moments {
    /// The times under which a window or session store has the rows.
    pub fn stored_times(&self) -> &[i64] {
        if self.ends.is_empty() {
            &self.starts
        } else {
            &self.ends
        }
    }
}

/// The times that a scan is limited to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimeSpan {
    /// The first time; none: the earliest.
    pub from: Option<i64>,
    /// The last time; none: the latest.
    pub to: Option<i64>,
}

impl StoreHandle {
    /// Opens a table's store.
    ///
    /// # Errors
    /// `InvalidValue` if the database has no store of this name and kind.
    pub fn open(db: &Database, name: &str, kind: &StoreKind) -> Result<Self> {
        Ok(match kind {
            StoreKind::KeyValue => Self::KeyValue(db.key_value(name)?),
            StoreKind::TimestampedKeyValue => Self::Timestamped(db.timestamped_key_value(name)?),
            StoreKind::Versioned { .. } => Self::Versioned(db.versioned(name)?),
            StoreKind::Window { .. } => Self::Window(db.window(name)?),
            StoreKind::Session { .. } => Self::Session(db.session(name)?),
        })
    }

    /// Reads one row for each key. A key that is null is not found. Values beyond `most` bytes are
    /// counted, but not returned.
    ///
    /// # Errors
    /// Those of the store.
    pub fn get(
        &self,
        tx: &mut Transaction,
        keys: &[Option<impl AsRef<[u8]>>],
        moments: &Moments,
        most: usize,
    ) -> Result<FoundRows> {
        let asked: Vec<usize> = (0..keys.len()).filter(|n| keys[*n].is_some()).collect();
        let bytes: Vec<&[u8]> = keys.iter().flatten().map(AsRef::as_ref).collect();
        let mut found = FoundRows::new(keys.len(), most);
        let at = |n: usize, times: &[i64]| Timestamp(times.get(asked[n]).copied().unwrap_or(0));
        match self {
            Self::KeyValue(store) => store.get_batch(tx, &bytes, |n, value| {
                if let Some(value) = value {
                    found.set(asked[n], value, RowTimes::default());
                }
            })?,
            Self::Timestamped(store) => store.get_batch(tx, &bytes, |n, row| {
                if let Some(row) = row {
                    found.set(asked[n], row.value, stamped_times(&row));
                }
            })?,
            Self::Versioned(store) => {
                let times = moments.as_of.as_ref();
                let times: Option<Vec<Timestamp>> =
                    times.map(|times| (0..bytes.len()).map(|n| at(n, times)).collect());
                store.get_batch(tx, &bytes, times.as_deref(), &mut |n, version| {
                    if let Some(version) = version {
                        found.set(asked[n], version.value, version_times(&version));
                    }
                })?;
            }
            Self::Window(store) => {
                let starts: Vec<Timestamp> =
                    (0..bytes.len()).map(|n| at(n, &moments.starts)).collect();
                let size = store.window_size();
                store.fetch_batch(tx, &bytes, &starts, |n, row| {
                    let begin = starts[n].0;
                    if let Some(row) = row {
                        let times = RowTimes {
                            begin: Some(begin),
                            end: Some(begin.saturating_add(size)),
                            timestamp: Some(row.timestamp.0),
                        };
                        found.set(asked[n], row.value, times);
                    }
                })?;
            }
            Self::Session(store) => {
                let sessions: Vec<WindowedKey<'_>> = (0..bytes.len())
                    .map(|n| WindowedKey {
                        key: bytes[n],
                        start: at(n, &moments.starts),
                        end: at(n, &moments.ends),
                    })
                    .collect();
                store.fetch_batch(tx, &sessions, |n, value| {
                    if let Some(value) = value {
                        found.set(asked[n], value, windowed_times(&sessions[n]));
                    }
                })?;
            }
        }
        Ok(found)
    }

    /// Scans the rows of a range of keys. In a versioned store, these are the versions as of a
    /// moment, or the newest ones without a moment. In a window store, `span` limits the starts. In
    /// a session store, it selects the sessions that overlap it.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a span in a store without windows; the errors of the store. A
    /// moment in a store without versions is ignored: the caller rejects it.
    pub fn scan(
        &self,
        tx: &mut Transaction,
        range: KeyRange,
        as_of: Option<i64>,
        span: TimeSpan,
    ) -> Result<TableScan> {
        let lower = range.lower.as_deref();
        let is_all = range == KeyRange::default();
        let (key_from, key_to) = (lower, range.only());
        let (from, to) = (
            Timestamp(span.from.unwrap_or(i64::MIN)),
            Timestamp(span.to.unwrap_or(i64::MAX)),
        );
        let has_windows = matches!(self, Self::Window(_) | Self::Session(_));
        if !has_windows && (span.from, span.to) != (None, None) {
            return Err(Error::new(
                ErrorKind::UnsupportedOperation,
                "this table has no windows: only a window or session table can be scanned by time",
            ));
        }
        let rows = match self {
            Self::KeyValue(store) => ScanRows::KeyValue(store.range(tx, lower, key_to, false)?),
            Self::Timestamped(store) => {
                ScanRows::Timestamped(store.range(tx, lower, key_to, false)?)
            }
            Self::Versioned(store) if is_all => {
                ScanRows::Versioned(store.scan(tx, as_of.map(Timestamp))?)
            }
            Self::Versioned(store) => {
                let at = as_of.map_or(Timestamp::MAX, Timestamp);
                ScanRows::Versioned(store.versions_range(tx, lower, key_to, at, at)?)
            }
            Self::Window(store) => {
                ScanRows::Window(store.fetch_range(tx, key_from, key_to, from, to, false)?)
            }
            Self::Session(store) => {
                let query = SessionQuery {
                    key_from,
                    key_to,
                    earliest_end: from,
                    latest_start: to,
                    reverse: false,
                };
                ScanRows::Session(store.find_sessions(tx, query)?)
            }
        };
        Ok(TableScan { rows, range })
    }

    /// Scans the versions of a range of keys whose validity overlaps a span, by key, oldest first.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a store without versions; the errors of the store.
    pub fn versions(
        &self,
        tx: &mut Transaction,
        range: KeyRange,
        span: TimeSpan,
    ) -> Result<TableScan> {
        let Self::Versioned(store) = self else {
            return Err(without_versions());
        };
        let (from, to) = (
            Timestamp(span.from.unwrap_or(i64::MIN)),
            Timestamp(span.to.unwrap_or(i64::MAX)),
        );
        let rows = store.versions_range(tx, range.lower.as_deref(), range.only(), from, to)?;
        Ok(TableScan {
            rows: ScanRows::Versioned(rows),
            range,
        })
    }
}

/// The error of a read of versions in a store that has none.
pub fn without_versions() -> Error {
    Error::new(
        ErrorKind::UnsupportedOperation,
        "this table has no versions: only a versioned one can be read as of a time",
    )
}

/// A scan of a table's store.
pub struct TableScan {
    rows: ScanRows,
    range: KeyRange,
}

enum ScanRows {
    KeyValue(Scan),
    Timestamped(StampedScan),
    Versioned(VersionScan),
    Window(WindowScan),
    Session(SessionScan),
}

impl TableScan {
    /// Adds the next rows to `rows`, at most `limit`; returns whether there may be more.
    ///
    /// # Errors
    /// Those of the store.
    pub fn next(&mut self, rows: &mut StoredRows, limit: usize) -> Result<bool> {
        if limit == 0 {
            return Ok(false);
        }
        let range = &self.range;
        let mut is_behind = false;
        let mut add = |key: &[u8], value: &[u8], times: RowTimes, in_order: bool| -> bool {
            if !range.is_before_end(key) && in_order {
                is_behind = true;
                return false;
            }
            if !range.contains(key) {
                return true;
            }
            rows.push(key, Some(value), times);
            rows.len() < limit && !rows.is_full()
        };
        let stopped = match &mut self.rows {
            ScanRows::KeyValue(scan) => scan.for_each(&mut |key, value| {
                if add(key, value, RowTimes::default(), true) {
                    Step::Next
                } else {
                    Step::Pause
                }
            })?,
            ScanRows::Timestamped(scan) => {
                scan.for_each(&mut |key, row| add(key, row.value, stamped_times(&row), true))?
            }
            ScanRows::Versioned(scan) => scan.for_each(&mut |key, version| {
                add(key, version.value, version_times(&version), true)
            })?,
            // Rows come by time, so keys of the range may follow a key that is after the range.
            ScanRows::Window(scan) => scan.for_each(&mut |key, row| {
                let times = RowTimes {
                    timestamp: Some(row.timestamp.0),
                    ..windowed_times(&key)
                };
                add(key.key, row.value, times, false)
            })?,
            ScanRows::Session(scan) => {
                scan.for_each(&mut |key, value| add(key.key, value, windowed_times(&key), false))?
            }
        };
        Ok(stopped && !is_behind)
    }
}

fn stamped_times(row: &Stamped<'_>) -> RowTimes {
    RowTimes {
        begin: Some(row.timestamp.0),
        ..RowTimes::default()
    }
}

fn version_times(version: &Version<'_>) -> RowTimes {
    RowTimes {
        begin: Some(version.timestamp.0),
        end: version.valid_to.map(|time| time.0),
        timestamp: None,
    }
}

fn windowed_times(key: &WindowedKey<'_>) -> RowTimes {
    RowTimes {
        begin: Some(key.start.0),
        end: Some(key.end.0),
        timestamp: None,
    }
}
