//! Reads the versions of one key, oldest first, if they are too many to collect in memory.
//!
//! A key's rows are stored newest first, so the walk goes backward.

use super::for_each_version;
use crate::error::Result;
use crate::store::key_range::successor;
use crate::store::versioned::layout;
use crate::store::versioned::version::Version;
use crate::time::Timestamp;
use crate::transaction::{Scan, Step};

/// The requested versions: those whose validity overlaps `[from, to]`.
#[derive(Clone, Copy)]
pub(in crate::store::versioned) struct ValiditySpan {
    pub(in crate::store::versioned) from: i64,
    pub(in crate::store::versioned) to: i64,
    /// The oldest moment that can be read.
    pub(in crate::store::versioned) horizon: i64,
}

impl ValiditySpan {
    /// Whether a version is requested. If `to` is before the horizon, only the newest version can
    /// be requested.
    #[inline]
    pub(super) fn overlaps(self, begin: i64, end: Option<i64>) -> bool {
        let Self { from, to, horizon } = self;
        begin <= to
            && from <= to
            && match end {
                None => true,
                Some(end) => to >= horizon && end > from && end >= horizon,
            }
    }
}

/// A walk over one key's rows, from the oldest requested version to the newest.
pub(super) struct BackwardWalk {
    span: ValiditySpan,
    /// The previous row. It is visited once its end, the begin of the next row, is known. If there
    /// is no next row, it is the newest.
    older: Option<(i64, Option<Vec<u8>>)>,
    ended: bool,
}

impl BackwardWalk {
    /// Moves the scan to the key's oldest requested row.
    pub(super) fn begin(scan: &mut Scan, part: &[u8], span: ValiditySpan) -> Result<Self> {
        // The version valid at `from`; all older ones have ended by then.
        let mut start = layout::row_key(part, span.from);
        scan.turn(&start, false)?;
        scan.for_each(&mut |key, _| {
            if key.starts_with(part) {
                start.clear();
                start.extend_from_slice(key);
            }
            Step::Pause
        })?;
        scan.turn(&start, true)?;
        Ok(Self {
            span,
            older: None,
            ended: false,
        })
    }

    /// Calls `visit` with each version until it returns false or the key ends. Returns true if
    /// `visit` stopped the walk.
    pub(super) fn for_each(
        &mut self,
        scan: &mut Scan,
        (part, key): (&[u8], &[u8]),
        visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool,
    ) -> Result<bool> {
        let mut stopped = false;
        let Self { span, older, ended } = self;
        // Visits the previous row if it was requested; its end is now known. False stops the walk.
        let mut emit = |older: Option<(i64, Option<Vec<u8>>)>, end: Option<i64>| match older {
            Some((begin, Some(value))) if span.overlaps(begin, end) => visit(
                key,
                Version {
                    value: &value,
                    timestamp: Timestamp(begin),
                    valid_to: end.map(Timestamp),
                },
            ),
            _ => true,
        };
        let paused = for_each_version(scan, |row_part, begin, row| {
            let is_of_key = row_part == part;
            stopped = !emit(older.take(), is_of_key.then_some(begin));
            *ended = !is_of_key || begin > span.to;
            if !*ended {
                *older = Some((begin, layout::value(row).map(<[u8]>::to_vec)));
            }
            if stopped || *ended {
                Step::Pause
            } else {
                Step::Next
            }
        })?;
        if !paused {
            *ended = true;
            stopped = !emit(older.take(), None);
        }
        if *ended && let Some(next) = successor(part) {
            scan.turn(&next, false)?;
        }
        Ok(stopped)
    }

    /// Whether the walk has reached the end of the key, and the scan is at the next key.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }
}
