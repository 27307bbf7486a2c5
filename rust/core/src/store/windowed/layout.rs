//! Bytes of windowed rows (`docs/design/window-layout.md`).
//!
//! ```text
//! windowed   key part | time | more  →  value      one key's rows together, by time
//! times      time | key part | more  →  nothing    the same rows by (time, key)
//! time       8 bytes, big-endian, sign flipped: a window's start, a session's end
//! more       nothing, or 8 bytes: a duplicate's number, a session's start (sign flipped)
//! ```

use crate::error::{Error, ErrorKind};
use crate::store::key_part::split_key_part;
use crate::store::key_range::successor;
use crate::table::{Bounds, FamilyKind, TIME_BYTES};

/// Encodes a time in a row's key: 8 bytes that sort as times do.
#[inline]
pub fn ordered(time: i64) -> [u8; TIME_BYTES] {
    (time as u64 ^ (1 << 63)).to_be_bytes()
}

/// Splits bytes into the time at their start and the rest.
#[inline]
pub(super) fn split_time(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (time, rest) = bytes.split_first_chunk::<TIME_BYTES>()?;
    Some(((u64::from_be_bytes(*time) ^ (1 << 63)) as i64, rest))
}

/// Decodes a time; `bytes` must be 8 bytes long.
#[inline]
pub(in crate::store) fn time(bytes: &[u8]) -> i64 {
    split_time(bytes).map_or(0, |(time, _)| time)
}

/// Splits a windowed row's key into key part, time and the rest; `None` if the key is malformed.
#[inline]
pub fn split_row(row_key: &[u8]) -> Option<(&[u8], i64, &[u8])> {
    let (part, rest) = split_key_part(row_key)?;
    let (time, more) = split_time(rest)?;
    Some((part, time, more))
}

/// Splits a row's key in `times` into time, key part and the rest; `None` if the key is malformed.
#[inline]
pub(super) fn split_times_row(row_key: &[u8]) -> Option<(i64, &[u8], &[u8])> {
    let (time, rest) = split_time(row_key)?;
    let (part, more) = split_key_part(rest)?;
    Some((time, part, more))
}

/// The error for a row whose key is malformed.
#[cold]
pub(super) fn malformed(row_key: &[u8]) -> Error {
    let words = "a row of the store is damaged: its key is malformed; restore the directory from a \
                 checkpoint, or delete it if a changelog can rebuild it";
    Error::new(ErrorKind::StoreCorrupted, words).key(row_key)
}

/// The time of a row of either table.
pub(crate) fn row_time(kind: FamilyKind, row_key: &[u8]) -> Option<i64> {
    match kind {
        FamilyKind::Times => split_time(row_key).map(|(time, _)| time),
        _ => split_row(row_key).map(|(_, time, _)| time),
    }
}

/// Whether a row's time is before the horizon, the earliest time that can be read.
pub(crate) fn expired(kind: FamilyKind, row_key: &[u8], horizon: i64) -> bool {
    row_time(kind, row_key).is_some_and(|time| time < horizon)
}

/// The smallest bytes that sort after all rows of a time; `None` for the greatest time.
pub(super) fn after(time: i64) -> Option<Vec<u8>> {
    time.checked_add(1).map(|next| ordered(next).to_vec())
}

/// The bounds of one key's rows between two times, both inclusive.
pub(super) fn key_bounds(part: &[u8], from: i64, to: i64) -> Bounds {
    let upper = match after(to) {
        Some(end) => Some([part, &end].concat()),
        None => successor(part),
    };
    Bounds {
        lower: Some([part, &ordered(from)].concat()),
        upper,
        within_key: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::key_part::key_part;
    use proptest::prelude::*;

    #[test]
    fn bytes_never_change() {
        assert_eq!(ordered(0), [0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            ordered(-1),
            [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]
        );
        assert_eq!((ordered(i64::MIN), ordered(i64::MAX)), ([0; 8], [0xff; 8]));
        let row = [b'a', 0, 0xff, 0, 1, 0x80, 0, 0, 0, 0, 0, 1, 2, 9];
        assert_eq!(split_row(&row), Some((&row[..5], 258, &[9][..])));
        let times = [0x80, 0, 0, 0, 0, 0, 1, 2, b'a', 0, 0xff, 0, 1, 9];
        assert_eq!(
            split_times_row(&times),
            Some((258, &times[8..13], &[9][..]))
        );
    }

    proptest! {
        #[test]
        fn rows_sort_by_key_then_time_and_decode(
            a in prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..4),
            s in any::<i64>(), m in any::<i64>(),
            b in prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..4),
            t in any::<i64>(), n in any::<i64>(),
        ) {
            let row = |key: &[u8], at: i64,
                more: i64| [key_part(key), ordered(at).to_vec(), ordered(more).to_vec()].concat();
            let times = |key: &[u8], at: i64,
                more: i64| [ordered(at).to_vec(), key_part(key), ordered(more).to_vec()].concat();
            prop_assert_eq!(row(&a, s, m).cmp(&row(&b, t, n)), (&a, s, m).cmp(&(&b, t, n)));
            prop_assert_eq!(times(&a, s, m).cmp(&times(&b, t, n)), (s, &a, m).cmp(&(t, &b, n)));
            let (part, more) = (key_part(&a), ordered(m));
            let (row, times) = (row(&a, s, m), times(&a, s, m));
            prop_assert_eq!(split_row(&row), Some((part.as_slice(), s, more.as_slice())));
            prop_assert_eq!(split_times_row(&times), Some((s, part.as_slice(), more.as_slice())));
            prop_assert_eq!(expired(FamilyKind::Windowed, &row, t), s < t);
            prop_assert_eq!(expired(FamilyKind::Times, &times, t), s < t);
        }
    }
}
