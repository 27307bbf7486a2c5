//! Checks whether the root has committed epochs that are newer than Spark's checkpoint.
//!
//! The local database is not enough for this check: it may be new, or may have lost changes that
//! were not flushed.

use holdfast_core::Result;

use super::epoch_log::EpochLog;
use super::snapshot_repository::SnapshotRepository;
use crate::protocol::{Epoch, OperatorName, PartitionId, RunNumber};

/// The newest committed epoch and snapshot of a partition in the root, compared with a session's
/// epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookahead {
    /// The last committed epoch, if it is later than the session's.
    pub later_commit: Option<Epoch>,
    /// The newest snapshot of an epoch before the session's.
    pub snapshot: Option<Epoch>,
}

impl Lookahead {
    /// Reads log and snapshots of a partition, for a session of `epoch` in the run `run`.
    ///
    /// Epochs that `holdfast rewind` took back do not count.
    ///
    /// # Errors
    /// `Restore` for a rewind mark that cannot be read, `Io` if the disk fails.
    pub fn read(
        log: &EpochLog,
        snapshots: &SnapshotRepository,
        (operator, partition): (&OperatorName, PartitionId),
        (run, epoch): (RunNumber, Epoch),
    ) -> Result<Self> {
        let mut later_commit = None;
        if log.newest(run)?.is_some_and(|newest| newest > epoch) {
            later_commit = log.newest_commit(epoch.next())?;
        }
        let found = snapshots.list(operator, partition)?;
        for id in found.iter().filter(|id| id.epoch > epoch) {
            // A host that was still running may have put the snapshot after the rewind.
            if later_commit < Some(id.epoch) && !log.was_taken_back(id.epoch)? {
                later_commit = Some(id.epoch);
            }
        }
        Ok(Self {
            later_commit,
            snapshot: found.iter().map(|id| id.epoch).find(|found| *found < epoch),
        })
    }
}
