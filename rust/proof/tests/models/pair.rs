//! A store beside its model, with the events that any kind of store goes through.

use holdfast_core::{
    Database, DatabaseOptions, Durability, Offset, OffsetChange, StoreKind, StoreSpec,
    TopicPartition, Transaction,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// An event of a store of any kind.
#[derive(Clone, Debug)]
pub enum Event {
    Commit,
    Rollback,
    Reopen,
    /// The process ends without a close; only the files remain.
    Crash,
    Compact,
    Views,
}

/// Draws an event.
pub fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Commit),
        1 => Just(Event::Rollback),
        1 => Just(Event::Reopen),
        1 => Just(Event::Crash),
        1 => Just(Event::Compact),
        3 => Just(Event::Views),
    ]
}

/// How a store is opened, and how it is compared with its model.
pub trait Subject {
    type Model: Clone;

    /// Opens a database with the store, named "s".
    fn open(&self, dir: &Path) -> Arc<Database>;

    /// The committed rows that a reopen leaves.
    fn kept(&self, committed: &Self::Model) -> Self::Model {
        committed.clone()
    }

    /// Decides what a crash leaves: the last commit (`Sync`), or the commit at the last flush or a
    /// later one (`Changelog`). `None` for a store that a reopen empties or that has no
    /// transactions.
    fn durability(&self) -> Option<Durability>;

    /// Fails unless a reader's view has the rows of the model.
    fn check(
        &self,
        db: &Database,
        view: &mut Transaction,
        model: &Self::Model,
    ) -> Result<(), TestCaseError>;
}

/// Where a store is. A reopen empties a store in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In files, with the memory limit of a transaction in bytes. Depending on the limit, a
    /// transaction spills at every put or batch (0), sometimes, or never (-1).
    Files(Durability, i64),
    Memory,
    MemoryBesideFiles,
}

pub fn place() -> impl Strategy<Value = Place> {
    let files = [0, 300, -1].into_iter().flat_map(|limit| {
        [Durability::Sync, Durability::Changelog].map(|durability| Place::Files(durability, limit))
    });
    prop::sample::select(
        files
            .chain([Place::Memory, Place::MemoryBesideFiles])
            .collect::<Vec<_>>(),
    )
}

impl Place {
    /// Opens a database with a store of a kind, named "s".
    pub fn open(self, dir: &Path, kind: StoreKind) -> Arc<Database> {
        let spec = StoreSpec::new("s", kind);
        match self {
            Self::Files(durability, uncommitted_max_bytes) => Database::open(
                dir,
                &[spec],
                DatabaseOptions {
                    durability,
                    uncommitted_max_bytes,
                    ..DatabaseOptions::default()
                },
            )
            .unwrap(),
            Self::Memory => Database::open_in_memory(&[spec], DatabaseOptions::default()).unwrap(),
            Self::MemoryBesideFiles => {
                let beside = StoreSpec::new("beside", StoreKind::KeyValue);
                Database::open(
                    dir,
                    &[
                        beside,
                        StoreSpec {
                            persistent: false,
                            ..spec
                        },
                    ],
                    DatabaseOptions::default(),
                )
                .unwrap()
            }
        }
    }

    pub fn durability(self) -> Option<Durability> {
        match self {
            Self::Files(durability, _) => Some(durability),
            Self::Memory | Self::MemoryBesideFiles => None,
        }
    }
}

pub struct Pair<S: Subject> {
    pub subject: S,
    pub db: Arc<Database>,
    pub open: S::Model,
    pub committed: S::Model,
    /// The commits that a crash may leave, by number.
    kept: BTreeMap<i64, S::Model>,
    /// Readers' views, each with the model that it must show.
    views: Vec<(Transaction, S::Model)>,
    /// Dropped after the database: RocksDB waits for a second if its files are missing.
    dir: TempDir,
}

impl<S: Subject> Pair<S> {
    /// A store in a folder whose rows are the model's.
    pub fn new(subject: S, dir: TempDir, model: S::Model) -> Self {
        let db = subject.open(dir.path());
        Self {
            subject,
            db,
            open: model.clone(),
            committed: model.clone(),
            kept: BTreeMap::from([(0, model)]),
            views: Vec::new(),
            dir,
        }
    }

