//! Opening a task, and the transaction that is its own.

use super::metadata::{self, DURABILITY_KEY, FORMAT, FORMAT_KEY};
use super::{Commit, Committed, Durability, Entry, Store, Task, TaskOptions, Views};
use crate::error::{Error, ErrorKind, Result};
use crate::offset::OffsetChange;
use crate::rocks::{Bounds, Cursor, Database, DatabaseOptions, FamilyKind, FamilySpec, Snapshot};
use crate::store::key_value::KeyValueStore;
use crate::store::session::SessionStore;
use crate::store::timestamped::TimestampedKeyValueStore;
use crate::store::versioned::{Horizon, VersionRow, VersionedStore};
use crate::store::window::{WindowPut, WindowStore};
use crate::store::windowed::Rows;
use crate::store::{StoreKind, StoreSpec};
use crate::time::Timestamp;
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
            .filter(|spec| !matches!(spec.kind, StoreKind::KeyValue | StoreKind::TimestampedKeyValue))
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
            environment: options.environment.clone(),
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
            let sequence = read(&metadata::sequence_key(&spec.name))?.map(|number| metadata::parse_sequence(&number)).transpose()?;
            states.push(StoreState { stream_time, sequence: sequence.unwrap_or(0), changed: false });
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
    /// result however the records are cut into batches.
    ///
    /// What a record's key, value and time are, by the store's kind:
    ///
    /// | kind | key | value | time |
    /// | --- | --- | --- | --- |
    /// | key-value | key | value; of a key the last record wins | not looked at |
    /// | timestamped key-value | key | value | the value's |
    /// | versioned | key | value or tombstone | begin of validity |
    /// | window | key | value | the window's start |
    /// | timestamped window | key | timestamp, 8 bytes big-endian, then the value | the window's start |
    /// | session | key, end, start (both 8 bytes big-endian) | value | not looked at |
    ///
    /// # Errors
    /// `InvalidState` while the store has uncommitted writes: commit or roll back first. `InvalidValue`, with the row, for a
    /// record that is none of the store's; nothing is applied then.
    pub fn restore(&self, store: &str, rows: &[VersionRow<'_>], offsets: OffsetChange) -> Result<()> {
        let mut open = self.open.lock();
        if matches!(&*open, Open::Active(tx) if !tx.is_empty()) {
            return Err(
                Error::new(ErrorKind::InvalidState, "there are uncommitted writes; commit or roll back before a restore").store(store)
            );
        }
        let mut tx = self.begin()?;
        self.entry(store)?.restore(&mut tx, rows)?;
        *open = Open::Fresh;
        self.commit_locked(tx, &Commit { offsets, properties: Vec::new() })
    }
}

impl Entry {
    fn restore(&self, tx: &mut Transaction, rows: &[VersionRow<'_>]) -> Result<()> {
        match &self.store {
            Store::KeyValue(store) => rows.iter().for_each(|row| store.put(tx, row.key, row.value)),
            Store::Timestamped(store) => rows.iter().for_each(|row| store.put(tx, row.key, row.value, row.timestamp)),
            Store::Versioned(store, _) => store.restore(tx, rows, None)?,
            Store::Window(store, _) => store.restore(tx, &self.window_records(rows)?),
            Store::Session(store, _) => store.restore(tx, rows.iter().map(|row| (row.key, row.value)))?,
        }
        Ok(())
    }

    fn window_records<'a>(&self, rows: &[VersionRow<'a>]) -> Result<Vec<WindowPut<'a>>> {
        let timestamped = matches!(self.spec.kind, StoreKind::Window { timestamped: true, .. });
        let record = |(n, row): (usize, &VersionRow<'a>)| {
            let plain = WindowPut { key: row.key, value: row.value, start: row.timestamp, timestamp: None };
            match row.value {
                Some(value) if timestamped => {
                    let (time, value) = value.split_first_chunk().ok_or_else(|| {
                        let words = format!("row {n}: the value has {} bytes; wanted: 8 bytes of timestamp, then the value", value.len());
                        Error::new(ErrorKind::InvalidValue, words).store(&self.spec.name).key(row.key)
                    })?;
                    Ok(WindowPut { value: Some(value), timestamp: Some(Timestamp(i64::from_be_bytes(*time))), ..plain })
                }
                _ => Ok(plain),
            }
        };
        rows.iter().enumerate().map(record).collect()
    }
}

