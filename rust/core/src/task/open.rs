//! Opening a task, and the transaction that is its own.

use super::metadata::{self, DURABILITY_KEY, FORMAT, FORMAT_KEY};
use super::{Commit, Committed, Durability, Entry, Store, Task, TaskOptions, Views};
use crate::error::{Error, ErrorKind, Result};
use crate::offset::OffsetChange;
use crate::rocks::{Database, DatabaseOptions, FamilyKind, FamilySpec, Snapshot};
use crate::store::key_value::KeyValueStore;
use crate::store::versioned::{Horizon, VersionRow, VersionedStore};
use crate::store::{StoreKind, StoreSpec};
use crate::transaction::{Batch, StoreState, Table, Transaction};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard, RwLock};
use std::path::Path;
use std::sync::Arc;

/// Names the process that has the directory open.
const HOLDER: &str = "HOLDER";

/// The task's own transaction.
pub(super) enum Open {
    /// Nothing was staged since the last commit; a transaction begins with the next call.
    Fresh,
    Active(Box<Transaction>),
    /// A commit failed: nothing more until a rollback or a reopen.
    Poisoned(String),
}

impl Open {
    pub(super) fn forget_if_empty(&mut self) {
        if matches!(self, Self::Active(tx) if tx.is_empty()) {
            *self = Self::Fresh;
        }
    }
}

/// The task's own transaction, locked for one call; other writers wait.
pub type OpenTransaction<'a> = MappedMutexGuard<'a, Transaction>;

impl Task {
    /// Opens the task in a directory, making what is missing.
    ///
    /// # Errors
    /// `StoreLocked` with the holder's pid; `FormatVersion` for files of another format or of somebody else's;
    /// `InvalidValue` for a store of another kind or another durability than the files'; `Io` where the directory cannot be written.
    pub fn open(path: &Path, stores: &[StoreSpec], options: TaskOptions) -> Result<Arc<Self>> {
        check_specs(stores)?;
        make_directory(path)?;
        let horizons: Vec<(String, Horizon)> = stores
            .iter()
            .filter(|spec| matches!(spec.kind, StoreKind::Versioned { .. }))
            .map(|spec| (spec.name.clone(), Horizon::default()))
            .collect();
        let families: Vec<FamilySpec> = std::iter::once(FamilySpec::new(FamilyKind::Metadata, ""))
            .chain([FamilySpec::new(FamilyKind::Offsets, "")])
            .chain(stores.iter().flat_map(store_families))
            .collect();
        let database_options = DatabaseOptions {
            sync: options.durability == Durability::Sync,
            extra: options.rocksdb_options.clone(),
            horizons: horizons.clone(),
        };
        let is_new = !path.join("CURRENT").exists();
        let database = Database::open(path, &families, &database_options).map_err(|e| named_holder(e, path))?;
        std::fs::write(path.join(HOLDER), std::process::id().to_string())
            .map_err(|e| Error::new(ErrorKind::Io, format!("the directory cannot be written: {e}")).path(path))?;
        let metadata_family = database.family(&families[0])?;
        let offsets = database.family(&families[1])?;
        let snapshot = database.snapshot()?;
        let read = |key: &[u8]| database.get(metadata_family, key, &snapshot, |value| value.map(<[u8]>::to_vec));

        check_format(read(FORMAT_KEY)?, is_new, path)?;
        if let Some(stored) = read(DURABILITY_KEY)?
            && stored != options.durability.name().as_bytes()
        {
            let stored = String::from_utf8_lossy(&stored).into_owned();
            return Err(Error::new(
                ErrorKind::InvalidValue,
                format!(
                    "the database was made with durability {stored:?} and is opened with {:?}; open it as it was made",
                    options.durability.name()
                ),
            )
            .path(path));
        }
        let mut batch = Batch::with_capacity(256);
        batch.push(metadata_family.id, FORMAT_KEY, Some(&FORMAT.to_be_bytes()));
        batch.push(metadata_family.id, DURABILITY_KEY, Some(options.durability.name().as_bytes()));
        let mut states = Vec::with_capacity(stores.len());
        for spec in stores {
            if let Some(stored) = read(&metadata::store_key(&spec.name))? {
                metadata::check_descriptor(spec, &stored).map_err(|e| e.path(path))?;
            }
            batch.push(metadata_family.id, &metadata::store_key(&spec.name), Some(metadata::descriptor(spec).as_bytes()));
            let stream_time = read(&metadata::stream_time_key(&spec.name))?.map(|time| metadata::parse_time(&time)).transpose()?;
            states.push(StoreState { stream_time, changed: false });
        }
        drop(snapshot);
        database.write(batch.finish())?;
        if is_new {
            // A crash right after must find a database of ours, not an empty one.
            database.flush(true)?;
        }
        let (tables, entries) = entries(&database, stores, &states, horizons)?;
        let committed = Committed { snapshot: database.snapshot()?, states };
        let task = Self {
            views: Mutex::new(Views::new(&committed)),
            database,
            metadata: metadata_family,
            offsets,
            tables,
            stores: entries,
            committed: RwLock::new(committed),
            open: Mutex::new(Open::Fresh),
            counters: super::Counters::default(),
            options,
        };
        task.raise_horizons(&task.views.lock());
        Ok(Arc::new(task))
    }

