//! A reader's own copy of a partition's database, made from snapshots and log.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use holdfast_core::{
    Database, DatabaseOptions, Durability, Error, ErrorKind, Result, StoreSpec, Transaction,
};

use crate::partition::{DecidedEpoch, StagedEpochs, position};
use crate::protocol::{Digest, Epoch, EpochDecision, OperatorName, PartitionDecision, PartitionId};
use crate::root::{Root, SnapshotId, SnapshotTransfer};

/// The partition that a replica is a copy of.
#[derive(Clone)]
pub struct ReplicaSource {
    /// The root.
    pub root: Arc<Root>,
    /// The root's query.
    pub query_id: String,
    /// The operator.
    pub operator: OperatorName,
    /// The partition.
    pub partition: PartitionId,
    /// The epoch in which the operator first took part.
    pub first_epoch: Epoch,
    /// The operator's stores.
    pub stores: Vec<StoreSpec>,
}

/// Finds the decision of an epoch, and fails if there is none.
pub type Decide<'a> = dyn Fn(Epoch) -> Result<Arc<EpochDecision>> + 'a;

/// Records how many bytes a copy takes on the disk, or will take soon.
pub type NoteBytes<'a> = dyn Fn(u64) + Sync + 'a;

/// A copy of a partition's database in a directory of the reader.
pub struct Replica {
    source: ReplicaSource,
    directory: PathBuf,
    db: Option<Arc<Database>>,
    /// Whether a read has found the database damaged.
    is_damaged: bool,
    staged: Arc<StagedEpochs>,
}

/// A view of a replica: it stays at its epoch while the replica moves on.
pub struct ReplicaView {
    /// The database.
    pub db: Arc<Database>,
    /// The rows at the view's epoch.
    pub transaction: Transaction,
    /// The staged changes of the next epoch.
    pub staged: Arc<StagedEpochs>,
}

impl Replica {
    /// Makes a replica. Its first view creates the directory.
    pub fn new(source: ReplicaSource, directory: PathBuf) -> Self {
        Self {
            source,
            directory,
            db: None,
            is_damaged: false,
            staged: Arc::default(),
        }
    }

    /// Records that a read has found a database of this copy damaged. The next view makes the copy
    /// again.
    pub fn note_damage(&mut self, db: &Arc<Database>) {
        self.is_damaged |= self.db.as_ref().is_some_and(|own| Arc::ptr_eq(own, db));
    }

    /// The last epoch in the copy; none if there is no copy yet, or if it is empty or damaged.
    ///
    /// # Errors
    /// Those of the database.
    pub fn applied(&mut self) -> Result<Option<Epoch>> {
        let Some(db) = self.db.as_ref().filter(|_| !self.is_damaged) else {
            return Ok(None);
        };
        match position::applied(db, self.source.partition) {
            Err(error) if error.kind() == ErrorKind::StoreCorrupted => {
                self.is_damaged = true;
                Ok(None)
            }
            applied => applied,
        }
    }

    /// Advances the copy to an epoch that is not before its last one. Returns a view of the epoch.
    ///
    /// # Errors
    /// `Restore` if the root no longer holds what the epoch's state is made of; `Io` if the disk
    /// fails.
    pub fn view(
        &mut self,
        epoch: Epoch,
        decide: &Decide<'_>,
        note: &NoteBytes<'_>,
    ) -> Result<ReplicaView> {
        let before = self.applied()?;
        let advanced = self.advance_or_restore(epoch, decide, note);
        // After an error, an incomplete copy still takes space.
        if advanced.is_err() || self.applied()? != before {
            note(bytes_in(&self.directory));
        }
        advanced?;
        let db = self.db.clone().ok_or_else(closed)?;
        Ok(ReplicaView {
            transaction: db.begin()?,
            db,
            staged: Arc::clone(&self.staged),
        })
    }

