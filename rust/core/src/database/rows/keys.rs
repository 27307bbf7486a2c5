//! Rows of the `metadata` family: what a database stores about itself.
//!
//! ```text
//! format                            → u16 big-endian
//! durability                        → its name
//! open                              → the guarantee, then stores without transactions; no row if
//!                                     an unclean stop does no harm (`open_marker.rs`)
//! store:NAME                        → the kind's name, then its settings:
//!                                     versioned: history retention, segment interval;
//!                                     session: retention;
//!                                     window: retention, window size, "duplicates" or "single"
//! stream_time:NAME                  → i64 big-endian
//! first_kept:NAME                   → i64 big-endian, the earliest time that can be read; written
//!                                     when an open makes the retention longer
//! sequence:NAME                     → u64 big-endian, the last duplicate's number
//! lost:NAME                         → nothing. The row means that the store must be restored:
//!                                     it began empty, or positions moved in an open
//!                                     without it
//! memory:NAME                       → nothing, for a store that was last opened in memory
//! position:TOPIC | 00 | partition i32 big-endian → i64 big-endian
//! property:NAME                     → bytes; a typed store's properties are named
//!                                     `serde:STORE:key` and `serde:STORE:value`
//! spilled                           → u64 big-endian, the number of the last commit that used a
//!                                     commit file (`commit/commit_file.rs`)
//! commit                            → u64 big-endian (`rocks/recovery/commit_number.rs`)
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, TopicPartition};

/// The format number that this version of Holdfast writes. It covers all keys and rows of the
/// database.
pub(in crate::database) const FORMAT: u16 = 1;
pub(in crate::database) const FORMAT_KEY: &[u8] = b"format";
pub(in crate::database) const DURABILITY_KEY: &[u8] = b"durability";
pub(in crate::database) const OPEN_KEY: &[u8] = b"open";
pub(in crate::database) const SPILLED_KEY: &[u8] = b"spilled";
pub(in crate::database) const POSITION: &[u8] = b"position:";
pub(in crate::database) const STORE: &[u8] = b"store:";

pub(in crate::database) fn store_key(name: &str) -> Vec<u8> {
    [STORE, name.as_bytes()].concat()
}

pub(in crate::database) fn stream_time_key(name: &str) -> Vec<u8> {
    format!("stream_time:{name}").into_bytes()
}

pub(in crate::database) fn first_retained_key(name: &str) -> Vec<u8> {
    format!("first_kept:{name}").into_bytes()
}

pub(in crate::database) fn lost_key(name: &str) -> Vec<u8> {
    format!("lost:{name}").into_bytes()
}

pub(in crate::database) fn memory_key(name: &str) -> Vec<u8> {
    format!("memory:{name}").into_bytes()
}

pub(in crate::database) fn sequence_key(name: &str) -> Vec<u8> {
    format!("sequence:{name}").into_bytes()
}

pub(in crate::database) fn property_key(name: &str) -> Vec<u8> {
    format!("property:{name}").into_bytes()
}

/// The key of an input position's row.
pub(in crate::database) fn position_key(tp: &TopicPartition) -> Result<Vec<u8>> {
    tp.check()?;
    Ok([
        POSITION,
        tp.topic.as_bytes(),
        &[0],
        &tp.partition.to_be_bytes(),
    ]
    .concat())
}

pub(in crate::database) fn parse_position(
    key: &[u8],
    value: &[u8],
) -> Result<(TopicPartition, Offset)> {
    let parsed = || {
        let (head, partition) = key.strip_prefix(POSITION)?.split_last_chunk::<4>()?;
        let topic = std::str::from_utf8(head.strip_suffix(&[0])?)
            .ok()?
            .to_owned();
        let offset = Offset(i64::from_be_bytes(value.try_into().ok()?));
        Some((
            TopicPartition {
                topic,
                partition: i32::from_be_bytes(*partition),
            },
            offset,
        ))
    };
    parsed().ok_or_else(|| {
        Error::new(
            ErrorKind::StoreCorrupted,
            "an input position in the database is damaged; restore the directory from the \
             changelog",
        )
    })
}

pub(in crate::database) fn parse_sequence(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map_err(|_| {
        Error::new(
            ErrorKind::StoreCorrupted,
            "a sequence number in the database is damaged; restore the directory from the \
             changelog",
        )
    })?;
    Ok(u64::from_be_bytes(bytes))
}

pub(in crate::database) fn parse_time(value: &[u8]) -> Result<i64> {
    let bytes = value.try_into().map_err(|_| {
        Error::new(
            ErrorKind::StoreCorrupted,
            "a time in the database is damaged; restore the directory from the changelog",
        )
    })?;
    Ok(i64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of a key needs a new format number.
    #[test]
    fn keys_have_the_bytes_of_format_1() {
        let tp = TopicPartition {
            topic: "t".into(),
            partition: 258,
        };
        let position = position_key(&tp).expect("a topic");
        assert_eq!(FORMAT, 1);
        for (key, bytes) in [
            (FORMAT_KEY, b"format".as_slice()),
            (DURABILITY_KEY, b"durability"),
            (OPEN_KEY, b"open"),
            (SPILLED_KEY, b"spilled"),
            (&store_key("s"), b"store:s"),
            (&stream_time_key("s"), b"stream_time:s"),
            (&first_retained_key("s"), b"first_kept:s"),
            (&lost_key("s"), b"lost:s"),
            (&memory_key("s"), b"memory:s"),
            (&sequence_key("s"), b"sequence:s"),
            (&property_key("s"), b"property:s"),
            (&position, b"position:t\0\0\0\x01\x02"),
        ] {
            assert_eq!(key, bytes, "{}", bytes.escape_ascii());
        }
    }
}
