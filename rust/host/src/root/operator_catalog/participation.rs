//! The epochs in which an operator took part.

use holdfast_core::Result;

use super::catalog::OperatorCatalog;
use crate::protocol::{self, Epoch, ObjectId, OperatorName, RunNumber};

impl OperatorCatalog {
    /// Returns whether an operator took part in any epoch from `first` on; `epoch` is being
    /// computed.
    ///
    /// False only if the log proves it; true if the log was trimmed or lost. Epochs that a rewind
    /// took back do not count. An interrupted rewind, or a host that registers late, may leave an
    /// operator that begins after `epoch`. If that operator stayed, the state would skip epochs.
    pub(super) fn took_part(
        &self,
        name: &OperatorName,
        first: Epoch,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<bool> {
        let objects = self.log.files_in_force(first)?.heads;
        if first >= epoch {
            return Ok(has_object(&objects, name, None)
                || self.log.has_later(epoch, |other| other == name)?
                || self.has_snapshot_since(name, epoch)?);
        }
        let whole = protocol::highest_whole(&objects, partitions).whole_run();
        Ok(whole.is_none()
            || has_object(&objects, name, whole)
            || self.log.has_later(first, |other| other == name)?
            || !self.snapshots.list_all(name)?.is_empty())
    }

    /// Whether a snapshot of this epoch or a later one exists that no rewind took back.
    fn has_snapshot_since(&self, name: &OperatorName, epoch: Epoch) -> Result<bool> {
        for id in self.snapshots.list_all(name)? {
            if id.epoch >= epoch && !self.log.was_taken_back(id.epoch)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns an epoch before `end` in which an operator took part; none if the root shows none.
    pub(super) fn last_part(
        &self,
        name: &OperatorName,
        end: Epoch,
        partitions: u32,
    ) -> Result<Option<Epoch>> {
        if end.previous().is_none() {
            return Ok(None);
        }
        let snapshots = self.snapshots.list_all(name)?;
        let of_snapshots = snapshots.iter().map(|id| id.epoch);
        if let Some(epoch) = of_snapshots.filter(|epoch| *epoch < end).max() {
            return Ok(Some(epoch));
        }
        let rewinds = self.log.marks().read()?;
        let mut epochs = self.log.epochs()?;
        epochs.retain(|epoch| *epoch < end);
        epochs.sort_unstable();
        for epoch in epochs.into_iter().rev() {
            let objects = self.log.files_after(epoch, &rewinds)?.heads;
            let whole = protocol::highest_whole(&objects, partitions).whole_run();
            if has_object(&objects, name, whole) {
                return Ok(Some(epoch));
            }
        }
        Ok(None)
    }
}

/// Whether an operator has an object among these, of one run or of any.
fn has_object(objects: &[ObjectId], operator: &OperatorName, run: Option<RunNumber>) -> bool {
    objects
        .iter()
        .any(|object| object.operator == *operator && run.is_none_or(|run| run == object.run))
}
