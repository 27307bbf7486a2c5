//! Opening a database: its directory, its database, and what its stores stood at.

use super::commit_file::CommitFile;
use super::marker::{self, Marker};
use super::metadata::{self, DURABILITY_KEY, FORMAT, FORMAT_KEY};
use super::open_transaction::Open;
use super::spilled;
use super::uncommitted::Uncommitted;
use super::{
    Committed, Database, DatabaseCounts, DatabaseOptions, Durability, Entry, ProcessingGuarantee,
    Reclaimer, Store, Views, offsets, older_layout,
};
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::Horizon;
use crate::metrics::{MetricsLevel, StoreCounts};
use crate::position::Position;
use crate::rocks::{
    Bounds, Cursor, Environment, Family, FamilyKind, FamilySpec, RocksDb, RocksOptions, Snapshot,
};
use crate::store::key_value::KeyValueStore;
use crate::store::session::SessionStore;
use crate::store::timestamped::TimestampedKeyValueStore;
use crate::store::versioned::VersionedStore;
use crate::store::window::WindowStore;
use crate::store::windowed::WindowedRows;
use crate::store::{StoreKind, StoreSpec};
use crate::sync::{Mutex, RwLock};
use crate::transaction::{
    Base, Batch, MemoryTable, Place, SpillTarget, Spiller, StoreState, Table,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Names the process that has the directory open.
const HOLDER: &str = "HOLDER";

/// What stands for the path of a database in memory.
const IN_MEMORY: &str = "in memory";

/// Below the database's directory: what open transactions have spilled.
const UNCOMMITTED: &str = "+uncommitted";

impl Database {
    /// Opens the database in a directory, making what is missing.
    ///
    /// # Errors
    /// `StoreLocked` with the holder's pid; `FormatVersion` for files of another format or of
    /// somebody else's; `InvalidValue` for a store of another kind or another durability than the
    /// files', for names, durations and database options that cannot be, for a path that is a
    /// file's, and with `older_layout` for a topic with white space in it; `Io` where the directory
    /// cannot be written; `StoreCorrupted` also for a malformed text file of an older layout;
    /// `StateMismatch` under exactly-once for a state that an unclean stop left in doubt.
    pub fn open(path: &Path, stores: &[StoreSpec], options: DatabaseOptions) -> Result<Arc<Self>> {
        check_specs(stores)?;
        make_directory(path)?;
        let path = &one_spelling(path)?;
        let is_new = !path.join("CURRENT").exists();
        let begun = CommitFile::read(path)?;
        let opening = Opening::new(path, stores, options, begun.as_ref())?;
        std::fs::write(path.join(HOLDER), std::process::id().to_string()).map_err(|e| {
            Error::new(
                ErrorKind::Io,
                format!("the directory cannot be written: {e}"),
            )
            .path(path)
        })?;
        opening.check_files(is_new)?;
        opening.recover(begun.as_ref())?.finish(stores, false)
    }

    /// Opens a database that is all in memory, offsets and positions included; it is gone when it
    /// is closed. The stores are in memory whatever they say.
    ///
    /// # Errors
    /// `InvalidValue` for names, durations and database options that cannot be.
    pub fn open_in_memory(stores: &[StoreSpec], options: DatabaseOptions) -> Result<Arc<Self>> {
        check_specs(stores)?;
        let stores: Vec<StoreSpec> = stores
            .iter()
            .map(|spec| StoreSpec {
                persistent: false,
                ..spec.clone()
            })
            .collect();
        // Offsets, positions and properties lie in a database whose files are in memory: one commit
        // path for both.
        let options = DatabaseOptions {
            durability: Durability::Changelog,
            environment: Some(Environment::in_memory()?),
            ..options
        };
        Opening::new(Path::new(IN_MEMORY), &stores, options, None)?.finish(&stores, true)
    }
}

fn check_specs(stores: &[StoreSpec]) -> Result<()> {
    for (n, spec) in stores.iter().enumerate() {
        metadata::check_store_name(&spec.name)?;
        if stores[..n].iter().any(|other| other.name == spec.name) {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "two stores of one database have this name; give each its own",
            )
            .store(&spec.name));
        }
        check_durations(&spec.kind)
            .map_err(|words| Error::new(ErrorKind::InvalidValue, words).store(&spec.name))?;
    }
    Ok(())
}

