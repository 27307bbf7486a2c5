//! The figures of a host, as readers get them.

use serde::{Deserialize, Serialize};

use crate::protocol::{Epoch, OperatorName, PartitionId};

/// The upper bounds, in seconds, of the classes by which reads are counted. One more class has the
/// longer reads.
pub const READ_SECONDS: [f64; 12] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0,
];

/// The figures of a host at one moment. Totals are since its start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostMetrics {
    /// The host's id.
    pub host: String,
    /// Open connections.
    pub connections: u64,
    /// Open sessions.
    pub sessions: u64,
    /// The parts of its memory.
    pub memory: Vec<MemoryMetrics>,
    /// Reads of readers.
    pub reads: ReadMetrics,
    /// The partitions of the root whose databases it has open, or will open with a next session.
    pub partitions: Vec<PartitionMetrics>,
}

/// A part of a host's memory, in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryMetrics {
    /// What it is for.
    pub part: String,
    /// How much is in use.
    pub held: u64,
    /// The limit; none: no limit.
    pub limit: Option<u64>,
    /// How many times a session exceeded it and spilled to disk; always 0 for `reads` and
    /// `write_buffers`.
    pub spills: u64,
}

/// Reads of readers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadMetrics {
    /// The number of reads in each class of [`READ_SECONDS`], and in the last class of longer
    /// reads.
    pub by_seconds: Vec<u64>,
    /// The duration of all reads together.
    pub seconds: f64,
    /// How many rows were sent.
    pub rows: u64,
}

/// A partition of an operator on a host. Sizes are in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionMetrics {
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// Whether the figures of its database can be read.
    pub access: DatabaseAccess,
    /// The last epoch in the database.
    pub epoch: Option<Epoch>,
    /// The progress of its restore, if one runs.
    pub restore: Option<RestoreMetrics>,
    /// Staged epochs that are held in memory.
    pub prepared: PreparedMetrics,
    /// The greatest event time, in epoch microseconds.
    pub stream_time: Option<i64>,
    /// Its database.
    pub database: DatabaseFigures,
    /// Rows of the input without a result.
    pub unused_rows: UnusedRows,
    /// Snapshots and restores.
    pub snapshots: SnapshotMetrics,
}

/// Whether the figures of a partition's database can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DatabaseAccess {
    /// Its lock is held, usually by a session that opens or restores it. Only the figures that need
    /// no lock are given.
    Busy,
    /// It is not open: the next session opens it.
    Closed,
    /// It is open.
    Open,
}

/// A database. Sizes are in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DatabaseFigures {
    /// About how many rows it has.
    pub rows: u64,
    /// The mean duration of the last commits, in seconds.
    pub commit_seconds: f64,
    /// The size of its files.
    pub files: u64,
    /// Committed changes that are not in files.
    pub unflushed: u64,
    /// The bytes that compactions have to rewrite.
    pub pending_compaction: u64,
    /// Files that no compaction has sorted yet.
    pub level0_files: u64,
}

/// Staged epochs in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreparedMetrics {
    /// How many there are.
    pub epochs: u64,
    /// The size of their changes, in bytes.
    pub bytes: u64,
}

/// The progress of a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreMetrics {
    /// What is being read.
    pub source: RestoreSource,
    /// How much of it has been read: bytes of a snapshot, epochs of the log.
    pub done: u64,
    /// How much of it there is.
    pub all: u64,
}

/// What a restore reads: first a snapshot, then the log after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RestoreSource {
    /// A snapshot; its amounts are bytes.
    Snapshot,
    /// The log; its amounts are epochs.
    Log,
}

/// Rows of the input that have no result, or a result without a row of the table, since the host's
/// start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusedRows {
    /// Too late.
    pub late: u64,
    /// Before a table's history.
    pub expired: u64,
    /// Without a key or a time.
    pub dropped: u64,
    /// Far in the future.
    pub far_future: u64,
}

/// Snapshots and restores of a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotMetrics {
    /// Whether one is being uploaded.
    pub is_uploading: bool,
    /// The epoch of the newest snapshot that is known.
    pub epoch: Option<Epoch>,
    /// The time since this host last began a snapshot, in seconds; none if it has not.
    pub age_seconds: Option<f64>,
    /// How many attempts of this host have failed since it last took one.
    pub failures: u64,
    /// The size of the newest snapshot that this host has restored or uploaded; 0 if there is none.
    pub bytes: u64,
    /// About how many bytes of changes a restore would read from the log.
    pub log_bytes: u64,
    /// Whether the database was restored from the root.
    pub is_restored: bool,
    /// How many times the database was found damaged or deleted, and rebuilt, since this host last
    /// began to serve the partition.
    pub rebuilds: u64,
}

impl PartitionMetrics {
    /// A partition of which nothing is known.
    pub fn new(operator: OperatorName, partition: PartitionId) -> Self {
        Self {
            operator,
            partition,
            access: DatabaseAccess::Closed,
            epoch: None,
            restore: None,
            prepared: PreparedMetrics::default(),
            stream_time: None,
            database: DatabaseFigures::default(),
            unused_rows: UnusedRows::default(),
            snapshots: SnapshotMetrics::default(),
        }
    }
}
