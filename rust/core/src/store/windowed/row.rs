//! A row that was found.

/// A row that was found.
#[derive(Clone, Copy)]
pub(in crate::store) struct WindowedRow<'a> {
    pub(in crate::store) key: &'a [u8],
    pub(in crate::store) time: i64,
    pub(in crate::store) more: &'a [u8],
    pub(in crate::store) value: &'a [u8],
}
