//! Reads: the newest version, and the version valid at a moment.

use super::expired_read::ExpiredRead;
use super::layout;
use super::store::VersionedStore;
use super::version::Version;
use crate::error::Result;
use crate::metrics::Operation;
use crate::store::key_part::with_key_part;
use crate::time::Timestamp;
use crate::transaction::Transaction;
use std::num::NonZeroU32;

/// A version found among the staged or the stored ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundVersion {
    /// The newest version that began at or before the moment.
    pub(super) version: Option<VersionPlace>,
    /// Smallest begin after the moment, if it was requested.
    pub(super) next: Option<i64>,
}

/// A version whose row is in a buffer of the caller. The buffer has less than 4 GiB: a batch adds
/// no row beyond 64 MiB, and a row has at most 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VersionPlace {
    pub(super) begin: i64,
    start: u32,
    /// One more than the length of the row, so the `Option` of a `VersionPlace` is not larger.
    length: NonZeroU32,
}

// A batch has one for each of its rows.
const _: () = assert!(size_of::<FoundVersion>() == 32);

impl VersionPlace {
    /// Appends a row to the buffer.
    pub(super) fn keep(rows: &mut Vec<u8>, begin: i64, row: &[u8]) -> Self {
        let start = rows.len();
        rows.extend_from_slice(row);
        debug_assert!(u32::try_from(rows.len()).is_ok());
        Self {
            begin,
            start: start as u32,
            length: NonZeroU32::MIN.saturating_add(row.len() as u32),
        }
    }

    fn row(self, rows: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &rows[start..start + self.length.get() as usize - 1]
    }
}

impl FoundVersion {
    /// Merges the results from stored (`self`) and staged versions: the newer version, with the
    /// earlier end.
    pub(super) fn merge(self, staged: Self) -> Self {
        let next = match (self.next, staged.next) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let version = match (self.version, staged.version) {
            // Equal begins: the staged version replaces the stored one.
            (Some(a), Some(b)) => Some(if b.begin >= a.begin { b } else { a }),
            (a, b) => a.or(b),
        };
        Self { version, next }
    }

    pub(super) fn version(self, rows: &[u8]) -> Option<Version<'_>> {
        let found = self.version?;
        Some(Version {
            value: layout::value(found.row(rows))?,
            timestamp: Timestamp(found.begin),
            valid_to: self.next.map(Timestamp),
        })
    }
}

impl VersionedStore {
    /// Reads the newest version, which never expires; `None` if there is none or it is a tombstone.
    pub fn get<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        f: impl FnOnce(Option<Version<'_>>) -> R,
    ) -> Result<R> {
        self.get_as_of(tx, key, Timestamp::MAX, f)
    }

    /// Reads the version valid at a moment, with its end.
    ///
    /// As of a moment before [`Self::horizon`], only the newest version is found, if it began by
    /// then.
    pub fn get_as_of<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        as_of: Timestamp,
        f: impl FnOnce(Option<Version<'_>>) -> R,
    ) -> Result<R> {
        let _call = self.inner.counts.call(Operation::Get);
        self.read_as_of(tx, key, as_of, f)
    }

    pub(super) fn read_as_of<R>(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        as_of: Timestamp,
        f: impl FnOnce(Option<Version<'_>>) -> R,
    ) -> Result<R> {
        let mut rows = Vec::new();
        let found = with_key_part(key, |part| self.find(tx, part, as_of.0, &mut rows))
            .map_err(|e| e.store(self.name()).key(key))?;
        Ok(f(found.version(&rows)))
    }

    /// Returns the begin of a key's version or tombstone that is valid at a moment. The moment must
    /// not be before the horizon.
    pub fn last_change(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        at: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let mut rows = Vec::new();
        let found = with_key_part(key, |part| self.find(tx, part, at.0, &mut rows))
            .map_err(|e| e.store(self.name()).key(key))?;
        Ok(found.version.map(|found| Timestamp(found.begin)))
    }

    /// Returns the first begin after `after` of a key's version or tombstone. Changes before the
    /// horizon may have been dropped.
    pub fn next_change(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        after: Timestamp,
    ) -> Result<Option<Timestamp>> {
        let found = with_key_part(key, |part| self.next_begin(tx, part, after.0))
            .map_err(|e| e.store(self.name()).key(key))?;
        Ok(found.map(Timestamp))
    }

    fn find(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        at: i64,
        rows: &mut Vec<u8>,
    ) -> Result<FoundVersion> {
        // At or above the mark the newest version is the valid one.
        if self.inner.marks.covers(part, at) || at < self.horizon(tx) {
            return Ok(self.newest_by(tx, part, at, rows)?.unwrap_or_default());
        }
        let stored = self.stored_at(tx, part, at, true, rows)?;
        Ok(stored.merge(self.staged_at(tx, part, at, rows)))
    }

    /// The newest version if it began by `at`. It can begin later only if `at` is before the
    /// horizon: the read is then counted as expired, and the result is `None`.
    pub(super) fn newest_by(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        at: i64,
        rows: &mut Vec<u8>,
    ) -> Result<Option<FoundVersion>> {
        let newest = match tx.newest_staged(self.inner.versions, part) {
            Some(staged) if staged.newest => {
                let begin = layout::split(staged.key).1;
                staged.value.map(|row| VersionPlace::keep(rows, begin, row))
            }
            _ => tx.get_stored(self.inner.latest, part, |row| {
                row.map(|row| {
                    layout::stored_latest(part, row)
                        .map(|(begin, row)| VersionPlace::keep(rows, begin, row))
                })
                .transpose()
            })??,
        };
        if newest.as_ref().is_some_and(|found| found.begin > at) {
            ExpiredRead::new(self, tx, at).count();
            return Ok(None);
        }
        Ok(Some(FoundVersion {
            version: newest,
            next: None,
        }))
    }

    /// The staged versions around a moment.
    pub(super) fn staged_at(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        at: i64,
        rows: &mut Vec<u8>,
    ) -> FoundVersion {
        if tx.newest_staged(self.inner.versions, part).is_none() {
            return FoundVersion::default();
        }
        let seek = layout::row_key(part, at);
        let (at_or_before, after) = tx.staged_neighbours(self.inner.versions, &seek);
        FoundVersion {
            version: at_or_before.and_then(|staged| {
                let begin = layout::split(staged.key).1;
                Some(VersionPlace::keep(rows, begin, staged.value?))
            }),
            next: after.map(|staged| layout::split(staged.key).1),
        }
    }

    /// The smallest begin of a key after a time, staged or stored.
    pub(super) fn next_begin(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        time: i64,
    ) -> Result<Option<i64>> {
        let mut rows = Vec::new();
        let stored = self.stored_at(tx, part, time, true, &mut rows)?;
        Ok(stored.merge(self.staged_at(tx, part, time, &mut rows)).next)
    }
}
