//! Versions of a key: results of reads and puts, and rows of a changelog.

use crate::time::Timestamp;

/// A version that was found. It is valid in `[timestamp, valid_to)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version<'a> {
    /// The value. Reads never return a tombstone.
    pub value: &'a [u8],
    /// Begin of validity, inclusive.
    pub timestamp: Timestamp,
    /// End of validity, exclusive. `None` for the newest version, and if the caller did not request
    /// it.
    pub valid_to: Option<Timestamp>,
}

/// The result of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutResult {
    /// False if the version was older than the history retention; then nothing was written.
    pub accepted: bool,
    /// The key's next greater timestamp. `None` if the new version is the newest, if it was not
    /// accepted, and if the caller did not request the timestamp.
    pub valid_to: Option<Timestamp>,
}

/// A version to replay, or one that a transaction has staged. For a store of another kind: a
/// change, as `database/change.rs` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRow<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Begin of validity.
    pub timestamp: Timestamp,
}
