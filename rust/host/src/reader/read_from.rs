//! Which state a read asks for, and which one its rows are of.

use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use holdfast_core::{Error, ErrorKind, Result};

use crate::protocol::{Epoch, IsolationLevel};

/// Which state a read is of. By default the newest final epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReadFrom {
    /// Exactly this epoch.
    pub exactly: Option<Epoch>,
    /// This epoch or a newer one.
    pub at_least: Option<Epoch>,
    /// How long to wait for `at_least`, for a host, or for room for a copy.
    pub timeout: Duration,
    /// Whether copies of the partitions are read.
    pub offline: Offline,
    /// Whether staged changes of the next epoch are read; none: as the query's `State` says.
    pub isolation_level: Option<IsolationLevel>,
    /// Whether the reader's copies may be read at the epoch that they have, if no state host
    /// answers.
    pub stale_ok: bool,
}

impl ReadFrom {
    /// The isolation level of the read; `default` is that of reads that name none.
    ///
    /// # Errors
    /// `InvalidValue` for `READ_UNCOMMITTED` at an exact epoch: only the epoch after the newest
    /// final one may be staged.
    pub fn isolation_level(&self, default: IsolationLevel) -> Result<IsolationLevel> {
        match (self.exactly, self.isolation_level) {
            (Some(_), Some(IsolationLevel::ReadUncommitted)) => Err(Error::new(
                ErrorKind::InvalidValue,
                "READ_UNCOMMITTED reads the newest epochs only: leave epoch out",
            )),
            (Some(_), _) => Ok(IsolationLevel::ReadCommitted),
            (None, level) => Ok(level.unwrap_or(default)),
        }
    }
}

/// Whether a read uses copies that the reader makes from snapshots and log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Offline {
    /// If no state host answers.
    #[default]
    Auto,
    /// No: hosts answer, or the read fails.
    Never,
    /// Always: hosts are not asked.
    Only,
}

/// Which state an answer is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerState {
    /// The final epoch, the same one in all partitions.
    pub epoch: Epoch,
    /// Whether the rows contain staged changes of the next epoch.
    pub isolation_level: IsolationLevel,
    /// How many final epochs are newer, if the read allows this ([`ReadFrom::stale_ok`]); else 0.
    pub behind: u64,
}

impl AnswerState {
    /// The state after a final epoch, without changes of the next one.
    pub fn of_final(epoch: Epoch) -> Self {
        Self {
            epoch,
            isolation_level: IsolationLevel::ReadCommitted,
            behind: 0,
        }
    }
}

/// Rows of a read, and the state that they are of.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsAtEpoch {
    /// The columns of all batches.
    pub schema: SchemaRef,
    /// The rows, in order.
    pub batches: Vec<RecordBatch>,
    /// Which state they are of.
    pub state: AnswerState,
}
