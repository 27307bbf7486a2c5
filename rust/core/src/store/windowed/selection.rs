//! Which rows a scan returns.

use crate::table::TIME_BYTES;

/// Which rows a scan returns.
#[derive(Clone, Copy)]
pub(in crate::store) struct Selection<'a> {
    /// First key, inclusive; `None` is open.
    pub(in crate::store) key_from: Option<&'a [u8]>,
    /// Last key, inclusive; `None` is open.
    pub(in crate::store) key_to: Option<&'a [u8]>,
    /// First time, inclusive.
    pub(in crate::store) from: i64,
    /// Last time, inclusive.
    pub(in crate::store) to: i64,
    /// The greatest `more`, inclusive: for sessions, the latest start.
    pub(in crate::store) most: Option<[u8; TIME_BYTES]>,
    /// Descending by (time, key).
    pub(in crate::store) reverse: bool,
}
