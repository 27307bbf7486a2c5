//! Detects commits that are missing from a database's files, and other damage to its log and
//! manifest that RocksDB's own open does not report. Restores sorted files that RocksDB removed.

pub(super) mod commit_number;
pub(super) mod last_commit;
pub(super) mod log_gap;
pub(super) mod log_record;
pub(super) mod missing_files;
