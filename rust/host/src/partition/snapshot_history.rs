//! The history of a partition's snapshots on this host: when they were taken, and which may be
//! damaged.

use std::time::Instant;

use super::view_request::SnapshotPolicy;
use crate::protocol::{Epoch, RunNumber};
use crate::root::{KnownDigests, SnapshotId};

/// Bytes of the log below which a snapshot costs more than it saves: they are replayed within about
/// a second. Where windows close, the state is small, and a quarter of it is written in each epoch.
const MIN_LOG_BYTES: u64 = 32 << 20;

/// The snapshots that this host took or found.
#[derive(Default)]
pub struct SnapshotHistory {
    /// When the last snapshot was begun, or the partition was first used.
    pub last_begun: Option<Instant>,
    /// Whether this host has begun a snapshot.
    pub has_begun: bool,
    /// How many attempts have failed since the last snapshot was taken.
    pub failures: u64,
    /// The epoch of the newest snapshot that was found or taken.
    pub newest: Option<Epoch>,
    /// Digests of the files of the last snapshot.
    pub known: KnownDigests,
    /// How many bytes of changes have entered the database since the newest snapshot.
    pub log_bytes: u64,
    /// Whether the database was made from the root. If so, the disk of an earlier host may be lost.
    pub is_restored: bool,
    /// The last session's terms, for a snapshot when the host ends.
    pub last_terms: Option<SnapshotTerms>,
}

/// The query's run, partition count and snapshot policy, which a snapshot needs.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotTerms {
    /// The run.
    pub run: RunNumber,
    /// How many partitions the state has.
    pub partitions: u32,
    /// When snapshots are taken, and how much log is retained.
    pub policy: SnapshotPolicy,
}

/// Returns whether a restore would read so much of the log that the next snapshot is due: more than
/// a quarter of the newest snapshot, and more than [`MIN_LOG_BYTES`].
pub fn is_log_long(log_bytes: u64, snapshot_bytes: u64) -> bool {
    log_bytes > MIN_LOG_BYTES.max(snapshot_bytes / 4)
}

/// The snapshots that share files with the local database, or shared files with an earlier one that
/// was damaged.
#[derive(Default)]
pub struct SnapshotOrigin {
    /// The newest one: the database was made from it, or it was taken of the database since.
    newest: Option<SnapshotId>,
    /// Suspect snapshots, in the order in which they were found: each shared files with a database
    /// that was damaged.
    ///
    /// A block that is damaged on a local disk enters the next snapshot with a correct digest. So a
    /// suspect snapshot is used only if no other one can be used and the log is not complete. It is
    /// not removed at once: the snapshot may be good, and the disk that it was restored to may be
    /// bad. It is removed when a new snapshot is taken, or when a restore finds it damaged.
    suspects: Vec<SnapshotId>,
    /// The size of the newest snapshot that was copied, in bytes.
    bytes: u64,
}

impl SnapshotOrigin {
    /// Sets the snapshot that the database was made from; `None` for an empty database.
    pub fn set_newest(&mut self, id: Option<SnapshotId>) {
        self.newest = id;
    }

    /// Sets the size of the newest snapshot.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Returns the size of the newest snapshot that this host has copied; 0 if there is none.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Marks the newest snapshot as suspect, and returns it: the database was damaged.
    pub fn suspect_newest(&mut self) -> Option<SnapshotId> {
        let id = self.newest.take()?;
        self.suspect(id.clone());
        Some(id)
    }

    /// Marks a snapshot as suspect.
    pub fn suspect(&mut self, id: SnapshotId) {
        self.suspects.retain(|other| *other != id);
        self.suspects.push(id);
    }

    /// Returns whether a snapshot of this epoch could have the name of a suspect one.
    pub fn is_suspect_epoch(&self, epoch: Epoch) -> bool {
        self.suspects.iter().any(|id| id.epoch == epoch)
    }

    /// Returns the rank of a suspect snapshot, `None` for others. The one that was found last has
    /// the highest rank, and is tried last.
    pub fn suspect_rank(&self, id: &SnapshotId) -> Option<usize> {
        self.suspects.iter().position(|other| other == id)
    }

    /// Records that a snapshot was taken. Returns the suspects: they are no longer needed.
    pub fn replace(&mut self, id: SnapshotId) -> Vec<SnapshotId> {
        self.newest = Some(id);
        std::mem::take(&mut self.suspects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_is_long_above_a_quarter_of_the_state() {
        assert!(!is_log_long(MIN_LOG_BYTES, 0));
        assert!(is_log_long(MIN_LOG_BYTES + 1, 0));
        assert!(!is_log_long(250 << 20, 1000 << 20));
        assert!(is_log_long((250 << 20) + 1, 1000 << 20));
    }
}
