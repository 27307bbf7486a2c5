//! The value of a spilled row.
//!
//! ```text
//! spilled   key → 0x01 | value, or 0x00: a delete, which hides the committed row of its key
//! ```

const DELETE: u8 = 0;
const PUT: u8 = 1;

/// A spilled delete.
pub(in crate::transaction) const DELETED: &[u8] = &[DELETE];

/// Encodes a value (`None`: a delete) into `buffer`, and returns the bytes.
pub(in crate::transaction) fn encode<'a>(
    value: Option<&[u8]>,
    buffer: &'a mut Vec<u8>,
) -> &'a [u8] {
    buffer.clear();
    match value {
        Some(value) => {
            buffer.push(PUT);
            buffer.extend_from_slice(value);
        }
        None => buffer.push(DELETE),
    }
    buffer
}

/// The value of a spilled row; `None` for a delete.
#[inline]
pub(in crate::transaction) fn decode(row: &[u8]) -> Option<&[u8]> {
    match row.split_first() {
        Some((&PUT, value)) => Some(value),
        _ => None,
    }
}
