//! The digest of a result: what each row adds to it.
//!
//! The root stores these digests, so the bytes that are hashed must never change. Fields of a fixed
//! width come first, with the lengths of the bytes that follow. So two different results never hash
//! the same bytes.

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

/// Adds the key of a joined row; its left and its right side follow.
pub fn digest_key(key: &[u8], hasher: &mut Xxh3Default) {
    hasher.update(&(key.len() as u64).to_be_bytes());
    hasher.update(key);
}

/// Adds one side of a joined row.
pub fn digest_side(time: Option<i64>, payload: Option<&[u8]>, hasher: &mut Xxh3Default) {
    let bytes = payload.unwrap_or_default();
    let mut fixed = [0; 18];
    fixed[0] = u8::from(payload.is_some());
    fixed[1] = u8::from(time.is_some());
    fixed[2..10].copy_from_slice(&time.unwrap_or(0).to_be_bytes());
    fixed[10..].copy_from_slice(&(bytes.len() as u64).to_be_bytes());
    hasher.update(&fixed);
    hasher.update(bytes);
}
