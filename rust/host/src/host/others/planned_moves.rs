//! The partitions that a host takes over from live hosts, one after the other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::host::open_partitions::PartitionKey;
use crate::host::request::Request;
use crate::protocol::{Epoch, Owner, RunNumber};
use crate::root::Root;

/// The number of epochs after which a move that failed is tried again.
const RETRY_EPOCHS: i64 = 10;

/// A partition that this host restores, and then takes over.
pub struct PlannedMove {
    /// The partition.
    pub key: PartitionKey,
    /// The request of a session that was sent to the owner.
    pub request: Request,
    /// The session's root.
    pub root: Arc<Root>,
    /// The session's run.
    pub run: RunNumber,
    /// The owner that serves the partition now.
    pub owner: Owner,
}

/// The planned moves of a host.
#[derive(Default)]
pub struct PlannedMoves(Mutex<Moves>);

#[derive(Default)]
struct Moves {
    waiting: VecDeque<PlannedMove>,
    /// The moves that wait, and the one that is being made.
    planned: HashSet<PartitionKey>,
    /// The epochs in which moves failed.
    failed: HashMap<PartitionKey, Epoch>,
    is_running: bool,
}

impl PlannedMoves {
    /// Whether a move of a partition to this host is planned or being made.
    pub fn is_planned(&self, key: &PartitionKey) -> bool {
        self.0.lock().planned.contains(key)
    }

    /// Adds a move, unless it is planned or failed in a recent epoch. Returns whether the caller
    /// must start the thread that makes the moves.
    pub fn add(&self, planned: PlannedMove, epoch: Epoch) -> bool {
        let mut moves = self.0.lock();
        let failed = moves.failed.get(&planned.key);
        let is_too_early = failed.is_some_and(|at| epoch.0 < at.0.saturating_add(RETRY_EPOCHS));
        if is_too_early || !moves.planned.insert(planned.key.clone()) {
            return false;
        }
        moves.waiting.push_back(planned);
        !std::mem::replace(&mut moves.is_running, true)
    }

    /// Returns the next move; `None` ends the thread.
    pub fn next(&self) -> Option<PlannedMove> {
        let mut moves = self.0.lock();
        let next = moves.waiting.pop_front();
        moves.is_running = next.is_some();
        next
    }

    /// Notes that a move has ended. `failed`: the epoch in which it failed.
    pub fn end(&self, key: &PartitionKey, failed: Option<Epoch>) {
        let mut moves = self.0.lock();
        moves.planned.remove(key);
        match failed {
            Some(epoch) => moves.failed.insert(key.clone(), epoch),
            None => moves.failed.remove(key),
        };
    }

    /// Returns a guard for the thread that makes the moves. With it, later moves get another thread
    /// if this one panics.
    pub fn guard(&self) -> MovesGuard<'_> {
        MovesGuard(self)
    }

    /// Drops all moves that wait: no thread makes them.
    pub fn drop_all(&self) {
        let mut moves = self.0.lock();
        moves.waiting.clear();
        moves.planned.clear();
        moves.is_running = false;
    }
}

/// Drops all moves if the thread that makes them panics.
pub struct MovesGuard<'a>(&'a PlannedMoves);

impl Drop for MovesGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.drop_all();
        }
    }
}
