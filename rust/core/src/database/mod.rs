//! A database: one database, many stores, one transaction, one atomic commit with the offsets
//! (`stores.md` sections 2 and 3).

mod change;
mod commit;
mod commit_file;
mod horizon;
mod marker;
mod metadata;
mod metrics;
mod offsets;
mod older_layout;
mod open;
mod open_transaction;
mod options;
mod reclaim;
mod row_expiry;
mod serdes;
mod spilled;
mod store;
mod text_file;
mod uncommitted;
mod write;

pub use commit::Commit;
pub use metadata::check_store_name;
pub use metrics::{DatabaseMetrics, StoreMetrics};
pub use open_transaction::OpenTransaction;
pub use options::{DatabaseOptions, Durability, ProcessingGuarantee, TransactionMechanism};
pub use text_file::{Offsets, check_topic, read_offsets, remove_offsets, write_offsets};
pub use uncommitted::LongCall;

use crate::error::{Error, ErrorKind, Result};
use crate::failpoint::Failpoint;
use crate::metrics::StoreCounts;
use crate::position::Position;
use crate::rocks::{Family, RocksDb};
use crate::store::StoreSpec;
use crate::store::key_value::KeyValueStore;
use crate::store::session::SessionStore;
use crate::store::timestamped::TimestampedKeyValueStore;
use crate::store::versioned::VersionedStore;
use crate::store::window::WindowStore;
use crate::sync::{Mutex, RwLock};
use crate::transaction::{Base, Place, Spiller, StoreState, Table, Transaction};
use horizon::Views;
use marker::Marker;
use metrics::DatabaseCounts;
use open_transaction::Open;
use reclaim::Reclaimer;
use std::path::Path;
use std::sync::Arc;
use store::Store;
use uncommitted::Uncommitted;

/// An open database. All of its methods may be called from any thread.
pub struct Database {
    /// Before the database: it is to end first.
    reclaimer: Reclaimer,
    rocks: Arc<RocksDb>,
    metadata: Family,
    offsets: Family,
    tables: Arc<[Table]>,
    stores: Vec<Entry>,
    /// Stores that the database has and this open leaves out.
    absent: Vec<String>,
    committed: RwLock<Committed>,
    /// The database's own open transaction; its lock is the writer's.
    open: Mutex<Open>,
    /// What readers see of it while that lock is taken for long.
    uncommitted: Uncommitted,
    views: Mutex<Views>,
    counts: DatabaseCounts,
    options: DatabaseOptions,
    /// Where transactions spill; nothing if they never do.
    spiller: Option<Arc<Spiller>>,
    /// Its files lie in memory, too.
    in_memory: bool,
    /// The `open` marker, and what a clean close leaves of it.
    marker: Option<Marker>,
    closed_marker: Option<Marker>,
}

/// The last commit: what a new transaction stands on.
#[derive(Clone)]
struct Committed {
    base: Arc<Base>,
    states: Vec<StoreState>,
}

struct Entry {
    spec: StoreSpec,
    store: Store,
    counts: Arc<StoreCounts>,
}

impl Entry {
    /// Whether its writes go straight through.
    fn is_direct(&self) -> bool {
        !self.spec.transactional
    }
}

impl Database {
    /// Where the files are: absolute, with no links in it.
    pub fn path(&self) -> &Path {
        self.rocks.path()
    }

