//! The local directory of a partition's database.
//!
//! It is `<home>/<hostname>.<k>/` with the first k that no other host holds. The lock file
//! `<hostname>.<k>.lock` beside it (`directory_lock.rs`) names the executor of the host that holds
//! it. If that executor is dead or has started a newer host, the holder is about to end, and a
//! short wait saves a restore.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Database, DatabaseOptions, Error, ErrorKind, Result};

use super::directory_lock::{DirectoryLock, FileIdentity};
use crate::machine;
use crate::partition::view_request::ViewRequest;

/// How long to wait for the lock of a host that is about to end.
const TAKEOVER: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(20);
/// The maximum number of hosts on one machine that hold a database of the same partition. More
/// hosts are an error.
const MAX_DIRECTORIES: u32 = 64;

/// A local directory that this process has locked: no other host may touch it.
#[derive(Debug)]
pub struct LocalDirectory {
    path: PathBuf,
    identity: Option<FileIdentity>,
    lock: DirectoryLock,
}

impl LocalDirectory {
    /// Locks the first free directory and opens its database.
    ///
    /// `unusable` is called for a database that is damaged (`StoreCorrupted`), or whose stores had
    /// other settings (`InvalidValue`). If the database is unusable or does not exist, `missing`
    /// makes a new one.
    ///
    /// # Errors
    /// `Io` where the directory cannot be made or locked; `StoreLocked` if too many are locked;
    /// those of `missing` and of [`Database::open`].
    pub fn open(
        home: &Path,
        request: &ViewRequest<'_>,
        mut unusable: impl FnMut(&Path, &Error),
        missing: impl FnOnce(&mut Self) -> Result<Arc<Database>>,
    ) -> Result<(Arc<Database>, Self)> {
        make_private(home)?;
        let (hostname, mut holders) = (machine::name(), BTreeSet::new());
        for k in 0..MAX_DIRECTORIES {
            let path = home.join(format!("{hostname}.{k}"));
            let lock = home.join(format!("{hostname}.{k}.lock"));
            let Some(held) = take_or_wait(&lock, request)? else {
                log::info!(
                    "{} belongs to another state host; the next one is tried",
                    path.display()
                );
                holders.extend(DirectoryLock::holder(&lock));
                continue;
            };
            let mut directory = Self {
                path,
                identity: None,
                lock: held,
            };
            if directory.path.join("CURRENT").exists() {
                match directory.open_again(request, true) {
                    Ok(db) => return Ok((db, directory)),
                    // A process that is not a state host has the database open.
                    Err(error) if error.kind() == ErrorKind::StoreLocked => {
                        log::info!("{error}");
                        continue;
                    }
                    // A store of the database had other settings. Another operator of this name
                    // opened it, and took no part in any epoch in force. Or the retention was
                    // shorter, and a start that committed nothing may have hidden rows of the root.
                    Err(error)
                        if error.kind() == ErrorKind::StoreCorrupted
                            || error.kind() == ErrorKind::InvalidValue
                                && error.store_name().is_some()
                                && error.path_name().is_some() =>
                    {
                        unusable(&directory.path, &error);
                    }
                    Err(error) => return Err(error),
                }
            }
            return missing(&mut directory).map(|db| (db, directory));
        }
        Err(Error::new(
            ErrorKind::StoreLocked,
            format!(
                "{MAX_DIRECTORIES} databases of one partition are held on this machine: end the \
                 processes that should not run ({})",
                if holders.is_empty() {
                    "the lock files name none".to_owned()
                } else {
                    Vec::from_iter(holders).join("; ")
                }
            ),
        )
        .path(home))
    }

    /// Returns whether the directory still exists and is still this process's: it may have been
    /// deleted, and another host may have made a new one in its place.
    pub fn is_intact(&self) -> bool {
        self.lock.is_held()
            && FileIdentity::at(&self.path) == self.identity
            && self.path.join("CURRENT").exists()
    }

    /// Returns a path beside the database, on the same file system and protected by the same lock.
    pub fn beside(&self, purpose: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{purpose}"));
        name.into()
    }

