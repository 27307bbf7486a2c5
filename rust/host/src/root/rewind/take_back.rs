//! `holdfast rewind`.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use holdfast_core::{Error, ErrorKind, Result};

use super::removal::{Removal, RemovedObjects};
use super::spark_state::state_since;
use crate::protocol::{Epoch, PartitionId, RunNumber};
use crate::root::names;
use crate::root::state_root::Root;

impl Root {
    /// Takes the state and Spark's checkpoint back to where `epoch` is computed next.
    ///
    /// Spark's offsets of that epoch stay, so it has the same rows as before. Before anything is
    /// removed, the command checks that the state before `epoch` can be restored from snapshots and
    /// log.
    ///
    /// # Errors
    /// `Restore` if snapshots and log do not reach back that far; `InvalidState` if Spark's
    /// checkpoint does not, or a query runs or starts meanwhile; those of
    /// [`RootIdentity::query`](crate::root::RootIdentity::query); `Io`.
    pub fn rewind(&self, epoch: Epoch) -> Result<RemovedObjects> {
        let (query, partitions) = self.identity.query()?;
        if let Some(previous) = epoch.previous() {
            if !self.spark.is_committed(previous)? {
                let text = format!(
                    "Spark's commit log does not hold epoch {previous} \
                     (query/commits/{previous}), so the query cannot continue with epoch {epoch}: \
                     give an epoch that the query has computed and that is still in its checkpoint"
                );
                return Err(Error::new(ErrorKind::InvalidState, text).path(self.path()));
            }
            self.check_restorable(previous, partitions)?;
        }
        let run = self.claim_by_hand("holdfast rewind", &query, epoch)?;
        if let Some(previous) = epoch.previous() {
            // Checked again: a host that was still running may have removed snapshots and log
            // meanwhile, or may be about to. From now on that host is fenced: it removes only what
            // it has marked already.
            self.check_restorable(previous, partitions)?;
        }
        self.log.marks().put(run, epoch)?;
        let mut removal = Removal::new(&self.objects, &self.runs, run);
        removal.objects(&self.without_run(epoch, partitions)?)?;
        for later in self
            .log
            .epochs()?
            .into_iter()
            .filter(|later| *later >= epoch)
        {
            removal.epoch(later)?;
        }
        // Listed before the check that no query has started: a new query claims its run before
        // Spark commits an epoch.
        let late = self.since_in_spark(epoch)?;
        let removed = removal.finish()?;
        match late.first() {
            None => Ok(removed),
            Some(name) => {
                let text = format!(
                    "the query's driver wrote {} while the command worked: stop the query and \
                     repeat the command",
                    self.objects.place(name).display()
                );
                Err(Error::new(ErrorKind::InvalidState, text).path(self.path()))
            }
        }
    }

    /// Lists Spark's files of the epochs that a rewind to `epoch` takes back, in the order of
    /// removal.
    fn since_in_spark(&self, epoch: Epoch) -> Result<Vec<String>> {
        let mut names = self.spark.commits_since(epoch)?;
        names.extend(self.spark.offsets_since(epoch.next())?);
        Ok(names)
    }

    /// Lists the objects from an epoch on that are not in the log, in the order of removal.
    ///
    /// Spark's files come last. Until they are moved, no query can start with the epoch and write
    /// the other objects again. Once the mark of the rewind is put, no query can use the other
    /// objects. In each of Spark's folders the newest file is removed first. So after an
    /// interrupted command the query either fails or continues with `epoch`.
    fn without_run(&self, epoch: Epoch, partitions: u32) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for operator in self.operators.names()? {
            for number in 0..partitions {
                let partition = PartitionId(number.cast_signed());
                let mut snapshots = self.snapshots.list(&operator, partition)?;
                snapshots.retain(|id| id.epoch >= epoch);
                names.extend(snapshots.iter().map(names::snapshot));
            }
        }
        names.extend(self.far_future.list(|other| other >= epoch)?);
        names.extend(self.operators.begun_since(epoch)?);
        names.extend(state_since(&self.objects, epoch)?);
        names.extend(self.since_in_spark(epoch)?);
        Ok(names)
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
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;
    use std::sync::Arc;

    use holdfast_core::ProcessingGuarantee::ExactlyOnce;

    use super::*;
    use crate::log::HeadHeader;
    use crate::protocol::{Attempt, Claim, Counts, Digest, ObjectId, OperatorName, Term};
    use crate::root::rewind_marks::RewindMark;
    use crate::root::testing::{ConcurrentChange, Fault, FaultyStore};
    use crate::root::{KnownDigests, SnapshotId};

