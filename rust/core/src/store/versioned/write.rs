//! Puts. Most puts append to a key's history without a read. A late put splits an older interval.

use super::layout;
use super::store::VersionedStore;
use super::version::{PutResult, Version, VersionRow};
use crate::error::Result;
use crate::metrics::Operation;
use crate::store::key_part::with_key_part;
use crate::time::Timestamp;
use crate::transaction::Transaction;

impl VersionedStore {
    /// Puts a version (a tombstone for `None`) at a time. It replaces a version of the same time.
    ///
    /// If `timestamp` is before [`Self::horizon`], the put is counted as dropped and not written.
    ///
    /// # Errors
    /// `InvalidValue` for a key or value of more than 1 GiB.
    pub fn put(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> Result<PutResult> {
        let _call = self.inner.counts.call(Operation::Put);
        self.put_one(tx, key, value, timestamp)
    }

    fn put_one(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        value: Option<&[u8]>,
        timestamp: Timestamp,
    ) -> Result<PutResult> {
        let put = |part: &[u8]| {
            tx.make_room()?;
            self.put_part(tx, part, value, timestamp.0, true, None)
        };
        with_key_part(key, put).map_err(|e| e.store(self.name()).key(key))
    }

    /// Deletes as of a time: reads the version valid then, and puts a tombstone. `f` gets the
    /// version with its old end, or `None` if there was none or the time is older than the history
    /// retention.
    ///
    /// # Errors
    /// As `put`.
    pub fn delete<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        timestamp: Timestamp,
        f: impl FnOnce(Option<Version<'_>>) -> R,
    ) -> Result<R> {
        let _call = self.inner.counts.call(Operation::Delete);
        if timestamp.0 < self.horizon(tx) {
            self.inner.counts.dropped.add(1);
            return Ok(f(None));
        }
        let found = self.read_as_of(tx, key, timestamp, f)?;
        self.put_one(tx, key, None, timestamp)?;
        Ok(found)
    }

    /// Replays versions from a changelog. They were accepted once and are not checked against the
    /// retention again; replaying a row twice has no further effect.
    ///
    /// The rows of one call may be in any order, but the calls must be in the changelog's order:
    /// the stream time rises with the rows. Once no older view is alive, compactions drop the
    /// versions that ended before `stream time - history retention`, and a later call could miss
    /// the neighbours that its rows had when they were accepted.
    ///
    /// # Errors
    /// As `put`; the rows before the failed one are then staged.
    pub fn restore(
        &self,
        tx: &mut Transaction,
        rows: &[VersionRow<'_>],
        stream_time: Option<Timestamp>,
    ) -> Result<()> {
        self.stage_rows(tx, rows, |_, _| true)?;
        if let Some(time) = stream_time {
            self.raise_stream_time(tx, time.0);
        }
        Ok(())
    }

    /// As `restore`, for rows that are restored before older rows. The stream time stays as it is,
    /// so the older rows find the history that they need. After the older rows, `restore` without
    /// rows raises the stream time. Until then `scan` must not be called: it expects no version
    /// after the stream time.
    ///
    /// # Errors
    /// As `restore`.
    pub fn restore_ahead(&self, tx: &mut Transaction, rows: &[VersionRow<'_>]) -> Result<()> {
        let before = tx.stores[self.inner.number].stream_time;
        let staged = self.stage_rows(tx, rows, |_, _| true);
        tx.stores[self.inner.number].stream_time = before;
        staged
    }

    /// As `restore`, for rows in the order in which they were put. Rows that are older than the
    /// retention are skipped, and are not counted as dropped.
    pub(crate) fn restore_in_order(
        &self,
        tx: &mut Transaction,
        rows: &[VersionRow<'_>],
    ) -> Result<()> {
        self.stage_rows(tx, rows, |tx, row| row.timestamp.0 >= self.horizon(tx))
    }

    fn stage_rows(
        &self,
        tx: &mut Transaction,
        rows: &[VersionRow<'_>],
        admits: impl Fn(&Transaction, &VersionRow<'_>) -> bool,
    ) -> Result<()> {
        let mut call = self.inner.counts.call(Operation::Restore);
        call.records(rows.len());
        for row in rows {
            if !admits(tx, row) {
                continue;
            }
            let restored = |part: &[u8]| {
                tx.make_room()?;
                self.stage_version(tx, part, row.value, row.timestamp.0, false, None)
            };
            with_key_part(row.key, restored).map_err(|e| e.store(self.name()).key(row.key))?;
        }
        Ok(())
    }

    /// As `put`, by key part. `stored_latest` is the begin of the stored newest version, if a batch
    /// has already read it.
    pub(super) fn put_part(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        value: Option<&[u8]>,
        time: i64,
        want_valid_to: bool,
        stored_latest: Option<Option<i64>>,
    ) -> Result<PutResult> {
        if time < self.horizon(tx) {
            self.inner.counts.dropped.add(1);
            return Ok(PutResult {
                accepted: false,
                valid_to: None,
            });
        }
        let valid_to = self.stage_version(tx, part, value, time, want_valid_to, stored_latest)?;
        Ok(PutResult {
            accepted: true,
            valid_to: valid_to.map(Timestamp),
        })
    }

    pub(crate) fn raise_stream_time(&self, tx: &mut Transaction, time: i64) {
        let state = &mut tx.stores[self.inner.number];
        if state.stream_time.is_none_or(|now| now < time) {
            state.stream_time = Some(time);
            state.changed = true;
        }
    }

    fn stage_version(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        value: Option<&[u8]>,
        time: i64,
        want_valid_to: bool,
        stored_latest: Option<Option<i64>>,
    ) -> Result<Option<i64>> {
        // At or above the key's mark there is no newer version: the new version is the newest, and
        // no read is needed.
        let (newest, valid_to) = if self.inner.marks.raise(part, time) {
            (true, None)
        } else {
            match self.newest_begin(tx, part, stored_latest)? {
                Some(begin) if begin > time => {
                    let next = if want_valid_to {
                        self.next_begin(tx, part, time)?.or(Some(begin))
                    } else {
                        None
                    };
                    (false, next)
                }
                _ => (true, None),
            }
        };
        let begin = layout::inverted(time);
        match value {
            Some(value) => tx.stage(
                self.inner.versions,
                &[part, &begin],
                Some(&[&[layout::VALUE], value]),
                newest,
            )?,
            None => tx.stage(
                self.inner.versions,
                &[part, &begin],
                Some(&[&[layout::TOMBSTONE]]),
                newest,
            )?,
        }
        self.raise_stream_time(tx, time);
        Ok(valid_to)
    }

    /// Begin of the newest version of a key, staged or stored, tombstones included.
    fn newest_begin(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        stored_latest: Option<Option<i64>>,
    ) -> Result<Option<i64>> {
        match tx.newest_staged(self.inner.versions, part) {
            Some(staged) if staged.newest => Ok(Some(layout::split(staged.key).1)),
            _ => match stored_latest {
                Some(begin) => Ok(begin),
                None => tx.get_stored(self.inner.latest, part, |row| {
                    row.map(|row| layout::stored_latest(part, row).map(|(begin, _)| begin))
                        .transpose()
                })?,
            },
        }
    }
}