    /// The stores that the database was opened with.
    pub fn stores(&self) -> impl Iterator<Item = &StoreSpec> {
        self.stores.iter().map(|entry| &entry.spec)
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        self.stores
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

    /// A handle to a key-value store.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database was not opened with, or that is of another
    /// kind.
    pub fn key_value(&self, name: &str) -> Result<KeyValueStore> {
        match &self.entry(name)?.store {
            Store::KeyValue(store) => Ok(store.clone()),
            _ => self.wrong_kind(name, "key_value"),
        }
    }

    /// A handle to a timestamped key-value store.
    ///
    /// # Errors
    /// As [`Database::key_value`].
    pub fn timestamped_key_value(&self, name: &str) -> Result<TimestampedKeyValueStore> {
        match &self.entry(name)?.store {
            Store::Timestamped(store) => Ok(store.clone()),
            _ => self.wrong_kind(name, "timestamped_key_value"),
        }
    }

    /// A handle to a versioned store.
    ///
    /// # Errors
    /// As [`Database::key_value`].
    pub fn versioned(&self, name: &str) -> Result<VersionedStore> {
        match &self.entry(name)?.store {
            Store::Versioned(store, _) => Ok(store.clone()),
            _ => self.wrong_kind(name, "versioned"),
        }
    }

    /// A handle to a window store, with timestamps or without.
    ///
    /// # Errors
    /// As [`Database::key_value`].
    pub fn window(&self, name: &str) -> Result<WindowStore> {
        match &self.entry(name)?.store {
            Store::Window(store, _) => Ok(store.clone()),
            _ => self.wrong_kind(name, "window"),
        }
    }

    /// A handle to a session store.
    ///
    /// # Errors
    /// As [`Database::key_value`].
    pub fn session(&self, name: &str) -> Result<SessionStore> {
        match &self.entry(name)?.store {
            Store::Session(store, _) => Ok(store.clone()),
            _ => self.wrong_kind(name, "session"),
        }
    }

    /// A private transaction over the last commit. Many may be open at once, none sees another; one
    /// of them may be committed with [`Database::commit_transaction`], as long as nothing else was
    /// committed since it began. It can also serve as a view of the last commit.
    pub fn begin(&self) -> Result<Transaction> {
        self.rocks.check_owner()?;
        self.rocks.check_open()?;
        let committed = self.committed.read().clone();
        Ok(Transaction::new(
            committed.base,
            Arc::clone(&self.tables),
            committed.states,
            self.spiller.clone(),
        ))
    }

    /// The input position of the last commit.
    pub fn position(&self) -> Position {
        self.committed.read().base.position().clone()
    }

    /// Whether a store, as a transaction sees it, has to be restored to stand at that position: it
    /// began empty beside it, being in memory, discarded after an unclean stop, or new, or it was
    /// left out of an open in which the position moved.
    pub fn is_lost(&self, store: &str, tx: &Transaction) -> Result<bool> {
        self.rocks.check_owner()?;
        self.rocks.get(
            self.metadata,
            &metadata::lost_key(store),
            tx.base().files(),
            |row| row.is_some(),
        )
    }

    /// A small value that was committed with the data.
    pub fn property(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.rocks.check_owner()?;
        let base = Arc::clone(&self.committed.read().base);
        self.rocks.get(
            self.metadata,
            &metadata::property_key(name),
            base.files(),
            |value| value.map(<[u8]>::to_vec),
        )
    }

    /// Memory of the open transaction, in bytes, at which `commit_requested` turns true; -1: never.
    pub fn uncommitted_max_bytes(&self) -> i64 {
        self.options.uncommitted_max_bytes
    }

    /// Bytes of committed rows that are not in files yet: what a crash without a log would lose.
    pub fn unflushed_bytes(&self) -> u64 {
        self.rocks
            .property("rocksdb.cur-size-all-mem-tables")
            .unwrap_or(0)
    }

    /// A consistent copy of the last commit in a new directory, hard-linked where the file system
    /// can; folders above it are made.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a database in memory; `InvalidValue` for a directory that exists,
    /// or one below a file; `Io` where it cannot be made; `InvalidState` while a commit that was
    /// interrupted waits for its end.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.rocks.check_owner()?;
        if self.in_memory {
            return Err(Error::new(
                ErrorKind::UnsupportedOperation,
                "a database in memory has no files to copy; open one in a directory",
            ));
        }
        if directory.exists() {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "the checkpoint's directory exists already; name a new one",
            )
            .path(directory));
        }
        if let Some(parent) = directory
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            open::make_directory(parent)?;
        }
        // No commit may be under way.
        let mut open = self.open.lock();
        open.check_finished(self.path())?;
        let _published = self.publish_open(&mut open);
        self.rocks.checkpoint(directory)
    }

    /// Rewrites a store's files, dropping what has expired. A store in memory does so by itself.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database was not opened with.
    pub fn compact(&self, store: &str) -> Result<()> {
        self.rocks.check_owner()?;
        for table in self.entry(store)?.store.tables() {
            if let Place::Files(family) = table.place {
                self.rocks.compact(family)?;
            }
        }
        Ok(())
    }

    /// Writes what is committed to files and closes. Open transactions, scans and handles then say
    /// `StoreClosed`. A second close does nothing.
    ///
    /// # Errors
    /// Whatever the disk refuses; the database is closed all the same. The message says what the
    /// files hold then: every commit where there is a log, else the offsets from which a changelog
    /// goes on.
    pub fn close(&self) -> Result<()> {
        self.rocks.check_owner()?;
        let closed = self.close_locked();
        self.reclaimer.log();
        closed
    }

    fn close_locked(&self) -> Result<()> {
        Failpoint::BeforeClose.reached()?;
        let mut open = self.open.lock();
        let _published = self.publish_open(&mut open);
        let closing = Closing(&self.rocks);
        let finished = self.finish(&mut open);
        let closed = finished.and_then(|()| match &self.closed_marker {
            closed if *closed == self.marker => Ok(()),
            closed => marker::put(closed.as_ref(), &self.rocks, self.metadata),
        });
        let flushed = match closed.and_then(|()| self.flush(true)) {
            Err(error) if error.kind() == ErrorKind::StoreClosed => return Ok(()),
            result => result,
        };
        *open = Open::Fresh;
        let older_layout = self.options.older_layout && !self.in_memory;
        let written = flushed
            .map_err(|error| self.not_flushed(&error))
            .and_then(|()| {
                if older_layout {
                    self.move_out()
                } else {
                    Ok(())
                }
            });
        self.reclaimer.stop();
        if let Some(spiller) = &self.spiller {
            spiller.close();
        }
        // Its spilled rows go before the directory's lock does: whoever opens the database next
        // removes what lies there.
        self.uncommitted.withdraw();
        if older_layout && written.is_ok() {
            return self.rocks.close_without_own_families();
        }
        drop(closing);
        written
    }

    /// Ends the work behind its callers' backs, as the drop of the last reference does, without a
    /// close: for those who must choose which locks they hold while they wait for its end.
    pub fn stop(&self) {
        self.reclaimer.stop();
    }

    /// What a close that could not write everything to files has left.
    fn not_flushed(&self, error: &Error) -> Error {
        let left = match self.options.durability {
            Durability::Sync => "the database is closed, and no commit is lost: all are in the \
                                 write-ahead log, and the next open brings them back once the \
                                 cause is mended"
                .to_owned(),
            Durability::Changelog => match self.rocks.last_in_files() {
                Some(last) => format!(
                    "the database is closed; its files hold commit {last}, and the changelog \
                     brings back what came after it"
                ),
                None => {
                    "the database is closed; which commit its files hold the next open says, and \
                         the changelog brings back what came after"
                        .to_owned()
                }
            },
        };
        Error::new(error.kind(), format!("{error}; {left}")).path(self.path())
    }

    /// Deletes a database's directory with everything in it. Nobody may have it open.
    ///
    /// # Errors
    /// `Io` where it cannot be deleted; one that is not there is none.
    pub fn destroy(path: &Path) -> Result<()> {
        match std::fs::remove_dir_all(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::new(
                ErrorKind::Io,
                format!("the directory could not be deleted: {e}; check its permissions"),
            )
            .path(path)),
            _ => Ok(()),
        }
    }
}

/// Closes the database however a close ends: a database that went on after a panic there would have
/// no mark of being open any more, and a crash would pass for a clean stop.
struct Closing<'a>(&'a RocksDb);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}
