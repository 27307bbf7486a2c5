//! The steps of an open: from RocksDB's files to a database.

use super::checks::check_format;
use super::directory::name_holder;
use super::store_entries::{BuiltStores, build_stores, store_families};
use super::store_states::StoreStates;
use crate::database::commit::commit_file::CommitFile;
use crate::database::commit::spilled_commit;
use crate::database::database::{Database, Markers, TransactionState};
use crate::database::expiry::{Reclaimer, RowExpiry, Views};
use crate::database::legacy_files;
use crate::database::metrics::DatabaseCounts;
use crate::database::options::{DatabaseOptions, Durability, ProcessingGuarantee};
use crate::database::rows::OwnFamilies;
use crate::database::rows::keys::{self, DURABILITY_KEY, FORMAT, FORMAT_KEY};
use crate::database::rows::open_marker::{self, OpenMarker};
use crate::database::stores::{StoreCatalog, StoreEntry};
use crate::database::transactions::committed::Committed;
use crate::database::transactions::uncommitted::Uncommitted;
use crate::database::transactions::writer::Writer;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::MetricsLevel;
use crate::position::Position;
use crate::rocks::{Cursor, FilterSetup, RocksDb, RocksOptions, Snapshot};
use crate::store::versioned::Horizon;
use crate::store::{StoreKind, StoreSpec};
use crate::sync::{Mutex, RwLock};
use crate::table::{Bounds, FamilyKind, FamilySpec};
use crate::transaction::{Base, Batch, Spiller, Table, Target};
use std::path::Path;
use std::sync::Arc;

/// The folder of spilled rows of open transactions, below the database's directory.
const UNCOMMITTED: &str = "+uncommitted";

/// A database whose files are open and whose stores are not.
pub(super) struct Opening {
    pub(super) rocks: Arc<RocksDb>,
    pub(super) families: OwnFamilies,
    horizons: Vec<(String, Horizon)>,
    pub(super) options: DatabaseOptions,
    pub(super) snapshot: Arc<Snapshot>,
}

