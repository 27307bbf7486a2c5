//! Epochs taken back: by hand, while the query is stopped (`spark.md` sections 3 and 7).
//!
//! Both commands claim a run of their own first, so that a driver which lives on is fenced from
//! then on. What they take away goes to `removed/<that run>/`, under the name that it had.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use holdfast_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::{OperatorMeta, Root, names};
use crate::protocol::{self, Claim, ClaimStep, Epoch, OperatorName, PartitionId, RunNumber};

/// What a command took away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// The run that it claimed.
    pub run: RunNumber,
    /// How many objects are now below `removed/<run>/`.
    pub objects: usize,
}

/// `rewinds/<run>`: the state was taken back, so databases that are ahead are of no use any more.
#[derive(Serialize, Deserialize)]
struct Rewind {
    epoch: Epoch,
}

/// All of these marks, each with the run that `holdfast rewind` claimed.
pub(super) struct Rewinds(Vec<(RunNumber, Epoch)>);

impl Rewinds {
    /// Whether what this run put of an epoch was taken back. Its host may have put it behind the
    /// command, and learned only then that it is fenced.
    pub(super) fn have_taken(&self, run: RunNumber, epoch: Epoch) -> bool {
        self.0
            .iter()
            .any(|(taken_by, from)| run < *taken_by && epoch >= *from)
    }
}

impl Root {
    /// Takes away what was staged of an epoch that Spark has not committed, and the operators that
    /// began with it, so that other code may compute it anew. None if there is nothing: then a
    /// query that runs is not disturbed.
    ///
    /// # Errors
    /// `InvalidState` if Spark has committed the epoch; those of [`Root::query`]; `Io`.
    pub fn drop_epoch(&self, epoch: Epoch) -> Result<Option<TakenBack>> {
        let (query, _) = self.query()?;
        // Any later commit says so, too: Spark keeps no more than those of its last epochs.
        if self
            .latest_spark_commit()?
            .is_some_and(|latest| latest >= epoch)
        {
            let text = format!(
                "Spark has committed epoch {epoch}, so its output is in the sink: it cannot be \
                 dropped. To compute it again, take the state back with `holdfast rewind {} \
                 --epoch {epoch}`",
                self.path().display()
            );
            return Err(Error::new(ErrorKind::InvalidState, text).path(self.path()));
        }
        if self.went_on(epoch, |_| true)? {
            let text = format!(
                "later epochs stand on epoch {epoch}, so Spark has committed it, though its \
                 commit log (query/commits) does not say so: it cannot be dropped. Put the \
                 query's checkpoint back first"
            );
            return Err(Error::new(ErrorKind::InvalidState, text).path(self.path()));
        }
        let folder = names::epoch(epoch);
        let is_dropped = |other| other == epoch;
        if self.begun_since(epoch)?.is_empty()
            && self.store.list(&folder)?.is_empty()
            && self.aside(is_dropped)?.is_empty()
        {
            return Ok(None);
        }
        // Each is looked for once more behind the claim: a host that lives on may have put
        // something meanwhile.
        let run = self.claim_for("holdfast epoch drop", &query, epoch)?;
        let objects = self.take_folder(run, &folder)?
            + self.take_aside(run, is_dropped)?
            + self.take_begun_since(run, epoch)?;
        Ok(Some(TakenBack { run, objects }))
    }

