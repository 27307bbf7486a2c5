//! An open database, its stores and the last commit.

use super::expiry::{Reclaimer, Views};
use super::metrics::DatabaseCounts;
use super::options::DatabaseOptions;
use super::rows::open_marker::OpenMarker;
use super::rows::{OwnFamilies, keys};
use super::stores::{Store, StoreCatalog, StoreEntry};
use super::transactions::committed::Committed;
use super::transactions::uncommitted::Uncommitted;
use super::transactions::writer::Writer;
use crate::error::{Error, ErrorKind, Result};
use crate::position::Position;
use crate::rocks::{Environment, RocksDb};
use crate::store::StoreSpec;
use crate::store::key_value::KeyValueStore;
use crate::store::session::SessionStore;
use crate::store::timestamped::TimestampedKeyValueStore;
use crate::store::versioned::VersionedStore;
use crate::store::window::WindowStore;
use crate::sync::{Mutex, RwLock};
use crate::transaction::{Base, Spiller, Transaction};
use std::path::Path;
use std::sync::Arc;

/// An open database. All of its methods may be called from any thread.
pub struct Database {
    /// Dropped before `rocks`: its thread must end first.
    pub(super) reclaimer: Reclaimer,
    pub(super) rocks: Arc<RocksDb>,
    pub(super) families: OwnFamilies,
    pub(super) stores: StoreCatalog,
    pub(super) transactions: TransactionState,
    pub(super) views: Mutex<Views>,
    pub(super) counts: DatabaseCounts,
    pub(super) options: DatabaseOptions,
    /// Spills transactions; `None` if they never spill.
    pub(super) spiller: Option<Arc<Spiller>>,
    pub(super) markers: Markers,
}

/// The last commit, and the database's own transaction on it.
pub(super) struct TransactionState {
    pub(super) committed: RwLock<Committed>,
    /// Its lock is the writer's lock.
    pub(super) writer: Mutex<Writer>,
    /// The view that readers use while a long call holds the writer's lock.
    pub(super) uncommitted: Uncommitted,
}

/// The `open` marker while the database is open, and the suspect stores of earlier opens.
pub(super) struct Markers {
    pub(super) open: Option<OpenMarker>,
    /// Stores that an earlier open left suspect and that this one does not name.
    pub(super) suspect: Vec<String>,
}

impl Database {
    /// Returns the directory of the files, absolute and without links. For a database in memory it
    /// is `in memory`.
    pub fn path(&self) -> &Path {
        self.rocks.path()
    }

    /// Returns the stores that the database was opened with.
    pub fn stores(&self) -> impl Iterator<Item = &StoreSpec> {
        self.stores.entries.iter().map(|entry| &entry.spec)
    }

