//! The first part of an open: the files and their recovery.

use super::checks::check_format;
use super::store_entries::store_families;
use crate::database::commit::commit_file::CommitFile;
use crate::database::commit::spilled_commit;
use crate::database::expiry::RowExpiry;
use crate::database::options::{DatabaseOptions, Durability};
use crate::database::rows::OwnFamilies;
use crate::database::rows::keys::{self, DURABILITY_KEY, FORMAT, FORMAT_KEY};
use crate::error::{Error, ErrorKind, Result};
use crate::expiry::Horizon;
use crate::metrics::MetricsLevel;
use crate::position::Position;
use crate::rocks::{Cursor, DirectoryLock, FilterSetup, RocksDb, RocksOptions, Snapshot};
use crate::store::{StoreKind, StoreSpec};
use crate::table::{Bounds, FamilyKind, FamilySpec};
use crate::transaction::{Batch, Spiller};
use std::path::Path;
use std::sync::Arc;

/// The folder of spilled rows of open transactions, below the database's directory.
pub(super) const UNCOMMITTED: &str = "+uncommitted";

/// Stands for the path of a database in memory.
const IN_MEMORY: &str = "in memory";

/// A database whose files are open and whose stores are not.
pub(super) struct Opening {
    pub(super) rocks: Arc<RocksDb>,
    pub(super) families: OwnFamilies,
    pub(super) horizons: Vec<(String, Horizon)>,
    pub(super) options: DatabaseOptions,
    pub(super) snapshot: Arc<Snapshot>,
}

impl Opening {
    /// Opens the database in a locked directory, or in memory, with the families of these stores.
    /// `commit_file` is that of a commit that was interrupted.
    pub(super) fn new(
        lock: Option<DirectoryLock>,
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
        let rocks = match lock {
            Some(lock) => {
                if let Some(file) = commit_file {
                    file.put_back(lock.path(), &rocks_options)?;
                }
                RocksDb::open_locked(lock, &specs, &rocks_options)?
            }
            None => RocksDb::open(Path::new(IN_MEMORY), &specs, &rocks_options)?,
        };
        let families = OwnFamilies {
            metadata: rocks.family(&own[0])?,
            offsets: rocks.family(&own[1])?,
        };
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
            // The format must be in files before the open continues: after a crash, the next open
            // then finds a Holdfast database and not an empty RocksDB database.
            self.rocks.flush(true)?;
        }
        Ok(())
    }

    /// Finishes an interrupted commit if its commit file was written, and undoes it otherwise.
    /// Deletes uncommitted rows.
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

    /// The stored input position.
    pub(super) fn position(&self) -> Result<Position> {
        self.rows_of(keys::POSITION, keys::parse_position)?
            .into_iter()
            .collect()
    }

    /// Returns the names of the database's stores that are not among `stores`.
    pub(super) fn absent(&self, stores: &[StoreSpec]) -> Result<Vec<String>> {
        let name =
            |key: &[u8], _: &[u8]| String::from_utf8_lossy(&key[keys::STORE.len()..]).into_owned();
        let mut names = self.rows_of(keys::STORE, name)?;
        names.retain(|name| stores.iter().all(|spec| spec.name != *name));
        Ok(names)
    }

    /// Parses the metadata rows with a prefix.
    fn rows_of<T>(&self, prefix: &[u8], parse: impl Fn(&[u8], &[u8]) -> T) -> Result<Vec<T>> {
        let upper = crate::store::key_range::successor(prefix);
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