    /// Takes the state, and Spark's checkpoint with it, back to where `epoch` is computed next.
    /// Spark's offsets of that epoch stay, so it has the rows that it had.
    ///
    /// Checked before anything is touched: the state before `epoch` can be restored, from snapshots
    /// and the log.
    ///
    /// # Errors
    /// `Restore` if snapshots and log do not reach back as far; `InvalidState` if Spark's
    /// checkpoint does not; those of [`Root::query`]; `Io`.
    pub fn rewind(&self, epoch: Epoch) -> Result<TakenBack> {
        let (query, partitions) = self.query()?;
        if let Some(previous) = epoch.previous() {
            if !self.spark_committed(previous)? {
                let text = format!(
                    "Spark's commit log does not hold epoch {previous} \
                     (query/commits/{previous}), so the query cannot go on with epoch {epoch}: \
                     give an epoch that it has come to, or one that its checkpoint still knows"
                );
                return Err(Error::new(ErrorKind::InvalidState, text).path(self.path()));
            }
            self.check_restorable(previous, partitions)?;
        }
        let run = self.claim_for("holdfast rewind", &query, epoch)?;
        if let Some(previous) = epoch.previous() {
            // Once more: a host that lives on may have removed snapshots and log meanwhile. From
            // now on it is fenced.
            self.check_restorable(previous, partitions)?;
        }
        let json = serde_json::to_vec(&Rewind { epoch })
            .map_err(|error| self.unreadable(names::REWINDS, &error))?;
        self.store.put_absent(&names::rewind(run), &json)?;
        // Spark's files first, the newest before the others: a command that is cut off leaves a
        // checkpoint that is whole.
        let mut objects = 0;
        for (folder, first) in [
            (names::SPARK_COMMITS, epoch),
            (names::SPARK_OFFSETS, epoch.next()),
        ] {
            let mut files: Vec<(Epoch, String)> = self
                .store
                .list(folder)?
                .into_iter()
                .filter_map(numbered)
                .collect();
            files.retain(|(number, _)| *number >= first);
            files.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
            for (_, file) in files {
                // On a local disk Spark keeps a checksum beside each.
                objects += self.take(run, &format!("{folder}/{file}"))?
                    + self.take(run, &format!("{folder}/.{file}.crc"))?;
            }
        }
        for operator in self.operators()? {
            for number in 0..partitions {
                for id in self.snapshots(&operator, PartitionId(number.cast_signed()))? {
                    if id.epoch >= epoch {
                        objects += self.take(run, &names::snapshot(&id))?;
                    }
                }
            }
        }
        objects += self.take_begun_since(run, epoch)?;
        for later in self.epochs()?.into_iter().filter(|later| *later >= epoch) {
            objects += self.take_folder(run, &names::epoch(later))?;
        }
        objects += self.take_aside(run, |other| other >= epoch)?;
        Ok(TakenBack { run, objects })
    }

    /// Whether a database that holds this epoch is of a time that was taken back.
    ///
    /// # Errors
    /// `Restore` for a mark that cannot be read, `Io`.
    pub fn was_taken_back(&self, applied: Epoch) -> Result<bool> {
        let rewinds = self.rewinds()?;
        if !rewinds.have_taken(RunNumber(0), applied) {
            return Ok(false);
        }
        Ok(self
            .objects(None, applied)?
            .iter()
            .all(|object| rewinds.have_taken(object.run, applied)))
    }

    /// Looks at the claims behind a put of the run `run`, of a head or a snapshot of this epoch.
    /// Where `holdfast rewind` took the epoch back meanwhile, the object goes: the command has not
    /// seen it, and the query would meet it when it comes to the epoch again.
    ///
    /// # Errors
    /// `Fenced` if a newer run has claimed, `Restore` for a mark that cannot be read, `Io`.
    pub(super) fn settle(&self, name: &str, epoch: Epoch, run: RunNumber) -> Result<()> {
        self.fence(run).or_else(|fenced| {
            if self.rewinds()?.have_taken(run, epoch) {
                self.store.remove(name)?;
            }
            Err(fenced)
        })
    }

