//! Scans: the versions of a key or of a range of keys, and the whole table as of a moment.

use super::backward::{BackwardWalk, ValiditySpan};
use super::expired_read::ExpiredRead;
use super::layout;
use super::store::VersionedStore;
use super::version::{Version, VersionRow};
use crate::error::Result;
use crate::metrics::Operation;
use crate::store::key_range::successor;
use crate::table::Bounds;
use crate::time::Timestamp;
use crate::transaction::{Scan, Step, Transaction};
use std::collections::VecDeque;

/// How many older versions a scan as of a moment skips one by one before it seeks to the next key.
const STEPS: usize = 8;

/// How many bytes of a key's versions an ascending scan collects. A key with more is walked
/// backward, which costs twice as much.
const COLLECTED: usize = 256 << 10;

/// A scan over versions, as they were when it was opened.
pub struct VersionScan {
    scan: Scan,
    mode: VersionScanMode,
    ascending: bool,
    key: KeyState,
    /// Versions of the current key, oldest last, while an ascending scan collects them.
    collected: Vec<OwnedVersion>,
    collected_bytes: usize,
    /// The walk over a key with more versions than can be collected.
    backward: Option<BackwardWalk>,
    ready: VecDeque<(Vec<u8>, OwnedVersion)>,
    /// Set while the read's moment is before the history and no key has been left out.
    expired: Option<ExpiredRead>,
}

#[derive(Clone, Copy)]
enum VersionScanMode {
    /// Every version whose validity overlaps `[from, to]`.
    Between(ValiditySpan),
    /// The version of each key that was valid at a moment.
    AsOf { at: i64 },
    /// The newest version of each key, if it had begun by a moment: the key's row of `latest`.
    Latest { at: i64 },
}

#[derive(Default)]
struct KeyState {
    part: Vec<u8>,
    key: Vec<u8>,
    newer_begin: Option<i64>,
    done: bool,
    steps: usize,
}

struct OwnedVersion {
    value: Vec<u8>,
    begin: i64,
    end: Option<i64>,
}

/// The bounds of the rows of keys in `[from, to]`, both inclusive.
fn bounds(from: Option<&[u8]>, to: Option<&[u8]>) -> Bounds {
    let part = |key: &[u8]| {
        let mut part = Vec::with_capacity(key.len() + 2);
        layout::push_key_part(key, &mut part);
        part
    };
    let lower = from.map(part);
    let upper = to.and_then(|to| successor(&part(to)));
    let upper = match (&lower, upper) {
        (Some(lower), Some(upper)) if upper < *lower => Some(lower.clone()),
        (_, upper) => upper,
    };
    Bounds {
        lower,
        upper,
        within_key: false,
    }
}

impl VersionedStore {
    /// Scans the versions of one key whose validity overlaps `[from, to]`, newest first or
    /// (`ascending`) oldest first.
    ///
    /// Tombstones and versions that ended before the history retention are left out. If `to` itself
    /// is before the retention, only the newest version can be found. The scan is one expired read
    /// if it leaves out a key whose newest version began after `to`.
    pub fn versions(
        &self,
        tx: &mut Transaction,
        key: &[u8],
        from: Timestamp,
        to: Timestamp,
        ascending: bool,
    ) -> Result<VersionScan> {
        let _call = self.inner.counts.call(Operation::Versions);
        self.versions_between(tx, Some(key), Some(key), from, to, ascending)
    }

