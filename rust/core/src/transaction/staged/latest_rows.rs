//! The `latest` rows of a versioned store: each key's newest version, made from the staged versions
//! (`docs/design/layout.md`).
//!
//! They are made when staged versions are written or read. They are not staged themselves, so an
//! open transaction holds each value once.

use super::record::StagedRecord;
use crate::table::TIME_BYTES;

/// The row of a tombstone; the row of a value starts with another byte.
pub(crate) const TOMBSTONE: u8 = 0;

/// Makes `latest` rows during a walk over staged versions by key, newest first.
#[derive(Default)]
pub(crate) struct LatestRows {
    /// The current key part of the walk.
    part: Vec<u8>,
}

impl LatestRows {
    /// Makes the `latest` row of a version: its key and the parts of its value. `None` for a key's
    /// older versions, and for its newest staged version if a newer one is stored.
    pub(crate) fn of<'a>(
        &mut self,
        version: StagedRecord<'a>,
    ) -> Option<(&'a [u8], [&'a [u8]; 2])> {
        let (part, begin) = version.key.split_at(version.key.len() - TIME_BYTES);
        if part == self.part {
            return None;
        }
        self.part.clear();
        self.part.extend_from_slice(part);
        version
            .newest
            .then(|| (part, [begin, version.value.unwrap_or(&[TOMBSTONE])]))
    }
}
