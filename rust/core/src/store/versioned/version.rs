//! Versions of a key: found ones, and rows to replay.

use crate::time::Timestamp;

/// A version that was found: `[timestamp, valid_to)` is when it was in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// The value; a tombstone is never handed out.
    pub value: &'a [u8],
    /// Begin of validity, inclusive.
    pub timestamp: Timestamp,
    /// End of validity, exclusive; `None` for the newest version (and where the caller did not ask
    /// for it).
    pub valid_to: Option<Timestamp>,
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutResult {
    /// False: older than the history retention; nothing was written.
    pub accepted: bool,
    /// The next greater timestamp known of the key; `None` if the new version is the newest.
    pub valid_to: Option<Timestamp>,
}

/// A version to be replayed, or one that a transaction has staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRow<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Begin of validity.
    pub timestamp: Timestamp,
}
