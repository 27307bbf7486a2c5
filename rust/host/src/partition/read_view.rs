//! A reader's view of a partition on its host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::{Database, Result, Transaction};

use super::epochs::{StagedEpoch, StagedEpochs, StagedSource};
use super::local::position;
use super::state::{PartitionInner, PartitionState};
use super::view_request::ServedEpoch;
use crate::memory::budget::Budget;
use crate::protocol::{Digest, Epoch, IsolationLevel, RunNumber};
use crate::root::{PreviousEpoch, RanSince};

/// How long a reader waits while a session opens its view. If the session restores the partition,
/// it takes longer, and the reader gets no view from this host.
const BUSY: Duration = Duration::from_millis(500);

/// The minimum time between two checks whether Spark has committed an epoch, in an object store.
const ASKED_AGAIN: Duration = Duration::from_millis(500);

/// A view of the newest final epoch of a partition.
pub struct ReadView {
    /// The database.
    pub db: Arc<Database>,
    /// The rows at the epoch, possibly with the staged changes of the next one. The transaction is
    /// never committed.
    pub transaction: Transaction,
    /// The epoch.
    pub epoch: Epoch,
    /// The chain's digest after it.
    pub chain: Digest,
    /// The run of the last session.
    pub run: RunNumber,
    /// Holds the memory of the staged changes of the next epoch.
    _staged: Option<Arc<StagedEpoch>>,
}

impl PartitionState {
    /// Returns a view of the newest final epoch; none if this host has no database of the partition
    /// open, if a session restores it, or if no epoch of the operator is final.
    ///
    /// If Spark has committed the last session's epoch, it is applied first, as the next session
    /// would apply it. `memory`: the budget for the staged changes of the next epoch.
    ///
    /// # Errors
    /// `Restore` and `StateMismatch` if the epoch cannot be applied: the next session fails, too.
    pub fn read_view(
        &self,
        level: IsolationLevel,
        memory: &Arc<Budget>,
    ) -> Result<Option<ReadView>> {
        let unapplied = {
            let Some(mut inner) = self.try_lock_until(Instant::now() + BUSY) else {
                return Ok(None);
            };
            self.unapplied(&mut inner)?
        };
        // Checked without the lock, so that a slow root delays only this reader, and no session.
        let committed = match unapplied {
            Some(unapplied) if self.root.spark.is_committed(unapplied.epoch)? => Some(unapplied),
            _ => None,
        };
        if let Some(unapplied) = &committed {
            self.decide(unapplied)?;
        }
        let Some(mut inner) = self.try_lock_until(Instant::now() + BUSY) else {
            return Ok(None);
        };
        let Some(served) = inner.served.take() else {
            return Ok(None);
        };
        let result = self.final_view(&mut inner, &served, committed.as_ref());
        let staged = Arc::clone(&inner.staged);
        inner.served = Some(served);
        drop(inner);
        match result? {
            Some(view) if level == IsolationLevel::ReadUncommitted => {
                self.with_staged(view, &staged, memory).map(Some)
            }
            view => Ok(view),
        }
    }

    /// The view, with the staged changes of the next epoch.
    fn with_staged(
        &self,
        view: ReadView,
        staged: &StagedEpochs,
        memory: &Arc<Budget>,
    ) -> Result<ReadView> {
        let source = StagedSource {
            root: &self.root,
            operator: &self.operator,
            partition: self.number,
            epoch: view.epoch,
            chain: view.chain,
            memory,
        };
        let (transaction, staged) = staged.view(&source, &view.db, view.transaction)?;
        Ok(ReadView {
            transaction,
            _staged: staged,
            ..view
        })
    }

    /// Returns the epoch of the last session if the database does not have it yet and the reader is
    /// to check whether Spark has committed it. For a root in an object store, readers of a
    /// partition check at most twice a second.
    fn unapplied(&self, inner: &mut PartitionInner) -> Result<Option<UnappliedEpoch>> {
        let is_recent = |asked: &Instant| asked.elapsed() < ASKED_AGAIN;
        if !self.root.is_local() && inner.commit_asked.as_ref().is_some_and(is_recent) {
            return Ok(None);
        }
        let (Some(open), Some(served)) = (&inner.open, &inner.served) else {
            return Ok(None);
        };
        if self.next_epoch(&open.db, served)? != served.epoch {
            return Ok(None);
        }
        let unapplied = UnappliedEpoch {
            run: served.run,
            epoch: served.epoch,
            partitions: served.partitions,
            is_staged: inner.prepared.has_of_run(served.epoch, served.run),
        };
        inner.commit_asked = Some(Instant::now());
        Ok(Some(unapplied))
    }

    /// Reads or makes the decision of a committed epoch. The decision is then in memory.
    fn decide(&self, unapplied: &UnappliedEpoch) -> Result<()> {
        let ran = RanSince {
            operator: self.operator.clone(),
            epoch: unapplied.epoch,
        };
        let previous = PreviousEpoch {
            is_staged: unapplied.is_staged,
            ran: Some(&ran),
        };
        let (run, epoch) = (unapplied.run, unapplied.epoch);
        let decisions = &self.root.decisions;
        let decided = decisions.before_session(run, epoch, unapplied.partitions, previous);
        decided.map(|_| ())
    }

    /// The view of the database's last epoch, after the last session's epoch has been applied if it
    /// is `committed`.
    fn final_view(
        &self,
        inner: &mut PartitionInner,
        served: &ServedEpoch,
        committed: Option<&UnappliedEpoch>,
    ) -> Result<Option<ReadView>> {
        let Some(open) = &inner.open else {
            return Ok(None);
        };
        let db = Arc::clone(&open.db);
        // A session may have opened since, with this epoch or the next one.
        let is_same = |unapplied: &UnappliedEpoch| {
            (unapplied.run, unapplied.epoch) == (served.run, served.epoch)
        };
        if committed.is_some_and(is_same) && self.next_epoch(&db, served)? == served.epoch {
            let next = served.next(&self.operator);
            self.roll_forward(inner, &next, served.epoch, served.epoch)?;
        }
        let Some(epoch) = self.applied(&db)? else {
            // The operator's first epoch is not final.
            return Ok(None);
        };
        Ok(Some(ReadView {
            transaction: db.begin()?,
            epoch,
            chain: position::chain(&db)?,
            run: served.run,
            db,
            _staged: None,
        }))
    }

    /// The epoch after the last one in a database.
    fn next_epoch(&self, db: &Database, served: &ServedEpoch) -> Result<Epoch> {
        Ok(self.applied(db)?.map_or(served.first_epoch, Epoch::next))
    }
}

/// The epoch of the last session, which the database does not have yet.
struct UnappliedEpoch {
    run: RunNumber,
    epoch: Epoch,
    partitions: u32,
    is_staged: bool,
}