    pub(super) fn entry(&self, name: &str) -> Result<&StoreEntry> {
        self.stores
            .entries
            .iter()
            .find(|entry| entry.spec.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = self.stores().map(|spec| spec.name.as_str()).collect();
                Error::new(
                    ErrorKind::InvalidValue,
                    format!("there is no store {name:?} in this database; it has {names:?}"),
                )
                .path(self.path())
            })
    }

    fn wrong_kind<T>(&self, name: &str, wanted: &str) -> Result<T> {
        let kind = self.entry(name)?.spec.kind.name();
        Err(Error::new(
            ErrorKind::InvalidValue,
            format!("it is a {kind} store, not a {wanted} store"),
        )
        .store(name))
    }

    /// Returns a handle to a key-value store.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database was not opened with, or of another kind.
    pub fn key_value(&self, name: &str) -> Result<KeyValueStore> {
        match &self.entry(name)?.store {
            Store::KeyValue(store) => Ok(store.clone()),
            _ => self.wrong_kind(name, "key_value"),
        }
    }

    /// Returns a handle to a timestamped key-value store.
    ///
    /// # Errors
    /// As [`Database::key_value`].
    pub fn timestamped_key_value(&self, name: &str) -> Result<TimestampedKeyValueStore> {
        match &self.entry(name)?.store {
            Store::Timestamped(store) => Ok(store.clone()),
            _ => self.wrong_kind(name, "timestamped_key_value"),
        }
    }

    /// Returns a handle to a versioned store.
    ///
    /// # Errors
    /// As [`Database::key_value`].
    pub fn versioned(&self, name: &str) -> Result<VersionedStore> {
        match &self.entry(name)?.store {
            Store::Versioned(store, _) => Ok(store.clone()),
            _ => self.wrong_kind(name, "versioned"),
        }
    }

    /// Returns a handle to a window store, with or without timestamps.
    ///
    /// # Errors
    /// As [`Database::key_value`].
    pub fn window(&self, name: &str) -> Result<WindowStore> {
        match &self.entry(name)?.store {
            Store::Window(store, _) => Ok(store.clone()),
            _ => self.wrong_kind(name, "window"),
        }
    }

    /// Returns a handle to a session store.
    ///
    /// # Errors
    /// As [`Database::key_value`].
    pub fn session(&self, name: &str) -> Result<SessionStore> {
        match &self.entry(name)?.store {
            Store::Session(store, _) => Ok(store.clone()),
            _ => self.wrong_kind(name, "session"),
        }
    }

    /// Begins a private transaction on the last commit.
    ///
    /// Many may be open at once, and none reads the writes of another.
    /// [`Database::commit_transaction`] commits a transaction if there was no other commit since it
    /// began. A transaction without writes is a view of the commit on which it began.
    pub fn begin(&self) -> Result<Transaction> {
        self.rocks.check_owner()?;
        self.rocks.check_open()?;
        let committed = self.last_commit();
        Ok(Transaction::new(
            committed.base,
            Arc::clone(&self.stores.tables),
            committed.states,
            self.spiller.clone(),
        ))
    }

    pub(super) fn last_commit(&self) -> Committed {
        self.transactions.committed.read().clone()
    }

    /// The rows of the last commit.
    pub(super) fn base(&self) -> Arc<Base> {
        Arc::clone(&self.transactions.committed.read().base)
    }

    /// Returns the input position of the last commit.
    pub fn position(&self) -> Position {
        self.transactions.committed.read().base.position().clone()
    }

    /// Returns whether a store, as a transaction reads it, lacks data up to the database's position
    /// and must be restored.
    ///
    /// It lacks data if it began empty although the database had a position: it is in memory, new,
    /// or was discarded after an unclean stop. It also lacks data if the position moved while the
    /// database was open without the store.
    pub fn is_lost(&self, store: &str, tx: &Transaction) -> Result<bool> {
        self.rocks.check_owner()?;
        self.rocks.get(
            self.families.metadata,
            &keys::lost_key(store),
            tx.base().files(),
            |row| row.is_some(),
        )
    }

    /// Returns a small value that was committed with the data.
    pub fn property(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.rocks.check_owner()?;
        self.rocks.get(
            self.families.metadata,
            &keys::property_key(name),
            self.base().files(),
            |value| value.map(<[u8]>::to_vec),
        )
    }

    /// Limit of the open transaction's memory, in bytes; -1: none (see
    /// [`DatabaseOptions::uncommitted_max_bytes`]).
    pub fn uncommitted_max_bytes(&self) -> i64 {
        self.options.uncommitted_max_bytes
    }

    /// Bytes of committed rows that are not in files yet: a crash without a log would lose them.
    pub fn unflushed_bytes(&self) -> u64 {
        self.rocks
            .property("rocksdb.cur-size-all-mem-tables")
            .unwrap_or(0)
    }

    /// Whether the whole database is in memory, its files included.
    pub(super) fn is_in_memory(&self) -> bool {
        self.options
            .environment
            .as_ref()
            .is_some_and(Environment::is_in_memory)
    }
}