    pub(super) fn rewinds(&self) -> Result<Rewinds> {
        let mut rewinds = Vec::new();
        for file in self.store.list(names::REWINDS)? {
            let Ok(run) = file.parse().map(RunNumber) else {
                continue;
            };
            let name = names::rewind(run);
            let Some(bytes) = self.store.get(&name)? else {
                continue;
            };
            let rewind: Rewind =
                serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&name, &error))?;
            rewinds.push((run, rewind.epoch));
        }
        Ok(Rewinds(rewinds))
    }

    fn check_restorable(&self, epoch: Epoch, partitions: u32) -> Result<()> {
        let present = self.objects(None, epoch)?;
        if present.is_empty() {
            let text = format!(
                "the state cannot be taken back to where epoch {} is next: the log of epoch \
                 {epoch} is gone, as that of epochs before the last snapshots is. Give a later \
                 epoch, or restore the root from a backup",
                epoch.next()
            );
            return Err(Error::new(ErrorKind::Restore, text).path(self.path()));
        }
        for operator in self.operators()? {
            // One that had left the query by then, or came later, is not needed.
            if present.iter().all(|object| object.operator != operator) {
                continue;
            }
            let mut from = epoch;
            for number in 0..partitions {
                let snapshots = self.snapshots(&operator, PartitionId(number.cast_signed()))?;
                let newest = snapshots.into_iter().find(|id| id.epoch <= epoch);
                from = from.min(newest.map_or(self.first_epoch(&operator)?, |id| id.epoch));
            }
            while from <= epoch {
                self.decided_for(&operator, from, partitions)
                    .map_err(|error| {
                        let text = format!(
                            "the state cannot be taken back to where epoch {} is next: {error}",
                            epoch.next()
                        );
                        Error::new(ErrorKind::Restore, text).path(self.path())
                    })?;
                from = from.next();
            }
        }
        Ok(())
    }

    fn claim_for(&self, command: &str, query_id: &str, first_epoch: Epoch) -> Result<RunNumber> {
        let run_id = Claim::run_id_of(command, RandomState::new().build_hasher().finish());
        loop {
            match protocol::next_claim(&self.claims_for(&run_id)?, &run_id, first_epoch, false) {
                ClaimStep::Known(number) => return Ok(number),
                ClaimStep::Put(number) => {
                    self.put_claim(&Claim {
                        number,
                        run_id: run_id.clone(),
                        first_epoch,
                        query_id: query_id.to_owned(),
                    })?;
                }
                ClaimStep::Refused { .. } => {}
            }
        }
    }

    fn operators(&self) -> Result<Vec<OperatorName>> {
        let files = self.store.list(names::OPERATORS)?;
        // Names have no dot: `<name>.<version>.json` is none.
        Ok(files
            .iter()
            .filter_map(|file| OperatorName::new(file.strip_suffix(".json")?).ok())
            .collect())
    }

    fn first_epoch(&self, operator: &OperatorName) -> Result<Epoch> {
        let name = names::operator(operator);
        let bytes = self.store.get(&name)?.ok_or_else(|| {
            Error::new(
                ErrorKind::Restore,
                format!(
                    "{} is missing: restore it from a backup",
                    self.store.place(&name).display()
                ),
            )
        })?;
        let meta: OperatorMeta =
            serde_json::from_slice(&bytes).map_err(|error| self.unreadable(&name, &error))?;
        Ok(meta.first_epoch)
    }

    fn take_folder(&self, run: RunNumber, folder: &str) -> Result<usize> {
        let objects = self.take_files(run, folder, |_| true)?;
        // What has come since is of a query that was started meanwhile.
        self.store.remove_empty_folder(folder)?;
        Ok(objects)
    }

    /// The objects of the rows that were set aside in some epochs.
    fn aside(&self, wanted: impl Fn(Epoch) -> bool) -> Result<Vec<String>> {
        let mut objects = Vec::new();
        for operator in self.store.folders(names::AHEAD)? {
            let folder = format!("{}/{operator}", names::AHEAD);
            let files = self
                .store
                .list(&folder)?
                .into_iter()
                .filter(|file| names::parse_aside(file).is_some_and(&wanted));
            objects.extend(files.map(|file| format!("{folder}/{file}")));
        }
        Ok(objects)
    }

    fn take_aside(&self, run: RunNumber, wanted: impl Fn(Epoch) -> bool) -> Result<usize> {
        self.aside(wanted)?
            .iter()
            .try_fold(0, |taken, object| Ok(taken + self.take(run, object)?))
    }

    /// The operators that took part first in this epoch or a later one.
    fn begun_since(&self, epoch: Epoch) -> Result<Vec<OperatorName>> {
        let mut begun = Vec::new();
        for operator in self.operators()? {
            if self.first_epoch(&operator)? >= epoch {
                begun.push(operator);
            }
        }
        Ok(begun)
    }

    /// Takes what was written down of them: each takes part anew then, with whatever it is.
    fn take_begun_since(&self, run: RunNumber, epoch: Epoch) -> Result<usize> {
        self.begun_since(epoch)?
            .iter()
            .try_fold(0, |taken, operator| {
                Ok(taken
                    + self.take_files(run, names::OPERATORS, |file| {
                        names::is_of_operator(file, operator)
                    })?)
            })
    }

    fn take_files(
        &self,
        run: RunNumber,
        folder: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<usize> {
        let files = self.store.list(folder)?;
        files
            .iter()
            .filter(|file| wanted(file))
            .try_fold(0, |taken, file| {
                Ok(taken + self.take(run, &format!("{folder}/{file}"))?)
            })
    }

    /// Moves an object to what was removed: there before it is gone here.
    fn take(&self, run: RunNumber, name: &str) -> Result<usize> {
        let Some(content) = self.store.get(name)? else {
            return Ok(0);
        };
        self.store
            .put_absent(&names::removed(run, name), &content)?;
        self.store.remove(name)?;
        Ok(1)
    }
}

