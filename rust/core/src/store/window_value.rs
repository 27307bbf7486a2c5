//! The value of a window store's row.
//!
//! ```text
//! value   00 | value, or 01 | timestamp, 8 bytes big-endian | value
//! ```
//!
//! The first byte lets a timestamped store read the rows of a former plain store of the same name.
//! They have timestamp -1 until they are written again.

use super::timestamped::{NO_TIMESTAMP, Stamped};

/// The first byte of a value without a timestamp.
pub(super) const PLAIN: u8 = 0;
/// The first byte of a value with a timestamp.
pub(super) const STAMPED: u8 = 1;

/// Splits a row's value into the timestamp and the user's value.
pub(super) fn decode(row: &[u8]) -> Stamped<'_> {
    match row.split_first() {
        Some((&STAMPED, stamped)) => Stamped::decode(stamped),
        Some((_, value)) => Stamped {
            value,
            timestamp: NO_TIMESTAMP,
        },
        None => Stamped {
            value: row,
            timestamp: NO_TIMESTAMP,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn bytes_never_change() {
        assert_eq!(
            decode(&[0, b'v']),
            Stamped {
                value: b"v",
                timestamp: NO_TIMESTAMP
            }
        );
        assert_eq!(
            decode(&[0]),
            Stamped {
                value: b"",
                timestamp: NO_TIMESTAMP
            }
        );
        assert_eq!(
            decode(&[1, 0, 0, 0, 0, 0, 0, 1, 2, b'v']),
            Stamped {
                value: b"v",
                timestamp: Timestamp(258)
            }
        );
    }
}
