//! A reader's view of a partition on its host.

use std::sync::Arc;
use std::time::Duration;

use holdfast_core::{Database, Result, Transaction};

use super::local::position;
use super::state::{PartitionInner, PartitionState};
use super::view_request::ServedEpoch;
use crate::protocol::{Digest, Epoch, RunNumber};
use crate::root::{PreviousEpoch, RanSince};

/// How long a reader waits for a session that opens its view. A session that restores takes longer,
/// and the reader asks elsewhere.
const BUSY: Duration = Duration::from_millis(500);

/// The newest final epoch of a partition.
pub struct ReadView {
    /// The database.
    pub db: Arc<Database>,
    /// Its rows at the epoch; nothing is written to it.
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
    pub fn read_view(&self) -> Result<Option<ReadView>> {
        let Some(mut inner) = self.inner.try_lock_for(BUSY) else {
            return Ok(None);
        };
        let Some(served) = inner.served.take() else {
            return Ok(None);
        };
        let result = self.final_view(&mut inner, &served);
        inner.served = Some(served);
        result
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
        let Some(applied) = self.applied(&db)? else {
            // The operator's first epoch is not final.
            if served.epoch == served.first_epoch && self.root.spark.is_committed(served.epoch)? {
                self.apply_served(inner, served)?;
                return self.final_view(inner, served);
            }
            return Ok(None);
        };
        if applied.next() == served.epoch && self.root.spark.is_committed(served.epoch)? {
            self.apply_served(inner, served)?;
        }
        Ok(Some(ReadView {
            transaction: db.begin()?,
            epoch: self.applied(&db)?.unwrap_or(applied),
            chain: position::chain(&db)?,
            run: served.run,
            db,
        }))
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
