//! What no restore can need goes: old snapshots, their files, the log behind them.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};

use super::{Root, SnapshotId, names};
use crate::protocol::{Epoch, OperatorName, PartitionId, RunNumber};

impl Root {
    /// Removes all of a partition's snapshots before its newest `kept`, and the files that none of
    /// the others needs: for the host that owns the partition in the newest run and has just taken
    /// `newest`, lest it be what another owner or a rewind stands on. Later ones than that one are
    /// of a time that was taken back: they stay, and do not count.
    ///
    /// # Errors
    /// `Fenced` if `run` is not the newest, `StoreClosed` if the partition has moved, `Restore` for
    /// one that stays and cannot be read: then nothing is removed. `Io` for what the disk refuses.
    pub fn keep_snapshots(&self, newest: &SnapshotId, run: RunNumber, kept: usize) -> Result<()> {
        let (operator, partition) = (&newest.operator, newest.partition);
        // Before the manifests: a file that comes after this look is in the way of nobody, whosever
        // it is.
        let files = self.snapshot_files(operator, partition)?;
        let (counted, mut stay): (Vec<_>, Vec<_>) = self
            .snapshots(operator, partition)?
            .into_iter()
            .partition(|id| id.epoch <= newest.epoch);
        let old = counted.get(kept..).unwrap_or_default();
        if old.is_empty() {
            return Ok(());
        }
        stay.extend_from_slice(&counted[..kept]);
        let unneeded = self.unneeded(files, &stay)?;
        // As late as can be: this host may have stalled, and another one have taken over and put
        // what is needed now.
        self.check_owner(operator, partition, run)?;
        old.iter()
            .try_for_each(|id| self.store.remove(&names::snapshot(id)))?;
        unneeded
            .iter()
            .try_for_each(|file| self.store.remove(file))?;
        self.store
            .remove_parts(&names::snapshot_files(operator, partition))
    }

    /// Removes a snapshot that a restore has found damaged, with the files that no other one needs:
    /// whoever keeps the newest ones goes by their names, and whoever puts a file by its length.
    ///
    /// # Errors
    /// As [`Root::keep_snapshots`].
    pub fn discard_snapshot(&self, id: &SnapshotId, run: RunNumber) -> Result<()> {
        let files = self.snapshot_files(&id.operator, id.partition)?;
        let others: Vec<_> = self
            .snapshots(&id.operator, id.partition)?
            .into_iter()
            .filter(|other| other != id)
            .collect();
        self.check_owner(&id.operator, id.partition, run)?;
        self.store.remove(&names::snapshot(id))?;
        self.unneeded(files, &others)?
            .iter()
            .try_for_each(|file| self.store.remove(file))
    }

    /// Whether the log is to be looked through, by a snapshot that was begun at `now`: once an
    /// interval, not once a partition.
    pub fn is_cleaning_due(&self, now: Instant, interval: Duration) -> bool {
        let mut cleaned = self.cleaned.lock();
        let due = cleaned.is_none_or(|last| now.saturating_duration_since(last) >= interval);
        if due {
            *cleaned = Some(now);
        }
        due
    }

    /// Removes the log that no restore can need, after a snapshot of the epoch `newest`: what is
    /// further back than `retain` epochs and than the oldest of the newest `kept` snapshots of each
    /// partition; returns how many epochs there were.
    ///
    /// # Errors
    /// `Fenced` if `run` is not the newest, `Io` for what the disk refuses.
    pub fn forget_log(
        &self,
        newest: Epoch,
        run: RunNumber,
        partitions: u32,
        kept: usize,
        retain: i64,
    ) -> Result<usize> {
        let mut before = Epoch(newest.0.saturating_sub(retain));
        // Mostly there is nothing, and one look says so.
        if self.epochs()?.iter().all(|epoch| *epoch >= before) {
            return Ok(0);
        }
        let operators: BTreeSet<_> = self
            .objects(None, newest)?
            .into_iter()
            .map(|object| object.operator)
            .collect();
        if operators.is_empty() {
            return Ok(0);
        }
        for operator in &operators {
            for number in 0..partitions {
                let snapshots = self.snapshots(operator, PartitionId(number.cast_signed()))?;
                match snapshots
                    .iter()
                    .filter(|id| id.epoch <= newest)
                    .nth(kept.saturating_sub(1))
                {
                    Some(oldest) => before = before.min(oldest.epoch),
                    None => return Ok(0),
                }
            }
        }
        self.fence(run)?;
        self.forget_epochs(before)
    }

