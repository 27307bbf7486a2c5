//! Checks of the stores' specs and of the files' format.

use crate::database::rows::keys::FORMAT;
use crate::database::rows::store_descriptor::check_store_name;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{StoreKind, StoreSpec};
use std::path::Path;

/// Checks names and durations.
pub(super) fn check_specs(stores: &[StoreSpec]) -> Result<()> {
    for (n, spec) in stores.iter().enumerate() {
        check_store_name(&spec.name)?;
        if stores[..n].iter().any(|other| other.name == spec.name) {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "two stores of one database have this name; give each its own",
            )
            .store(&spec.name));
        }
        check_durations(&spec.kind)
            .map_err(|words| Error::new(ErrorKind::InvalidValue, words).store(&spec.name))?;
    }
    Ok(())
}

fn check_durations(kind: &StoreKind) -> std::result::Result<(), String> {
    let not_negative = |name: &str, micros: i64| match micros {
        0.. => Ok(()),
        _ => Err(format!(
            "{name} is {micros} microseconds; it must not be negative"
        )),
    };
    match *kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => Ok(()),
        StoreKind::Versioned {
            segment_interval, ..
        } if segment_interval <= 0 => Err(format!(
            "segment_interval is {segment_interval} microseconds; it must be positive"
        )),
        StoreKind::Versioned {
            history_retention, ..
        } => not_negative("history_retention", history_retention),
        StoreKind::Window {
            retention,
            window_size,
            ..
        } if window_size > retention => Err(format!(
            "window_size is {window_size} microseconds, more than retention, which is \
             {retention}; a window must be retained until it ends"
        )),
        StoreKind::Window { window_size, .. } => not_negative("window_size", window_size),
        StoreKind::Session { retention } => not_negative("retention", retention),
    }
}

/// Checks the format version of the files.
pub(super) fn check_format(stored: Option<Vec<u8>>, path: &Path) -> Result<()> {
    match stored
        .as_deref()
        .map(|bytes| bytes.try_into().map(u16::from_be_bytes))
    {
        Some(Ok(FORMAT)) => Ok(()),
        // A new database, or a crash after its families were created and before the first write:
        // there is no data yet.
        None => Ok(()),
        Some(Ok(format)) => Err(Error::new(
            ErrorKind::FormatVersion,
            format!(
                "the files have format {format}, and this version of Holdfast reads format \
                 {FORMAT}; use the version that wrote them"
            ),
        )
        .path(path)),
        Some(Err(_)) => Err(Error::new(
            ErrorKind::StoreCorrupted,
            "the format version is damaged; restore the directory from a checkpoint",
        )
        .path(path)),
    }
}
