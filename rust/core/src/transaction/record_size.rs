//! The largest key or value that a store accepts.

use crate::error::{Error, ErrorKind, Result};

/// Bytes of the largest key or value, with the bytes that a store adds to it: lengths are 32 bits
/// wide in write batches and in Arrow's binary columns.
pub const LARGEST: usize = 1 << 30;

/// Fails if a key or value of this many bytes is too large for a store.
///
/// # Errors
/// `InvalidValue`.
#[inline]
pub fn check_size(bytes: usize) -> Result<()> {
    if bytes <= LARGEST {
        return Ok(());
    }
    let words = format!(
        "a key or value has {bytes} bytes, and a store accepts at most {LARGEST}; keep large \
         objects elsewhere"
    );
    Err(Error::new(ErrorKind::InvalidValue, words))
}

/// As [`check_size`], for a key and its value.
///
/// # Errors
/// `InvalidValue`.
#[inline]
pub fn check_row(key: &[u8], value: Option<&[u8]>) -> Result<()> {
    check_size(key.len().max(value.map_or(0, <[u8]>::len)))
}
