//! Detects a gap between the files and the log.
//!
//! If a manifest was cut or a log file is missing, RocksDB replays the remaining logs onto the
//! state that the manifest names. That state lacks commits, and RocksDB returns no error. Its own
//! check (`track_and_verify_wals`) does not help: it also rejects the files that a full disk
//! leaves.
//!
//! A record of `RocksDb::write` ends with its number (`commit_number.rs`), so a filter checks the
//! replay: no number may be more than one above the greatest number before it, that of the files
//! included. Records without a number are not checked.

use super::commit_number;
use crate::error::{Error, ErrorKind};
use parking_lot::Mutex;
use rust_rocksdb::WriteBatch;
use rust_rocksdb::wal_filter::{WalFilter, WalRecordAction};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

/// Skips all log records, so that the database has only the state in its files.
pub(super) struct NoReplay;

/// Checks that the numbers of the replayed records have no gap.
#[derive(Clone)]
pub(in crate::rocks) struct GapFilter(Arc<Mutex<Replayed>>);

struct Replayed {
    last: u64,
    gap: Option<u64>,
}

impl GapFilter {
    /// Starts after the last commit in the files.
    pub(in crate::rocks) fn from(last: u64) -> Self {
        Self(Arc::new(Mutex::new(Replayed { last, gap: None })))
    }

    /// Returns an error if there was a gap.
    pub(in crate::rocks) fn error(&self, path: &Path) -> Option<Error> {
        let Replayed { last, gap } = *self.0.lock();
        let message = format!(
            "the last good commit in the files is {last}, and the log continues at commit {}: a \
             file between them is missing, damaged or cut short; restore the directory from a \
             checkpoint or the changelog",
            gap?
        );
        Some(Error::new(ErrorKind::StoreCorrupted, message).path(path))
    }
}

impl WalFilter for NoReplay {
    fn name(&self) -> &CStr {
        c"holdfast.no_replay"
    }

    fn log_record_found(
        &self,
        _: u64,
        _: &[u8],
        _: &WriteBatch,
        _: &mut WriteBatch,
    ) -> WalRecordAction {
        WalRecordAction::StopReplay
    }
}

impl WalFilter for GapFilter {
    fn name(&self) -> &CStr {
        c"holdfast.watch"
    }

    fn log_record_found(
        &self,
        _: u64,
        _: &[u8],
        batch: &WriteBatch,
        _: &mut WriteBatch,
    ) -> WalRecordAction {
        let Some(number) = commit_number::of_record(batch.data()) else {
            return WalRecordAction::Continue;
        };
        let mut replayed = self.0.lock();
        if number > replayed.last + 1 {
            replayed.gap = Some(number);
            return WalRecordAction::Corrupted;
        }
        replayed.last = replayed.last.max(number);
        WalRecordAction::Continue
    }
}
