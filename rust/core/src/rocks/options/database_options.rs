//! RocksDB's options of a whole database.
//!
//! All options, here and in `family_options.rs`, are set at every open. Other projects that loaded
//! them from RocksDB's OPTIONS files have silently fallen back to the defaults. The figures of the
//! options that were chosen by measurement are in `docs/design/layout.md`.

use super::rocks_options::RocksOptions;
use super::shared_memory::with_shared;
use super::user_options::with_extra;
use crate::error::Result;
use rust_rocksdb::{DBRecoveryMode, Options};

pub(in crate::rocks) fn rocks_options(options: &RocksOptions) -> Result<Options> {
    let mut db = Options::default();
    db.set_max_background_jobs(2);
    db.set_max_open_files(512);
    // The default is 16 threads for each family, even if it has only one file.
    db.set_max_file_opening_threads(4);
    db.set_keep_log_file_num(3);
    db.set_max_log_file_size(4 << 20);
    // Every flush appends to the manifest and every checkpoint copies it. A new manifest begins
    // well before the old one is larger than the rows of a small state.
    db.set_max_manifest_file_size(1 << 20);
    db.set_stats_dump_period_sec(0);
    db.set_max_total_wal_size(64 << 20);
    db = with_extra(db, &options.extra)?;
    if let Some(environment) = &options.environment {
        db.set_env(&environment.env);
    }
    db.create_if_missing(true);
    db.create_missing_column_families(true);
    db.set_atomic_flush(true);
    // An incomplete record at the very end is a commit that never returned. All other damage is an
    // error.
    db.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    with_shared(|shared| db.set_write_buffer_manager(&shared.write_buffers));
    Ok(db)
}