    fn advance_or_restore(
        &mut self,
        epoch: Epoch,
        decide: &Decide<'_>,
        note: &NoteBytes<'_>,
    ) -> Result<()> {
        if self.is_damaged {
            self.discard()?;
        }
        if let Err(error) = self.advance(epoch, decide, note) {
            // The root was rewound, a part of the log that the copy needs was removed after a
            // snapshot, or the copy is damaged.
            let is_of_copy = matches!(error.kind(), ErrorKind::Restore | ErrorKind::StoreCorrupted);
            if !is_of_copy || self.db.is_none() {
                return Err(error);
            }
            self.is_damaged = error.kind() == ErrorKind::StoreCorrupted;
            self.discard()?;
            self.advance(epoch, decide, note)?;
        }
        Ok(())
    }

    fn advance(&mut self, to: Epoch, decide: &Decide<'_>, note: &NoteBytes<'_>) -> Result<()> {
        let source = &self.source;
        let db = match &self.db {
            Some(db) => Arc::clone(db),
            None => {
                let db = restore(source, &self.directory, to, (decide, note))?;
                Arc::clone(self.db.insert(db))
            }
        };
        let applied = position::applied(&db, source.partition)?;
        let mut next = applied.map_or(source.first_epoch, Epoch::next);
        while next <= to {
            decide(next)
                .and_then(|decision| {
                    let (root, operator) = (&source.root, &source.operator);
                    DecidedEpoch::read(root, operator, source.partition, &decision)
                })
                .and_then(|read| read.apply(&source.root, &db, &source.query_id))
                .map_err(|error| explained(source, (next, to), error))?;
            next = next.next();
        }
        drop(self.staged.take_through(to));
        // An epoch that was rewound and computed again has the number of the old one.
        let decision = decide(to)?;
        let decided = decision.of(&source.operator, source.partition);
        let chain = decided.map_or(Digest::ZERO, PartitionDecision::chain);
        if to >= source.first_epoch && position::chain(&db)? != chain {
            let text = format!("the copy holds a state of epoch {to} that a rewind took back");
            return Err(Error::new(ErrorKind::Restore, text));
        }
        Ok(())
    }

    /// Closes and deletes the copy.
    fn discard(&mut self) -> Result<()> {
        self.staged = Arc::default();
        let is_damaged = std::mem::take(&mut self.is_damaged);
        match self.db.take().map(|db| db.close()) {
            // A damaged database may fail to flush.
            Some(Err(error)) if !is_damaged => return Err(error),
            _ => {}
        }
        Database::destroy(&self.directory)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        if let Err(error) = self.discard() {
            log::debug!(
                "{}: the copy is not deleted: {error}",
                self.directory.display()
            );
        }
    }
}

/// Makes a database from the newest usable snapshot that is not after an epoch. Without such a
/// snapshot, the database is empty.
fn restore(
    source: &ReplicaSource,
    directory: &Path,
    to: Epoch,
    (decide, note): (&Decide<'_>, &NoteBytes<'_>),
) -> Result<Arc<Database>> {
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    let snapshots = source
        .root
        .snapshots
        .list(&source.operator, source.partition)?;
    for id in snapshots.iter().filter(|id| id.epoch <= to) {
        Database::destroy(directory)?;
        let decision = match decide(id.epoch) {
            Ok(decision) => Some(decision),
            // The log no longer has the epoch, or a rewind took it back.
            Err(error) if error.kind() == ErrorKind::Restore => None,
            Err(error) => return Err(error),
        };
        let decided = decision.as_ref().and_then(|decision| {
            let decided = decision.of(&source.operator, source.partition)?;
            Some(decided.chain())
        });
        if decided != Some(id.chain) {
            continue;
        }
        let progress = |progress: SnapshotTransfer| {
            if progress.copied == 0 {
                // Other copies make room before this one grows.
                note(progress.bytes);
                log::info!(
                    "operator {}, partition {}: reading the snapshot of epoch {}, {} files",
                    id.operator,
                    id.partition,
                    id.epoch,
                    progress.files
                );
            }
        };
        let fetched = source.root.snapshots.fetch(id, directory, &progress);
        let opened = fetched
            .and_then(|_| Database::open(directory, &source.stores, options.clone()))
            .and_then(|db| check(source, db, id));
        match opened {
            Ok(db) => return Ok(db),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::Restore | ErrorKind::StoreCorrupted | ErrorKind::StateMismatch
                ) =>
            {
                log::warn!(
                    "operator {}, partition {}: the snapshot of epoch {} cannot be used: {error}",
                    id.operator,
                    id.partition,
                    id.epoch
                );
            }
            Err(error) => return Err(error),
        }
    }
    Database::destroy(directory)?;
    Database::open(directory, &source.stores, options)
}

