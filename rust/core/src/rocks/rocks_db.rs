//! One open RocksDB database.
//!
//! Closing: everything that reads holds the guard's shared side for the length of one call;
//! [`RocksDb::close`] takes the exclusive side, destroys all iterators (they would outlive the
//! database otherwise) and then the database. After that each call finds no database and says
//! `StoreClosed`. After a fork the child must not touch any of it: RocksDB's threads did not
//! survive, so nothing is destroyed there.

use super::batch::Batch;
use super::commit_number::{self, CommitNumber};
use super::cursor::Slot;
use super::environment;
use super::failure::failure;
use super::family::{Family, Handle};
use super::last_commit;
use super::log_gap::Watch;
use super::log_record;
use super::options::{RocksOptions, family_options, rocks_options};
use super::snapshot::Snapshot;
use super::statistics::Statistics;
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint::Failpoint;
use crate::sync::{self, Mutex, RwLock, RwLockReadGuard};
use crate::table::{FamilyKind, FamilySpec};
use rust_rocksdb::{
    AsColumnFamilyRef, ColumnFamilyDescriptor, DB, FlushOptions, Options, ReadOptions, ReadTier,
    WriteBatch, WriteOptions,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// An open database.
pub struct RocksDb {
    pub(super) db: RwLock<Option<Box<DB>>>,
    pub(super) slots: Mutex<HashMap<u64, Arc<Slot>>>,
    pub(super) next_slot: AtomicU64,
    pub(super) statistics: Statistics,
    handles: Vec<(String, Family)>,
    path: PathBuf,
    pid: u32,
    pub(super) sync: bool,
    pub(super) commits: CommitNumber,
    pub(super) options: RocksOptions,
}

/// The database, held open for one call.
pub(super) type Guard<'a> = RwLockReadGuard<'a, Option<Box<DB>>>;

/// How many keys one native MultiGet may hold: enough for its own batching, few enough that the
/// blocks it pins stay small.
const MULTI_GET_KEYS: usize = 1024;

impl RocksDb {
    /// Opens or makes the database at `path` with these families, and those that its files already
    /// have.
    ///
    /// # Errors
    /// `StoreLocked` where somebody else has it open; `FormatVersion` for a column family that is
    /// none of Holdfast's; `StoreCorrupted` also where a commit is missing that could not be lost
    /// any more; `InvalidValue` for an option that is not to be set.
    pub fn open(path: &Path, wanted: &[FamilySpec], options: &RocksOptions) -> Result<Arc<Self>> {
        Failpoint::BeforeOpen.reached()?;
        let mut db_options = rocks_options(options)?;
        let statistics = Statistics::new(&mut db_options, options.statistics);
        let mut specs = wanted.to_vec();
        let on_disk = !options
            .environment
            .as_ref()
            .is_some_and(|environment| environment.in_memory);
        let durable = if on_disk {
            commit_number::durable(path)
        } else {
            None
        };
        let number_in_files = || last_commit::in_files(path, options).map(|last| last.number);
        if on_disk && path.join("CURRENT").exists() {
            log_record::check(path, number_in_files)?;
            let names = DB::list_cf(&db_options, path)
                .map_err(|e| failure("reading the list of families", path, e))?;
            for name in names {
                if name == "default" || specs.iter().any(|spec| spec.name() == name) {
                    continue;
                }
                let spec = FamilySpec::parse(&name).ok_or_else(|| {
                    Error::new(
                        ErrorKind::FormatVersion,
                        format!(
                            "this is a RocksDB database, but not one of Holdfast's: it has a \
                             column family {name:?}; choose another path"
                        ),
                    )
                    .path(path)
                })?;
                specs.push(spec);
            }
        } else if let Some(durable) = durable {
            // RocksDB would make a new database and delete the files of the old one.
            return Err(commit_number::lost(
                "unknown, since the file CURRENT is missing",
                durable,
                path,
            ));
        }
        let families = || -> Result<Vec<ColumnFamilyDescriptor>> {
            let own = specs.iter().map(|spec| {
                Ok(ColumnFamilyDescriptor::new(
                    spec.name(),
                    family_options(spec, options)?,
                ))
            });
            std::iter::once(Ok(ColumnFamilyDescriptor::new(
                "default",
                Options::default(),
            )))
            .chain(own)
            .collect()
        };
        // Where this fails the opening below does too, and says why.
        let watch = if options.sync && has_log(path) {
            number_in_files().map(Watch::from)
        } else {
            None
        };
        if let Some(watch) = &watch {
            db_options.set_wal_filter(watch.clone());
        }
        let db = if on_disk {
            DB::open_cf_descriptors(&db_options, path, families()?)
        } else {
            let place = environment::place_in_memory();
            let opened = DB::open_cf_descriptors(&db_options, &place, families()?);
            // The crate makes the directory on disk, too; nothing is ever put there.
            let _ = std::fs::remove_dir(&place);
            opened
        };
        let db = db.map_err(|e| {
            watch
                .as_ref()
                .and_then(|watch| watch.error(path))
                .unwrap_or_else(|| Self::open_failure(path, e, options))
        })?;
        let mut handles = Vec::with_capacity(specs.len());
        for spec in &specs {
            let name = spec.name();
            let handle = db.cf_handle(&name).ok_or_else(|| {
                Error::new(
                    ErrorKind::StoreCorrupted,
                    format!("the column family {name:?} is missing after open"),
                )
                .path(path)
            })?;
            handles.push((
                name,
                Family {
                    handle: Handle(handle.inner()),
                    id: handle.id(),
                },
            ));
        }
        if let Some(handle) = db.cf_handle("default") {
            handles.push((
                "default".to_owned(),
                Family {
                    handle: Handle(handle.inner()),
                    id: handle.id(),
                },
            ));
        }
        Failpoint::AfterOpen.reached()?;
        let last = last_commit::read(&db)
            .map_err(|e| failure("reading the number of the last commit", path, e))?;
        if let Some(durable) =
            durable.filter(|durable| *durable > last.number.max(options.begun.unwrap_or(0)))
        {
            return Err(commit_number::lost(&last.to_string(), durable, path));
        }
        Ok(Arc::new(Self {
            db: RwLock::new(Some(Box::new(db))),
            slots: Mutex::new(HashMap::new()),
            next_slot: AtomicU64::new(0),
            statistics,
            handles,
            path: path.to_owned(),
            pid: std::process::id(),
            sync: options.sync,
            commits: CommitNumber::new(
                last.number,
                (on_disk && !options.temporary).then_some(path),
            ),
            options: options.clone(),
        }))
    }

    fn open_failure(path: &Path, error: rust_rocksdb::Error, options: &RocksOptions) -> Error {
        // Words of RocksDB's own, not of the path, which a message holds too.
        let words = error.to_string().replace(&*path.to_string_lossy(), "");
        let held =
            words.contains("lock hold by current process") || words.contains("While lock file");
        if error.kind() == rust_rocksdb::ErrorKind::IOError && held {
            return Error::new(ErrorKind::StoreLocked, "the directory is open elsewhere")
                .path(path);
        }
        if error.kind() == rust_rocksdb::ErrorKind::Corruption
            && let Some(last) = last_commit::before_damage(path, options)
        {
            let message = format!(
                "opening the database failed: a file is damaged, and the last good commit before \
                 the damage is {last}; restore the directory from a checkpoint, or delete it \
                 where a changelog can rebuild it (cause: {words})"
            );
            return Error::new(ErrorKind::StoreCorrupted, message).path(path);
        }
        failure("opening the database", path, error)
    }

    /// Where the files are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The handle of an open family.
    ///
    /// # Errors
    /// `InvalidValue` for one that is not.
    pub fn family(&self, spec: &FamilySpec) -> Result<Family> {
        let name = spec.name();
        self.handles
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, family)| *family)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidValue,
                    "there is no such store in this database",
                )
                .store(&spec.store)
                .path(&self.path)
            })
    }

    /// RocksDB's own family, which every database has.
    ///
    /// # Errors
    /// `StoreCorrupted` where it is missing.
    pub fn default_family(&self) -> Result<Family> {
        let found = self
            .handles
            .iter()
            .find(|(name, _)| name == "default")
            .map(|(_, family)| *family);
        found.ok_or_else(|| {
            Error::new(
                ErrorKind::StoreCorrupted,
                "the default column family is missing",
            )
            .path(&self.path)
        })
    }

    pub(super) fn guard(&self) -> Result<Guard<'_>> {
        let guard = sync::read_recursive(&self.db);
        if guard.is_none() {
            return Err(self.closed());
        }
        Ok(guard)
    }

    /// `StoreClosed` once the database is closed.
    pub fn check_open(&self) -> Result<()> {
        self.guard().map(drop)
    }

    /// `ForkedProcess` in a child of the process that opened the database. To be asked before any
    /// lock is taken: another thread may have held it when the process forked.
    pub fn check_owner(&self) -> Result<()> {
        if self.in_owner_process() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::ForkedProcess,
            "the database was opened before this process was forked, and its threads did not come \
             along; start processes with spawn, or fork before the first database is opened",
        )
        .path(&self.path))
    }

    pub(super) fn closed(&self) -> Error {
        Error::new(
            ErrorKind::StoreClosed,
            "the store is closed; open the database again",
        )
        .path(&self.path)
    }

    pub(super) fn opened<'g>(&self, guard: &'g Guard<'_>) -> Result<&'g DB> {
        guard.as_deref().ok_or_else(|| self.closed())
    }

    /// Reads one key as of a snapshot; `f` sees the value where it lies, without a copy.
    pub fn get<R>(
        &self,
        family: Family,
        key: &[u8],
        snapshot: &Snapshot,
        f: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        let guard = self.guard()?;
        let found = self
            .opened(&guard)?
            .get_pinned_cf_opt(&family.handle, key, snapshot.read_options())
            .map_err(|e| failure("a read", &self.path, e).key(key))?;
        Ok(f(found.as_deref()))
    }

    /// Reads many keys, which must be in ascending order, as of a snapshot; `f` is called for each,
    /// in order.
    pub fn multi_get_sorted(
        &self,
        family: Family,
        keys: &[&[u8]],
        snapshot: &Snapshot,
        mut f: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        for (n, chunk) in keys.chunks(MULTI_GET_KEYS).enumerate() {
            let found = db
                .batched_multi_get_pinned_batch_cf_opt(
                    &family.handle,
                    chunk,
                    true,
                    snapshot.read_options(),
                )
                .map_err(|e| failure("a batch of reads", &self.path, e))?;
            for (i, key) in chunk.iter().enumerate() {
                let value = match found.get(i) {
                    Some(Ok(value)) => value,
                    Some(Err(e)) => return Err(failure("a batch of reads", &self.path, e).key(key)),
                    None => None,
                };
                f(n * MULTI_GET_KEYS + i, value);
            }
        }
        Ok(())
    }

    /// Writes a batch, and the number of the commit with it, whole or not at all; with
    /// `Durability::Sync` it is on disk when this returns.
    pub fn write(&self, batch: &mut Batch) -> Result<()> {
        let guard = self.guard()?;
        Failpoint::BeforeCommit.reached()?;
        let mut options = WriteOptions::default();
        if self.sync {
            options.set_sync(true);
        } else {
            options.disable_wal(true);
        }
        let db = self.opened(&guard)?;
        let metadata = self.family(&FamilySpec::new(FamilyKind::Metadata, ""))?;
        let number = self
            .commits
            .next(|number| {
                // Here, where there is room: RocksDB's own copy has none left, and would be copied
                // once more to grow.
                batch.push(metadata.id, commit_number::KEY, Some(&number.to_be_bytes()));
                db.write_opt(&WriteBatch::from_data(batch.finish()), &options)
            })
            .map_err(|e| failure("a commit", &self.path, e))?;
        if self.sync {
            self.commits.is_durable(number);
        }
        Failpoint::AfterCommit.reached()
    }

    /// The number of the last write that is known to have taken place.
    pub fn last_write(&self) -> u64 {
        self.commits.last()
    }

    /// The same, and the database is asked: a write may have returned an error and have taken
    /// place.
    pub fn find_last_write(&self) -> Result<u64> {
        let guard = self.guard()?;
        let last = last_commit::number(self.opened(&guard)?)
            .map_err(|e| failure("reading the number of the last commit", &self.path, e))?;
        Ok(self.commits.found(last))
    }

    /// Notes that a commit file has come into place: the commit of that number cannot be lost any
    /// more.
    pub fn has_begun(&self, number: u64) {
        self.commits.is_durable(number);
    }

    /// Pins the state as it is now.
    pub fn snapshot(self: &Arc<Self>) -> Result<Arc<Snapshot>> {
        Snapshot::new(self)
    }

    /// Writes the memtables of all families to files, at one sequence number; with `wait` they are
    /// there on return.
    pub fn flush(&self, wait: bool) -> Result<()> {
        let guard = self.guard()?;
        Failpoint::BeforeFlush.reached()?;
        self.flush_all(self.opened(&guard)?, wait)?;
        Failpoint::AfterFlush.reached()
    }

    pub(super) fn flush_all(&self, db: &DB, wait: bool) -> Result<()> {
        let handles: Vec<_> = self
            .handles
            .iter()
            .map(|(_, family)| &family.handle)
            .collect();
        let mut options = FlushOptions::default();
        options.set_wait(wait);
        let number = self.commits.last();
        db.flush_cfs_opt(&handles, &options)
            .map_err(|e| failure("writing the memtables to files", &self.path, e))?;
        if wait {
            self.commits.is_durable(number);
        }
        Ok(())
    }

    /// The last commit that the files hold without a log, for a message.
    pub fn last_in_files(&self) -> Option<String> {
        last_commit::in_files(&self.path, &self.options).map(|last| last.to_string())
    }

    /// The number of the last commit of which all is in files.
    pub fn flushed_commit(&self) -> Result<u64> {
        let guard = self.guard()?;
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::Persisted);
        let metadata = self.family(&FamilySpec::new(FamilyKind::Metadata, ""))?;
        let number =
            self.opened(&guard)?
                .get_pinned_cf_opt(&metadata.handle, commit_number::KEY, &options);
        Ok(commit_number::parse(
            number
                .map_err(|e| {
                    failure(
                        "reading the number of the last flushed commit",
                        &self.path,
                        e,
                    )
                })?
                .as_deref(),
        ))
    }

    /// A sum over families of one of RocksDB's integer properties.
    pub fn property(&self, name: &str) -> Result<u64> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        Ok(self
            .handles
            .iter()
            .filter_map(|(_, f)| db.property_int_value_cf(&f.handle, name).ok().flatten())
            .sum())
    }

    /// One of RocksDB's integer properties of a family.
    pub fn family_property(&self, family: Family, name: &str) -> Result<u64> {
        let guard = self.guard()?;
        Ok(self
            .opened(&guard)?
            .property_int_value_cf(&family.handle, name)
            .ok()
            .flatten()
            .unwrap_or(0))
    }

    /// Rewrites all files of a family, which drops what its compaction filter finds expired.
    pub fn compact(&self, family: Family) -> Result<()> {
        let guard = self.guard()?;
        self.opened(&guard)?
            .compact_range_cf(&family.handle, None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    /// Deletes the files of a family whose keys all lie below `end`, which no reader may ask for
    /// any more.
    pub fn drop_files_below(&self, family: Family, end: &[u8]) -> Result<()> {
        let guard = self.guard()?;
        self.opened(&guard)?
            .delete_file_in_range_cf(&family.handle, &[][..], end)
            .map_err(|e| failure("dropping expired files", &self.path, e))
    }

    /// Deletes all rows of a family, from its files too: an expiry filter is shown the rows under a
    /// range tombstone, and would take a version of before for one that supersedes a version of
    /// after.
    pub fn clear(&self, family: Family) -> Result<()> {
        let guard = self.guard()?;
        let db = self.opened(&guard)?;
        let mut rows = db.raw_iterator_cf(&family.handle);
        rows.seek_to_last();
        let Some(last) = rows.key().map(|key| [key, &[0]].concat()) else {
            return rows
                .status()
                .map_err(|e| failure("reading a family's end", &self.path, e));
        };
        drop(rows);
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(&family.handle, &[][..], &last[..]);
        let mut options = WriteOptions::default();
        options.disable_wal(!self.sync);
        options.set_sync(self.sync);
        db.write_opt(&batch, &options)
            .map_err(|e| failure("deleting a store's rows", &self.path, e))?;
        let drop_files = || self.drop_files_below(family, &last);
        // Files of level 0 are never dropped, so they are moved down in between; what a snapshot
        // pins is moved with them.
        drop_files()?;
        db.compact_range_cf(&family.handle, None::<&[u8]>, None::<&[u8]>);
        drop_files()
    }

    /// A consistent copy in a new directory, hard-linked where the file system can.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        let guard = self.guard()?;
        Failpoint::BeforeCheckpoint.reached()?;
        let checkpoint = rust_rocksdb::checkpoint::Checkpoint::new(self.opened(&guard)?)
            .map_err(|e| failure("a checkpoint", &self.path, e))?;
        checkpoint
            .create_checkpoint(directory)
            .map_err(|e| failure("a checkpoint", directory, e))?;
        Failpoint::AfterCheckpoint.reached()
    }

    /// Destroys iterators, then the database. Memtables are not written: flush first.
    pub fn close(&self) {
        let mut db = self.db.write();
        self.end_cursors();
        drop(db.take());
    }

    pub(super) fn end_cursors(&self) {
        for (_, slot) in self.slots.lock().drain() {
            drop(slot.lock().take());
        }
    }

    /// Whether this is the process that opened it, and not a child of it.
    pub(crate) fn in_owner_process(&self) -> bool {
        std::process::id() == self.pid
    }
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        if self.in_owner_process() {
            self.close();
            if self.options.temporary {
                self.destroy();
            }
        } else {
            // A forked child: RocksDB's background threads are not here, and joining them would
            // hang.
            std::mem::forget(self.db.get_mut().take());
            for (_, slot) in self.slots.get_mut().drain() {
                std::mem::forget(slot);
            }
        }
    }
}

fn has_log(path: &Path) -> bool {
    // An empty one holds nothing to be replayed.
    log_record::logs(path)
        .iter()
        .any(|log| log.metadata().is_ok_and(|metadata| metadata.len() > 0))
}
