//! A scan of the table as of a moment in the history.

use super::for_each_version;
use crate::error::Result;
use crate::store::key_range::successor;
use crate::store::versioned::layout;
use crate::store::versioned::version::Version;
use crate::time::Timestamp;
use crate::transaction::{Scan, Step};

/// How many older versions the scan skips one by one before it seeks to the next key.
const STEPS: usize = 8;

/// A scan of the version of each key that was valid at a moment.
pub(in crate::store::versioned) struct AsOfScan {
    scan: Scan,
    at: i64,
    part: Vec<u8>,
    newer_begin: Option<i64>,
    /// Whether the key's version at the moment was found.
    done: bool,
    steps: usize,
    /// A buffer for the user's key.
    key: Vec<u8>,
}

impl AsOfScan {
    /// A scan of rows of `versions`.
    pub(in crate::store::versioned) fn new(scan: Scan, at: i64) -> Self {
        Self {
            scan,
            at,
            part: Vec::new(),
            newer_begin: None,
            done: false,
            steps: 0,
            key: Vec::new(),
        }
    }

    /// Calls `visit` with each version until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan.
    pub(in crate::store::versioned) fn for_each(
        &mut self,
        visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool,
    ) -> Result<bool> {
        let Self {
            scan,
            at,
            part: current,
            newer_begin,
            done,
            steps,
            key,
        } = self;
        for_each_version(scan, |part, begin, row| {
            if part != current {
                current.clear();
                current.extend_from_slice(part);
                (*newer_begin, *done, *steps) = (None, false, 0);
            }
            let end = newer_begin.replace(begin);
            if begin <= *at && !*done {
                *done = true;
                if let Some(value) = layout::value(row) {
                    let version = Version {
                        value,
                        timestamp: Timestamp(begin),
                        valid_to: end.map(Timestamp),
                    };
                    if !visit(layout::key(part, key), version) {
                        return Step::Pause;
                    }
                }
            }
            if *done {
                *steps += 1;
                if *steps > STEPS
                    && let Some(next) = successor(current)
                {
                    return Step::Seek(next);
                }
            }
            Step::Next
        })
    }
}
