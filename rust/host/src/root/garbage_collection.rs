//! Removes what no restore can need: old snapshots, their files, and the log before them.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_core::Result;
use parking_lot::Mutex;

use super::epoch_log::EpochLog;
use super::names::{self, SnapshotId};
use super::objects::Objects;
use super::owner_claims::OwnerClaims;
use super::run_claims::RunClaims;
use super::snapshot_repository::SnapshotRepository;
use crate::protocol::{Epoch, OperatorName, PartitionId, RunNumber};

/// Removes what a root no longer needs.
#[derive(Debug)]
pub struct GarbageCollection {
    objects: Arc<Objects>,
    runs: Arc<RunClaims>,
    owners: Arc<OwnerClaims>,
    log: Arc<EpochLog>,
    snapshots: Arc<SnapshotRepository>,
    /// When the log was last searched for epochs to remove.
    trimmed: Mutex<Option<Instant>>,
}

impl GarbageCollection {
    /// The garbage collection of a root.
    #[must_use]
    pub fn new(
        objects: Arc<Objects>,
        (runs, owners): (Arc<RunClaims>, Arc<OwnerClaims>),
        log: Arc<EpochLog>,
        snapshots: Arc<SnapshotRepository>,
    ) -> Self {
        Self {
            objects,
            runs,
            owners,
            log,
            snapshots,
            trimmed: Mutex::default(),
        }
    }

    /// Removes all of a partition's snapshots but its newest `retained`, and the files that no
    /// remaining snapshot needs.
    ///
    /// Called by the owner of the partition in the newest run, after it took `newest`. Otherwise
    /// another owner or a rewind may still need them. Snapshots after `newest` are from before a
    /// rewind: they stay, and do not count.
    ///
    /// # Errors
    /// `Fenced` if `run` is not the newest; `StoreClosed` if another host owns the partition;
    /// `Restore` if a remaining snapshot cannot be read, and then nothing is removed; `Io` for what
    /// the disk refuses.
    pub fn retain_newest(
        &self,
        newest: &SnapshotId,
        run: RunNumber,
        retained: usize,
    ) -> Result<()> {
        let (operator, partition) = (&newest.operator, newest.partition);
        // Listed before the manifests: files added after this listing are never deleted.
        let files = self.partition_files(operator, partition)?;
        let (counted, mut remaining): (Vec<_>, Vec<_>) = self
            .snapshots
            .list(operator, partition)?
            .into_iter()
            .partition(|id| id.epoch <= newest.epoch);
        let old = counted.get(retained..).unwrap_or_default();
        if old.is_empty() {
            return Ok(());
        }
        remaining.extend_from_slice(&counted[..retained]);
        let unneeded = self.unneeded(files, &remaining)?;
        // Checked as late as possible: if this host stalled, another host may own the partition and
        // need these files.
        self.owners.check(operator, partition, run)?;
        old.iter()
            .try_for_each(|id| self.objects.remove(&names::snapshot(id)))?;
        unneeded
            .iter()
            .try_for_each(|file| self.objects.remove(file))?;
        self.objects
            .remove_parts(&names::snapshot_files(operator, partition))
    }

    /// Removes a snapshot that a restore found damaged, and the files that no other snapshot needs.
    ///
    /// If it stayed, [`GarbageCollection::retain_newest`] would count it, and the next snapshot
    /// would reuse its files, which are recognized by name and length.
    ///
    /// # Errors
    /// As [`GarbageCollection::retain_newest`].
    pub fn discard(&self, id: &SnapshotId, run: RunNumber) -> Result<()> {
        let files = self.partition_files(&id.operator, id.partition)?;
        let others: Vec<_> = self
            .snapshots
            .list(&id.operator, id.partition)?
            .into_iter()
            .filter(|other| other != id)
            .collect();
        self.owners.check(&id.operator, id.partition, run)?;
        self.objects.remove(&names::snapshot(id))?;
        self.unneeded(files, &others)?
            .iter()
            .try_for_each(|file| self.objects.remove(file))
    }

    /// Whether the log should be trimmed after a snapshot that was begun at `now`: once an
    /// interval, not once a partition.
    pub fn is_trim_due(&self, now: Instant, interval: Duration) -> bool {
        let mut trimmed = self.trimmed.lock();
        let due = trimmed.is_none_or(|last| now.saturating_duration_since(last) >= interval);
        if due {
            *trimmed = Some(now);
        }
        due
    }