    /// The task's own transaction, begun if there is none.
    ///
    /// # Errors
    /// `InvalidState` after a failed commit, until `rollback`; `StoreClosed`.
    pub fn transaction(&self) -> Result<OpenTransaction<'_>> {
        let mut open = self.open.lock();
        match &*open {
            Open::Poisoned(why) => {
                return Err(Error::new(
                    ErrorKind::InvalidState,
                    format!("a commit failed ({why}); call rollback() to go on from the last commit, or open the task again"),
                )
                .path(self.path()));
            }
            Open::Fresh => *open = Open::Active(Box::new(self.begin()?)),
            Open::Active(_) => {}
        }
        MutexGuard::try_map(open, |open| match open {
            Open::Active(tx) => Some(tx.as_mut()),
            _ => None,
        })
        .map_err(|_| Error::new(ErrorKind::InvalidState, "no transaction is open").path(self.path()))
    }

    /// Commits the task's own transaction with offsets (`OffsetChange::Keep` leaves them as they are).
    ///
    /// # Errors
    /// After a failed write the stores are unchanged, and the task refuses work until `rollback` or a reopen.
    pub fn commit(&self, offsets: OffsetChange) -> Result<()> {
        drop(self.transaction()?);
        let mut open = self.open.lock();
        let tx = match std::mem::replace(&mut *open, Open::Fresh) {
            Open::Active(tx) => *tx,
            Open::Fresh => self.begin()?,
            poisoned @ Open::Poisoned(_) => {
                *open = poisoned;
                return Err(Error::new(ErrorKind::InvalidState, "a commit failed; call rollback() first").path(self.path()));
            }
        };
        self.commit_locked(tx, &Commit { offsets, properties: Vec::new() }).inspect_err(|error| {
            if error.kind() != ErrorKind::StoreClosed {
                *open = Open::Poisoned(error.to_string());
            }
        })
    }

    /// Gives up everything since the last commit; heals a task whose commit failed.
    pub fn rollback(&self) -> Result<()> {
        self.database.check_open()?;
        *self.open.lock() = Open::Fresh;
        Ok(())
    }

    /// Memory of the task's own transaction, in bytes: what the next commit would free.
    pub fn uncommitted_bytes(&self) -> usize {
        match &*self.open.lock() {
            Open::Active(tx) => tx.uncommitted_bytes(),
            _ => 0,
        }
    }

    /// Applies changelog records of one store past the open transaction, visible at once, with the offsets they reach. The same
    /// result however the records are cut into batches: for a key-value store the last record of a key wins, for a versioned
    /// one each has its place in time.
    ///
    /// # Errors
    /// `InvalidState` while the store has uncommitted writes: commit or roll back first.
    pub fn restore(&self, store: &str, rows: &[VersionRow<'_>], offsets: OffsetChange) -> Result<()> {
        let mut open = self.open.lock();
        if matches!(&*open, Open::Active(tx) if !tx.is_empty()) {
            return Err(
                Error::new(ErrorKind::InvalidState, "there are uncommitted writes; commit or roll back before a restore").store(store)
            );
        }
        let mut tx = self.begin()?;
        match &self.entry(store)?.store {
            Store::KeyValue(store) => rows.iter().for_each(|row| store.put(&mut tx, row.key, row.value)),
            Store::Versioned(store, _) => store.restore(&mut tx, rows, None)?,
        }
        *open = Open::Fresh;
        self.commit_locked(tx, &Commit { offsets, properties: Vec::new() })
    }
}

