//! Keys of version rows: a key part, then the version's begin.
//!
//! The begin is inverted (big-endian, sign flipped, complement), so that newer versions sort first.

pub(crate) const BEGIN_BYTES: usize = size_of::<i64>();

/// The bytes of a begin in a row's key.
#[inline]
pub(crate) fn inverted(begin: i64) -> [u8; BEGIN_BYTES] {
    (!(begin as u64 ^ (1 << 63))).to_be_bytes()
}

/// Decodes the inverted bytes of a begin.
#[inline]
pub(crate) fn time(bytes: &[u8]) -> i64 {
    let mut inverted = [0; BEGIN_BYTES];
    inverted.copy_from_slice(&bytes[..BEGIN_BYTES]);
    (!u64::from_be_bytes(inverted) ^ (1 << 63)) as i64
}

/// Splits a row's key into key part and begin.
#[inline]
pub(crate) fn split(row_key: &[u8]) -> (&[u8], i64) {
    let (part, begin) = row_key.split_at(row_key.len() - BEGIN_BYTES);
    (part, time(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_begins_have_smaller_bytes() {
        assert_eq!(inverted(i64::MAX), [0; 8]);
        assert_eq!(inverted(i64::MIN), [0xff; 8]);
        assert_eq!(time(&inverted(-7)), -7);
    }
}
