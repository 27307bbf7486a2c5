//! Reads: the newest version, and the version valid at a moment.

use super::expired_read::ExpiredRead;
use super::layout;
use super::store::VersionedStore;
use super::version::Version;
use crate::error::Result;
use crate::metrics::Operation;
use crate::store::key_part::with_key_part;
use crate::table::TIME_BYTES;
use crate::time::Timestamp;
use crate::transaction::Transaction;
use std::ops::Range;

/// How many versions a walk passes before a backward seek replaces it. A shorter walk is cheaper
/// than the seek.
const WALK: usize = 16;

/// A version found among the staged or the stored ones. Its row is in a buffer of the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundVersion {
    /// Begin and row of the newest version that began at or before the moment.
    pub(super) version: Option<(i64, Range<usize>)>,
    /// Smallest begin after the moment, if it was requested.
    pub(super) next: Option<i64>,
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
            (Some(a), Some(b)) => Some(if b.0 >= a.0 { b } else { a }),
            (a, b) => a.or(b),
        };
        Self { version, next }
    }

    pub(super) fn version<'a>(&self, rows: &'a [u8]) -> Option<Version<'a>> {
        let (begin, row) = self.version.as_ref()?;
        let value = layout::value(&rows[row.clone()])?;
        Some(Version {
            value,
            timestamp: Timestamp(*begin),
            valid_to: self.next.map(Timestamp),
        })
    }
}

fn keep(rows: &mut Vec<u8>, row: &[u8]) -> Range<usize> {
    let start = rows.len();
    rows.extend_from_slice(row);
    start..rows.len()
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
        Ok(found.version.map(|(begin, _)| Timestamp(begin)))
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
                staged.value.map(|row| (begin, keep(rows, row)))
            }
            _ => tx.get_stored(self.inner.latest, part, |row| {
                row.map(|row| {
                    layout::stored_latest(part, row).map(|(begin, row)| (begin, keep(rows, row)))
                })
                .transpose()
            })??,
        };
        if newest.as_ref().is_some_and(|(begin, _)| *begin > at) {
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
        let seek = [part, &layout::inverted(at)].concat();
        let (at_or_before, after) = tx.staged_neighbours(self.inner.versions, &seek);
        FoundVersion {
            version: at_or_before
                .and_then(|staged| Some((layout::split(staged.key).1, keep(rows, staged.value?)))),
            next: after.map(|staged| layout::split(staged.key).1),
        }
    }

    /// The stored versions around a moment; `next` only with `want_next`.
    ///
    /// A version ends when the version of the row before it begins, and steps backward are
    /// expensive. So the seek goes to where the next newer version usually is, and the walk goes
    /// forward from there.
    pub(super) fn stored_at(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        at: i64,
        want_next: bool,
        rows: &mut Vec<u8>,
    ) -> Result<FoundVersion> {
        let ahead = self.inner.seek_hint.get();
        let tries = [
            at,
            at.saturating_add(ahead),
            at.saturating_add(ahead.saturating_mul(8)),
            i64::MAX,
        ];
        let (mut found, mut walked_out) = (FoundVersion::default(), false);
        let mut seek = [part, &[0; TIME_BYTES]].concat();
        for from in &tries[if want_next { 1..tries.len() } else { 0..1 }] {
            seek.truncate(part.len());
            seek.extend_from_slice(&layout::inverted(*from));
            found = FoundVersion::default();
            walked_out = tx.with_seeker(self.inner.versions, true, |cursor| {
                cursor.seek(&seek);
                for _ in 0..WALK {
                    let Some((key, row)) = cursor.item() else {
                        return false;
                    };
                    if key.len() != seek.len() || !key.starts_with(part) {
                        return false;
                    }
                    let begin = layout::split(key).1;
                    if begin <= at {
                        found.version = Some((begin, keep(rows, row)));
                        return false;
                    }
                    found.next = Some(begin);
                    cursor.next();
                }
                true
            })?;
            // If the loop continues, no newer version begins at or before `from`, and the next try
            // seeks further ahead.
            if walked_out || found.next.is_some() {
                break;
            }
        }
        if walked_out {
            // Many newer versions: seek backward to the moment, then step forward again.
            seek.truncate(part.len());
            seek.extend_from_slice(&layout::inverted(at));
            found = FoundVersion::default();
            let same = |key: &[u8]| key.len() == seek.len() && key.starts_with(part);
            tx.with_seeker(self.inner.versions, false, |cursor| {
                cursor.seek_for_prev(&seek);
                // An exact hit is the valid version; the next newer one precedes it.
                if let Some((key, row)) = cursor.item()
                    && key == seek
                {
                    found.version = Some((at, keep(rows, row)));
                    cursor.prev();
                    found.next = cursor
                        .key()
                        .filter(|key| same(key))
                        .map(|key| layout::split(key).1);
                    return;
                }
                found.next = cursor
                    .key()
                    .filter(|key| same(key))
                    .map(|key| layout::split(key).1);
                if cursor.valid() {
                    cursor.next()
                } else {
                    cursor.seek(&seek)
                }
                if let Some((key, row)) = cursor.item()
                    && same(key)
                {
                    found.version = Some((layout::split(key).1, keep(rows, row)));
                }
            })?;
        }
        if let Some(next) = found.next {
            self.inner.seek_hint.learn(next.saturating_sub(at));
        }
        Ok(found)
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