fn check_durations(kind: &StoreKind) -> std::result::Result<(), String> {
    let not_negative = |name: &str, micros: i64| match micros {
        0.. => Ok(()),
        _ => Err(format!(
            "{name} is {micros} microseconds; it must not be negative"
        )),
    };
    match *kind {
        StoreKind::KeyValue | StoreKind::TimestampedKeyValue => Ok(()),
        StoreKind::Versioned {
            segment_interval, ..
        } if segment_interval <= 0 => Err(format!(
            "segment_interval is {segment_interval} microseconds; it must be positive"
        )),
        StoreKind::Versioned {
            history_retention, ..
        } => not_negative("history_retention", history_retention),
        StoreKind::Window {
            retention,
            window_size,
            ..
        } if window_size > retention => Err(format!(
            "window_size is {window_size} microseconds, more than retention, which is \
             {retention}; a window must be kept until it ends"
        )),
        StoreKind::Window { window_size, .. } => not_negative("window_size", window_size),
        StoreKind::Session { retention } => not_negative("retention", retention),
    }
}

pub(super) fn make_directory(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Error::new(
            ErrorKind::InvalidValue,
            "there is a file where the database's directory should be; name another path",
        )
        .path(path));
    }
    let missing = path
        .ancestors()
        .take_while(|ancestor| !ancestor.exists())
        .count();
    // RocksDB syncs its directory, but nobody else syncs the entries that name it and what was made
    // above it.
    let made = std::fs::create_dir_all(path).and_then(|()| {
        path.ancestors()
            .skip(1)
            .take(missing)
            .try_for_each(|parent| {
                let parent = if parent.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    parent
                };
                std::fs::File::open(parent)?.sync_all()
            })
    });
    made.map_err(|e| {
        Error::new(
            ErrorKind::Io,
            format!(
                "the directory cannot be made: {e}; check the permissions of its parent or choose \
                 another path"
            ),
        )
        .path(path)
    })
}

/// The one path of a directory that has many. RocksDB keeps the locks of its own process by path:
/// another spelling would be another lock, and two writers of one directory.
fn one_spelling(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| {
        Error::new(
            ErrorKind::Io,
            format!(
                "the directory cannot be found: {e}; check the permissions of the folders above it"
            ),
        )
        .path(path)
    })
}

fn named_holder(error: Error, path: &Path) -> Error {
    if error.kind() != ErrorKind::StoreLocked {
        return error;
    }
    let holder =
        std::fs::read_to_string(path.join(HOLDER)).unwrap_or_else(|_| "unknown".to_owned());
    let own = if holder == std::process::id().to_string() {
        " (this one)"
    } else {
        ""
    };
    let message = format!(
        "the directory is open in process {holder}{own}; close the database there, or open another \
         directory"
    );
    Error::new(ErrorKind::StoreLocked, message).path(path)
}

fn check_format(stored: Option<Vec<u8>>, path: &Path) -> Result<()> {
    match stored
        .as_deref()
        .map(|bytes| bytes.try_into().map(u16::from_be_bytes))
    {
        Some(Ok(FORMAT)) => Ok(()),
        // New, or a crash between the making of the families and the first write: there is no data
        // yet.
        None => Ok(()),
        Some(Ok(format)) => Err(Error::new(
            ErrorKind::FormatVersion,
            format!(
                "the files have format {format}, and this version of Holdfast reads format \
                 {FORMAT}; use the version that wrote them"
            ),
        )
        .path(path)),
        Some(Err(_)) => Err(Error::new(
            ErrorKind::StoreCorrupted,
            "the format version is damaged; restore the directory from a checkpoint",
        )
        .path(path)),
    }
}

