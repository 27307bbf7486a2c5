//! The encoding of a key inside a longer row key. No encoded key is a prefix of another, and
//! encoded keys sort as the keys do.
//!
//! ```text
//! key part   the key with 00 written as 00 FF, then 00 01
//! ```
//!
//! So the rows of one key are adjacent, with any bytes after the key part.

const ESCAPED_ZERO: [u8; 2] = [0x00, 0xff];
pub(in crate::store) const END: [u8; 2] = [0x00, 0x01];

/// Appends the key part of a key.
#[inline]
pub fn push_key_part(key: &[u8], out: &mut Vec<u8>) {
    if key.contains(&0) {
        for byte in key {
            if *byte == 0 {
                out.extend_from_slice(&ESCAPED_ZERO)
            } else {
                out.push(*byte)
            }
        }
    } else {
        out.extend_from_slice(key);
    }
    out.extend_from_slice(&END);
}

/// Calls `f` with the key part of a key, which is on the stack for a short key.
#[inline]
pub(crate) fn with_key_part<R>(key: &[u8], f: impl FnOnce(&[u8]) -> R) -> R {
    let mut short = [0; 64];
    let len = key.len() + END.len();
    if len > short.len() || key.contains(&0) {
        return f(&key_part(key));
    }
    short[..key.len()].copy_from_slice(key);
    short[key.len()..len].copy_from_slice(&END);
    f(&short[..len])
}

/// The key part of a key.
pub(crate) fn key_part(key: &[u8]) -> Vec<u8> {
    let mut part = Vec::with_capacity(key.len() + END.len());
    push_key_part(key, &mut part);
    part
}

/// The length of the key part of a key.
pub(crate) fn key_part_length(key: &[u8]) -> usize {
    key.len() + key.iter().filter(|byte| **byte == 0).count() + END.len()
}

/// Appends the key that a key part encodes.
pub fn push_key(part: &[u8], out: &mut Vec<u8>) {
    let body = &part[..part.len() - END.len()];
    let mut rest = body;
    while let Some(zero) = rest.iter().position(|byte| *byte == 0) {
        out.extend_from_slice(&rest[..=zero]);
        rest = &rest[(zero + ESCAPED_ZERO.len()).min(rest.len())..];
    }
    out.extend_from_slice(rest);
}

/// The key that a key part encodes: a slice of it, or decoded into `buffer` if it has zeros.
#[inline]
pub(crate) fn key<'a>(part: &'a [u8], buffer: &'a mut Vec<u8>) -> &'a [u8] {
    let body = &part[..part.len() - END.len()];
    if !body.contains(&0) {
        return body;
    }
    buffer.clear();
    push_key(part, buffer);
    buffer
}

/// Splits a row key after the key part that it starts with; `None` if it starts with none.
#[inline]
pub(crate) fn split_key_part(row_key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    loop {
        at += row_key[at..].iter().position(|byte| *byte == 0)?;
        match row_key.get(at + 1)? {
            0x01 => return Some(row_key.split_at(at + END.len())),
            _ => at += ESCAPED_ZERO.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_never_change() {
        assert_eq!(key_part(b"a\x00b"), [b'a', 0, 0xff, b'b', 0, 1]);
        assert_eq!(key_part(b""), [0, 1]);
        assert_eq!(split_key_part(b"no end"), None);
        assert_eq!(split_key_part(b"no end\x00"), None);
    }

    proptest! {
        #[test]
        fn key_parts_sort_as_keys_and_decode(
            a in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 254, 255]), 0..5),
            b in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 254, 255]), 0..5),
            tail in prop::collection::vec(any::<u8>(), 0..4),
            other in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let (row, next) = ([key_part(&a), tail.clone()].concat(), [key_part(&b), other.clone()]
                .concat());
            prop_assert_eq!(row.cmp(&next), a.cmp(&b).then(tail.cmp(&other)));
            let (part, rest) = split_key_part(&row)
                .ok_or_else(|| TestCaseError::fail("no key part"))?;
            let mut key = Vec::new();
            push_key(part, &mut key);
            prop_assert_eq!((key, rest.to_vec()), (a, tail));
        }
    }
}
