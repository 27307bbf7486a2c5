//! What a session asks of its partition.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::{DatabaseOptions, StoreSpec};

use crate::executor::Executor;
use crate::memory::budget::Budget;
use crate::protocol::{Epoch, RunNumber};

/// A session's request for a view of its partition's state.
pub struct ViewRequest<'a> {
    /// The session's run.
    pub run: RunNumber,
    /// The session's epoch.
    pub epoch: Epoch,
    /// The batch timestamp in the task's plan, in epoch milliseconds; none if the plan does not
    /// carry it.
    pub planned_at: Option<i64>,
    /// The epoch in which the operator first took part.
    pub first_epoch: Epoch,
    /// How many partitions the state has.
    pub partitions: u32,
    /// The operator's stores.
    pub stores: &'a [StoreSpec],
    /// The options of its database.
    pub options: &'a DatabaseOptions,
    /// The executor that this host belongs to.
    pub executor: Option<&'a Executor>,
    /// When snapshots are taken.
    pub snapshots: SnapshotPolicy,
    /// The budget of what is staged and not committed.
    pub memory: &'a Arc<Budget>,
}

/// When snapshots are taken, and how much log is retained.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPolicy {
    /// The minimum time between two snapshots.
    pub interval: Duration,
    /// How many epochs of the log are retained at least, whatever snapshots exist.
    pub retain_epochs: i64,
}
