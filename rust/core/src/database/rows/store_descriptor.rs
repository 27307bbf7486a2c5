//! Names and descriptors of stores, as the `metadata` family holds them.

use crate::error::{Error, ErrorKind, Result};
use crate::store::{StoreKind, StoreSpec};

/// A store's descriptor, as it is stored.
pub(in crate::database) fn descriptor(spec: &StoreSpec) -> String {
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

/// The retention in a stored descriptor; `None` if rows of its kind do not expire.
pub(in crate::database) fn retention(stored: &[u8]) -> Option<i64> {
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

/// Checks that a stored descriptor is of the same kind, or of the plain kind if the store now has
/// timestamps.
///
/// Windows must have the same `retain_duplicates`. Durations may change between opens.
pub(in crate::database) fn check_descriptor(spec: &StoreSpec, stored: &[u8]) -> Result<()> {
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
    let convert = match (kind, &spec.kind) {
        ("key_value" | "timestamped_key_value", StoreKind::Versioned { .. }) => {
            ". To make it versioned, restore it from its changelog in a new directory \
             (docs/stores/versioned.md, \"From a key-value store\")"
        }
        _ => "",
    };
    Err(Error::new(
        ErrorKind::InvalidValue,
        format!(
            "the store was made as {kind:?} and is now asked for as {:?}; open it as {kind:?} or \
             give the new store another name{convert}",
            spec.kind.name()
        ),
    )
    .store(&spec.name))
}

/// Checks a store's name, which is part of file names and of Kafka topic names.
///
/// # Errors
/// `InvalidValue` for a name that is not 1 to 200 ASCII letters, digits, `_`, `-` or `.`.
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