    /// Removes the log of all epochs before this one; returns how many there were.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn forget_epochs(&self, before: Epoch) -> Result<usize> {
        let old: Vec<Epoch> = self
            .epochs()?
            .into_iter()
            .filter(|epoch| *epoch < before)
            .collect();
        old.iter()
            .try_for_each(|epoch| self.store.remove_folder(&names::epoch(*epoch)))?;
        Ok(old.len())
    }

    /// The epochs that the log has folders of, in no order.
    pub(super) fn epochs(&self) -> Result<Vec<Epoch>> {
        Ok(self
            .store
            .folders(names::LOG)?
            .iter()
            .filter_map(|folder| folder.parse().ok().map(Epoch))
            .collect())
    }

    fn snapshot_files(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Result<Vec<String>> {
        let folder = names::snapshot_files(operator, partition);
        Ok(self
            .store
            .list(&folder)?
            .iter()
            .map(|file| format!("{folder}/{file}"))
            .collect())
    }

    /// Those of the files that none of these snapshots is made of.
    fn unneeded(&self, files: Vec<String>, snapshots: &[SnapshotId]) -> Result<Vec<String>> {
        let mut needed = HashSet::new();
        for id in snapshots {
            needed.extend(self.snapshot_objects(id)?);
        }
        Ok(files
            .into_iter()
            .filter(|file| !needed.contains(file))
            .collect())
    }

    fn check_owner(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
        run: RunNumber,
    ) -> Result<()> {
        self.fence(run)?;
        match self.term(operator, partition, run)? {
            Some(_) => Ok(()),
            None => Err(Error::new(
                ErrorKind::StoreClosed,
                "another host owns the partition now, old snapshots are that one's to remove",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::path::Path;
    use std::sync::Arc;

    use object_store::ObjectStore;

    use super::*;
    use crate::protocol::{Digest, Generation, HostId, Owner, Term};
    use crate::root::careless::{Careless, Doing, Fault};
    use crate::root::{Asking, Known, Ownership};

    fn root() -> (Arc<Careless>, Root, RunNumber) {
        let objects = Arc::new(Careless::new(Fault::None));
        let root = Root::over(
            Arc::clone(&objects) as Arc<dyn ObjectStore>,
            Path::new("memory"),
        );
        let run = root.claim("q", "a", Epoch(0)).expect("claims");
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

    /// A database whose one file is of this epoch.
    fn put(root: &Root, partition: i32, epoch: i64) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("CURRENT"), format!("epoch {epoch}")).expect("writes");
        root.put_snapshot(
            &id(partition, epoch),
            RunNumber(1),
            folder.path(),
            &mut Known::new(),
        )
        .expect("puts");
        root.snapshot_objects(&id(partition, epoch))
            .expect("reads")
            .concat()
    }

    #[test]
    fn a_host_that_stalls_as_it_cleans_up_leaves_the_next_owners_snapshot_alone() {
        let (objects, root, run) = root();
        let host = Owner {
            term: Term::first(run),
            host: HostId("one".to_owned()),
            endpoint: None,
            token: String::new(),
            application: None,
        };
        let asking = Asking {
            operator: &id(0, 0).operator,
            partition: PartitionId(0),
            run,
            host: &host,
            gone: &HashMap::new(),
        };
        let Ownership::Held(term) = root.own(&asking).expect("asks") else {
            panic!("nobody else has it")
        };
        (1..4).for_each(|epoch| drop(put(&root, 0, epoch)));
        // What the next owner puts, as another root sees it.
        let (_, other, _) = self::root();
        let file = put(&other, 0, 4);
        let copy = |name: &str| {
            Doing::Puts(
                name.to_owned(),
                other
                    .store
                    .get(name)
                    .expect("reads")
                    .expect("is there")
                    .to_vec(),
            )
        };
        let claim = Term {
            generation: Generation(term.generation.0 + 1),
            ..term
        };
        let next = names::owner(&id(0, 0).operator, PartitionId(0), claim);
        let comes = vec![
            Doing::Puts(next, b"{}".to_vec()),
            copy(&file),
            copy(&names::snapshot(&id(0, 4))),
        ];
        objects.meanwhile(
            &names::snapshot_files(&id(0, 0).operator, PartitionId(0)),
            comes,
        );
        let kept = root.keep_snapshots(&id(0, 3), run, 2);
        assert!(
            root.store.exists(&file).expect("looks"),
            "the next owner's snapshot has lost its file"
        );
        assert_eq!(
            kept.expect_err("it is the next owner's now").kind(),
            ErrorKind::StoreClosed
        );
    }

    #[test]
    fn a_file_that_somebody_took_while_a_snapshot_was_put_is_put_again() {
        let (objects, root, _) = root();
        let file = put(&root, 0, 1);
        // The same database once more: its file is there when it is looked at, and not when the
        // manifest comes.
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("CURRENT"), "epoch 1").expect("writes");
        objects.meanwhile(
            &names::snapshot(&id(0, 2)),
            vec![Doing::Removes(file.clone())],
        );
        let moved = root
            .put_snapshot(&id(0, 2), RunNumber(1), folder.path(), &mut Known::new())
            .expect("puts");
        assert_eq!(
            (moved.copied, root.store.exists(&file).expect("looks")),
            (0, true)
        );
    }

    #[test]
    fn a_later_snapshot_of_a_time_that_was_taken_back_does_not_count() {
        let (_, root, run) = root();
        let host = Owner {
            term: Term::first(run),
            host: HostId("one".to_owned()),
            endpoint: None,
            token: String::new(),
            application: None,
        };
        let asking = Asking {
            operator: &id(0, 0).operator,
            partition: PartitionId(0),
            run,
            host: &host,
            gone: &HashMap::new(),
        };
        root.own(&asking).expect("asks");
        [1, 2, 8, 9]
            .iter()
            .for_each(|epoch| drop(put(&root, 0, *epoch)));
        root.keep_snapshots(&id(0, 2), run, 2).expect("its own");
        let kept: Vec<i64> = root
            .snapshots(&id(0, 0).operator, PartitionId(0))
            .expect("lists")
            .iter()
            .map(|id| id.epoch.0)
            .collect();
        assert_eq!(kept, [9, 8, 2, 1]);
    }

    #[test]
    fn a_log_of_which_nothing_can_go_is_looked_at_once() {
        const PARTITIONS: i32 = 8;
        let (objects, root, run) = root();
        let stage = |epoch: i64| {
            for partition in 0..PARTITIONS {
                let name = format!("{}/join.{partition}.{run}", names::epoch(Epoch(epoch)));
                root.store.put_absent(&name, b"x").expect("puts");
            }
        };
        (0..20).for_each(stage);
        let asked = |newest: i64, retain: i64| {
            let before = objects.requests();
            let forgotten = root
                .forget_log(Epoch(newest), run, PARTITIONS.cast_unsigned(), 2, retain)
                .expect("looks");
            (forgotten, objects.requests() - before)
        };
        assert_eq!(asked(19, 100), (0, 1));
        // A partition that has no two snapshots is the end of it, whichever comes first.
        assert_eq!(asked(19, 5), (0, 3));
        for partition in 0..PARTITIONS {
            [10, 12, 99]
                .iter()
                .for_each(|epoch| drop(put(&root, partition, *epoch)));
        }
        // The log, the operators, each partition, the next run, the log again, each of the epochs
        // that go.
        assert_eq!(
            asked(19, 5),
            (10, 4 + PARTITIONS as usize + 10),
            "and the one of epoch 99 does not count"
        );
        let now = Instant::now();
        let due = |seconds| {
            root.is_cleaning_due(now + Duration::from_secs(seconds), Duration::from_secs(10))
        };
        assert_eq!(
            [due(0), due(1), due(9), due(10), due(19)],
            [true, false, false, true, false]
        );
    }
}
