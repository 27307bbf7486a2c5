//! Random keys, ranges and values.

use fastrand::Rng;
use std::collections::BTreeMap;

/// The key of a number. Some keys are prefixes of others or contain zeros: a wrong layout would
/// confuse them.
pub(super) fn key(number: u64) -> Vec<u8> {
    let mut key = format!("{:03}", number % 89).into_bytes();
    match number % 7 {
        0 => key.push(0),
        1 => key.extend_from_slice(&[0, 0xff, 0]),
        2 => key.extend_from_slice(&number.to_be_bytes()),
        3 => key.truncate((number % 3) as usize),
        _ => {}
    }
    key
}

/// The bounds of a range of neighbouring keys, sometimes open.
pub(super) fn range(rng: &mut Rng, key: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let to = [key, &[rng.u8(..)]].concat();
    match rng.u8(..16) {
        0 => (None, Some(key[..key.len().min(1)].to_vec())),
        1 if key > b"08".as_slice() => (Some(key.to_vec()), None),
        _ => (Some(key[..key.len().min(2)].to_vec()), Some(to)),
    }
}

/// Removes the keys between two inclusive bounds.
pub(super) fn remove_range<V>(
    rows: &mut BTreeMap<Vec<u8>, V>,
    from: &Option<Vec<u8>>,
    to: &Option<Vec<u8>>,
) {
    rows.retain(|key, _| {
        from.as_ref().is_some_and(|from| key < from) || to.as_ref().is_some_and(|to| key > to)
    });
}

/// A value that contains its transaction number; sometimes empty, sometimes large.
pub(super) fn value(rng: &mut Rng, n: u64) -> Vec<u8> {
    let mut value = n.to_be_bytes().to_vec();
    let length = match rng.u8(..16) {
        0 => 0,
        1 => rng.usize(500..4_000),
        _ => rng.usize(8..120),
    };
    value.resize(length, rng.u8(..));
    value
}
