//! The digest of a result: what each row adds to it.
//!
//! The root stores these digests, so the bytes that are hashed must never change. Fields of a fixed
//! width come first, with the lengths of the bytes that follow. So two different results never hash
//! the same bytes.

use std::ops::Range;

use xxhash_rust::xxh3::Xxh3Default;

use crate::operator::input::{InputBatch, InputRows, RowPlace};

/// Adds left rows that go out unchanged.
pub fn digest_input_rows(rows: &InputRows, places: &[RowPlace], hasher: &mut Xxh3Default) {
    for place in places {
        hasher.update(&rows.inputs[place.input()].hashes[place.row()].to_be_bytes());
    }
}

/// Adds a left row of the input with the time and the value of the right row that it matched.
pub fn digest_matched_row(
    left: &InputBatch,
    row: usize,
    right: Option<(i64, &[u8])>,
    hasher: &mut Xxh3Default,
) {
    let (time, value) = right.unzip();
    let mut fixed = [0; 33];
    fixed[..16].copy_from_slice(&left.hashes[row].to_be_bytes());
    fixed[16] = u8::from(value.is_some());
    fixed[17..25].copy_from_slice(&time.unwrap_or(0).to_be_bytes());
    fixed[25..].copy_from_slice(&(value.map_or(0, <[u8]>::len) as u64).to_be_bytes());
    hasher.update(&fixed);
    hasher.update(value.unwrap_or_default());
}

/// Appends what the key of a joined row adds; its left and its right side follow. Returns where the
/// key is.
pub fn push_key(key: &[u8], out: &mut Vec<u8>) -> Range<usize> {
    out.extend_from_slice(&(key.len() as u64).to_be_bytes());
    out.extend_from_slice(key);
    out.len() - key.len()..out.len()
}

/// Appends what one side of a joined row adds. Returns where the payload is.
pub fn push_side(
    time: Option<i64>,
    payload: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> Option<Range<usize>> {
    let bytes = payload.unwrap_or_default();
    let mut fixed = [0; 18];
    fixed[0] = u8::from(payload.is_some());
    fixed[1] = u8::from(time.is_some());
    fixed[2..10].copy_from_slice(&time.unwrap_or(0).to_be_bytes());
    fixed[10..].copy_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(&fixed);
    out.extend_from_slice(bytes);
    payload.map(|payload| out.len() - payload.len()..out.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_bytes_of_a_joined_row_never_change() {
        let mut bytes = Vec::new();
        let key = push_key(b"EUR", &mut bytes);
        let left = push_side(Some(258), Some(b"ab"), &mut bytes);
        let right = push_side(None, None, &mut bytes);
        let none = push_side(Some(-1), Some(b""), &mut bytes);
        let long = |n: u8| [0, 0, 0, 0, 0, 0, 0, n];
        let expected = [
            &long(3)[..],
            b"EUR",
            &[1, 1, 0, 0, 0, 0, 0, 0, 1, 2],
            &long(2),
            b"ab",
            &[0, 0],
            &long(0),
            &long(0),
            &[1, 1],
            &[0xff; 8],
            &long(0),
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!((key, left), (8..11, Some(29..31)));
        assert_eq!((right, none), (None, Some(67..67)));
    }
}
