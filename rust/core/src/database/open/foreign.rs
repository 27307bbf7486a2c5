//! Refuses the directories of other programs: nothing in them is changed.

use crate::error::{Error, ErrorKind, Result};
use crate::rocks::{self, Environment, HOLDER};
use crate::table::{FamilyKind, FamilySpec};
use std::path::Path;

/// Fails if a directory holds the data of another program.
///
/// Kafka Streams' stores are such data: Holdfast cannot read them. A database that began empty
/// beside them would hide their records.
///
/// # Errors
/// `FormatVersion`; `Io` or `StoreCorrupted` for a database whose families cannot be read.
pub(super) fn check_foreign(path: &Path, environment: Option<&Environment>) -> Result<()> {
    let words = if path.join("CURRENT").exists() {
        other_database(path, environment)?
    } else {
        kafka_streams(path)
    };
    words.map_or(Ok(()), |words| {
        Err(Error::new(ErrorKind::FormatVersion, words).path(path))
    })
}

/// Returns the error message for a RocksDB database of another program; `None` for Holdfast's own.
fn other_database(path: &Path, environment: Option<&Environment>) -> Result<Option<String>> {
    // `HOLDER` exists before RocksDB creates the first file. A checkpoint lacks it, but has the
    // metadata family.
    if path.join(HOLDER).exists() {
        return Ok(None);
    }
    // If this fails, the open has not created `HOLDER`, so the next open makes this check again.
    let families = rocks::list_families(path, environment)?;
    if families.contains(&FamilySpec::new(FamilyKind::Metadata, "").name()) {
        return Ok(None);
    }
    Ok(Some(format!(
        "this is a RocksDB database of another program, with the column families {families:?}; \
         nothing in it was changed; choose another path, and restore a store of Kafka Streams from \
         its changelog with restore_batch"
    )))
}

/// Returns the error message for a directory of Kafka Streams: an application's, a task's, or that
/// of a store in segments. `None` for another directory. The caller has checked that the directory
/// itself has no RocksDB database.
fn kafka_streams(path: &Path) -> Option<String> {
    let store = path.file_name().and_then(|name| name.to_str());
    if let Some(store) = store.filter(|store| has_segments(path, store)) {
        return Some(of_streams(store));
    }
    let found = std::fs::read_dir(path).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_of_streams = name == ".checkpoint"
            || name == "kafka-streams-process-metadata"
            || name.ends_with(".position")
            || (name == "rocksdb" && entry.path().is_dir())
            || has_segments(&entry.path(), &name);
        is_of_streams.then_some(name)
    })?;
    Some(of_streams(&found))
}

fn of_streams(found: &str) -> String {
    format!(
        "this is a state directory of Kafka Streams, since it has {found:?}; Holdfast cannot read \
         its stores, and nothing was changed; choose another path and restore the stores from \
         their changelogs with restore_batch"
    )
}

/// Whether a folder holds a window or session store of Kafka Streams: databases that are named
/// `<store>.<segment>`. A versioned store is one database in the task's folder `rocksdb`.
fn has_segments(folder: &Path, store: &str) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let segment = name
            .to_str()
            .and_then(|name| name.strip_prefix(store)?.strip_prefix('.'));
        segment.is_some_and(|segment| segment.parse::<i64>().is_ok())
            && entry.path().join("CURRENT").exists()
    })
}
