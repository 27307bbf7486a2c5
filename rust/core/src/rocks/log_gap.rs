//! Logs that do not go on where the files end.
//!
//! After a manifest that was cut, or a log file that is gone, RocksDB replays what logs there are
//! onto whatever state the manifest names: a state with a hole in it, and no error. Its own check
//! (`track_and_verify_wals`) is no help: it also refuses what a full disk leaves behind. Every
//! write ends with its number (`commit_number.rs`), so the replay can be watched: the first record
//! must follow on the state in the files, and each other on the one before it.

use super::commit_number;
use crate::error::{Error, ErrorKind};
use parking_lot::Mutex;
use rust_rocksdb::WriteBatch;
use rust_rocksdb::wal_filter::{WalFilter, WalRecordAction};
use std::ffi::CStr;
use std::path::Path;
use std::sync::Arc;

/// Passes all records over: what is then read is the state in the files alone.
pub(super) struct NoReplay;

/// Watches the numbers of the records that are replayed.
#[derive(Clone)]
pub(super) struct Watch(Arc<Mutex<Seen>>);

struct Seen {
    last: u64,
    gap: Option<u64>,
}

impl Watch {
    /// From the state in the files on.
    pub(super) fn from(last: u64) -> Self {
        Self(Arc::new(Mutex::new(Seen { last, gap: None })))
    }

    /// What to say if there is a gap.
    pub(super) fn error(&self, path: &Path) -> Option<Error> {
        let Seen { last, gap } = *self.0.lock();
        let message = format!(
            "the last good commit in the files is {last}, and the log goes on at commit {}: a \
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

impl WalFilter for Watch {
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
        let mut seen = self.0.lock();
        if number > seen.last + 1 {
            seen.gap = Some(number);
            return WalRecordAction::Corrupted;
        }
        seen.last = seen.last.max(number);
        WalRecordAction::Continue
    }
}