/// The bytes of the files in a database's directory; 0 if there is none.
fn bytes_in(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    // RocksDB deletes files meanwhile.
    let files = entries.filter_map(|entry| entry.metadata().ok());
    files.map(|file| file.len()).sum()
}

/// Returns the error of an epoch that cannot be applied. If the log begins after the epoch, nothing
/// is damaged: the query has removed the snapshot and the log that `to` needs.
fn explained(source: &ReplicaSource, (failed, to): (Epoch, Epoch), error: Error) -> Error {
    if error.kind() != ErrorKind::Restore {
        return error;
    }
    let begin = source.root.log.epochs().map(|log| log.into_iter().min());
    if !matches!(begin, Ok(Some(begin)) if failed < begin) {
        return error;
    }
    let snapshots = &source.root.snapshots;
    let snapshots = snapshots.list(&source.operator, source.partition);
    // An older snapshot could not be used.
    let is_later = |epoch: &Epoch| *epoch > to;
    let oldest = snapshots
        .ok()
        .and_then(|all| all.iter().map(|id| id.epoch).filter(is_later).min());
    let oldest = oldest.map_or_else(
        || "read the newest one".to_owned(),
        |oldest| format!("the oldest that can be read is {oldest}"),
    );
    let text = format!(
        "epoch {to} cannot be read any more: the query has removed the snapshot and the log \
         before it; {oldest}"
    );
    Error::new(ErrorKind::Restore, text).path(source.root.path())
}

/// Checks that a snapshot is what its name says.
fn check(source: &ReplicaSource, db: Arc<Database>, id: &SnapshotId) -> Result<Arc<Database>> {
    if position::holds(&db, &source.query_id, id)? {
        return Ok(db);
    }
    db.close()?;
    Err(Error::new(
        ErrorKind::Restore,
        "it holds another state than its name says",
    ))
}

fn closed() -> Error {
    Error::new(ErrorKind::StoreClosed, "the reader is closed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::StorageOptions;

    #[test]
    fn error_of_a_removed_epoch_names_a_later_epoch_or_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: String| folder.path().join(name);
        let root = folder.path().display().to_string();
        let root = Root::open(&root, &StorageOptions::default()).expect("opens");
        fs::create_dir_all(place(format!("log/{:020}", 5))).expect("a folder");
        fs::create_dir_all(place("snapshots/join/0".to_owned())).expect("a folder");
        let source = ReplicaSource {
            root: Arc::new(root),
            query_id: "q".to_owned(),
            operator: OperatorName::new("join").expect("a name"),
            partition: PartitionId(0),
            first_epoch: Epoch(0),
            stores: Vec::new(),
        };
        let put_snapshot = |epoch: i64| {
            let name = format!("snapshots/join/0/{epoch:020}.{}.1.1", Digest::ZERO);
            fs::write(place(name), "").expect("writes");
        };
        let text = || {
            let error = Error::new(ErrorKind::Restore, "the log lacks epoch 0");
            explained(&source, (Epoch(0), Epoch(6)), error).to_string()
        };
        // It could not be used.
        put_snapshot(4);
        assert!(
            text().contains("before it; read the newest one"),
            "{}",
            text()
        );
        put_snapshot(9);
        put_snapshot(8);
        assert!(text().contains("that can be read is 8"), "{}", text());
    }
}
