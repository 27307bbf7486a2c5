//! Bytes of the versioned store's rows (`docs/design/layout.md`).
//!
//! ```text
//! versions   key part | inverted begin, 8 bytes  →  row            ordered by (key, newest first)
//! latest     key part                            →  inverted begin | row
//! row        0x00 a tombstone, or 0x01 | value
//! ```
//!
//! The key part (`key_part.rs`) is prefix-free and preserves the order of keys, so the versions of
//! one key are adjacent. Times are inverted (`expiry/version_key.rs`), so newer versions sort first
//! and a read as of a moment is one seek forward.

use crate::error::{Error, ErrorKind, Result};
use crate::expiry::version_key::time;
pub(super) use crate::expiry::version_key::{inverted, split};
use crate::store::key_part::END;
pub(super) use crate::store::key_part::{key, push_key, push_key_part};
use crate::table::TIME_BYTES;
pub(super) use crate::transaction::TOMBSTONE;

pub(super) const VALUE: u8 = 1;

/// The key of a row of `versions`.
pub(super) fn row_key(part: &[u8], begin: i64) -> Vec<u8> {
    [part, &inverted(begin)].concat()
}

/// Splits a stored row of `versions` into key part, begin and row.
#[inline]
pub(super) fn stored_version<'a>(
    row_key: &'a [u8],
    row: &'a [u8],
) -> Result<(&'a [u8], i64, &'a [u8])> {
    match row_key.split_last_chunk::<TIME_BYTES>() {
        Some((part, begin)) if part.ends_with(&END) && !row.is_empty() => {
            Ok((part, time(begin), row))
        }
        _ => Err(damaged(row_key)),
    }
}

/// Splits a stored row of `latest` into begin and row.
#[inline]
pub(super) fn stored_latest<'a>(part: &[u8], row: &'a [u8]) -> Result<(i64, &'a [u8])> {
    match row.split_first_chunk::<TIME_BYTES>() {
        Some((begin, row)) if part.ends_with(&END) && !row.is_empty() => Ok((time(begin), row)),
        _ => Err(damaged(part)),
    }
}

fn damaged(row_key: &[u8]) -> Error {
    let words = "a row of the versioned store is not one that Holdfast writes; restore the \
                 directory from a checkpoint or the changelog";
    Error::new(ErrorKind::StoreCorrupted, words).key(row_key)
}

/// A row's value; `None` for a tombstone.
#[inline]
pub(super) fn value(row: &[u8]) -> Option<&[u8]> {
    match row.split_first() {
        Some((&VALUE, value)) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row_key(key: &[u8], at: i64) -> Vec<u8> {
        let mut part = Vec::new();
        push_key_part(key, &mut part);
        super::row_key(&part, at)
    }

    #[test]
    fn bytes_never_change() {
        assert_eq!(
            row_key(b"a\x00b", 1),
            [
                b'a', 0, 0xff, b'b', 0, 1, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe
            ]
        );
    }

    proptest! {
        #[test]
        fn rows_sort_by_key_then_newest_first(
            a in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 254, 255]), 0..5),
            s in any::<i64>(),
            b in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 254, 255]), 0..5),
            t in any::<i64>(),
        ) {
            prop_assert_eq!(row_key(&a, s).cmp(&row_key(&b, t)), a.cmp(&b).then(t.cmp(&s)));
            let row = row_key(&a, s);
            let (part, begin) = split(&row);
            let mut key = Vec::new();
            push_key(part, &mut key);
            prop_assert_eq!((key, begin), (a, s));
        }
    }
}