    /// Replaces the database, which must be closed, by the one in the directory `from`; opens it.
    ///
    /// # Errors
    /// As [`LocalDirectory::clear`], and those of [`Database::open`].
    pub fn adopt(&mut self, from: &Path, request: &ViewRequest<'_>) -> Result<Arc<Database>> {
        self.clear()?;
        fs::rename(from, &self.path).map_err(|error| refused(&self.path, &error))?;
        self.open_again(request, false)
    }

    /// Replaces the database, which must be closed, by an empty one; opens it.
    ///
    /// # Errors
    /// As [`LocalDirectory::clear`], and those of [`Database::open`].
    pub fn remake(&mut self, request: &ViewRequest<'_>) -> Result<Arc<Database>> {
        self.clear()?;
        self.open_again(request, false)
    }

    /// Deletes the database, which must be closed.
    ///
    /// # Errors
    /// `StoreClosed` if the lock is lost: nothing is deleted then. `Io` if the disk fails.
    pub fn clear(&self) -> Result<()> {
        if !self.lock.is_held() {
            let text = "the local database's lock was deleted, and the database may be another \
                        host's now; retry the task";
            return Err(Error::new(ErrorKind::StoreClosed, text).path(&self.path));
        }
        Database::destroy(&self.path)
    }

    fn open_again(
        &mut self,
        request: &ViewRequest<'_>,
        refuse_hidden_rows: bool,
    ) -> Result<Arc<Database>> {
        let options = DatabaseOptions {
            refuse_hidden_rows,
            ..request.options.clone()
        };
        let db = Database::open(&self.path, request.stores, options)?;
        self.identity = FileIdentity::at(&self.path);
        Ok(db)
    }
}

/// Takes the lock, and waits for it if its holder is about to end; none if another host holds it.
fn take_or_wait(lock: &Path, request: &ViewRequest<'_>) -> Result<Option<DirectoryLock>> {
    let started = Instant::now();
    loop {
        let taken =
            DirectoryLock::take(lock, request.executor).map_err(|error| refused(lock, &error))?;
        if taken.is_some()
            || started.elapsed() >= TAKEOVER
            || !DirectoryLock::is_ending(lock, request.executor)
        {
            return Ok(taken);
        }
        thread::sleep(RETRY);
    }
}

