//! The session store: (key, [start, end]) → value, both times inclusive, by (end, key, start).

use super::key_part::{key_part_length, push_key_part};
use super::versioned::VersionRow;
use super::windowed::{
    self, KeySpan, RowScan, Selection, WindowedKey, WindowedRow, WindowedRows, ordered,
};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::{Call, Operation};
use crate::table::TIME_BYTES;
use crate::time::Timestamp;
use crate::transaction::{Transaction, check_size};

/// A handle to a session store of a database. Every call takes the transaction to work in.
#[derive(Clone)]
pub struct SessionStore {
    pub(crate) rows: WindowedRows,
}

/// The request of `find_sessions`: sessions of keys in `[key_from, key_to]` (`None` open) that end
/// at `earliest_end` or later and start at `latest_start` or earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionQuery<'a> {
    /// First key, inclusive.
    pub key_from: Option<&'a [u8]>,
    /// Last key, inclusive.
    pub key_to: Option<&'a [u8]>,
    /// The earliest end, inclusive.
    pub earliest_end: Timestamp,
    /// The latest start, inclusive.
    pub latest_start: Timestamp,
    /// Descending by (end, key, start).
    pub reverse: bool,
}

impl SessionStore {
    /// Returns the store's name.
    pub fn name(&self) -> &str {
        self.rows.name()
    }

    /// Returns how far behind stream time sessions are retained, in microseconds.
    pub fn retention(&self) -> i64 {
        self.rows.retention()
    }

