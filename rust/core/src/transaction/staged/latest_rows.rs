//! The `latest` rows of a versioned store: each key's newest version, made from what is staged
//! (`layout.md` section 4). They are made where staged versions are written or shown, and not
//! staged, so that an open transaction holds each value once.

use super::record::StagedRecord;
use crate::table::TIME_BYTES;

/// The value of a tombstone; every other one has a mark of its own before it.
pub(crate) const TOMBSTONE: u8 = 0;

/// Follows a walk over staged versions by key, newest first.
#[derive(Default)]
pub(crate) struct LatestRows {
    /// The key that the walk is at.
    part: Vec<u8>,
}

impl LatestRows {
    /// The row that this version makes: its key, and the pieces of its value. Nothing for a key's
    /// older versions, and for a newest staged one that has a newer one in the files.
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
