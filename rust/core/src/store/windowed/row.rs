//! A row of a window or session store.

/// A row that a read found.
#[derive(Clone, Copy)]
pub(in crate::store) struct WindowedRow<'a> {
    pub(in crate::store) key: &'a [u8],
    /// A window's start, or a session's end.
    pub(in crate::store) time: i64,
    /// The bytes after the time in the row's key (`layout.rs`).
    pub(in crate::store) more: &'a [u8],
    pub(in crate::store) value: &'a [u8],
}