    /// Returns the greatest session end of an accepted write over all keys, the writes of this
    /// transaction included.
    pub fn stream_time(&self, tx: &Transaction) -> Option<Timestamp> {
        self.rows.stream_time(tx)
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

    /// Fails if a session ends before it starts, or a key or value is too large; the error names
    /// the session's key.
    ///
    /// # Errors
    /// `InvalidValue`.
    pub fn check(&self, puts: &[(WindowedKey<'_>, Option<&[u8]>)]) -> Result<()> {
        if let Some(row) = puts
            .iter()
            .position(|(session, _)| session.end < session.start)
        {
            let (session, _) = puts[row];
            let named = if puts.len() > 1 {
                format!("row {row}: ")
            } else {
                String::new()
            };
            let words = format!(
                "{named}the session starts at {} and ends at {}, which is earlier",
                session.start, session.end
            );
            return Err(Error::new(ErrorKind::InvalidValue, words)
                .store(self.name())
                .key(session.key));
        }
        // Checked here and not at staging, since a batch is refused as a whole.
        puts.iter().try_for_each(|(session, value)| {
            let row_key = key_part_length(session.key) + 2 * TIME_BYTES;
            check_size(row_key.max(value.map_or(0, <[u8]>::len)))
                .map_err(|e| e.store(self.name()).key(session.key))
        })
    }

    /// Puts a session's value, or for `None` removes the session, which need not exist.
    ///
    /// If `end < stream time - retention + 1`, the put is counted as dropped and not written. An
    /// open with a longer retention does not lower this limit.
    ///
    /// # Errors
    /// `InvalidValue` for a session that ends before it starts, or a key or value of more than 1
    /// GiB.
    pub fn put(
        &self,
        tx: &mut Transaction,
        session: WindowedKey<'_>,
        value: Option<&[u8]>,
    ) -> Result<()> {
        let _call = self.rows.call(if value.is_none() {
            Operation::Remove
        } else {
            Operation::Put
        });
        self.put_rows(tx, &[(session, value)])
    }

    /// Puts many sessions, in order. If one is invalid, none is written, and the error names its
    /// key.
    ///
    /// # Errors
    /// `InvalidValue` for a session that ends before it starts, or a key or value of more than 1
    /// GiB.
    pub fn put_batch(
        &self,
        tx: &mut Transaction,
        puts: &[(WindowedKey<'_>, Option<&[u8]>)],
    ) -> Result<()> {
        let _call = self.batch_call(Operation::PutBatch, puts.len());
        self.put_rows(tx, puts)
    }

    fn put_rows(
        &self,
        tx: &mut Transaction,
        puts: &[(WindowedKey<'_>, Option<&[u8]>)],
    ) -> Result<()> {
        self.check(puts)?;
        let mut part = Vec::new();
        for (session, value) in puts {
            if self.rows.admit(tx, session.end.0) {
                self.stage(tx, *session, *value, &mut part)?;
            }
        }
        Ok(())
    }

    /// Stages sessions that were accepted before, in any order. They are not checked against the
    /// retention again. A record's key is the session's key, then its end and its start, both 8
    /// bytes big-endian, as Kafka Streams writes them.
    pub(crate) fn restore<'a>(
        &self,
        tx: &mut Transaction,
        rows: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
    ) -> Result<()> {
        self.stage_records(tx, rows, |_, _| true)
    }

    /// As `restore`, for sessions in the order in which they were put. Sessions older than the
    /// retention are skipped and not counted.
    pub(crate) fn restore_in_order<'a>(
        &self,
        tx: &mut Transaction,
        rows: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
    ) -> Result<()> {
        self.stage_records(tx, rows, |tx, end| self.rows.readmit(tx, end))
    }

    /// Stages the records whose end is admitted.
    fn stage_records<'a>(
        &self,
        tx: &mut Transaction,
        rows: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + Clone,
        admits: impl Fn(&Transaction, i64) -> bool,
    ) -> Result<()> {
        if let Some((row, (key, _))) = rows
            .clone()
            .enumerate()
            .find(|(_, (key, _))| parse_record_key(key).is_none())
        {
            let words = format!(
                "row {row}: this is not a session's record; its key must be the session's key, its \
                 end and its start, both 8 bytes, and the start must not be after the end"
            );
            return Err(Error::new(ErrorKind::InvalidValue, words)
                .store(self.name())
                .key(key));
        }
        let mut call = self.rows.call(Operation::Restore);
        let mut part = Vec::new();
        for (n, (key, value)) in rows.enumerate() {
            call.records(n + 1);
            if let Some(session) = parse_record_key(key)
                && admits(tx, session.end.0)
            {
                self.stage(tx, session, value, &mut part)?;
            }
        }
        Ok(())
    }

    /// Calls `f` with the staged sessions of a transaction, as changes for a changelog.
    pub(crate) fn for_each_change(
        &self,
        tx: &mut Transaction,
        f: &mut dyn FnMut(VersionRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut record = Vec::new();
        self.rows.for_each_staged(tx, |key, end, start, value| {
            record.clear();
            record.extend_from_slice(key);
            record.extend_from_slice(&end.to_be_bytes());
            record.extend_from_slice(&windowed::time(start).to_be_bytes());
            f(VersionRow {
                key: &record,
                value,
                timestamp: Timestamp(end),
            })
        })
    }

    fn stage(
        &self,
        tx: &mut Transaction,
        session: WindowedKey<'_>,
        value: Option<&[u8]>,
        part: &mut Vec<u8>,
    ) -> Result<()> {
        part.clear();
        push_key_part(session.key, part);
        let value = value.as_ref().map(std::slice::from_ref);
        self.rows
            .stage(tx, part, session.end.0, &ordered(session.start.0), value)
    }

    /// Reads the value of one session and calls `f` with it, without a copy.
    pub fn fetch_session<R>(
        &self,
        tx: &mut Transaction,
        session: WindowedKey<'_>,
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let _call = self.rows.call(Operation::Fetch);
        self.rows
            .get(tx, session.key, session.end.0, &ordered(session.start.0), f)
    }

    /// Reads many sessions and calls `f` once for each, in no particular order.
    pub fn fetch_batch(
        &self,
        tx: &mut Transaction,
        sessions: &[WindowedKey<'_>],
        f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let _call = self.batch_call(Operation::FetchBatch, sessions.len());
        self.rows.get_batch(
            tx,
            sessions
                .iter()
                .map(|session| (session.key, session.end.0, ordered(session.start.0))),
            f,
        )
    }

    /// Scans sessions by (end, key, start), or backward. To merge a record at `t` with gap `g`,
    /// request `earliest_end` t - g and `latest_start` t + g.
    pub fn find_sessions(
        &self,
        tx: &mut Transaction,
        query: SessionQuery<'_>,
    ) -> Result<SessionScan> {
        let _call = self.rows.call(Operation::Fetch);
        let wanted = Selection {
            key_from: query.key_from,
            key_to: query.key_to,
            from: query.earliest_end.0,
            to: i64::MAX,
            most: Some(ordered(query.latest_start.0)),
            reverse: query.reverse,
        };
        Ok(SessionScan {
            scan: self.rows.scan(tx, wanted)?,
        })
    }

    /// Finds the sessions of many keys, each with its own times. Calls `f` with the key's position
    /// and a session, in order of position, then of (end, start).
    pub fn find_batch(
        &self,
        tx: &mut Transaction,
        keys: &[&[u8]],
        earliest_ends: &[Timestamp],
        latest_starts: &[Timestamp],
        f: &mut dyn FnMut(usize, WindowedKey<'_>, &[u8]),
    ) -> Result<()> {
        let _call = self.batch_call(Operation::FetchBatch, keys.len());
        let times = earliest_ends.iter().zip(latest_starts);
        let wanted: Vec<KeySpan<'_>> = (keys.iter().zip(times))
            .map(|(key, (end, start))| KeySpan {
                key,
                from: end.0,
                to: i64::MAX,
                most: Some(ordered(start.0)),
            })
            .collect();
        self.rows
            .find(tx, &wanted, &mut |n, row| f(n, session(row), row.value))
    }

    fn batch_call(&self, operation: Operation, records: usize) -> Call<'_> {
        let mut call = self.rows.call(operation);
        call.records(records);
        call
    }
}

fn session(row: WindowedRow<'_>) -> WindowedKey<'_> {
    WindowedKey {
        key: row.key,
        start: Timestamp(windowed::time(row.more)),
        end: Timestamp(row.time),
    }
}

/// Parses the key of a changelog record; `None` if it is not a session's.
pub fn parse_record_key(record_key: &[u8]) -> Option<WindowedKey<'_>> {
    let (rest, start) = record_key.split_last_chunk()?;
    let (key, end) = rest.split_last_chunk()?;
    let (start, end) = (i64::from_be_bytes(*start), i64::from_be_bytes(*end));
    (start <= end).then_some(WindowedKey {
        key,
        start: Timestamp(start),
        end: Timestamp(end),
    })
}

/// A scan over sessions, as they were when it was opened.
pub struct SessionScan {
    scan: RowScan,
}

impl SessionScan {
    /// Calls `visit` with each session until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan, which can then be resumed.
    pub fn for_each(
        &mut self,
        visit: &mut dyn FnMut(WindowedKey<'_>, &[u8]) -> bool,
    ) -> Result<bool> {
        self.scan
            .for_each(&mut |row| visit(session(row), row.value))
    }
}
