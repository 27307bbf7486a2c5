//! The user's RocksDB options (`rocksdb_options`).

use crate::error::{Error, ErrorKind, Result};
use rust_rocksdb::Options;

/// Options that the stores' results, snapshots or durability depend on.
const RESERVED: [&str; 18] = [
    "atomic_flush",
    "comparator",
    "compaction_filter",
    "compaction_filter_factory",
    "compaction_options_fifo",
    "compaction_style",
    "create_if_missing",
    "create_missing_column_families",
    "env",
    "inplace_update_support",
    "memtable_insert_with_hint_prefix_extractor",
    "merge_operator",
    "paranoid_checks",
    "prefix_extractor",
    "unordered_write",
    "wal_dir",
    "wal_recovery_mode",
    "write_buffer_manager",
];

/// Fails for options that a database would refuse. This opens nothing.
///
/// # Errors
/// `InvalidValue` for an option that guarantees depend on, or that RocksDB does not know.
pub fn check_rocksdb_options(options: &[(String, String)]) -> Result<()> {
    with_extra(Options::default(), options).map(drop)
}

/// Sets the user's options over the given ones. `extra` may mix database and family options: each
/// kind takes its own.
pub(super) fn with_extra(mut options: Options, extra: &[(String, String)]) -> Result<Options> {
    if let Some((name, _)) = extra
        .iter()
        .find(|(name, _)| RESERVED.contains(&name.as_str()))
    {
        let words = format!(
            "rocksdb_options: {name} cannot be set, since the guarantees of the stores depend on \
             it; leave it out"
        );
        return Err(Error::new(ErrorKind::InvalidValue, words));
    }
    if extra.is_empty() {
        return Ok(options);
    }
    let extra: String = extra
        .iter()
        .map(|(name, value)| format!("{name}={value};"))
        .collect();
    options.get_options_from_string(extra).map_err(|error| {
        Error::new(
            ErrorKind::InvalidValue,
            format!(
                "rocksdb_options: an option or its value is not known to RocksDB (cause: {error})"
            ),
        )
    })
}
