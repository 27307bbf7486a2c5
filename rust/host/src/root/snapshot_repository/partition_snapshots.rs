//! The snapshots of a partition, and the marks of those that a host removes.

use std::cmp::Reverse;

use crate::protocol::{Digest, Epoch, OperatorName, PartitionId, Term};
use crate::root::names::{self, SnapshotId};

/// The snapshots of a partition.
#[derive(Clone, Debug, Default)]
pub struct PartitionSnapshots {
    /// All of them, newest first.
    all: Vec<SnapshotId>,
    /// The snapshots that a host removes or has removed.
    marked: Vec<SnapshotId>,
}

impl PartitionSnapshots {
    /// Parses the names of the files in the partition's folder.
    pub fn parse(operator: &OperatorName, partition: PartitionId, files: &[String]) -> Self {
        let id = |(epoch, chain, term): (Epoch, Digest, Term)| SnapshotId {
            operator: operator.clone(),
            partition,
            epoch,
            chain,
            term,
        };
        let files = || files.iter().map(String::as_str);
        let mut all: Vec<_> = files().filter_map(names::parse_snapshot).map(id).collect();
        all.sort_by_key(|id| Reverse((id.epoch, id.term)));
        let marked = files().filter_map(names::parse_snapshot_removal).map(id);
        Self {
            all,
            marked: marked.collect(),
        }
    }

    /// Returns all snapshots, newest first.
    pub fn into_all(self) -> Vec<SnapshotId> {
        self.all
    }

    /// Returns all snapshots, newest first.
    pub fn all(&self) -> &[SnapshotId] {
        &self.all
    }

    /// Returns the marked snapshots. Some may already be removed.
    pub fn marked(&self) -> &[SnapshotId] {
        &self.marked
    }

    /// Returns whether a snapshot is marked.
    pub fn is_marked(&self, id: &SnapshotId) -> bool {
        self.marked.contains(id)
    }

    /// Returns the lasting snapshots (those without a mark) up to an epoch, newest first.
    pub fn lasting(&self, until: Epoch) -> impl Iterator<Item = &SnapshotId> {
        self.all
            .iter()
            .filter(move |id| id.epoch <= until && !self.is_marked(id))
    }

    /// Returns the oldest epoch of the `retained` newest lasting snapshots up to an epoch; none if
    /// there are fewer.
    ///
    /// Snapshots of the same epoch, by two owners, count once.
    pub fn oldest_retained(&self, retained: usize, until: Epoch) -> Option<Epoch> {
        let mut epochs: Vec<_> = self.lasting(until).map(|id| id.epoch).collect();
        epochs.dedup();
        epochs.get(retained.saturating_sub(1)).copied()
    }
}
