//! `holdfast rewind`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use holdfast_core::{Error, ErrorKind, Result};

use super::removal::{Removal, RemovedObjects};
use crate::protocol::{Epoch, EpochDecision, ObjectId, PartitionId, RunNumber, Violation};
use crate::root::epoch_decisions::DecisionAsker;
use crate::root::names;
use crate::root::state_root::Root;

impl Root {
    /// Takes the state and Spark's checkpoint back to where `epoch` is computed next.
    ///
    /// Spark's offsets of that epoch stay, so it has the same rows as before. Before anything is
    /// changed, the command checks that the state before `epoch` can be restored from snapshots and
    /// log.
    ///
    /// # Errors
    /// `Restore` if snapshots and log do not reach back as far; `InvalidState` if Spark's
    /// checkpoint does not; those of
    /// [`RootIdentity::query`](crate::root::RootIdentity::query); `Io`.
    pub fn rewind(&self, epoch: Epoch) -> Result<RemovedObjects> {
        let (query, partitions) = self.identity.query()?;
        if let Some(previous) = epoch.previous() {
            if !self.spark.is_committed(previous)? {
                let text = format!(
                    "Spark's commit log does not hold epoch {previous} \
                     (query/commits/{previous}), so the query cannot continue with epoch {epoch}: \
                     give an epoch that the query has reached and its checkpoint still holds"
                );
                return Err(Error::new(ErrorKind::InvalidState, text).path(self.path()));
            }
            self.check_restorable(previous, partitions)?;
        }
        let run = self.claim_by_hand("holdfast rewind", &query, epoch)?;
        if let Some(previous) = epoch.previous() {
            // Checked again: a host that was still running may have removed snapshots and log
            // meanwhile. From now on it is fenced.
            self.check_restorable(previous, partitions)?;
        }
        self.log.marks().put(run, epoch)?;
        let mut removal = Removal::new(&self.objects, run);
        // Spark's files first, each folder from its newest file on: a command that is interrupted
        // leaves a consistent checkpoint.
        for name in self.spark.commits_since(epoch)? {
            removal.object(&name)?;
        }
        for name in self.spark.offsets_since(epoch.next())? {
            removal.object(&name)?;
        }
        for operator in self.operators.names()? {
            for number in 0..partitions {
                let partition = PartitionId(number.cast_signed());
                for id in self.snapshots.list(&operator, partition)? {
                    if id.epoch >= epoch {
                        removal.object(&names::snapshot(&id))?;
                    }
                }
            }
        }
        removal.operators(&self.operators.begun_since(epoch)?)?;
        for later in self
            .log
            .epochs()?
            .into_iter()
            .filter(|later| *later >= epoch)
        {
            removal.epoch(later)?;
        }
        removal.far_future(&self.far_future, |other| other >= epoch)?;
        Ok(removal.finish())
    }

    pub(super) fn claim_by_hand(
        &self,
        command: &str,
        query_id: &str,
        first_epoch: Epoch,
    ) -> Result<RunNumber> {
        let random = RandomState::new().build_hasher().finish();
        self.runs
            .claim_by_hand(command, random, query_id, first_epoch)
    }

    /// Checks that the state after `epoch` can be restored from snapshots and log.
    fn check_restorable(&self, epoch: Epoch, partitions: u32) -> Result<()> {
        let cannot = |why: String| {
            let text = format!(
                "the state cannot be taken back to where epoch {} is next: {why}",
                epoch.next()
            );
            Error::new(ErrorKind::Restore, text).path(self.path())
        };
        if self.log.files_in_force(epoch)?.is_empty()
            && self.log.epochs()?.iter().all(|other| *other > epoch)
        {
            return Err(cannot(format!(
                "the log of epoch {epoch} was removed, as all epochs before the retained \
                 snapshots are. Give a later epoch, or restore the root from a backup"
            )));
        }
        let decided = |at: Epoch| {
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
            let mut from = epoch;
            for number in 0..partitions {
                let snapshots = self
                    .snapshots
                    .list(operator, PartitionId(number.cast_signed()))?;
                let newest = snapshots.into_iter().find(|id| id.epoch <= epoch);
                from =
                    from.min(newest.map_or(self.operators.first_epoch(operator)?, |id| id.epoch));
            }
            while from <= epoch {
                decided(from)?;
                from = from.next();
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use holdfast_core::ProcessingGuarantee::ExactlyOnce;
    use object_store::ObjectStore;

    use super::*;
    use crate::log::HeadHeader;
    use crate::protocol::{Attempt, Claim, Counts, Digest, OperatorName};
    use crate::root::rewind_marks::RewindMark;
    use crate::root::testing::{ConcurrentChange, Fault, FaultyStore};
    use crate::root::{KnownDigests, SnapshotId};

    /// Puts an object of epoch 6 as the first run, while the state is taken back to `epoch`;
    /// returns whether the object stays.
    fn stays(epoch: i64, name: &str, put: impl Fn(&Root, RunNumber) -> Error) -> bool {
        let store = Arc::new(FaultyStore::new(Fault::None));
        let root = Root::over(
            Arc::clone(&store) as Arc<dyn ObjectStore>,
            Path::new("memory"),
        );
        let run = root.runs.claim("q", "a", Epoch(0)).expect("claims");
        let (number, first_epoch) = (run.next(), Epoch(epoch));
        let claim = Claim {
            number,
            run_id: "holdfast rewind".to_owned(),
            first_epoch,
            query_id: "q".to_owned(),
        };
        let json = |value: serde_json::Result<Vec<u8>>| value.expect("is JSON");
        let claim = ConcurrentChange::Puts(names::claim(number), json(serde_json::to_vec(&claim)));
        let mark = ConcurrentChange::Puts(
            names::rewind(number),
            json(serde_json::to_vec(&RewindMark { epoch: first_epoch })),
        );
        store.before(name, vec![claim, mark]);
        assert_eq!(put(&root, run).kind(), ErrorKind::Fenced);
        root.objects.exists(name).expect("exists or not")
    }

    #[test]
    fn an_object_put_while_its_epoch_is_taken_back_does_not_stay() {
        let (operator, partition, epoch) = (
            OperatorName::new("join").expect("a name"),
            PartitionId(0),
            Epoch(6),
        );
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("CURRENT"), "a database").expect("writes");
        let id = SnapshotId {
            operator: operator.clone(),
            partition,
            epoch,
            chain: Digest::ZERO,
        };
        let snapshot = |root: &Root, run| {
            root.snapshots
                .put(&id, run, folder.path(), &mut KnownDigests::new())
                .expect_err("fenced")
        };
        let header = |run| HeadHeader {
            operator: operator.clone(),
            epoch,
            partition,
            run,
            attempt: Attempt(0),
            base: Digest::ZERO,
            digest: Digest::ZERO,
            input: Digest::ZERO,
            offsets: Digest::ZERO,
            planned_at: None,
            idle_since: None,
            sources_idle_since: None,
            counts: Counts::default(),
            stream_times: BTreeMap::new(),
            records: 0,
            chunks: Vec::new(),
        };
        let head = |root: &Root, run| {
            root.stage(&header(run), &[], 1, ExactlyOnce)
                .expect_err("fenced")
        };
        let head_name = names::head(epoch, &header(RunNumber(1)).id());
        for (epoch, stays_there) in [(3, false), (6, false), (7, true)] {
            assert_eq!(
                stays(epoch, &names::snapshot(&id), snapshot),
                stays_there,
                "snapshot, {epoch}"
            );
            assert_eq!(stays(epoch, &head_name, head), stays_there, "head, {epoch}");
        }
    }
}