fn check_specs(stores: &[StoreSpec]) -> Result<()> {
    for (n, spec) in stores.iter().enumerate() {
        metadata::check_name(&spec.name)?;
        if stores[..n].iter().any(|other| other.name == spec.name) {
            return Err(Error::new(ErrorKind::InvalidValue, "two stores of one task have this name; give each its own").store(&spec.name));
        }
        check_durations(&spec.kind).map_err(|words| Error::new(ErrorKind::InvalidValue, words).store(&spec.name))?;
    }
    Ok(())
}

fn check_durations(kind: &StoreKind) -> std::result::Result<(), String> {
    let not_negative = |name: &str, micros: i64| match micros {
        0.. => Ok(()),
        _ => Err(format!("{name} is {micros} microseconds; it must not be negative")),
    };
    match *kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => Ok(()),
        StoreKind::Versioned { segment_interval, .. } if segment_interval <= 0 => {
            Err(format!("segment_interval is {segment_interval} microseconds; it must be positive"))
        }
        StoreKind::Versioned { history_retention, .. } => not_negative("history_retention", history_retention),
        StoreKind::Window { retention, window_size, .. } if window_size > retention => Err(format!(
            "window_size is {window_size} microseconds, more than retention, which is {retention}; a window must be kept until it ends"
        )),
        StoreKind::Window { window_size, .. } => not_negative("window_size", window_size),
        StoreKind::Session { retention } => not_negative("retention", retention),
    }
}

fn make_directory(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(
            Error::new(ErrorKind::InvalidValue, "there is a file where the task's directory should be; name another path").path(path)
        );
    }
    let missing = path.ancestors().take_while(|ancestor| !ancestor.exists()).count();
    // RocksDB syncs its directory, but nobody else syncs the entries that name it and what was made above it.
    let made = std::fs::create_dir_all(path).and_then(|()| {
        path.ancestors().skip(1).take(missing).try_for_each(|parent| {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            std::fs::File::open(parent)?.sync_all()
        })
    });
    made.map_err(|e| {
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
        StoreKind::TimestampedKeyValue => &[FamilyKind::Stamped],
        StoreKind::Versioned { .. } => &[FamilyKind::Versions, FamilyKind::Latest],
        StoreKind::Window { .. } | StoreKind::Session { .. } => &[FamilyKind::Windowed, FamilyKind::Times],
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
        let mut horizon = || horizons.next().map(|(_, horizon)| horizon).unwrap_or_default();
        let store = match (&spec.kind, tables.as_slice()) {
            (StoreKind::Versioned { history_retention, segment_interval }, [.., versions, latest]) => {
                let retention = (*history_retention, *segment_interval);
                let store = VersionedStore::new(&spec.name, n, *versions, *latest, retention, states[n].stream_time);
                Store::Versioned(store, horizon())
            }
            (StoreKind::Window { retention, window_size, retain_duplicates, .. }, [.., windowed, times]) => {
                let rows = Rows::new(&spec.name, n, *windowed, *times, *retention);
                Store::Window(WindowStore { rows, window_size: *window_size, retain_duplicates: *retain_duplicates }, horizon())
            }
            (StoreKind::Session { retention }, [.., windowed, times]) => {
                Store::Session(SessionStore { rows: Rows::new(&spec.name, n, *windowed, *times, *retention) }, horizon())
            }
            (StoreKind::TimestampedKeyValue, [.., table]) => {
                let table = *table;
                let plain = plain_rows(database, &spec.name, tables.len())?;
                tables.extend(plain);
                Store::Timestamped(TimestampedKeyValueStore { name: spec.name.clone(), table, plain })
            }
            (_, [.., table]) => Store::KeyValue(KeyValueStore { name: spec.name.clone(), table: *table }),
            (_, []) => continue,
        };
        entries.push(Entry { spec: spec.clone(), store });
    }
    Ok((tables.into(), entries))
}

/// The table of a plain key-value store of this name, if it has left any rows.
fn plain_rows(database: &Arc<Database>, name: &str, number: usize) -> Result<Option<Table>> {
    let kind = FamilyKind::KeyValue;
    let Ok(family) = database.family(&FamilySpec::new(kind, name)) else { return Ok(None) };
    let cursor = Cursor::new(&database.snapshot()?, family, kind, &Bounds::default())?;
    let any = cursor.with(|rows| {
        rows.seek_to_first();
        rows.valid()
    })?;
    Ok(any.then_some(Table { number, family, kind }))
}

impl Task {
    /// The state of the last commit, for a reader that is to see no open transaction.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.committed.read().snapshot)
    }
}
