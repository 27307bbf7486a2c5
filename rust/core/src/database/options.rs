//! How a database is opened.

use crate::metrics::MetricsLevel;
use crate::rocks::Environment;
use crate::serde::{Serde, SerdeSide};
use serde::Deserialize;
use std::sync::Arc;

/// Which commits survive a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A write-ahead log, fsynced at each commit: a committed record survives a crash of the
    /// process or the machine.
    #[default]
    Sync,
    /// No log: after a crash the files hold *some* earlier commit, of all stores together, and a
    /// changelog restores the later ones (KIP-1035). A clean close loses nothing.
    Changelog,
}

impl Durability {
    /// Returns the name in the metadata and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Changelog => "changelog",
        }
    }
}

/// How often a record may be applied to the state after a failure (KIP-129).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessingGuarantee {
    /// A record may be applied twice.
    AtLeastOnce,
    /// Every record is applied once: after an unclean stop the data of stores without transactions
    /// is discarded.
    #[default]
    ExactlyOnce,
}

impl ProcessingGuarantee {
    /// Returns the name in the metadata and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::AtLeastOnce => "at_least_once",
            Self::ExactlyOnce => "exactly_once",
        }
    }
}

/// Where uncommitted writes are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransactionMechanism {
    /// In memory up to `uncommitted_max_bytes`, then in files beside the stores.
    #[default]
    Auto,
    /// In memory, without a limit (KIP-892).
    IndexedBatch,
    /// In files beside the stores, after a buffer of at most 1 MiB (KIP-844). A transaction that
    /// fits in the buffer is committed from there.
    SecondaryStore,
}

/// The largest buffer of `SecondaryStore`, in bytes.
const SMALL_BUFFER: usize = 1 << 20;

impl TransactionMechanism {
    /// Returns the name in messages and in the Python package.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::IndexedBatch => "indexed_batch",
            Self::SecondaryStore => "secondary_store",
        }
    }
}

/// The serde of one side of a store.
#[derive(Clone, Debug)]
pub struct StoreSerde {
    /// The store's name.
    pub store: String,
    /// What the serde encodes.
    pub side: SerdeSide,
    /// The serde.
    pub serde: Arc<Serde>,
}

/// Settings of a database.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Fixed when the database is created.
    pub durability: Durability,
    /// May change between opens: to at-least-once always, to exactly-once only after a clean close.
    pub guarantee: ProcessingGuarantee,
    /// Where uncommitted writes are stored.
    pub mechanism: TransactionMechanism,
    /// Limit of a transaction's memory, in bytes; -1: none. With [`TransactionMechanism::Auto`] the
    /// transaction spills at the limit. The binding's `commit_requested` becomes true at the limit,
    /// or one record or batch before it.
    pub uncommitted_max_bytes: i64,
    /// Which metrics are recorded.
    pub metrics_level: MetricsLevel,
    /// RocksDB's options of the database or of column families, as strings for RocksDB.
    pub rocksdb_options: Vec<(String, String)>,
    /// The serdes of typed stores. They are checked against those that the stores were written
    /// with, and recorded; those of stores in memory are ignored.
    pub serdes: Vec<StoreSerde>,
    /// Whether an open fails if a store's retention is longer than at the last open and would
    /// include rows that may have expired since. If false, the open hides these rows.
    pub refuse_hidden_rows: bool,
    /// The file system that the database uses. Callers other than the crate `proof` leave it unset.
    #[doc(hidden)]
    pub environment: Option<Environment>,
}

impl Default for DatabaseOptions {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            guarantee: ProcessingGuarantee::default(),
            mechanism: TransactionMechanism::default(),
            uncommitted_max_bytes: 64 << 20,
            metrics_level: MetricsLevel::default(),
            rocksdb_options: Vec::new(),
            serdes: Vec::new(),
            refuse_hidden_rows: false,
            environment: None,
        }
    }
}

impl DatabaseOptions {
    /// Memory of a transaction, in bytes, at which it spills; `None` if it never spills.
    pub(super) fn spill_at(&self) -> Option<usize> {
        let limit = usize::try_from(self.uncommitted_max_bytes).ok();
        match self.mechanism {
            TransactionMechanism::Auto => limit,
            TransactionMechanism::IndexedBatch => None,
            TransactionMechanism::SecondaryStore => {
                Some(limit.map_or(SMALL_BUFFER, |limit| limit.min(SMALL_BUFFER)))
            }
        }
    }
}