impl Opening {
    /// Opens the database with the families of these stores. `commit_file` is that of a commit that
    /// was interrupted.
    pub(super) fn new(
        path: &Path,
        stores: &[StoreSpec],
        options: DatabaseOptions,
        commit_file: Option<&CommitFile>,
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
        let specs: Vec<FamilySpec> = own
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
            row_filters: horizons
                .iter()
                .map(|(store, horizon)| {
                    (store.clone(), FilterSetup::new(RowExpiry(horizon.clone())))
                })
                .collect(),
            environment: options.environment.clone(),
            commit_file: commit_file.map(|file| file.header.id),
            temporary: false,
        };
        if let Some(file) = commit_file {
            file.put_back(path, &rocks_options)?;
        }
        let rocks =
            RocksDb::open(path, &specs, &rocks_options).map_err(|e| name_holder(e, path))?;
        let families = OwnFamilies {
            metadata: rocks.family(&own[0])?,
            offsets: rocks.family(&own[1])?,
        };
        if options
            .environment
            .as_ref()
            .is_none_or(|environment| !environment.is_in_memory())
        {
            legacy_files::move_in(&rocks, families.metadata, families.offsets, stores)?;
        }
        let snapshot = rocks.snapshot()?;
        Ok(Self {
            rocks,
            families,
            horizons,
            options,
            snapshot,
        })
    }

    /// Reads a row of the metadata.
    pub(super) fn read(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.rocks
            .get(self.families.metadata, key, &self.snapshot, |value| {
                value.map(<[u8]>::to_vec)
            })
    }

    /// Checks the format and the durability of the files; writes the format of a new database.
    pub(super) fn check_files(&self, is_new: bool) -> Result<()> {
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
            batch.push(
                self.families.metadata.id,
                FORMAT_KEY,
                Some(&FORMAT.to_be_bytes()),
            );
            self.rocks.write(&mut batch)?;
            // After a crash here the next open must find a database of Holdfast's, not an empty one.
            self.rocks.flush(true)?;
        }
        Ok(())
    }

    /// Ends a commit that a crash interrupted, and deletes uncommitted rows.
    pub(super) fn recover(mut self, commit_file: Option<&CommitFile>) -> Result<Self> {
        spilled_commit::recover(
            &self.rocks,
            self.families.metadata,
            commit_file,
            self.options.environment.as_ref(),
        )?;
        self.snapshot = self.rocks.snapshot()?;
        Spiller::remove_orphans(&self.rocks.path().join(UNCOMMITTED))?;
        Ok(self)
    }

    /// The spiller of the database's transactions; `None` if they never spill.
    fn spiller(&self, stores: &[StoreEntry], tables: &[Table]) -> Option<Arc<Spiller>> {
        let limit = self.options.spill_at()?;
        let mut targets = vec![None; tables.len()];
        for entry in stores
            .iter()
            .filter(|entry| entry.spec.persistent && entry.spec.transactional)
        {
            let family = |table: &Table| FamilySpec::new(table.kind, &entry.spec.name);
            let tables_of_store = entry.store.tables();
            for table in &tables_of_store {
                let latest = match (table.kind, tables_of_store.as_slice()) {
                    (FamilyKind::Versions, [_, latest]) => Some(family(latest)),
                    _ => None,
                };
                targets[table.number] = Some(Target {
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

    /// Builds the database, after its stores were checked against their stored descriptors.
    pub(super) fn finish(self, stores: &[StoreSpec], in_memory: bool) -> Result<Arc<Database>> {
        let metadata = self.families.metadata;
        let mut batch = Batch::with_capacity(256);
        batch.push(metadata.id, FORMAT_KEY, Some(&FORMAT.to_be_bytes()));
        batch.push(
            metadata.id,
            DURABILITY_KEY,
            Some(self.options.durability.name().as_bytes()),
        );
        let found = self
            .read(keys::OPEN_KEY)?
            .map(|stored| OpenMarker::parse(&stored));
        let discarded = self.discard(found.as_ref(), stores, &mut batch)?;
        let position = self.position()?;
        let StoreStates {
            states,
            shorter_retention,
        } = self.store_states(stores, &discarded, &position, &mut batch)?;
        if self.options.older_layout && !in_memory {
            legacy_files::check_topics(&self.snapshot, self.families.offsets, &position)
                .map_err(|e| e.path(self.rocks.path()))?;
        }
        self.rocks.write(&mut batch)?;
        if shorter_retention {
            // A crash does not bring back the rows that compactions drop from now on, so it must
            // not take back the descriptor either.
            self.rocks.flush(true)?;
        }
        let markers = self.mark_open(found, stores)?;
        let absent = self.absent(stores)?;
        let BuiltStores {
            tables,
            entries,
            memory,
        } = build_stores(
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
            families: self.families,
            stores: StoreCatalog {
                tables,
                entries,
                absent,
            },
            transactions: TransactionState {
                committed: RwLock::new(committed),
                writer: Mutex::new(Writer::default()),
                uncommitted: Uncommitted::default(),
            },
            options: self.options,
            spiller,
            markers,
        };
        db.raise_horizons(&db.views.lock());
        Ok(Arc::new(db))
    }

    /// Writes the `open` marker. The stores of this open that an earlier one left suspect are
    /// settled now; the others stay in the marker.
    fn mark_open(&self, found: Option<OpenMarker>, stores: &[StoreSpec]) -> Result<Markers> {
        let suspect = found
            .map(|found| found.into_others(stores))
            .unwrap_or_default();
        let open = OpenMarker::of(stores, self.options.guarantee, &suspect);
        open_marker::put(open.as_ref(), &self.rocks, self.families.metadata)?;
        if open.is_some() {
            self.rocks.flush(true)?;
        }
        let closed = OpenMarker::of(&[], ProcessingGuarantee::ExactlyOnce, &suspect);
        Ok(Markers { open, closed })
    }

    fn position(&self) -> Result<Position> {
        self.rows_of(keys::POSITION, keys::parse_position)?
            .into_iter()
            .collect()
    }

    /// The stores that the database has and this open leaves out.
    fn absent(&self, stores: &[StoreSpec]) -> Result<Vec<String>> {
        let name =
            |key: &[u8], _: &[u8]| String::from_utf8_lossy(&key[keys::STORE.len()..]).into_owned();
        let mut names = self.rows_of(keys::STORE, name)?;
        names.retain(|name| stores.iter().all(|spec| spec.name != *name));
        Ok(names)
    }

    /// Parses the metadata rows with a prefix.
    fn rows_of<T>(&self, prefix: &[u8], parse: impl Fn(&[u8], &[u8]) -> T) -> Result<Vec<T>> {
        let upper = crate::store::key_value::successor(prefix);
        let bounds = Bounds {
            lower: Some(prefix.to_vec()),
            upper,
            within_key: false,
        };
        let cursor = Cursor::new(
            &self.snapshot,
            self.families.metadata,
            FamilyKind::Metadata,
            &bounds,
        )?;
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
