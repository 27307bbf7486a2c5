//! A scan of the newest versions: one row for each key.

use crate::error::Result;
use crate::store::versioned::expired_read::ExpiredRead;
use crate::store::versioned::layout;
use crate::store::versioned::version::Version;
use crate::time::Timestamp;
use crate::transaction::{Scan, Step};

/// A scan of the newest version of each key, if it had begun by a moment.
pub(in crate::store::versioned) struct LatestScan {
    scan: Scan,
    at: i64,
    /// A buffer for the current key.
    key: Vec<u8>,
    /// Set while the moment is before the history and no key has been left out.
    expired: Option<ExpiredRead>,
}

impl LatestScan {
    /// A scan of rows of `latest`.
    pub(in crate::store::versioned) fn new(
        scan: Scan,
        at: i64,
        expired: Option<ExpiredRead>,
    ) -> Self {
        Self {
            scan,
            at,
            key: Vec::new(),
            expired,
        }
    }

    /// Calls `visit` with each version until it returns false or the scan ends. Returns true if
    /// `visit` stopped the scan.
    pub(in crate::store::versioned) fn for_each(
        &mut self,
        visit: &mut dyn FnMut(&[u8], Version<'_>) -> bool,
    ) -> Result<bool> {
        let mut damaged = Ok(());
        let Self {
            scan,
            at,
            key,
            expired,
        } = self;
        let stopped = scan.for_each(&mut |part, row| {
            let (begin, row) = match layout::stored_latest(part, row) {
                Ok(read) => read,
                Err(error) => {
                    damaged = Err(error);
                    return Step::Pause;
                }
            };
            if begin > *at {
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
            if visit(layout::key(part, key), version) {
                Step::Next
            } else {
                Step::Pause
            }
        })?;
        damaged.map(|()| stopped)
    }
}