/// A file of Spark's logs, by its epoch; none for anything else.
fn numbered(file: String) -> Option<(Epoch, String)> {
    Some((Epoch(file.parse().ok()?), file))
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
    use crate::protocol::{Attempt, Digest};
    use crate::root::careless::{Careless, Doing, Fault};
    use crate::root::{Known, SnapshotId};

    /// Puts something of epoch 6 as the first run, while the state is taken back to `epoch`;
    /// returns whether it stays.
    fn stays(epoch: i64, name: &str, put: impl Fn(&Root, RunNumber) -> Error) -> bool {
        let store = Arc::new(Careless::new(Fault::None));
        let root = Root::over(
            Arc::clone(&store) as Arc<dyn ObjectStore>,
            Path::new("memory"),
        );
        let run = root.claim("q", "a", Epoch(0)).expect("claims");
        let (number, first_epoch) = (run.next(), Epoch(epoch));
        let claim = Claim {
            number,
            run_id: "holdfast rewind".to_owned(),
            first_epoch,
            query_id: "q".to_owned(),
        };
        let json = |value: serde_json::Result<Vec<u8>>| value.expect("is JSON");
        let claim = Doing::Puts(names::claim(number), json(serde_json::to_vec(&claim)));
        let mark = Doing::Puts(
            names::rewind(number),
            json(serde_json::to_vec(&Rewind { epoch: first_epoch })),
        );
        store.meanwhile(name, vec![claim, mark]);
        assert_eq!(put(&root, run).kind(), ErrorKind::Fenced);
        root.store.exists(name).expect("looks")
    }

    #[test]
    fn what_is_put_while_its_epoch_is_taken_back_does_not_stay() {
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
            root.put_snapshot(&id, run, folder.path(), &mut Known::new())
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
            input_rows: 0,
            output_rows: 0,
            stream_times: BTreeMap::new(),
            records: 0,
            chunks: Vec::new(),
        };
        let head = |root: &Root, run| {
            root.stage(&header(run), &[], 1, ExactlyOnce)
                .expect_err("fenced")
        };
        let head_name = names::head(epoch, &header(RunNumber(1)).id());
        for (epoch, is_there) in [(3, false), (6, false), (7, true)] {
            assert_eq!(
                stays(epoch, &names::snapshot(&id), snapshot),
                is_there,
                "snapshot, {epoch}"
            );
            assert_eq!(stays(epoch, &head_name, head), is_there, "head, {epoch}");
        }
    }
}
