//! What a database keeps about itself.
//!
//! ```text
//! format                            → u16 big-endian
//! durability                        → its name
//! open                              → while open, if an unclean stop would matter (`marker.rs`)
//! store:NAME                        → the kind's name, then its settings:
//!                                     versioned: history retention, segment interval;
//!                                     session: retention;
//!                                     window: retention, window size, "duplicates" or "single"
//! stream_time:NAME                  → i64 big-endian
//! first_kept:NAME                   → i64 big-endian, the start of what a longer retention keeps
//! sequence:NAME                     → u64 big-endian, the last duplicate's number
//! lost:NAME                         → nothing, while a store that began empty, or was left out
//!                                     of an open in which positions moved, awaits its restore
//! memory:NAME                       → nothing, for a store that was last opened in memory
//! position:TOPIC | 00 | partition i32 b. e. → i64 big-endian
//! property:NAME                     → bytes; `serde:STORE:key`, `…:value`: of typed stores
//! spilled                           → u64 big-endian, the last commit through a commit file
//! commit                            → u64 big-endian (`rocks/commit_number.rs`)
//! ```

use crate::error::{Error, ErrorKind, Result};
use crate::offset::{Offset, TopicPartition};
use crate::store::{StoreKind, StoreSpec};

/// The format that this version writes; every stored row and every key follows from it.
pub(super) const FORMAT: u16 = 1;
pub(super) const FORMAT_KEY: &[u8] = b"format";
pub(super) const DURABILITY_KEY: &[u8] = b"durability";
pub(super) const OPEN_KEY: &[u8] = b"open";
pub(super) const SPILLED_KEY: &[u8] = b"spilled";
pub(super) const POSITION: &[u8] = b"position:";
pub(super) const STORE: &[u8] = b"store:";

pub(super) fn store_key(name: &str) -> Vec<u8> {
    [STORE, name.as_bytes()].concat()
}

pub(super) fn stream_time_key(name: &str) -> Vec<u8> {
    format!("stream_time:{name}").into_bytes()
}

pub(super) fn first_kept_key(name: &str) -> Vec<u8> {
    format!("first_kept:{name}").into_bytes()
}

pub(super) fn lost_key(name: &str) -> Vec<u8> {
    format!("lost:{name}").into_bytes()
}

pub(super) fn memory_key(name: &str) -> Vec<u8> {
    format!("memory:{name}").into_bytes()
}

pub(super) fn sequence_key(name: &str) -> Vec<u8> {
    format!("sequence:{name}").into_bytes()
}

pub(super) fn property_key(name: &str) -> Vec<u8> {
    format!("property:{name}").into_bytes()
}

/// A store's descriptor as it is kept.
pub(super) fn descriptor(spec: &StoreSpec) -> String {
    let name = spec.kind.name();
    match spec.kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => name.to_owned(),
        StoreKind::Versioned {
            history_retention,
            segment_interval,
        } => format!("{name} {history_retention} {segment_interval}"),
        StoreKind::Window {
            retention,
            window_size,
            retain_duplicates,
            ..
        } => {
            format!(
                "{name} {retention} {window_size} {}",
                duplicates(retain_duplicates)
            )
        }
        StoreKind::Session { retention } => format!("{name} {retention}"),
    }
}

/// The retention that a store whose rows grow old was last opened with.
pub(super) fn retention(stored: &[u8]) -> Option<i64> {
    let stored = std::str::from_utf8(stored).ok()?;
    let mut words = stored.split(' ');
    matches!(
        words.next(),
        Some("versioned" | "window" | "timestamped_window" | "session")
    )
    .then(|| words.next()?.parse().ok())?
}

fn duplicates(retained: bool) -> &'static str {
    if retained { "duplicates" } else { "single" }
}

/// Checks that a store's descriptor on disk is of the same kind, or of a plain one that is to have
/// timestamps from now on; durations may change between opens.
pub(super) fn check_descriptor(spec: &StoreSpec, stored: &[u8]) -> Result<()> {
    let stored = String::from_utf8_lossy(stored);
    let kind = stored.split(' ').next().unwrap_or_default();
    if let StoreKind::Window {
        retain_duplicates, ..
    } = spec.kind
        && matches!(kind, "window" | "timestamped_window")
        && stored.split(' ').nth(3) != Some(duplicates(retain_duplicates))
    {
        let words = format!(
            "the store was made with retain_duplicates={}; open it as it was made",
            !retain_duplicates
        );
        return Err(Error::new(ErrorKind::InvalidValue, words).store(&spec.name));
    }
    if kind == spec.kind.name() || spec.kind.name().strip_prefix("timestamped_") == Some(kind) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidValue,
        format!(
            "the store was made as {kind:?} and is now asked for as {:?}; open it as what it is \
             or give the new store another name",
            spec.kind.name()
        ),
    )
    .store(&spec.name))
}

/// Checks a store's name: it is part of file names and of topics' names, as a Kafka topic's is.
///
/// # Errors
/// `InvalidValue` for one that is not 1 to 200 ASCII letters, digits, `_`, `-` or `.`.
pub fn check_store_name(name: &str) -> Result<()> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 200 || !name.chars().all(legal) {
        return Err(Error::new(
            ErrorKind::InvalidValue,
            format!("store name {name:?}: use 1 to 200 ASCII letters, digits, '_', '-' or '.'"),
        ));
    }
    Ok(())
}

/// The key of an input position's row.
pub(super) fn position_key(tp: &TopicPartition) -> Result<Vec<u8>> {
    tp.check()?;
    Ok([
        POSITION,
        tp.topic.as_bytes(),
        &[0],
        &tp.partition.to_be_bytes(),
    ]
    .concat())
}

pub(super) fn parse_position(key: &[u8], value: &[u8]) -> Result<(TopicPartition, Offset)> {
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

pub(super) fn parse_sequence(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map_err(|_| {
        Error::new(
            ErrorKind::StoreCorrupted,
            "a sequence number in the database is damaged; restore the directory from the \
             changelog",
        )
    })?;
    Ok(u64::from_be_bytes(bytes))
}

pub(super) fn parse_time(value: &[u8]) -> Result<i64> {
    let bytes = value.try_into().map_err(|_| {
        Error::new(
            ErrorKind::StoreCorrupted,
            "a stream time in the database is damaged; restore the directory from the changelog",
        )
    })?;
    Ok(i64::from_be_bytes(bytes))
}