fn make_private(home: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(home)
        .map_err(|error| refused(home, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> Error {
    let text = format!(
        "the local state cannot be written or locked ({error}): check the disk and its \
         permissions, or give State(local_dir=...)"
    );
    Error::new(ErrorKind::Io, text).path(path)
}

/// Deletes a directory, if it exists.
///
/// # Errors
/// `Io` if the disk fails.
pub fn remove_directory(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::new(
            ErrorKind::Io,
            format!("the directory cannot be removed ({error}): check its permissions"),
        )
        .path(directory)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::Durability;
    use tempfile::TempDir;

    use std::sync::LazyLock;

    use super::*;
    use crate::executor::Executor;
    use crate::memory::budget::Budget;
    use crate::partition::{FlushPolicy, SnapshotPolicy};
    use crate::protocol::{Epoch, RunNumber};

    fn options() -> DatabaseOptions {
        DatabaseOptions {
            durability: Durability::Changelog,
            ..DatabaseOptions::default()
        }
    }

    static MEMORY: LazyLock<Arc<Budget>> = LazyLock::new(|| Budget::new(usize::MAX));

    fn request_with<'a>(
        options: &'a DatabaseOptions,
        executor: Option<&'a Executor>,
    ) -> ViewRequest<'a> {
        ViewRequest {
            run: RunNumber(1),
            epoch: Epoch(0),
            planned_at: None,
            first_epoch: Epoch(0),
            ran: None,
            partitions: 1,
            stores: &[],
            options,
            executor,
            snapshots: SnapshotPolicy {
                interval: Duration::MAX,
                retain_epochs: 100,
                max_follower_lag: 0,
            },
            flushes: FlushPolicy::NEVER,
            memory: &MEMORY,
        }
    }

    fn open(home: &TempDir) -> (Arc<Database>, LocalDirectory) {
        let (options, damaged) = (options(), |_: &Path, error: &Error| {
            panic!("damaged: {error}")
        });
        let request = request_with(&options, None);
        LocalDirectory::open(home.path(), &request, damaged, |directory| {
            directory.remake(&request)
        })
        .expect("opens")
    }

    #[test]
    fn a_directory_stays_locked_while_its_database_is_replaced() {
        let home = tempfile::tempdir().expect("a folder");
        let (db, mut first) = open(&home);
        // During a replacement the database is closed, and RocksDB's own lock is free.
        db.close().expect("closes");
        let (other_database, second) = open(&home);
        assert_ne!(second.path, first.path);
        let db = first
            .remake(&request_with(&options(), None))
            .expect("holds the lock");
        assert!(first.is_intact() && second.is_intact());
        drop((db, other_database));
    }

    #[test]
    fn a_directory_is_free_after_its_holder_dropped_it() {
        let home = tempfile::tempdir().expect("a folder");
        let (db, first) = open(&home);
        db.close().expect("closes");
        let path = first.path.clone();
        drop(first);
        assert_eq!(open(&home).1.path, path);
    }

    #[test]
    fn too_many_databases_are_refused_and_their_holders_named() {
        let home = tempfile::tempdir().expect("a folder");
        let executor = Executor::of(std::process::id().cast_signed()).expect("alive");
        let lock = |k| {
            DirectoryLock::take(
                &home.path().join(format!("{}.{k}.lock", machine::name())),
                Some(&executor),
            )
            .expect("locks")
        };
        let _held: Vec<_> = (0..MAX_DIRECTORIES).map(lock).collect();
        let (options, damaged) = (options(), |_: &Path, error: &Error| {
            panic!("damaged: {error}")
        });
        let request = request_with(&options, None);
        let error = LocalDirectory::open(home.path(), &request, damaged, |directory| {
            directory.remake(&request)
        })
        .err()
        .expect("refused");
        assert_eq!(error.kind(), ErrorKind::StoreLocked);
        let holder = format!(
            "(process {0}, state host of process {0})",
            std::process::id()
        );
        assert!(error.to_string().contains(&holder), "{error}");
    }

    #[test]
    fn a_directory_that_was_deleted_and_remade_is_not_intact() {
        let home = tempfile::tempdir().expect("a folder");
        let (_database, mut first) = open(&home);
        assert!(first.is_intact());
        fs::rename(&first.path, home.path().join("moved")).expect("moves");
        fs::create_dir(&first.path).expect("makes");
        fs::write(first.path.join("CURRENT"), "MANIFEST-1").expect("writes");
        assert!(!first.is_intact(), "same name, another directory");
        // After the lock file is deleted, another host may hold the directory: nothing is deleted.
        fs::remove_file(home.path().join(format!("{}.0.lock", machine::name()))).expect("deletes");
        let error = first
            .remake(&request_with(&options(), None))
            .err()
            .expect("the lock is lost");
        assert_eq!(error.kind(), ErrorKind::StoreClosed, "{error}");
        assert!(first.path.join("CURRENT").exists());
    }

    #[test]
    fn a_lock_whose_file_was_deleted_is_not_held() {
        let home = tempfile::tempdir().expect("a folder");
        let lock = home.path().join("lock");
        let first = DirectoryLock::take(&lock, None)
            .expect("locks")
            .expect("is free");
        assert!(DirectoryLock::take(&lock, None).expect("looks").is_none());
        fs::remove_file(&lock).expect("deletes");
        assert!(!first.is_held());
        assert!(
            DirectoryLock::take(&lock, None)
                .expect("locks")
                .is_some_and(|second| second.is_held())
        );
    }

    #[test]
    fn a_directory_is_awaited_while_an_older_host_of_the_executor_ends() {
        let home = tempfile::tempdir().expect("a folder");
        let executor = Executor::of(std::process::id().cast_signed()).expect("alive");
        let options = options();
        let request = request_with(&options, Some(&executor));
        let open = || {
            LocalDirectory::open(
                home.path(),
                &request,
                |_, _| (),
                |directory| directory.remake(&request),
            )
            .expect("opens")
        };
        let (db, first) = open();
        // This process has it open for another query: the next directory is taken at once.
        let (_other, second) = open();
        assert_ne!(second.path, first.path);
        let path = first.path.clone();
        fs::write(
            home.path().join(format!("{}.0.lock", machine::name())),
            format!("{executor}\n1\n"),
        )
        .expect("another host's");
        let ending = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            db.close().expect("closes");
            drop(first);
        });
        let (_database, third) = open();
        assert_eq!(third.path, path);
        ending.join().expect("ends");
    }
}