fn check_specs(stores: &[StoreSpec]) -> Result<()> {
    for (n, spec) in stores.iter().enumerate() {
        metadata::check_name(&spec.name)?;
        if stores[..n].iter().any(|other| other.name == spec.name) {
            return Err(Error::new(ErrorKind::InvalidValue, "two stores of one task have this name; give each its own").store(&spec.name));
        }
        if let StoreKind::Versioned { history_retention, segment_interval } = spec.kind {
            if history_retention < 0 {
                let message = format!("history_retention is {history_retention} microseconds; it must not be negative");
                return Err(Error::new(ErrorKind::InvalidValue, message).store(&spec.name));
            }
            if segment_interval <= 0 {
                let message = format!("segment_interval is {segment_interval} microseconds; it must be positive");
                return Err(Error::new(ErrorKind::InvalidValue, message).store(&spec.name));
            }
        }
    }
    Ok(())
}

fn make_directory(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(
            Error::new(ErrorKind::InvalidValue, "there is a file where the task's directory should be; name another path").path(path)
        );
    }
    std::fs::create_dir_all(path).map_err(|e| {
        Error::new(ErrorKind::Io, format!("the directory cannot be made: {e}; check the permissions of its parent or choose another path"))
            .path(path)
    })
}

fn named_holder(error: Error, path: &Path) -> Error {
    if error.kind() != ErrorKind::StoreLocked {
        return error;
    }
    let holder = std::fs::read_to_string(path.join(HOLDER)).unwrap_or_else(|_| "unknown".to_owned());
    let own = if holder == std::process::id().to_string() { " (this one)" } else { "" };
    let message = format!("the directory is open in process {holder}{own}; close the task there, or open another directory");
    Error::new(ErrorKind::StoreLocked, message).path(path)
}

fn check_format(stored: Option<Vec<u8>>, is_new: bool, path: &Path) -> Result<()> {
    match stored.as_deref().map(|bytes| bytes.try_into().map(u16::from_be_bytes)) {
        Some(Ok(FORMAT)) => Ok(()),
        None if is_new => Ok(()),
        // A crash between the making of the families and the first write: there is no data yet.
        None => Ok(()),
        Some(Ok(format)) => Err(Error::new(
            ErrorKind::FormatVersion,
            format!("the files have format {format}, and this version of Holdfast reads format {FORMAT}; use the version that wrote them"),
        )
        .path(path)),
        Some(Err(_)) => {
            Err(Error::new(ErrorKind::StoreCorrupted, "the format version is damaged; restore the directory from a checkpoint").path(path))
        }
    }
}

fn store_families(spec: &StoreSpec) -> Vec<FamilySpec> {
    let kinds: &[FamilyKind] = match spec.kind {
        StoreKind::KeyValue => &[FamilyKind::KeyValue],
        StoreKind::Versioned { .. } => &[FamilyKind::Versions, FamilyKind::Latest],
    };
    kinds.iter().map(|kind| FamilySpec::new(*kind, &spec.name)).collect()
}

type Entries = (Arc<[Table]>, Vec<Entry>);

fn entries(database: &Arc<Database>, stores: &[StoreSpec], states: &[StoreState], horizons: Vec<(String, Horizon)>) -> Result<Entries> {
    let mut tables = Vec::new();
    let mut entries = Vec::new();
    let mut horizons = horizons.into_iter();
    for (n, spec) in stores.iter().enumerate() {
        for family in store_families(spec) {
            tables.push(Table { number: tables.len(), family: database.family(&family)?, kind: family.kind });
        }
        let store = match (&spec.kind, tables.as_slice()) {
            (StoreKind::Versioned { history_retention, segment_interval }, [.., versions, latest]) => {
                let retention = (*history_retention, *segment_interval);
                let store = VersionedStore::new(&spec.name, n, *versions, *latest, retention, states[n].stream_time);
                Store::Versioned(store, horizons.next().map(|(_, horizon)| horizon).unwrap_or_default())
            }
            (_, [.., table]) => Store::KeyValue(KeyValueStore { name: spec.name.clone(), table: *table }),
            (_, []) => continue,
        };
        entries.push(Entry { spec: spec.clone(), store });
    }
    Ok((tables.into(), entries))
}

impl Task {
    /// The state of the last commit, for a reader that is to see no open transaction.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.committed.read().snapshot)
    }
}