fn store_families(spec: &StoreSpec) -> Vec<FamilySpec> {
    let kinds: &[FamilyKind] = match spec.kind {
        StoreKind::KeyValue => &[FamilyKind::KeyValue],
        StoreKind::TimestampedKeyValue => &[FamilyKind::Stamped],
        StoreKind::Versioned { .. } => &[FamilyKind::Versions, FamilyKind::Latest],
        StoreKind::Window { .. } | StoreKind::Session { .. } => {
            &[FamilyKind::Windowed, FamilyKind::Times]
        }
    };
    kinds
        .iter()
        .map(|kind| FamilySpec::new(*kind, &spec.name))
        .collect()
}

/// A database that was opened, and what is read from it before it is a database.
struct Opening {
    rocks: Arc<RocksDb>,
    metadata: Family,
    offsets: Family,
    horizons: Vec<(String, Horizon)>,
    options: DatabaseOptions,
    snapshot: Arc<Snapshot>,
}

impl Opening {
    fn new(
        path: &Path,
        stores: &[StoreSpec],
        options: DatabaseOptions,
        begun: Option<&CommitFile>,
    ) -> Result<Self> {
        let horizons: Vec<(String, Horizon)> = stores
            .iter()
            .filter(|spec| {
                !matches!(
                    spec.kind,
                    StoreKind::KeyValue | StoreKind::TimestampedKeyValue
                )
            })
            .map(|spec| (spec.name.clone(), Horizon::default()))
            .collect();
        let own = [
            FamilySpec::new(FamilyKind::Metadata, ""),
            FamilySpec::new(FamilyKind::Offsets, ""),
        ];
        let families: Vec<FamilySpec> = own
            .iter()
            .cloned()
            .chain(
                stores
                    .iter()
                    .filter(|spec| spec.persistent)
                    .flat_map(store_families),
            )
            .collect();
        let rocks_options = RocksOptions {
            sync: options.durability == Durability::Sync,
            statistics: options.metrics_level >= MetricsLevel::Debug,
            extra: options.rocksdb_options.clone(),
            horizons: horizons.clone(),
            environment: options.environment.clone(),
            begun: begun.map(|file| file.header.id),
            temporary: false,
        };
        if let Some(file) = begun {
            file.put_back(path, &rocks_options)?;
        }
        let rocks =
            RocksDb::open(path, &families, &rocks_options).map_err(|e| named_holder(e, path))?;
        let (metadata, offsets) = (rocks.family(&own[0])?, rocks.family(&own[1])?);
        if options
            .environment
            .as_ref()
            .is_none_or(|environment| !environment.is_in_memory())
        {
            older_layout::move_in(&rocks, metadata, offsets, stores)?;
        }
        let snapshot = rocks.snapshot()?;
        Ok(Self {
            rocks,
            metadata,
            offsets,
            horizons,
            options,
            snapshot,
        })
    }

    fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.rocks.get(self.metadata, key, &self.snapshot, |value| {
            value.map(<[u8]>::to_vec)
        })
    }

    /// That the files are of this format and of this durability.
    fn check_files(&self, is_new: bool) -> Result<()> {
        let path = self.rocks.path();
        check_format(self.read(FORMAT_KEY)?, path)?;
        if let Some(stored) = self.read(DURABILITY_KEY)?
            && stored != self.options.durability.name().as_bytes()
        {
            let stored = String::from_utf8_lossy(&stored).into_owned();
            return Err(Error::new(
                ErrorKind::InvalidValue,
                format!(
                    "the database was made with durability {stored:?} and is opened with {:?}; \
                     open it as it was made",
                    self.options.durability.name()
                ),
            )
            .path(path));
        }
        if is_new {
            let mut batch = Batch::with_capacity(64);
            batch.push(self.metadata.id, FORMAT_KEY, Some(&FORMAT.to_be_bytes()));
            self.rocks.write(&mut batch)?;
            // A crash right after must find a database of ours, not an empty one.
            self.rocks.flush(true)?;
        }
        Ok(())
    }

    /// Ends a commit that a crash interrupted, and deletes what was uncommitted.
    fn recover(mut self, begun: Option<&CommitFile>) -> Result<Self> {
        spilled::recover(
            &self.rocks,
            self.metadata,
            begun,
            self.options.environment.as_ref(),
        )?;
        self.snapshot = self.rocks.snapshot()?;
        Spiller::remove_orphans(&self.rocks.path().join(UNCOMMITTED))?;
        Ok(self)
    }

    /// Where the database's transactions spill.
    fn spiller(&self, stores: &[Entry], tables: &[Table]) -> Option<Arc<Spiller>> {
        let limit = self.options.spill_at()?;
        let mut targets = vec![None; tables.len()];
        for entry in stores
            .iter()
            .filter(|entry| entry.spec.persistent && entry.spec.transactional)
        {
            let family = |table: &Table| FamilySpec::new(table.kind, &entry.spec.name);
            let own = entry.store.tables();
            for table in &own {
                let latest = match (table.kind, own.as_slice()) {
                    (FamilyKind::Versions, [_, latest]) => Some(family(latest)),
                    _ => None,
                };
                targets[table.number] = Some(SpillTarget {
                    family: family(table),
                    latest,
                });
            }
        }
        let options = RocksOptions {
            environment: self.options.environment.clone(),
            ..RocksOptions::default()
        };
        Some(Arc::new(Spiller::new(
            self.rocks.path().join(UNCOMMITTED),
            options,
            limit,
            targets,
        )))
    }

    /// The database, its stores checked against what the files say of them.
    fn finish(self, stores: &[StoreSpec], in_memory: bool) -> Result<Arc<Database>> {
        let mut batch = Batch::with_capacity(256);
        batch.push(self.metadata.id, FORMAT_KEY, Some(&FORMAT.to_be_bytes()));
        batch.push(
            self.metadata.id,
            DURABILITY_KEY,
            Some(self.options.durability.name().as_bytes()),
        );
        let found = self
            .read(metadata::OPEN_KEY)?
            .map(|stored| Marker::parse(&stored));
        let discarded = self.discard(found.as_ref(), stores, &mut batch)?;
        let position = self.position()?;
        let (mut states, mut keeps_less) = (Vec::with_capacity(stores.len()), false);
        for spec in stores {
            let stored = self.read(&metadata::store_key(&spec.name))?;
            let mut is_lost = discarded.contains(&spec.name) || !spec.persistent;
            if stored.is_none() {
                let has_offsets =
                    offsets::push_begun(&self.snapshot, self.offsets, &spec.name, &mut batch)?;
                // A store of an older layout is not new for having no descriptor.
                is_lost |= !has_offsets && !self.has_rows(spec)?;
            }
            if spec.persistent && self.read(&metadata::memory_key(&spec.name))?.is_some() {
                // Its offsets are those of rows that were never in files.
                offsets::push_lost(&self.snapshot, self.offsets, &spec.name, &mut batch)?;
                batch.push(self.metadata.id, &metadata::memory_key(&spec.name), None);
                is_lost = true;
            }
            if is_lost && !position.is_empty() {
                batch.push(self.metadata.id, &metadata::lost_key(&spec.name), Some(&[]));
            }
            let before = stored.as_deref().and_then(metadata::retention);
            keeps_less |= before.is_some_and(|before| before > spec.kind.retention());
            states.push(self.store_state(
                spec,
                stored.as_deref(),
                before,
                discarded.contains(&spec.name),
                &mut batch,
            )?);
        }
        if self.options.older_layout && !in_memory {
            older_layout::check_topics(&self.snapshot, self.offsets, &position)
                .map_err(|e| e.path(self.rocks.path()))?;
        }
        self.rocks.write(&mut batch)?;
        if keeps_less {
            // What compactions drop from now on a crash does not bring back, so it must not take
            // back the descriptor either.
            self.rocks.flush(true)?;
        }
        // What an earlier open left in doubt is settled for the stores of this one.
        let in_doubt = found
            .map(|found| found.into_others(stores))
            .unwrap_or_default();
        let marker = Marker::of(stores, self.options.guarantee, &in_doubt);
        marker::put(marker.as_ref(), &self.rocks, self.metadata)?;
        if marker.is_some() {
            self.rocks.flush(true)?;
        }
        let absent = self.absent(stores)?;
        let (tables, entries, memory) = entries(
            &self.rocks,
            stores,
            &states,
            &self.horizons,
            self.options.metrics_level,
        )?;
        let spiller = if in_memory {
            None
        } else {
            self.spiller(&entries, &tables)
        };
        let committed = Committed {
            base: Base::new(self.rocks.snapshot()?, memory, position),
            states,
        };
        let db = Database {
            reclaimer: Reclaimer::new(&self.rocks, &entries)?,
            views: Mutex::new(Views::new(&committed)),
            counts: DatabaseCounts::new(&self.rocks),
            rocks: self.rocks,
            metadata: self.metadata,
            offsets: self.offsets,
            tables,
            stores: entries,
            absent,
            committed: RwLock::new(committed),
            open: Mutex::new(Open::Fresh),
            uncommitted: Uncommitted::default(),
            options: self.options,
            spiller,
            in_memory,
            marker,
            closed_marker: Marker::of(&[], ProcessingGuarantee::ExactlyOnce, &in_doubt),
        };
        db.raise_horizons(&db.views.lock());
        Ok(Arc::new(db))
    }

    /// Throws away what an unclean stop left in doubt; returns the stores concerned.
    fn discard(
        &self,
        found: Option<&Marker>,
        stores: &[StoreSpec],
        batch: &mut Batch,
    ) -> Result<Vec<String>> {
        let Some(found) = found else {
            return Ok(Vec::new());
        };
        if self.options.guarantee == ProcessingGuarantee::AtLeastOnce {
            return Ok(Vec::new());
        }
        let path = self.rocks.path();
        let discarded = found.to_discard(stores, path)?;
        for spec in &discarded {
            log::warn!(
                "store {}: discarded, since it is written without transactions and its database \
                 was not closed; restore it from its changelog [path: {}]",
                spec.name,
                path.display()
            );
            for family in store_families(spec) {
                self.rocks.clear(self.rocks.family(&family)?)?;
            }
            // What a plain store of this name has left is read, too.
            if spec.kind == StoreKind::TimestampedKeyValue
                && let Ok(plain) = self
                    .rocks
                    .family(&FamilySpec::new(FamilyKind::KeyValue, &spec.name))
            {
                self.rocks.clear(plain)?;
            }
            batch.push(
                self.metadata.id,
                &metadata::stream_time_key(&spec.name),
                None,
            );
            batch.push(
                self.metadata.id,
                &metadata::first_kept_key(&spec.name),
                None,
            );
            offsets::push_lost(&self.snapshot, self.offsets, &spec.name, batch)?;
        }
        Ok(discarded
            .into_iter()
            .map(|spec| spec.name.clone())
            .collect())
    }

    /// What a store stood at, whose descriptor and retention `stored` and `before` are; notes its
    /// descriptor.
    fn store_state(
        &self,
        spec: &StoreSpec,
        stored: Option<&[u8]>,
        before: Option<i64>,
        is_empty: bool,
        batch: &mut Batch,
    ) -> Result<StoreState> {
        if !spec.persistent {
            if stored.is_some() {
                let words = "the store was made in files and is now asked for in memory; open it \
                             with persistent=True or give the new store another name";
                return Err(Error::new(ErrorKind::InvalidValue, words)
                    .store(&spec.name)
                    .path(self.rocks.path()));
            }
            // Its rows are gone since the last open.
            offsets::push_lost(&self.snapshot, self.offsets, &spec.name, batch)?;
            batch.push(
                self.metadata.id,
                &metadata::memory_key(&spec.name),
                Some(&[]),
            );
            return Ok(StoreState::default());
        }
        if let Some(stored) = stored {
            metadata::check_descriptor(spec, stored).map_err(|e| e.path(self.rocks.path()))?;
        }
        batch.push(
            self.metadata.id,
            &metadata::store_key(&spec.name),
            Some(metadata::descriptor(spec).as_bytes()),
        );
        let stream_time = self
            .read(&metadata::stream_time_key(&spec.name))?
            .filter(|_| !is_empty);
        let stream_time = stream_time
            .map(|time| metadata::parse_time(&time))
            .transpose()?;
        let first_kept = self
            .read(&metadata::first_kept_key(&spec.name))?
            .filter(|_| !is_empty);
        let mut first_kept = first_kept
            .map(|time| metadata::parse_time(&time))
            .transpose()?;
        // Of what has expired some rows may be left and some not, so a longer retention does not
        // bring them back.
        let shorter = before.filter(|before| *before < spec.kind.retention());
        if let (Some(before), Some(time)) = (shorter, stream_time) {
            let kept = first_kept
                .unwrap_or(i64::MIN)
                .max(spec.kind.first_kept(time, before));
            batch.push(
                self.metadata.id,
                &metadata::first_kept_key(&spec.name),
                Some(&kept.to_be_bytes()),
            );
            first_kept = Some(kept);
        }
        let sequence = self.read(&metadata::sequence_key(&spec.name))?;
        Ok(StoreState {
            stream_time,
            first_kept,
            sequence: sequence
                .map(|number| metadata::parse_sequence(&number))
                .transpose()?
                .unwrap_or(0),
            changed: false,
        })
    }

    fn has_rows(&self, spec: &StoreSpec) -> Result<bool> {
        store_families(spec)
            .iter()
            .try_fold(false, |found, family| {
                Ok(found
                    || spec.persistent
                        && has_rows(&self.rocks, self.rocks.family(family)?, family.kind)?)
            })
    }

    fn position(&self) -> Result<Position> {
        self.rows_of(metadata::POSITION, metadata::parse_position)?
            .into_iter()
            .collect()
    }

    /// The stores that the database has and this open leaves out.
    fn absent(&self, stores: &[StoreSpec]) -> Result<Vec<String>> {
        let name = |key: &[u8], _: &[u8]| {
            String::from_utf8_lossy(&key[metadata::STORE.len()..]).into_owned()
        };
        let mut names = self.rows_of(metadata::STORE, name)?;
        names.retain(|name| stores.iter().all(|spec| spec.name != *name));
        Ok(names)
    }

    /// What the metadata rows with a prefix say.
    fn rows_of<T>(&self, prefix: &[u8], parse: impl Fn(&[u8], &[u8]) -> T) -> Result<Vec<T>> {
        let upper = crate::store::key_range::successor(prefix);
        let bounds = Bounds {
            lower: Some(prefix.to_vec()),
            upper,
            within_key: false,
        };
        let cursor = Cursor::new(&self.snapshot, self.metadata, FamilyKind::Metadata, &bounds)?;
        let mut found = Vec::new();
        cursor.with(|rows| {
            rows.seek_to_first();
            while let Some((key, value)) = rows.item() {
                found.push(parse(key, value));
                rows.next();
            }
        })?;
        Ok(found)
    }
}

