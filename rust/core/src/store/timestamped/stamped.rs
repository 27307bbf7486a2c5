//! A value with its timestamp.

use crate::time::Timestamp;

/// The timestamp of a value that was written without one.
pub const NO_TIMESTAMP: Timestamp = Timestamp(-1);

/// A borrowed value and its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped<'a> {
    /// The value.
    pub value: &'a [u8],
    /// Its timestamp; [`NO_TIMESTAMP`] if a store without timestamps wrote it.
    pub timestamp: Timestamp,
}

impl<'a> Stamped<'a> {
    /// Decodes a stored row: 8 bytes of time, then the value.
    pub(crate) fn decode(row: &'a [u8]) -> Self {
        match row.split_first_chunk() {
            Some((time, value)) => Self {
                value,
                timestamp: Timestamp(i64::from_be_bytes(*time)),
            },
            None => Self::plain(row),
        }
    }

    /// A value from a former plain store.
    pub(super) fn plain(value: &'a [u8]) -> Self {
        Self {
            value,
            timestamp: NO_TIMESTAMP,
        }
    }

    /// Returns a copy of the value, and the timestamp.
    pub fn to_owned(self) -> (Vec<u8>, Timestamp) {
        (self.value.to_vec(), self.timestamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_never_change() {
        let row = [0, 0, 0, 0, 0, 0, 1, 2, b'v', b'w'];
        assert_eq!(
            Stamped::decode(&row),
            Stamped {
                value: b"vw",
                timestamp: Timestamp(258)
            }
        );
        assert_eq!(
            Stamped::decode(&[0xff; 8]),
            Stamped {
                value: b"",
                timestamp: Timestamp(-1)
            }
        );
        assert_eq!(
            Stamped::plain(&row),
            Stamped {
                value: &row,
                timestamp: NO_TIMESTAMP
            }
        );
    }
}
