//! A reader's view of a partition on its host.

use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::{Database, Result, Transaction};

use super::epochs::stage_next;
use super::local::position;
use super::state::{PartitionInner, PartitionState};
use super::view_request::ServedEpoch;
use crate::protocol::{Digest, Epoch, IsolationLevel, RunNumber};
use crate::root::{PreviousEpoch, RanSince};

/// How long a reader waits for a session that opens its view. A session that restores takes longer,
/// and the reader asks elsewhere.
const BUSY: Duration = Duration::from_millis(500);

/// How often an object store is asked whether Spark has committed an epoch.
const ASKED_AGAIN: Duration = Duration::from_millis(500);

/// The newest final epoch of a partition.
pub struct ReadView {
    /// The database.
    pub db: Arc<Database>,
    /// Its rows at the epoch, possibly with those that are staged of the next one. It is never
    /// committed.
    pub transaction: Transaction,
    /// The epoch.
    pub epoch: Epoch,
    /// The chain's digest after it.
    pub chain: Digest,
    /// The run of the last session.
    pub run: RunNumber,
}

impl PartitionState {
    /// Returns a view of the newest final epoch; none if this host has no database of the partition
    /// open, or if a session restores it.
    ///
    /// If Spark has committed the last session's epoch, it is applied first, as the next session
    /// would.
    ///
    /// # Errors
    /// `Restore` and `StateMismatch` if the epoch cannot be applied: the next session fails, too.
    pub fn read_view(&self, level: IsolationLevel) -> Result<Option<ReadView>> {
        let Some(mut inner) = self.inner.try_lock_for(BUSY) else {
            return Ok(None);
        };
        let Some(served) = inner.served.take() else {
            return Ok(None);
        };
        let result = self.final_view(&mut inner, &served);
        inner.served = Some(served);
        drop(inner);
        let mut view = result?;
        if let Some(view) = &mut view
            && level == IsolationLevel::ReadUncommitted
        {
            stage_next(
                &self.root,
                (&self.operator, self.number),
                (view.epoch, view.chain),
                &view.db,
                &mut view.transaction,
            )?;
        }
        Ok(view)
    }

    fn final_view(
        &self,
        inner: &mut PartitionInner,
        served: &ServedEpoch,
    ) -> Result<Option<ReadView>> {
        let Some(open) = &inner.open else {
            return Ok(None);
        };
        let db = Arc::clone(&open.db);
        let next = self.applied(&db)?.map_or(served.first_epoch, Epoch::next);
        if next == served.epoch && self.is_committed(inner, served.epoch)? {
            self.apply_served(inner, served)?;
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
        }))
    }

    /// Whether Spark has committed an epoch; in an object store it is asked twice a second.
    fn is_committed(&self, inner: &mut PartitionInner, epoch: Epoch) -> Result<bool> {
        let is_recent = |asked: &Instant| asked.elapsed() < ASKED_AGAIN;
        if !self.root.is_local() && inner.commit_asked.as_ref().is_some_and(is_recent) {
            return Ok(false);
        }
        inner.commit_asked = Some(Instant::now());
        self.root.spark.is_committed(epoch)
    }

    fn apply_served(&self, inner: &mut PartitionInner, served: &ServedEpoch) -> Result<()> {
        let ran = RanSince {
            operator: self.operator.clone(),
            epoch: served.epoch,
        };
        let previous = PreviousEpoch {
            is_staged: inner.prepared.has_of_run(served.epoch, served.run),
            ran: Some(&ran),
        };
        self.root.decisions.before_session(
            served.run,
            served.epoch,
            served.partitions,
            previous,
        )?;
        self.roll_forward(inner, &served.next(), served.epoch, served.epoch)
    }
}
