//! What a partition remembers of its snapshots: when it took them, and which may be damaged.

use std::time::Instant;

use crate::protocol::Epoch;
use crate::root::{KnownDigests, SnapshotId};

/// The snapshots that this host took or found.
#[derive(Default)]
pub struct SnapshotHistory {
    /// When the last one was begun, or the partition was first used.
    pub last_begun: Option<Instant>,
    /// Whether this host has begun one.
    pub has_begun: bool,
    /// The epoch of the newest one that was found or taken.
    pub newest: Option<Epoch>,
    /// Digests of the files of the last one.
    pub known: KnownDigests,
}

/// The snapshots that share files with the local database.
#[derive(Default)]
pub struct SnapshotOrigin {
    /// The newest of them: the one that the database was made from, or that was taken of it since.
    newest: Option<SnapshotId>,
    /// Suspect snapshots: their databases were damaged when they were read. The last one is the one
    /// found last.
    ///
    /// A block that is damaged on a local disk enters the next snapshot with a correct digest. So a
    /// suspect snapshot is used only if there is no other one, and removed when there is a newer
    /// one. Not before: the snapshot may be good, and the disk that it was restored to bad.
    suspects: Vec<SnapshotId>,
}

impl SnapshotOrigin {
    /// Sets the snapshot that the database was made from; `None` for an empty database.
    pub fn set_newest(&mut self, id: Option<SnapshotId>) {
        self.newest = id;
    }

    /// Marks the newest snapshot as suspect, and returns it: the database was damaged.
    pub fn suspect_newest(&mut self) -> Option<SnapshotId> {
        let id = self.newest.take()?;
        self.suspects.retain(|other| *other != id);
        self.suspects.push(id.clone());
        Some(id)
    }

    /// Whether a snapshot of this epoch would have the name of a suspect one.
    pub fn is_suspect_epoch(&self, epoch: Epoch) -> bool {
        self.suspects.iter().any(|id| id.epoch == epoch)
    }

    /// Returns the rank of a suspect snapshot, `None` for others. The last one found ranks highest.
    pub fn suspect_rank(&self, id: &SnapshotId) -> Option<usize> {
        self.suspects.iter().position(|other| other == id)
    }

    /// Records that a snapshot was taken. Returns the suspects: they are no longer needed.
    pub fn replace(&mut self, id: SnapshotId) -> Vec<SnapshotId> {
        self.newest = Some(id);
        std::mem::take(&mut self.suspects)
    }
}