type Entries = (Arc<[Table]>, Vec<Entry>, Vec<MemoryTable>);

fn entries(
    rocks: &Arc<RocksDb>,
    stores: &[StoreSpec],
    states: &[StoreState],
    horizons: &[(String, Horizon)],
    level: MetricsLevel,
) -> Result<Entries> {
    let mut tables: Vec<Table> = Vec::new();
    let mut entries = Vec::new();
    let mut memory = Vec::new();
    for (n, spec) in stores.iter().enumerate() {
        let first = tables.len();
        for family in store_families(spec) {
            let place = if spec.persistent {
                Place::Files(rocks.family(&family)?)
            } else {
                memory.push(MemoryTable::default());
                Place::Memory(memory.len() - 1)
            };
            tables.push(Table {
                number: tables.len(),
                place,
                kind: family.kind,
            });
        }
        let counts = StoreCounts::new(level);
        let missing = |what: &str| {
            Error::new(
                ErrorKind::InvalidState,
                format!("there is no {what} of this store"),
            )
            .store(&spec.name)
        };
        let horizon = || {
            let own = horizons.iter().find(|(store, _)| *store == spec.name);
            own.map(|(_, horizon)| horizon.clone())
                .ok_or_else(|| missing("expiry horizon"))
        };
        let store = match (&spec.kind, &tables[first..]) {
            (
                StoreKind::Versioned {
                    history_retention,
                    segment_interval,
                },
                [versions, latest],
            ) => {
                let retention = (*history_retention, *segment_interval);
                let store = VersionedStore::new(
                    &spec.name,
                    n,
                    [*versions, *latest],
                    retention,
                    states[n].stream_time,
                    Arc::clone(&counts),
                );
                Store::Versioned(store, horizon()?)
            }
            (
                StoreKind::Window {
                    retention,
                    window_size,
                    retain_duplicates,
                    ..
                },
                [.., windowed, times],
            ) => {
                let rows = WindowedRows::new(
                    &spec.name,
                    n,
                    [*windowed, *times],
                    *retention,
                    Arc::clone(&counts),
                );
                Store::Window(
                    WindowStore {
                        rows,
                        window_size: *window_size,
                        retain_duplicates: *retain_duplicates,
                    },
                    horizon()?,
                )
            }
            (StoreKind::Session { retention }, [.., windowed, times]) => {
                let rows = WindowedRows::new(
                    &spec.name,
                    n,
                    [*windowed, *times],
                    *retention,
                    Arc::clone(&counts),
                );
                Store::Session(SessionStore { rows }, horizon()?)
            }
            (StoreKind::TimestampedKeyValue, [.., table]) => {
                let table = *table;
                let plain = if spec.persistent {
                    plain_rows(rocks, &spec.name, tables.len())?
                } else {
                    None
                };
                tables.extend(plain);
                Store::Timestamped(TimestampedKeyValueStore {
                    name: spec.name.clone(),
                    table,
                    plain,
                    counts: Arc::clone(&counts),
                })
            }
            (_, [table, ..]) => Store::KeyValue(KeyValueStore {
                name: spec.name.clone(),
                table: *table,
                counts: Arc::clone(&counts),
            }),
            (_, []) => return Err(missing("table")),
        };
        entries.push(Entry {
            spec: spec.clone(),
            store,
            counts,
        });
    }
    Ok((tables.into(), entries, memory))
}

/// The table of a plain key-value store of this name, if it has left any rows.
fn plain_rows(rocks: &Arc<RocksDb>, name: &str, number: usize) -> Result<Option<Table>> {
    let kind = FamilyKind::KeyValue;
    let Ok(family) = rocks.family(&FamilySpec::new(kind, name)) else {
        return Ok(None);
    };
    Ok(has_rows(rocks, family, kind)?.then_some(Table {
        number,
        place: Place::Files(family),
        kind,
    }))
}

fn has_rows(rocks: &Arc<RocksDb>, family: Family, kind: FamilyKind) -> Result<bool> {
    Cursor::new(&rocks.snapshot()?, family, kind, &Bounds::default())?.with(|rows| {
        rows.seek_to_first();
        rows.valid()
    })
}
