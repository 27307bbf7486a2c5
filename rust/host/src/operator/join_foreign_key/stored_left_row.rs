//! A row of the left table as the first stage stores it.
//!
//! ```text
//! 0: no foreign key | payload
//! 1 | length of the foreign key, 4 bytes big-endian | foreign key | payload
//! ```

use holdfast_core::{Error, ErrorKind, Result};

/// A row of the left table.
pub struct StoredLeftRow<'a> {
    /// Its foreign key.
    pub foreign: Option<&'a [u8]>,
    /// Its payload columns.
    pub payload: &'a [u8],
}

impl<'a> StoredLeftRow<'a> {
    /// The row's bytes.
    ///
    /// # Errors
    /// `InvalidValue` for a foreign key of more than 4 GiB.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let Some(foreign) = self.foreign else {
            return Ok([&[0], self.payload].concat());
        };
        let length = u32::try_from(foreign.len()).map_err(|_| {
            Error::new(ErrorKind::InvalidValue, "a foreign key has more than 4 GiB")
        })?;
        Ok([&[1], &length.to_be_bytes()[..], foreign, self.payload].concat())
    }

    /// Decodes a row; none if the bytes are not those of a row.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        if *tag == 0 {
            return Some(Self {
                foreign: None,
                payload: rest,
            });
        }
        let (length, rest) = rest.split_first_chunk()?;
        let (foreign, payload) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
        Some(Self {
            foreign: Some(foreign),
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_never_change() {
        let (with, without) = (
            StoredLeftRow {
                foreign: Some(b"ab"),
                payload: b"row",
            },
            StoredLeftRow {
                foreign: None,
                payload: b"row",
            },
        );
        let bytes = with.encode().expect("short");
        assert_eq!(bytes, b"\x01\x00\x00\x00\x02abrow");
        assert_eq!(without.encode().expect("short"), b"\x00row");
        let back = StoredLeftRow::decode(&bytes).expect("readable");
        assert_eq!(
            (back.foreign, back.payload),
            (Some(&b"ab"[..]), &b"row"[..])
        );
        assert!(
            StoredLeftRow::decode(&bytes[..6]).is_none() && StoredLeftRow::decode(b"").is_none()
        );
    }
}