    pub fn apply(&mut self, event: Event) {
        match event {
            Event::Commit => {
                let number = self.last() + 1;
                self.db
                    .commit(OffsetChange::Set(vec![(log(), Some(Offset(number)))]))
                    .unwrap();
                self.committed = self.open.clone();
                self.kept.insert(number, self.committed.clone());
                if self.subject.durability() != Some(Durability::Changelog) {
                    self.forget_older();
                }
            }
            Event::Rollback => {
                self.db.rollback().unwrap();
                self.open = self.committed.clone();
            }
            Event::Reopen => {
                if self.subject.durability().is_none() {
                    // Direct writes after the last commit would make the close unclean.
                    self.apply(Event::Commit);
                }
                self.views.clear();
                self.db.close().unwrap();
                self.db = self.subject.open(self.dir.path());
                self.committed = self.subject.kept(&self.committed);
                self.open = self.committed.clone();
                self.kept.insert(self.last(), self.committed.clone());
                self.forget_older();
            }
            Event::Crash if self.subject.durability().is_none() => self.apply(Event::Reopen),
            Event::Crash => {
                self.views.clear();
                let left = folder();
                copy_as_killed(self.dir.path(), left.path());
                self.db = self.subject.open(left.path());
                self.dir = left;
                let number = self
                    .db
                    .committed_offset(&log())
                    .unwrap()
                    .map_or(0, |offset| offset.0);
                self.kept.retain(|kept, _| *kept <= number);
                assert_eq!(self.last(), number, "the state is older than the files");
                self.forget_older();
                self.committed = self.kept[&number].clone();
                self.open = self.committed.clone();
                // Compare it even if no event draws views later.
                self.apply(Event::Views);
            }
            Event::Compact => {
                self.db.flush(true).unwrap();
                self.forget_older();
                self.db.compact("s").unwrap();
            }
            Event::Views => {
                let uncommitted = self.db.read_uncommitted().unwrap();
                self.views.push((uncommitted, self.open.clone()));
                self.views
                    .push((self.db.begin().unwrap(), self.committed.clone()));
            }
        }
    }

    /// The number of the last commit.
    fn last(&self) -> i64 {
        *self.kept.keys().next_back().unwrap()
    }

    /// Forgets older commits: the last one is on disk.
    fn forget_older(&mut self) {
        self.kept = self.kept.split_off(&self.last());
    }

    pub fn check_views(&mut self) -> Result<(), TestCaseError> {
        for (view, model) in &mut self.views {
            self.subject.check(&self.db, view, model)?;
        }
        Ok(())
    }
}

fn log() -> TopicPartition {
    TopicPartition {
        topic: "log".into(),
        partition: 0,
    }
}

/// Copies a database's files as a kill leaves them, all of one moment: repeats the copy if a file
/// was added, grew or was removed meanwhile.
fn copy_as_killed(from: &Path, to: &Path) {
    loop {
        let before = files(from, Path::new(""));
        let copied = before.keys().all(|file| {
            std::fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
            std::fs::copy(from.join(file), to.join(file)).is_ok()
        });
        if copied && files(from, Path::new("")) == before {
            return;
        }
        std::fs::remove_dir_all(to).unwrap();
        std::fs::create_dir(to).unwrap();
    }
}

/// The lengths of the files below `folder` in `root`, by their paths within `root`.
fn files(root: &Path, folder: &Path) -> BTreeMap<PathBuf, u64> {
    let Ok(entries) = std::fs::read_dir(root.join(folder)) else {
        return BTreeMap::new();
    };
    let found = entries.flatten().flat_map(|entry| {
        let path = folder.join(entry.file_name());
        match entry.metadata() {
            Ok(found) if found.is_dir() => files(root, &path),
            Ok(found) => BTreeMap::from([(path, found.len())]),
            Err(_) => BTreeMap::new(),
        }
    });
    found.collect()
}

/// A folder in memory if possible: every spill syncs files.
pub fn folder() -> TempDir {
    holdfast_proof::directory().unwrap()
}

/// One of six keys. Some are prefixes of others or contain zero bytes: a wrong layout would confuse
/// them.
pub fn key(n: u8) -> Vec<u8> {
    [&b""[..], b"a", b"a\0", b"a\0\x01", b"ab", b"a\xff"][n as usize].to_vec()
}
