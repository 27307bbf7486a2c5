//! Puts: at the end of a key's history without reading, late ones into the middle of it.

use super::layout;
use super::store::VersionedStore;
use super::version::{PutResult, Version, VersionRow};
use crate::error::Result;
use crate::metrics::Operation;
use crate::store::key_part::with_key_part;
use crate::time::Timestamp;
use crate::transaction::Transaction;

impl VersionedStore {
    /// Puts a version (a tombstone for `None`) at a time; replaces the version of an equal time.
    ///
    /// Refused, counted and not written if `timestamp < stream time - history retention`; both
    /// borders are inclusive.
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

    /// Deletes as of a time: reads the version valid then, and puts a tombstone. `f` sees the
    /// version with its old end, nothing if there was none or the time is older than the history
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

    /// Stages versions that were accepted once (replay from a changelog): no acceptance test, and
    /// no double effect where a part is replayed again.
    ///
    /// Within a call the rows may come in any order, the calls must come in the changelog's. The
    /// stream time rises with them, and once no older view is alive compactions drop what ended
    /// before `stream time - history retention`: a row that comes after its time would no longer
    /// find the neighbours that it had when it was accepted.
    ///
    /// # Errors
    /// As `put`; what comes before the row concerned is staged then.
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

    /// As `restore`, of rows in the order in which they were put: one that came too late then is
    /// passed over, uncounted.
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

    /// As `put`, by key part. `stored_latest`: the begin of the stored newest version, where a
    /// batch has read it already.
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
        // At or above the key's mark nothing newer can exist: no read, and the new version is the
        // newest.
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
