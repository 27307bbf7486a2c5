//! Reads of stored versions around a moment, by seeks.

use super::layout;
use super::read::{FoundVersion, VersionPlace};
use super::store::VersionedStore;
use crate::error::Result;
use crate::table::TIME_BYTES;
use crate::transaction::{CursorRows, Transaction};

/// How many versions a walk passes before a backward seek replaces it. A shorter walk is cheaper
/// than the seek.
const WALK: usize = 16;

/// A row of a batch that reads a key as of a moment.
#[derive(Clone, Copy)]
pub(super) struct HistoryRead<'k> {
    /// The number of the row.
    pub(super) row: usize,
    pub(super) part: &'k [u8],
    pub(super) at: i64,
}

impl HistoryRead<'_> {
    fn is_same(&self, other: &Self) -> bool {
        self.at == other.at && self.part == other.part
    }
}

impl VersionedStore {
    /// The stored versions around a moment; `next` only with `want_next`.
    pub(super) fn stored_at(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        at: i64,
        want_next: bool,
        rows: &mut Vec<u8>,
    ) -> Result<FoundVersion> {
        let mut seek = Vec::with_capacity(part.len() + TIME_BYTES);
        let found = tx.with_seeker(self.inner.versions, true, |cursor| {
            self.seek_ahead(cursor, part, at, want_next, &mut seek, rows)
        })?;
        match found {
            Some(found) => Ok(found),
            None => self.seek_back(tx, part, at, rows),
        }
    }

    /// Does many reads as `stored_at` does. They should be sorted by key and, within a key, newest
    /// first. Equal reads in succession share a row of `rows`. The result of each read is at its
    /// number in `stored`.
    ///
    /// Returns false if reads remain when `rows` has more than `limit` bytes.
    pub(super) fn stored_at_each<'k>(
        &self,
        tx: &mut Transaction,
        reads: impl Iterator<Item = HistoryRead<'k>>,
        want_next: bool,
        limit: usize,
        rows: &mut Vec<u8>,
        stored: &mut [FoundVersion],
    ) -> Result<bool> {
        let mut reads = reads.peekable();
        if reads.peek().is_none() {
            return Ok(true);
        }
        let (mut seek, mut behind) = (Vec::new(), Vec::new());
        // One call for all reads: each call locks the cursor and asks it for errors.
        let fits = tx.with_seeker(self.inner.versions, true, |cursor| {
            let mut last: Option<(HistoryRead<'_>, Option<FoundVersion>)> = None;
            for read in reads {
                let found = match last {
                    Some((last, found)) if last.is_same(&read) => found,
                    _ if rows.len() > limit => return false,
                    _ => self.seek_ahead(cursor, read.part, read.at, want_next, &mut seek, rows),
                };
                match found {
                    Some(found) => stored[read.row] = found,
                    None => behind.push(read),
                }
                last = Some((read, found));
            }
            true
        })?;
        if !fits {
            return Ok(false);
        }
        let mut last: Option<HistoryRead<'_>> = None;
        for read in behind {
            stored[read.row] = match last {
                Some(last) if last.is_same(&read) => stored[last.row],
                _ if rows.len() > limit => return Ok(false),
                _ => self.seek_back(tx, read.part, read.at, rows)?,
            };
            last = Some(read);
        }
        Ok(true)
    }

    /// The stored versions around a moment; `None` if many newer ones precede it.
    ///
    /// A version ends when the version of the row before it begins, and steps backward are
    /// expensive. So the seek goes to where the next newer version usually is, and the walk goes
    /// forward from there.
    fn seek_ahead(
        &self,
        cursor: &mut CursorRows<'_>,
        part: &[u8],
        at: i64,
        want_next: bool,
        seek: &mut Vec<u8>,
        rows: &mut Vec<u8>,
    ) -> Option<FoundVersion> {
        let ahead = self.inner.seek_hint.get();
        let tries = [
            at,
            at.saturating_add(ahead),
            at.saturating_add(ahead.saturating_mul(8)),
            i64::MAX,
        ];
        let (start, mut found) = (rows.len(), FoundVersion::default());
        for from in &tries[if want_next { 1..tries.len() } else { 0..1 }] {
            seek.clear();
            seek.extend_from_slice(part);
            seek.extend_from_slice(&layout::inverted(*from));
            rows.truncate(start);
            found = walk(cursor, seek, at, rows)?;
            // Without a newer version that begins at or before `from`, the next try seeks further
            // ahead.
            if found.next.is_some() {
                break;
            }
        }
        self.learn(found, at);
        Some(found)
    }

    /// As `seek_ahead`, for a moment that many newer versions precede: seeks backward to the
    /// moment, then steps forward again.
    fn seek_back(
        &self,
        tx: &mut Transaction,
        part: &[u8],
        at: i64,
        rows: &mut Vec<u8>,
    ) -> Result<FoundVersion> {
        let seek = layout::row_key(part, at);
        let mut found = FoundVersion::default();
        let begin = |key: &[u8]| {
            let same = key.len() == seek.len() && key.starts_with(part);
            same.then(|| layout::split(key).1)
        };
        tx.with_seeker(self.inner.versions, false, |cursor| {
            cursor.seek_for_prev(&seek);
            // An exact hit is the valid version; the next newer one precedes it.
            if let Some((key, row)) = cursor.item()
                && key == seek
            {
                found.version = Some(VersionPlace::keep(rows, at, row));
                cursor.prev();
                found.next = cursor.key().and_then(begin);
                return;
            }
            found.next = cursor.key().and_then(begin);
            if cursor.valid() {
                cursor.next()
            } else {
                cursor.seek(&seek)
            }
            if let Some((key, row)) = cursor.item()
                && let Some(begin) = begin(key)
            {
                found.version = Some(VersionPlace::keep(rows, begin, row));
            }
        })?;
        self.learn(found, at);
        Ok(found)
    }

    fn learn(&self, found: FoundVersion, at: i64) {
        if let Some(next) = found.next {
            self.inner.seek_hint.learn(next.saturating_sub(at));
        }
    }
}

/// Walks from a row key to the version of its key that is valid at a moment. `None` if the walk
/// passes too many newer versions.
fn walk(
    cursor: &mut CursorRows<'_>,
    from: &[u8],
    at: i64,
    rows: &mut Vec<u8>,
) -> Option<FoundVersion> {
    let part = &from[..from.len() - TIME_BYTES];
    let mut found = FoundVersion::default();
    cursor.seek(from);
    for _ in 0..WALK {
        let Some((key, row)) = cursor.item() else {
            return Some(found);
        };
        if key.len() != from.len() || !key.starts_with(part) {
            return Some(found);
        }
        let begin = layout::split(key).1;
        if begin <= at {
            found.version = Some(VersionPlace::keep(rows, begin, row));
            return Some(found);
        }
        found.next = Some(begin);
        cursor.next();
    }
    None
}
