//! A scan of the versions of a key or of a range of keys.

use super::backward::{BackwardWalk, ValiditySpan};
use super::for_each_version;
use crate::error::Result;
use crate::store::versioned::expired_read::ExpiredRead;
use crate::store::versioned::layout;
use crate::store::versioned::version::Version;
use crate::time::Timestamp;
use crate::transaction::{Scan, Step};
use std::collections::VecDeque;

/// How many bytes of a key's versions an ascending scan collects. A key with more is walked
/// backward, which costs twice as much.
const COLLECTED: usize = 256 << 10;

/// A scan of every version whose validity overlaps a span, by key.
pub(in crate::store::versioned) struct BetweenScan {
    scan: Scan,
    span: ValiditySpan,
    ascending: bool,
    key: CurrentKey,
    /// Versions of the current key, oldest last, while an ascending scan collects them.
    collected: Vec<OwnedVersion>,
    collected_bytes: usize,
    /// The walk over a key with more versions than can be collected.
    backward: Option<BackwardWalk>,
    ready: VecDeque<(Vec<u8>, OwnedVersion)>,
    /// Set while the read's moment is before the history and no key has been left out.
    expired: Option<ExpiredRead>,
}

#[derive(Default)]
struct CurrentKey {
    part: Vec<u8>,
    key: Vec<u8>,
    newer_begin: Option<i64>,
}

struct OwnedVersion {
    value: Vec<u8>,
    begin: i64,
    end: Option<i64>,
}

impl BetweenScan {
    /// A scan of rows of `versions`, each key's newest version first or (`ascending`) last.
    pub(in crate::store::versioned) fn new(
        scan: Scan,
        span: ValiditySpan,
        ascending: bool,
        expired: Option<ExpiredRead>,
    ) -> Self {
        Self {
            scan,
            span,
            ascending,
            key: CurrentKey::default(),
            collected: Vec::new(),
            collected_bytes: 0,
            backward: None,
            ready: VecDeque::new(),
            expired,
        }
    }

    /// Calls `visit` with each version until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan.
    pub(in crate::store::versioned) fn for_each(
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
                span,
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
            let (mut stopped, mut too_many) = (false, false);
            let paused = for_each_version(scan, |part, begin, row| {
                if part != state.part {
                    release(&state.key, collected, ready);
                    *collected_bytes = 0;
                    state.enter(part);
                    ExpiredRead::count_if_left_out(expired, begin);
                }
                let end = state.newer_begin.replace(begin);
                if span.overlaps(begin, end)
                    && let Some(value) = layout::value(row)
                {
                    if *ascending {
                        *collected_bytes += size_of::<OwnedVersion>() + value.len();
                        if *collected_bytes > COLLECTED {
                            too_many = true;
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
                if ready.is_empty() {
                    Step::Next
                } else {
                    Step::Pause
                }
            })?;
            if stopped {
                return Ok(true);
            }
            if too_many {
                collected.clear();
                *collected_bytes = 0;
                *backward = Some(BackwardWalk::begin(scan, &state.part, *span)?);
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

impl CurrentKey {
    fn enter(&mut self, part: &[u8]) {
        self.part.clear();
        self.part.extend_from_slice(part);
        self.key.clear();
        layout::push_key(part, &mut self.key);
        self.newer_begin = None;
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
