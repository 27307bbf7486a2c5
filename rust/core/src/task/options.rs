//! How a task is opened.

use crate::rocks::Environment;

/// What survives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A write-ahead log, fsynced at each commit: a committed record survives a crash of process or machine.
    #[default]
    Sync,
    /// No log of its own: after a crash the files hold *some* earlier commit, of all stores at once, and a changelog brings
    /// the rest back (KIP-1035). A clean close loses nothing.
    Changelog,
}

impl Durability {
    /// The name in the metadata and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Changelog => "changelog",
        }
    }
}

/// Settings of a task.
#[derive(Clone, Debug)]
pub struct TaskOptions {
    /// Fixed when the database is made.
    pub durability: Durability,
    /// Memory of the open transaction at which `commit_requested` turns true; -1: never.
    pub uncommitted_max_bytes: i64,
    /// RocksDB's own option strings, passed through; names that start with `db.` are options of the database, others of families.
    pub rocksdb_options: Vec<(String, String)>,
    /// For the proof crate: the file system beneath the database.
    #[doc(hidden)]
    pub environment: Option<Environment>,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self { durability: Durability::default(), uncommitted_max_bytes: 64 << 20, rocksdb_options: Vec::new(), environment: None }
    }
}