    /// Removes the log that no restore can need, after a snapshot of the epoch `newest`; returns how
    /// many epochs were removed.
    ///
    /// An epoch stays if it is one of the last `retain_epochs`, or if it is not older than the
    /// `retained`th newest snapshot of some partition of an operator.
    ///
    /// # Errors
    /// `Fenced` if `run` is not the newest, `Io` for what the disk refuses.
    pub fn trim_log(
        &self,
        newest: Epoch,
        run: RunNumber,
        partitions: u32,
        (retained, retain_epochs): (usize, i64),
    ) -> Result<usize> {
        let mut before = Epoch(newest.0.saturating_sub(retain_epochs));
        // Usually nothing can be removed, and one request shows it.
        if self.log.epochs()?.iter().all(|epoch| *epoch >= before) {
            return Ok(0);
        }
        let operators: BTreeSet<_> = self
            .log
            .list(None, newest)?
            .into_iter()
            .map(|object| object.operator)
            .collect();
        if operators.is_empty() {
            return Ok(0);
        }
        for operator in &operators {
            for number in 0..partitions {
                let snapshots = self
                    .snapshots
                    .list(operator, PartitionId(number.cast_signed()))?;
                match snapshots
                    .iter()
                    .filter(|id| id.epoch <= newest)
                    .nth(retained.saturating_sub(1))
                {
                    Some(oldest) => before = before.min(oldest.epoch),
                    None => return Ok(0),
                }
            }
        }
        self.runs.fence(run)?;
        self.log.remove_before(before)
    }

    fn partition_files(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Result<Vec<String>> {
        let folder = names::snapshot_files(operator, partition);
        Ok(self
            .objects
            .list(&folder)?
            .iter()
            .map(|file| format!("{folder}/{file}"))
            .collect())
    }

    /// Returns those of the files that belong to none of these snapshots.
    fn unneeded(&self, files: Vec<String>, snapshots: &[SnapshotId]) -> Result<Vec<String>> {
        let mut needed = HashSet::new();
        for id in snapshots {
            needed.extend(self.snapshots.files(id)?);
        }
        Ok(files
            .into_iter()
            .filter(|file| !needed.contains(file))
            .collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::path::Path;

    use holdfast_core::ErrorKind;
    use object_store::ObjectStore;

    use super::*;
    use crate::protocol::{Digest, Generation, HostId, Owner, Term};
    use crate::root::testing::{ConcurrentChange, Fault, FaultyStore};
    use crate::root::{KnownDigests, Ownership, OwnershipRequest, Root};

    fn root() -> (Arc<FaultyStore>, Root, RunNumber) {
        let objects = Arc::new(FaultyStore::new(Fault::None));
        let root = Root::over(
            Arc::clone(&objects) as Arc<dyn ObjectStore>,
            Path::new("memory"),
        );
        let run = root.runs.claim("q", "a", Epoch(0)).expect("claims");
        (objects, root, run)
    }

    fn id(partition: i32, epoch: i64) -> SnapshotId {
        let operator = OperatorName::new("join").expect("a name");
        SnapshotId {
            operator,
            partition: PartitionId(partition),
            epoch: Epoch(epoch),
            chain: Digest::of(b"chain"),
        }
    }

    /// Puts a snapshot of a database with one file; returns the file's object.
    fn put(root: &Root, partition: i32, epoch: i64) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("CURRENT"), format!("epoch {epoch}")).expect("writes");
        root.snapshots
            .put(
                &id(partition, epoch),
                RunNumber(1),
                folder.path(),
                &mut KnownDigests::new(),
            )
            .expect("puts");
        root.snapshots
            .files(&id(partition, epoch))
            .expect("reads")
            .concat()
    }

    #[test]
    fn a_host_that_stalls_during_collection_leaves_the_next_owners_snapshot_alone() {
        let (objects, root, run) = root();
        let host = Owner {
            term: Term::first(run),
            host: HostId("one".to_owned()),
            endpoint: None,
            token: String::new(),
            application: None,
        };
        let request = OwnershipRequest {
            operator: &id(0, 0).operator,
            partition: PartitionId(0),
            run,
            host: &host,
            unreachable: &HashMap::new(),
        };
        let Ownership::Held(term) = root.owners.acquire(&request).expect("asks") else {
            panic!("no other host has it")
        };
        (1..4).for_each(|epoch| drop(put(&root, 0, epoch)));
        // The next owner's snapshot, put through another root.
        let (_, other, _) = self::root();
        let file = put(&other, 0, 4);
        let copy = |name: &str| {
            ConcurrentChange::Puts(
                name.to_owned(),
                other
                    .objects
                    .get(name)
                    .expect("reads")
                    .expect("exists")
                    .to_vec(),
            )
        };
        let claim = Term {
            generation: Generation(term.generation.0 + 1),
            ..term
        };
        let next = names::owner(&id(0, 0).operator, PartitionId(0), claim);
        let comes = vec![
            ConcurrentChange::Puts(next, b"{}".to_vec()),
            copy(&file),
            copy(&names::snapshot(&id(0, 4))),
        ];
        objects.before(
            &names::snapshot_files(&id(0, 0).operator, PartitionId(0)),
            comes,
        );
        let result = root.garbage.retain_newest(&id(0, 3), run, 2);
        assert!(
            root.objects.exists(&file).expect("looks"),
            "the next owner's snapshot has lost its file"
        );
        assert_eq!(
            result.expect_err("it is the next owner's now").kind(),
            ErrorKind::StoreClosed
        );
    }

    #[test]
    fn a_file_that_is_removed_while_a_snapshot_is_put_is_put_again() {
        let (objects, root, _) = root();
        let file = put(&root, 0, 1);
        // The same database again: its file exists when it is checked, and is removed before the
        // manifest is put.
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("CURRENT"), "epoch 1").expect("writes");
        objects.before(
            &names::snapshot(&id(0, 2)),
            vec![ConcurrentChange::Removes(file.clone())],
        );
        let moved = root
            .snapshots
            .put(
                &id(0, 2),
                RunNumber(1),
                folder.path(),
                &mut KnownDigests::new(),
            )
            .expect("puts");
        assert_eq!(
            (moved.copied, root.objects.exists(&file).expect("looks")),
            (0, true)
        );
    }