    /// Puts an object of epoch 6 as the first run, while the state is taken back to `epoch`;
    /// returns whether the object stays.
    fn stays(epoch: i64, name: &str, put: impl Fn(&Root, RunNumber) -> Error) -> bool {
        let store = Arc::new(FaultyStore::new(Fault::None));
        let root = store.root();
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
            term: Term::first(RunNumber(1)),
        };
        let snapshot = |root: &Root, _| {
            root.snapshots
                .put(&id, folder.path(), &mut KnownDigests::new())
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
            stream_time: None,
            stream_times: BTreeMap::new(),
            records: 0,
            chunks: Vec::new(),
            far_future: None,
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

    #[test]
    fn a_driver_that_still_commits_fails_the_command() {
        let store = Arc::new(FaultyStore::new(Fault::None));
        let root = store.root();
        root.identity
            .check("q", 1, (Epoch(0), false))
            .expect("is new");
        let commit = |epoch: i64| format!("{}/{epoch}", names::SPARK_COMMITS);
        let put = |name: &String| root.objects.put_absent(name, b"{}").map(drop);
        [commit(0), commit(1)]
            .iter()
            .try_for_each(put)
            .expect("puts");
        // All tasks of epoch 2 have ended, so the claim stops nothing.
        let late = ConcurrentChange::Puts(commit(2), b"{}".to_vec());
        store.before(&names::removed(RunNumber(1), &commit(0)), vec![late]);
        let error = root.rewind(Epoch(0)).expect_err("the driver runs");
        assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
        assert!(error.to_string().contains("commits/2"), "{error}");
        root.rewind(Epoch(0)).expect("the driver is stopped");
        assert!(!root.objects.exists(&commit(2)).expect("exists or not"));
    }

    #[test]
    fn objects_of_a_run_that_starts_while_the_command_works_stay() {
        let store = Arc::new(FaultyStore::new(Fault::None));
        let root = store.root();
        root.identity
            .check("q", 1, (Epoch(0), false))
            .expect("is new");
        let run = root.runs.claim("q", "a", Epoch(0)).expect("claims");
        let operator = OperatorName::new("join").expect("a name");
        let of_run = |epoch: Epoch, run: RunNumber| {
            let object = ObjectId {
                operator: operator.clone(),
                partition: PartitionId(0),
                run,
            };
            let chunk = names::ChunkName {
                epoch,
                object: object.clone(),
                attempt: Attempt(0),
                nonce: "ab".to_owned(),
                index: 0,
            };
            [names::head(epoch, &object), chunk.to_string()]
        };
        let commit = |epoch: i64| format!("{}/{epoch}", names::SPARK_COMMITS);
        let offsets = |epoch: i64| format!("{}/{epoch}", names::SPARK_OFFSETS);
        let mut old = vec![commit(0), offsets(1)];
        for epoch in [Epoch(0), Epoch(1)] {
            old.extend(of_run(epoch, run));
            old.push(names::decision(epoch, RunNumber(0)));
        }
        let put = |name: &String| root.objects.put_absent(name, b"{}").map(drop);
        old.iter()
            .chain([&offsets(0)])
            .try_for_each(put)
            .expect("puts");
        // The checkpoint is at the epoch by now, so a query can start.
        let (command, next) = (run.next(), run.next().next());
        let mut new = vec![
            names::operator(&operator),
            names::decision(Epoch(0), command),
        ];
        new.extend(
            [Epoch(0), Epoch(1)]
                .into_iter()
                .flat_map(|epoch| of_run(epoch, next)),
        );
        let meta = br#"{"kind":"k","key":[],"settings":{},"stores":[],"first_epoch":0}"#;
        let claim = br#"{"run_id":"b","first_epoch":0,"query_id":"q"}"#;
        let mut changes = vec![ConcurrentChange::Puts(names::claim(next), claim.to_vec())];
        changes.extend(
            new.iter()
                .map(|name| ConcurrentChange::Puts(name.clone(), meta.to_vec())),
        );
        store.before(&names::removed(command, &offsets(1)), changes);
        let rewound = root.rewind(Epoch(0));
        let exists = |name: &String| root.objects.exists(name).expect("exists or not");
        let missing: Vec<&String> = new.iter().filter(|name| !exists(name)).collect();
        assert_eq!(missing, [] as [&String; 0], "objects of the new run");
        let error = rewound.expect_err("a query has started");
        assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
        assert!(error.to_string().contains("run 3"), "{error}");
        // All other objects are moved, so it is enough to repeat the command.
        let left: Vec<&String> = old.iter().filter(|name| exists(name)).collect();
        assert_eq!(left, [] as [&String; 0], "objects of the old run");
        let repeated = root.rewind(Epoch(0)).expect("the query is stopped");
        assert_eq!(repeated.run, RunNumber(4));
        assert!(
            !new.iter().any(exists),
            "a repeated command takes them back"
        );
    }
}
