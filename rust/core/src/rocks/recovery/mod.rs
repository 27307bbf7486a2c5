//! Checks that RocksDB does not make when it opens a database: that no commit is missing from its
//! files.

pub(super) mod commit_number;
pub(super) mod last_commit;
pub(super) mod log_gap;
pub(super) mod log_record;
pub(super) mod missing_files;
