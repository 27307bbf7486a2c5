//! A session's request to its partition.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::{DatabaseOptions, StoreSpec};

use crate::executor::Executor;
use crate::memory::budget::Budget;
use crate::protocol::{Epoch, OperatorName, RunNumber};
use crate::root::RanSince;

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
    /// An operator of the query that ran before this epoch, as far as the host knows.
    pub ran: Option<RanSince>,
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
    /// When its database is flushed.
    pub flushes: FlushPolicy,
    /// The budget of changes that are staged and not committed.
    pub memory: &'a Arc<Budget>,
}

/// When a database is flushed.
///
/// After a host is killed, the next host need not replay what is in the database's files.
#[derive(Clone, Copy, Debug)]
pub struct FlushPolicy {
    /// A flush is due when the last one is this long ago.
    pub interval: Duration,
    /// A flush is due when more committed bytes than this are not in files.
    pub bytes: u64,
}

impl FlushPolicy {
    /// Never.
    #[cfg(test)]
    pub const NEVER: Self = Self {
        interval: Duration::MAX,
        bytes: u64::MAX,
    };

    /// Returns whether a flush is due.
    pub fn is_due(&self, unflushed_bytes: u64, since_last: Duration) -> bool {
        unflushed_bytes > self.bytes || since_last >= self.interval
    }
}

/// When snapshots are taken, and how much log is retained.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotPolicy {
    /// The time after which the next snapshot is due. It may be due earlier, for example if much
    /// has changed.
    pub interval: Duration,
    /// The minimum number of retained epochs of the log, regardless of snapshots.
    pub retain_epochs: i64,
    /// How many epochs a named follower may be behind before the log is removed without regard to
    /// it.
    pub max_follower_lag: i64,
}

/// The request of a partition's last session. A reader may apply the session's epoch once the epoch
/// is final.
pub struct ServedEpoch {
    /// The session's run.
    pub run: RunNumber,
    /// Its epoch.
    pub epoch: Epoch,
    /// The epoch in which the operator first took part.
    pub first_epoch: Epoch,
    /// How many partitions the state has.
    pub partitions: u32,
    stores: Vec<StoreSpec>,
    options: DatabaseOptions,
    snapshots: SnapshotPolicy,
    flushes: FlushPolicy,
    memory: Arc<Budget>,
}

impl ServedEpoch {
    /// Returns the epoch of a session that has opened its view.
    pub fn of(request: &ViewRequest<'_>) -> Self {
        Self {
            run: request.run,
            epoch: request.epoch,
            first_epoch: request.first_epoch,
            partitions: request.partitions,
            stores: request.stores.to_vec(),
            options: request.options.clone(),
            snapshots: request.snapshots,
            flushes: request.flushes,
            memory: Arc::clone(request.memory),
        }
    }

    /// Returns the request of the next epoch's session of the operator.
    pub fn next(&self, operator: &OperatorName) -> ViewRequest<'_> {
        ViewRequest {
            run: self.run,
            epoch: self.epoch.next(),
            planned_at: None,
            first_epoch: self.first_epoch,
            ran: Some(RanSince {
                operator: operator.clone(),
                epoch: self.epoch,
            }),
            partitions: self.partitions,
            stores: &self.stores,
            options: &self.options,
            executor: None,
            snapshots: self.snapshots,
            flushes: self.flushes,
            memory: &self.memory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_is_due_above_its_bytes_or_at_its_age() {
        let policy = FlushPolicy {
            interval: Duration::from_secs(30),
            bytes: 100,
        };
        let age = Duration::from_secs;
        assert!(!policy.is_due(100, age(29)));
        assert!(policy.is_due(101, age(0)));
        assert!(policy.is_due(0, age(30)));
        assert!(!FlushPolicy::NEVER.is_due(u64::MAX, age(1 << 40)));
    }
}
