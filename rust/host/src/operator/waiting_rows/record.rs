//! The waiting rows of one key and one time, as bytes.
//!
//! ```text
//! record   row, row, …
//! row      1 if it has been matched, else 0 | length of its payload, 4 bytes big-endian | payload
//! ```

use holdfast_core::{Error, ErrorKind, Result};

/// A row that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingRow<'a> {
    /// Whether it has been matched. This is recorded only if unmatched rows of its side go out.
    pub matched: bool,
    /// Its payload.
    pub payload: &'a [u8],
}

/// A record with its key and its time.
pub struct ChangedRecord<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The time.
    pub time: i64,
    /// The record's rows.
    pub bytes: &'a [u8],
}

/// A function that takes a row's key, its time, and the row.
pub type Visit<'a> = dyn FnMut(&[u8], i64, WaitingRow<'_>) -> Result<()> + 'a;

/// Adds a row to a record.
///
/// # Errors
/// `InvalidValue` for a payload of more than 4 GiB.
pub fn push_row(row: WaitingRow<'_>, record: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(row.payload.len())
        .map_err(|_| Error::new(ErrorKind::InvalidValue, "a row has more than 4 GiB"))?;
    record.push(u8::from(row.matched));
    record.extend_from_slice(&length.to_be_bytes());
    record.extend_from_slice(row.payload);
    Ok(())
}

/// Returns the rows of a record, in order. The last item is `None` if its bytes cannot be decoded.
pub fn rows_of(mut record: &[u8]) -> impl Iterator<Item = Option<WaitingRow<'_>>> {
    std::iter::from_fn(move || {
        if record.is_empty() {
            return None;
        }
        let (row, rest) = split_row(record).unzip();
        record = rest.unwrap_or_default();
        Some(row)
    })
}

/// Passes the rows of a record of a store to `f`.
///
/// # Errors
/// `Serialization` if the record cannot be decoded; those of `f`.
pub fn visit(
    store: &str,
    (key, time): (&[u8], i64),
    record: &[u8],
    f: &mut Visit<'_>,
) -> Result<()> {
    for row in rows_of(record) {
        f(key, time, row.ok_or_else(|| unreadable_row(store, key))?)?;
    }
    Ok(())
}

/// The error of a stored row that cannot be decoded.
pub fn unreadable_row(store: &str, key: &[u8]) -> Error {
    let text = "a stored row cannot be read: restore the state from a backup";
    Error::new(ErrorKind::Serialization, text)
        .store(store)
        .key(key)
}

/// Returns the first row of a record, and the bytes after it; none if it cannot be decoded.
pub fn split_row(record: &[u8]) -> Option<(WaitingRow<'_>, &[u8])> {
    let (matched, rest) = record.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    let (payload, rest) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    let row = WaitingRow {
        matched: *matched != 0,
        payload,
    };
    Some((row, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_never_change() {
        let rows = [
            WaitingRow {
                matched: true,
                payload: b"ab",
            },
            WaitingRow {
                matched: false,
                payload: b"",
            },
        ];
        let mut record = Vec::new();
        for row in rows {
            push_row(row, &mut record).expect("short");
        }
        assert_eq!(record, [1, 0, 0, 0, 2, b'a', b'b', 0, 0, 0, 0, 0]);
        let decoded = |record| rows_of(record).collect::<Vec<_>>();
        assert_eq!(decoded(&record), rows.map(Some));
        assert_eq!(decoded(&record[..8]), [Some(rows[0]), None]);
        assert_eq!(decoded(&record[..6]), [None]);
        assert_eq!(decoded(&[]), []);
    }
}