    #[test]
    fn a_later_snapshot_from_before_a_rewind_does_not_count() {
        let (_, root, run) = root();
        let host = Owner {
            term: Term::first(run),
            host: HostId("one".to_owned()),
            endpoint: None,
            token: String::new(),
            application: None,
        };
        let request = OwnershipRequest {
            operator: &id(0, 0).operator,
            partition: PartitionId(0),
            run,
            host: &host,
            unreachable: &HashMap::new(),
        };
        root.owners.acquire(&request).expect("asks");
        [1, 2, 8, 9]
            .iter()
            .for_each(|epoch| drop(put(&root, 0, *epoch)));
        root.garbage
            .retain_newest(&id(0, 2), run, 2)
            .expect("its own");
        let remaining: Vec<i64> = root
            .snapshots
            .list(&id(0, 0).operator, PartitionId(0))
            .expect("lists")
            .iter()
            .map(|id| id.epoch.0)
            .collect();
        assert_eq!(remaining, [9, 8, 2, 1]);
    }

    #[test]
    fn a_log_that_cannot_be_trimmed_costs_one_request() {
        const PARTITIONS: i32 = 8;
        let (objects, root, run) = root();
        let stage = |epoch: i64| {
            for partition in 0..PARTITIONS {
                let name = format!("{}/join.{partition}.{run}", names::epoch(Epoch(epoch)));
                root.objects.put_absent(&name, b"x").expect("puts");
            }
        };
        (0..20).for_each(stage);
        let requests = |newest: i64, retain: i64| {
            let before = objects.requests();
            let removed = root
                .garbage
                .trim_log(Epoch(newest), run, PARTITIONS.cast_unsigned(), (2, retain))
                .expect("looks");
            (removed, objects.requests() - before)
        };
        assert_eq!(requests(19, 100), (0, 1));
        // The search ends at the first partition with fewer than two snapshots.
        assert_eq!(requests(19, 5), (0, 3));
        for partition in 0..PARTITIONS {
            [10, 12, 99]
                .iter()
                .for_each(|epoch| drop(put(&root, partition, *epoch)));
        }
        // Requests: the log, the operators, each partition, the next run, the log again, and each
        // removed epoch.
        assert_eq!(
            requests(19, 5),
            (10, 4 + PARTITIONS as usize + 10),
            "the snapshot of epoch 99 does not count"
        );
        let now = Instant::now();
        let due = |seconds| {
            root.garbage
                .is_trim_due(now + Duration::from_secs(seconds), Duration::from_secs(10))
        };
        assert_eq!(
            [due(0), due(1), due(9), due(10), due(19)],
            [true, false, false, true, false]
        );
    }
}
