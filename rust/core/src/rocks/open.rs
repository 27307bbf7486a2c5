//! Opening a RocksDB database, with the checks that RocksDB does not make.

use super::directory_lock::DirectoryLock;
use super::failure::{failure, io_failure};
use super::family::{Family, FamilyHandle};
use super::forks::process::Process;
use super::forks::watch_forks;
use super::options::{Environment, RocksOptions, family_options, path_in_memory, rocks_options};
use super::raw_iterator::IteratorSlots;
use super::recovery::commit_number::{self, CommitNumber};
use super::recovery::last_commit;
use super::recovery::log_gap::GapFilter;
use super::recovery::log_record;
use super::rocks_db::RocksDb;
use super::statistics::Statistics;
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint::Failpoint;
use crate::sync::{Mutex, RwLock};
use crate::table::FamilySpec;
use rust_rocksdb::{AsColumnFamilyRef, ColumnFamilyDescriptor, DB, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

impl RocksDb {
    /// Opens or creates the database at `path`, with the `wanted` families and those that its files
    /// already have.
    ///
    /// # Errors
    /// `StoreLocked` if it is open elsewhere; `FormatVersion` for a column family of a kind that
    /// this version does not know; `StoreCorrupted` if a file is damaged or a durable commit is
    /// missing; `InvalidValue` for an option that RocksDB does not know or that must not be set;
    /// `ForkedProcess` in a forked child of a process that has opened a database.
    pub fn open(path: &Path, wanted: &[FamilySpec], options: &RocksOptions) -> Result<Arc<Self>> {
        Self::open_with(path, wanted, options, None)
    }

    /// As [`RocksDb::open`], in a directory that the caller has locked. The close unlocks it.
    ///
    /// # Errors
    /// As [`RocksDb::open`].
    pub(crate) fn open_locked(
        lock: DirectoryLock,
        wanted: &[FamilySpec],
        options: &RocksOptions,
    ) -> Result<Arc<Self>> {
        let path = lock.path().to_owned();
        Self::open_with(&path, wanted, options, Some(lock))
    }

    fn open_with(
        path: &Path,
        wanted: &[FamilySpec],
        options: &RocksOptions,
        lock: Option<DirectoryLock>,
    ) -> Result<Arc<Self>> {
        watch_forks().map_err(|e| io_failure("watching for forks", path, &e))?;
        let process = Process::of_engine();
        process.check().map_err(|e| e.path(path))?;
        Failpoint::BeforeOpen.pass()?;
        let on_disk = !options.is_in_memory();
        let durable = if on_disk {
            commit_number::durable(path)
        } else {
            None
        };
        let number_in_files = || last_commit::in_files(path, options).map(|last| last.number);
        let mut db_options = rocks_options(options)?;
        let statistics = Statistics::new(&mut db_options, options.statistics);
        let mut specs = wanted.to_vec();
        if on_disk && path.join("CURRENT").exists() {
            log_record::check(path, number_in_files)?;
            add_families_on_disk(&mut specs, path, &db_options)?;
        } else if let Some(durable) = durable {
            // RocksDB would create a new database and delete the files of the old one.
            let words = format!(
                "the file CURRENT is missing, so the last good commit in the files is unknown; \
                 commit {durable} had been made durable: restore the directory from a checkpoint \
                 or the changelog"
            );
            return Err(Error::new(ErrorKind::StoreCorrupted, words).path(path));
        }
        // The log is checked even without `sync`: an earlier open may have used `sync`, and then
        // RocksDB replays the log. If the number cannot be read, the open below fails too, and its
        // error says why.
        let filter = if on_disk && has_log(path) {
            number_in_files().map(GapFilter::from)
        } else {
            None
        };
        if let Some(filter) = &filter {
            db_options.set_wal_filter(filter.clone());
        }
        let descriptors = descriptors(&specs, options)?;
        let db = if on_disk {
            DB::open_cf_descriptors(&db_options, path, descriptors)
        } else {
            let place = path_in_memory();
            let opened = DB::open_cf_descriptors(&db_options, &place, descriptors);
            // The RocksDB crate also makes the directory on disk. Nothing is ever written to it.
            let _ = std::fs::remove_dir(&place);
            opened
        };
        // Depending on its options, RocksDB opens in spite of a gap.
        if let Some(gap) = filter.as_ref().and_then(|filter| filter.error(path)) {
            return Err(gap);
        }
        let db = db.map_err(|e| open_failure(path, e, options))?;
        let handles = handles(&db, &specs, path)?;
        Failpoint::AfterOpen.pass()?;
        let last = last_commit::read(&db)
            .map_err(|e| failure("reading the number of the last commit", path, e))?;
        let expected = last.number.max(options.commit_file.unwrap_or(0));
        if let Some(durable) = durable.filter(|durable| *durable > expected) {
            return Err(commit_number::lost(&last.to_string(), durable, path));
        }
        Ok(Arc::new(Self {
            db: RwLock::new(Some(Box::new(db))),
            closing: AtomicBool::new(false),
            lock: Mutex::new(lock),
            iterators: IteratorSlots::default(),
            statistics,
            handles,
            path: path.to_owned(),
            process,
            commits: CommitNumber::new(
                last.number,
                (on_disk && !options.temporary).then_some(path),
            ),
            options: options.clone(),
        }))
    }
}

/// Returns the names of the families that a database's files have. Changes no file.
///
/// # Errors
/// `Io` if the files cannot be read, `StoreCorrupted` if they are damaged.
pub(crate) fn list_families(path: &Path, environment: Option<&Environment>) -> Result<Vec<String>> {
    log_record::check_manifest(path)?;
    let options = RocksOptions {
        environment: environment.cloned(),
        ..RocksOptions::default()
    };
    families_on_disk(path, &rocks_options(&options)?)
}

fn families_on_disk(path: &Path, db_options: &Options) -> Result<Vec<String>> {
    DB::list_cf(db_options, path).map_err(|e| failure("reading the list of families", path, e))
}

/// Adds the families that the files have and `specs` lacks.
fn add_families_on_disk(
    specs: &mut Vec<FamilySpec>,
    path: &Path,
    db_options: &Options,
) -> Result<()> {
    for name in families_on_disk(path, db_options)? {
        if name == "default" || specs.iter().any(|spec| spec.name() == name) {
            continue;
        }
        let spec = FamilySpec::parse(&name).ok_or_else(|| {
            Error::new(
                ErrorKind::FormatVersion,
                format!(
                    "a newer version of Holdfast has written the database: it has a column family \
                     {name:?}, of a kind that this version does not know; use the version that \
                     wrote it"
                ),
            )
            .path(path)
        })?;
        specs.push(spec);
    }
    Ok(())
}

fn descriptors(
    specs: &[FamilySpec],
    options: &RocksOptions,
) -> Result<Vec<ColumnFamilyDescriptor>> {
    let default = ColumnFamilyDescriptor::new("default", Options::default());
    let stores = specs.iter().map(|spec| {
        Ok(ColumnFamilyDescriptor::new(
            spec.name(),
            family_options(spec, options)?,
        ))
    });
    std::iter::once(Ok(default)).chain(stores).collect()
}

fn handles(db: &DB, specs: &[FamilySpec], path: &Path) -> Result<Vec<(String, Family)>> {
    let handle = |name: &str| {
        db.cf_handle(name).map(|handle| Family {
            handle: FamilyHandle(handle.inner()),
            id: handle.id(),
        })
    };
    let mut handles = Vec::with_capacity(specs.len());
    for spec in specs {
        let name = spec.name();
        let family = handle(&name).ok_or_else(|| {
            Error::new(
                ErrorKind::StoreCorrupted,
                format!("the column family {name:?} is missing after open"),
            )
            .path(path)
        })?;
        handles.push((name, family));
    }
    Ok(handles)
}

fn open_failure(path: &Path, error: rust_rocksdb::Error, options: &RocksOptions) -> Error {
    // The message contains the path, which must not be searched.
    let words = error.to_string().replace(&*path.to_string_lossy(), "");
    let locked =
        words.contains("lock hold by current process") || words.contains("While lock file");
    if error.kind() == rust_rocksdb::ErrorKind::IOError && locked {
        return Error::new(
            ErrorKind::StoreLocked,
            "the directory is open already, in this process or in another one; close it there, or \
             open another directory",
        )
        .path(path);
    }
    if error.kind() == rust_rocksdb::ErrorKind::Corruption
        && let Some(last) = last_commit::before_damage(path, options)
    {
        let message = format!(
            "opening the database failed: a file is damaged, and the last good commit before the \
             damage is {last}; restore the directory from a checkpoint, or delete it where a \
             changelog can rebuild it (cause: {words})"
        );
        return Error::new(ErrorKind::StoreCorrupted, message).path(path);
    }
    failure("opening the database", path, error)
}

/// Whether there is a log with records; an empty one has nothing to replay.
fn has_log(path: &Path) -> bool {
    log_record::logs(path)
        .iter()
        .any(|log| log.metadata().is_ok_and(|metadata| metadata.len() > 0))
}
