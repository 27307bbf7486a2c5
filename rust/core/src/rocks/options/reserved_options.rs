//! RocksDB's options that a user cannot set, since the guarantees of the stores depend on them.

/// Each option with the reason, as the end of a sentence.
const RESERVED: &[(&str, &str)] = &[
    ("WAL_size_limit_MB", STOPPED),
    ("WAL_ttl_seconds", STOPPED),
    ("allow_2pc", STOPPED),
    (
        "atomic_flush",
        "a crash could leave the stores at different commits",
    ),
    (
        "best_efforts_recovery",
        "an open would drop the log, and all rows after a missing file",
    ),
    ("comparator", "the rows would not be in the stores' order"),
    (
        "compaction_filter",
        "compactions would drop rows that are not expired",
    ),
    (
        "compaction_filter_factory",
        "compactions would drop rows that are not expired",
    ),
    (
        "compaction_options_fifo",
        "compactions would delete the oldest rows",
    ),
    (
        "compaction_style",
        "compactions could delete the oldest rows",
    ),
    (
        "compaction_verify_record_count",
        "a compaction could lose rows unnoticed",
    ),
    ("create_if_missing", "every open sets it"),
    ("create_missing_column_families", "every open sets it"),
    (
        "enable_blob_direct_write",
        "an open does not replay values of blob files from the log",
    ),
    (
        "enable_pipelined_write",
        "RocksDB refuses it together with atomic flushes",
    ),
    (
        "env",
        "the lock and the checks of an open would be in another file system",
    ),
    ("error_if_exists", "the next open would fail"),
    (
        "flush_verify_memtable_count",
        "a flush could lose rows unnoticed",
    ),
    (
        "force_consistency_checks",
        "wrong lists of files would not be noticed",
    ),
    (
        "inplace_update_support",
        "the rows of a snapshot would change",
    ),
    (
        "manual_wal_flush",
        "a failed write to the log could lose earlier commits",
    ),
    (
        "memtable_insert_with_hint_prefix_extractor",
        "every open sets it",
    ),
    ("merge_operator", "the stores have no merges"),
    (
        "open_files_async",
        "an open would not notice a missing or damaged file",
    ),
    (
        "paranoid_checks",
        "an open would not notice a gap in the log",
    ),
    (
        "persist_stats_to_disk",
        "it adds a column family, and the next open would refuse that",
    ),
    ("plain_table_factory", NOT_CHECKED),
    ("prefix_extractor", "scans would miss rows"),
    ("table_factory", NOT_CHECKED),
    (
        "track_and_verify_wals",
        "a database without a log would not open",
    ),
    ("track_and_verify_wals_in_manifest", STOPPED),
    ("two_write_queues", STOPPED),
    (
        "unordered_write",
        "a snapshot could have a part of a commit",
    ),
    (
        "verify_sst_unique_id_in_manifest",
        "an older file in the place of a newer one would not be noticed",
    ),
    (
        "wal_compression",
        "the error for a damaged log would name a wrong last commit",
    ),
    (
        "wal_dir",
        "the checks of an open expect the log in the directory",
    ),
    (
        "wal_recovery_mode",
        "an open could drop the commits after a damaged record",
    ),
    (
        "write_buffer_manager",
        "the memory of all databases would have no limit",
    ),
];

/// `ResumeImpl` (`db/db_impl/db_impl.cc`, 11.12) refuses these options.
const STOPPED: &str = "after a failed write to the log, all commits would fail until a reopen";

/// RocksDB checks a file's unique id and its blocks' checksums only in block-based tables.
const NOT_CHECKED: &str = "an older or damaged file of another format would not be noticed";

/// Returns why the option cannot be set to this value; `None` if it can.
pub(super) fn refusal(name: &str, value: &str) -> Option<String> {
    let mut words = value.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'));
    if name == "block_based_table_factory" && words.any(|word| word == "checksum") {
        return Some(format!(
            "checksum of {name} cannot be set, since a damaged block would not be noticed"
        ));
    }
    let (_, reason) = RESERVED.iter().find(|(reserved, _)| *reserved == name)?;
    Some(format!("{name} cannot be set, since {reason}"))
}
