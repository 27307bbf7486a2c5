//! How far a state has come, as its root shows it: what a database that is gone would have told.

use holdfast_core::Result;

use super::Root;
use crate::protocol::{Epoch, OperatorName, PartitionId, RunNumber};

/// What a root shows of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The last epoch that was committed, if it is a later one than was asked about.
    pub beyond: Option<Epoch>,
    /// The newest snapshot of an epoch before that.
    pub snapshot: Option<Epoch>,
}

impl Root {
    /// How far a partition has come, as log and snapshots show it, for a session of `epoch` in the
    /// run `run`. What `holdfast rewind` took back does not count.
    ///
    /// # Errors
    /// `Restore` for a mark of `holdfast rewind` that cannot be read, `Io` for what the disk
    /// refuses.
    pub fn reached(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        run: RunNumber,
        epoch: Epoch,
    ) -> Result<Reached> {
        let mut beyond = None;
        // A session opens when the epoch before is committed, and what is staged twice as far on
        // has outlived a power cut, too.
        if self
            .newest_log(run)?
            .is_some_and(|newest| newest > epoch.next())
        {
            beyond = self.newest_staged(epoch.next())?.and_then(Epoch::previous);
        }
        let snapshots = self.snapshots(operator, partition)?;
        for id in snapshots.iter().filter(|id| id.epoch > epoch) {
            // A host that lived on may have put it after the state was taken back.
            if beyond < Some(id.epoch) && !self.was_taken_back(id.epoch)? {
                beyond = Some(id.epoch);
            }
        }
        Ok(Reached {
            beyond,
            snapshot: snapshots
                .iter()
                .map(|id| id.epoch)
                .find(|found| *found < epoch),
        })
    }

    /// The newest epoch that the log has a folder of, looked for once a run: that is as much as a
    /// restored checkpoint needs.
    fn newest_log(&self, run: RunNumber) -> Result<Option<Epoch>> {
        let mut logged = self.logged.lock();
        match *logged {
            Some((of_run, newest)) if of_run == run => Ok(newest),
            _ => {
                let newest = self.epochs()?.into_iter().max();
                *logged = Some((run, newest));
                Ok(newest)
            }
        }
    }

    /// The newest epoch after this one that has objects.
    fn newest_staged(&self, after: Epoch) -> Result<Option<Epoch>> {
        let (mut epochs, rewinds) = (self.epochs()?, self.rewinds()?);
        epochs.retain(|epoch| *epoch > after);
        epochs.sort_unstable();
        for epoch in epochs.into_iter().rev() {
            if self
                .objects(None, epoch)?
                .iter()
                .any(|object| !rewinds.have_taken(object.run, epoch))
            {
                return Ok(Some(epoch));
            }
        }
        Ok(None)
    }
}
