//! Checks that snapshots and log suffice for a rewind.

use holdfast_core::{Error, ErrorKind, Result};

use crate::protocol::{
    Epoch, EpochDecision, ObjectId, OperatorName, PartitionId, RunNumber, Violation,
};
use crate::root::epoch_decisions::DecisionAsker;
use crate::root::names::{self, SnapshotId};
use crate::root::state_root::Root;

/// Where the restore of an operator begins.
struct RestoreStart {
    /// The oldest epoch at which the restore of a partition begins: the epoch of its newest
    /// snapshot, or the operator's first epoch.
    epoch: Epoch,
    /// A snapshot of a later epoch that is not used, because a host removes it.
    marked: Option<SnapshotId>,
}

impl Root {
    /// Checks that the state after `epoch` can be restored from snapshots and log.
    ///
    /// Objects that a host has marked for removal do not count: the host may have stalled, and may
    /// remove them later. Epochs that have no decision yet are decided.
    pub(super) fn check_restorable(&self, epoch: Epoch, partitions: u32) -> Result<()> {
        let cannot = |why: String| {
            let text = format!(
                "the state cannot be rewound to epoch {}: {why}",
                epoch.next()
            );
            Error::new(ErrorKind::Restore, text).path(self.path())
        };
        if self.log.files_in_force(epoch)?.is_empty()
            && self.log.epochs()?.iter().all(|other| *other > epoch)
        {
            if self.begins_after(epoch)? {
                return Ok(());
            }
            return Err(cannot(format!(
                "the log of epoch {epoch} was removed, as all epochs before the retained \
                 snapshots are. Give a later epoch, or restore the root from a backup"
            )));
        }
        let being_removed = |what: String, mark: &str| {
            cannot(format!(
                "{what} is being removed by a host. Give a later epoch. If the host ended before \
                 it was done, and no host of the query is left (not even a suspended one), delete \
                 {} and repeat the command",
                self.objects.place(mark).display()
            ))
        };
        let (trims, rewinds) = (self.log.trims()?, self.log.marks().read()?);
        let decided = |at: Epoch| {
            if let Some((before, run)) = trims.find(at, rewinds.newest_of(at)) {
                let what = format!("the log of epoch {at}");
                return Err(being_removed(what, &names::trim(before, run)));
            }
            self.decisions
                .read_or_decide(DecisionAsker::default(), at, partitions)
                .and_then(|decision| self.check_objects(&decision).map(|()| decision))
                .map_err(|error| cannot(error.to_string()))
        };
        let last = decided(epoch)?;
        for operator in &self.operators.names()? {
            // An operator that was not in the query at that epoch is not restored.
            if !last.operators.contains_key(operator) {
                continue;
            }
            let start = self.restore_start(operator, epoch, partitions)?;
            let mut from = start.epoch;
            while from <= epoch {
                decided(from).map_err(|error| match &start.marked {
                    Some(id) => {
                        let (at, number) = (id.epoch, id.partition);
                        let what = format!(
                            "the snapshot of epoch {at} of {operator}, partition {number},"
                        );
                        being_removed(what, &names::snapshot_removal(id))
                    }
                    None => error,
                })?;
                from = from.next();
            }
        }
        Ok(())
    }

    /// Returns whether no operator had state at the end of this epoch, so that nothing has to be
    /// restored.
    fn begins_after(&self, epoch: Epoch) -> Result<bool> {
        let operators = self.operators.names()?;
        for operator in &operators {
            if self.operators.first_epoch(operator)? <= epoch {
                return Ok(false);
            }
        }
        // An interrupted rewind may have removed operators with earlier epochs.
        let rewind = self.log.marks().read()?.newest_of(epoch);
        Ok(!operators.is_empty() && rewind == RunNumber(0))
    }

    fn restore_start(
        &self,
        operator: &OperatorName,
        epoch: Epoch,
        partitions: u32,
    ) -> Result<RestoreStart> {
        let mut start = RestoreStart {
            epoch,
            marked: None,
        };
        for partition in (0..partitions.cast_signed()).map(PartitionId) {
            let found = self.snapshots.of_partition(operator, partition)?;
            let newest = found.lasting(epoch).next().map(|id| id.epoch);
            let marked = found.all().iter().find(|id| id.epoch <= epoch);
            if marked.map(|id| id.epoch) > newest {
                start.marked = marked.cloned();
            }
            let first = newest.map_or_else(|| self.operators.first_epoch(operator), Ok)?;
            start.epoch = start.epoch.min(first);
        }
        Ok(start)
    }

    /// Checks that all objects of a decided epoch exist.
    fn check_objects(&self, decision: &EpochDecision) -> Result<()> {
        let (epoch, Some(run)) = (decision.epoch, decision.run) else {
            return Ok(());
        };
        let present = self.log.list(None, epoch)?;
        for (operator, partitions) in &decision.operators {
            for partition in (0..).map(PartitionId).take(partitions.len()) {
                let object = ObjectId {
                    operator: operator.clone(),
                    partition,
                    run,
                };
                if !present.contains(&object) {
                    return Err(self.violation(Violation::ObjectMissing { object, epoch }));
                }
            }
        }
        Ok(())
    }
}
