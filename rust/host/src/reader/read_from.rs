//! What a read asks for, and what it gets.

use std::time::Duration;

use arrow_array::RecordBatch;

use crate::protocol::Epoch;

/// Which state a read is of. By default the newest final epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFrom {
    /// Exactly this epoch.
    pub exactly: Option<Epoch>,
    /// This epoch or a newer one.
    pub at_least: Option<Epoch>,
    /// How long to wait for `at_least`, or for a host.
    pub timeout: Duration,
    /// Whether copies of the partitions are read.
    pub offline: Offline,
}

/// Whether a read uses copies that the reader makes from snapshots and log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Offline {
    /// If no state host answers.
    #[default]
    Auto,
    /// No: hosts answer, or the read fails.
    Never,
    /// Always: hosts are not asked.
    Only,
}

/// Rows of a read, with the epoch that they are of.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsAtEpoch {
    /// The rows.
    pub rows: RecordBatch,
    /// The epoch.
    pub epoch: Epoch,
}
