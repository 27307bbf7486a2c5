//! The key of a window or session.

use crate::time::Timestamp;

/// A key and the times between which something of it lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowedKey<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// The first moment.
    pub start: Timestamp,
    /// A window's end is the first moment behind it, a session's the last one in it.
    pub end: Timestamp,
}