    /// Scans the versions of all keys in `[key_from, key_to]` (`None` open), ordered by (key,
    /// timestamp).
    pub fn versions_range(
        &self,
        tx: &mut Transaction,
        key_from: Option<&[u8]>,
        key_to: Option<&[u8]>,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<VersionScan> {
        let _call = self.inner.counts.call(Operation::VersionsRange);
        self.versions_between(tx, key_from, key_to, from, to, true)
    }

    fn versions_between(
        &self,
        tx: &mut Transaction,
        key_from: Option<&[u8]>,
        key_to: Option<&[u8]>,
        from: Timestamp,
        to: Timestamp,
        ascending: bool,
    ) -> Result<VersionScan> {
        let horizon = self.horizon(tx);
        let scan = tx
            .scan(self.inner.versions, bounds(key_from, key_to), false)
            .map_err(|e| e.store(self.name()))?;
        let scan = scan.counted(self.inner.counts.iterator());
        Ok(VersionScan::new(
            scan,
            VersionScanMode::Between(ValiditySpan {
                from: from.0,
                to: to.0,
                horizon,
            }),
            ascending,
            (to.0 < horizon).then(|| ExpiredRead::new(self, tx, to.0)),
        ))
    }

    /// Scans the whole table as it was at a moment (`None`: as it is now), in key order. A moment
    /// before the history retention shows only keys whose newest version had begun by then; the
    /// scan is one expired read if it leaves another key out.
    pub fn scan(&self, tx: &mut Transaction, as_of: Option<Timestamp>) -> Result<VersionScan> {
        let _call = self.inner.counts.call(Operation::Scan);
        let horizon = self.horizon(tx);
        let at = as_of.unwrap_or(Timestamp::MAX).0;
        // No version begins after the stream time, so the newest versions are the valid ones.
        let latest_only = at < horizon || self.stream_time(tx).is_none_or(|time| time.0 <= at);
        let (open, mode) = if latest_only {
            (
                tx.scan_latest(self.inner.versions, self.inner.latest),
                VersionScanMode::Latest { at },
            )
        } else {
            (
                tx.scan(self.inner.versions, Bounds::default(), false),
                VersionScanMode::AsOf { at },
            )
        };
        let scan = open
            .map_err(|e| e.store(self.name()))?
            .counted(self.inner.counts.iterator());
        let expired = (at < horizon).then(|| ExpiredRead::new(self, tx, at));
        Ok(VersionScan::new(scan, mode, false, expired))
    }

    /// Calls `f` with the versions that a transaction has staged, by (key, newest first).
    ///
    /// # Errors
    /// Those of `f`.
    pub fn for_each_change(
        &self,
        tx: &mut Transaction,
        f: &mut dyn FnMut(VersionRow<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut key = Vec::new();
        tx.for_each_staged(self.inner.versions, |row_key, row| {
            let (part, begin) = layout::split(row_key);
            key.clear();
            layout::push_key(part, &mut key);
            f(VersionRow {
                key: &key,
                value: row.and_then(layout::value),
                timestamp: Timestamp(begin),
            })
        })
    }
}

impl VersionScan {
    fn new(
        scan: Scan,
        mode: VersionScanMode,
        ascending: bool,
        expired: Option<ExpiredRead>,
    ) -> Self {
        let (collected, ready) = (Vec::new(), VecDeque::new());
        Self {
            scan,
            mode,
            ascending,
            key: KeyState::default(),
            collected,
            collected_bytes: 0,
            backward: None,
            ready,
            expired,
        }
    }

    /// Calls `visit` with each version until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan, which can then be resumed.
    pub fn for_each(&mut self, visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool) -> Result<bool> {
        match self.mode {
            VersionScanMode::Latest { at } => self.for_each_latest(at, visit),
            _ => self.for_each_version(visit),
        }
    }

    /// One row per key, so no state is carried from row to row.
    fn for_each_latest(
        &mut self,
        at: i64,
        visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool,
    ) -> Result<bool> {
        let mut damaged = Ok(());
        let (buffer, expired) = (&mut self.key.key, &mut self.expired);
        let stopped = self.scan.for_each(&mut |part, row| {
            let (begin, row) = match layout::stored_latest(part, row) {
                Ok(read) => read,
                Err(error) => {
                    damaged = Err(error);
                    return Step::Pause;
                }
            };
            if begin > at {
                ExpiredRead::count_if_left_out(expired, begin);
                return Step::Next;
            }
            let Some(value) = layout::value(row) else {
                return Step::Next;
            };
            let version = Version {
                value,
                timestamp: Timestamp(begin),
                valid_to: None,
            };
            if visit(layout::key(part, buffer), version) {
                Step::Next
            } else {
                Step::Pause
            }
        })?;
        damaged.map(|()| stopped)
    }

    fn for_each_version(
        &mut self,
        visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool,
    ) -> Result<bool> {
        loop {
            while let Some((key, owned)) = self.ready.pop_front() {
                if !visit(&key, owned.version()) {
                    return Ok(true);
                }
            }
            let Self {
                scan,
                mode,
                ascending,
                key: state,
                collected,
                collected_bytes,
                backward,
                ready,
                expired,
            } = self;
            if let Some(walk) = backward {
                let stopped = walk.for_each(scan, (&state.part, &state.key), visit)?;
                if walk.has_ended() {
                    *backward = None;
                }
                if stopped {
                    return Ok(true);
                }
                continue;
            }
            let (mut stopped, mut damaged, mut too_many) = (false, Ok(()), None);
            let paused = scan.for_each(&mut |row_key, row| {
                let (part, begin, row) = match layout::stored_version(row_key, row) {
                    Ok(read) => read,
                    Err(error) => {
                        damaged = Err(error);
                        return Step::Pause;
                    }
                };
                if part != state.part {
                    release(&state.key, collected, ready);
                    *collected_bytes = 0;
                    state.enter(part);
                    ExpiredRead::count_if_left_out(expired, begin);
                }
                let end = state.newer_begin.replace(begin);
                let emit = match *mode {
                    VersionScanMode::Between(span) => span.overlaps(begin, end),
                    VersionScanMode::AsOf { at } => begin <= at && !state.done,
                    VersionScanMode::Latest { .. } => false,
                };
                state.done |= emit;
                if emit && let Some(value) = layout::value(row) {
                    if *ascending {
                        *collected_bytes += size_of::<OwnedVersion>() + value.len();
                        if *collected_bytes > COLLECTED
                            && let VersionScanMode::Between(span) = *mode
                        {
                            too_many = Some(span);
                            return Step::Pause;
                        }
                        collected.push(OwnedVersion {
                            value: value.to_vec(),
                            begin,
                            end,
                        });
                    } else {
                        let version = Version {
                            value,
                            timestamp: Timestamp(begin),
                            valid_to: end.map(Timestamp),
                        };
                        if !visit(&state.key, version) {
                            stopped = true;
                            return Step::Pause;
                        }
                    }
                }
                if !ready.is_empty() {
                    return Step::Pause;
                }
                // The rest of this key was not requested: step over it, then seek.
                if matches!(*mode, VersionScanMode::AsOf { .. }) && state.done {
                    state.steps += 1;
                    if state.steps > STEPS
                        && let Some(next) = successor(&state.part)
                    {
                        return Step::Seek(next);
                    }
                }
                Step::Next
            })?;
            damaged?;
            if stopped {
                return Ok(true);
            }
            if let Some(span) = too_many {
                collected.clear();
                *collected_bytes = 0;
                *backward = Some(BackwardWalk::begin(scan, &state.part, span)?);
            } else if !paused {
                release(&self.key.key, &mut self.collected, &mut self.ready);
                if self.ready.is_empty() {
                    return Ok(false);
                }
            }
        }
    }
}

/// Moves the collected versions, newest first, to `ready`, oldest first.
fn release(
    key: &[u8],
    collected: &mut Vec<OwnedVersion>,
    ready: &mut VecDeque<(Vec<u8>, OwnedVersion)>,
) {
    ready.extend(collected.drain(..).rev().map(|owned| (key.to_vec(), owned)));
}

impl KeyState {
    fn enter(&mut self, part: &[u8]) {
        self.part.clear();
        self.part.extend_from_slice(part);
        self.key.clear();
        layout::push_key(part, &mut self.key);
        self.newer_begin = None;
        self.done = false;
        self.steps = 0;
    }
}

impl OwnedVersion {
    fn version(&self) -> Version<'_> {
        Version {
            value: &self.value,
            timestamp: Timestamp(self.begin),
            valid_to: self.end.map(Timestamp),
        }
    }
}
