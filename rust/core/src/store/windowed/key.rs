//! The key of a window or session.

use crate::time::Timestamp;

/// A key, and the start and end of its window or session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowedKey<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The first moment, inclusive.
    pub start: Timestamp,
    /// A window's end is exclusive, a session's end inclusive.
    pub end: Timestamp,
}
