//! Which local directory a partition's database lies in.
//!
//! `<home>/<hostname>.<k>/` with the first k that nobody owns. Beside it, `<hostname>.<k>.lock` is
//! what an owner locks (`ownership.rs`); it names the executor whose host that is: if it is dead,
//! its host is about to end, and waiting a moment saves a restore.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Database, Error, ErrorKind, Result};

use super::Wanted;
use super::ownership::{Identity, Ownership};

/// How long to wait for the lock of a host whose executor is gone.
const TAKEOVER: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(20);
/// More live hosts than this on one machine for one partition are a mistake.
const MAX_DIRECTORIES: u32 = 64;

/// A local directory whose database is open, and which nobody else may touch as long as this lives.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    identity: Option<Identity>,
    ownership: Ownership,
}

impl Directory {
    /// Opens the first database that nobody owns. `damaged` hears of one that is thrown away for
    /// damage; `missing` makes one where there is none.
    ///
    /// # Errors
    /// `Io` where the directory cannot be made or locked; `StoreLocked` if too many are owned;
    /// those of `missing`.
    pub fn open(
        home: &Path,
        wanted: &Wanted<'_>,
        mut damaged: impl FnMut(&Path, &Error),
        missing: impl FnOnce(&mut Self) -> Result<Arc<Database>>,
    ) -> Result<(Arc<Database>, Self)> {
        make_private(home)?;
        let (hostname, mut holders) = (hostname(), BTreeSet::new());
        for k in 0..MAX_DIRECTORIES {
            let path = home.join(format!("{hostname}.{k}"));
            let lock = home.join(format!("{hostname}.{k}.lock"));
            let Some(ownership) = take_or_wait(&lock, wanted)? else {
                log::info!(
                    "{} belongs to another state host; the next one is tried",
                    path.display()
                );
                holders.extend(Ownership::holder(&lock));
                continue;
            };
            let mut directory = Self {
                path,
                identity: None,
                ownership,
            };
            if directory.path.join("CURRENT").exists() {
                match directory.open_again(wanted) {
                    Ok(db) => return Ok((db, directory)),
                    Err(error) if error.kind() == ErrorKind::StoreCorrupted => {
                        damaged(&directory.path, &error)
                    }
                    // Somebody who is no state host looks into it.
                    Err(error) if error.kind() == ErrorKind::StoreLocked => {
                        log::info!("{error}");
                        continue;
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

    /// Whether the files are still there and still ours: somebody may have cleaned up under us, and
    /// somebody else may have begun anew in the same place.
    pub fn is_there(&self) -> bool {
        self.ownership.is_held()
            && Identity::at(&self.path) == self.identity
            && self.path.join("CURRENT").exists()
    }

    /// A path beside the database, on the same file system and ours as long as it is.
    pub fn beside(&self, purpose: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{purpose}"));
        name.into()
    }

    /// Opens the database that lies in another directory in place of this one, which nobody has
    /// open and which is thrown away.
    ///
    /// # Errors
    /// As [`Directory::clear`].
    pub fn adopt(&mut self, from: &Path, wanted: &Wanted<'_>) -> Result<Arc<Database>> {
        self.clear()?;
        fs::rename(from, &self.path).map_err(|error| refused(&self.path, &error))?;
        self.open_again(wanted)
    }

    /// Opens an empty database in place of this one, which nobody has open and which is thrown
    /// away.
    ///
    /// # Errors
    /// As [`Directory::clear`].
    pub fn remake(&mut self, wanted: &Wanted<'_>) -> Result<Arc<Database>> {
        self.clear()?;
        self.open_again(wanted)
    }

    /// Deletes the database, which nobody has open.
    ///
    /// # Errors
    /// `StoreClosed` if the directory is not ours any more: nothing is deleted then. `Io` for what
    /// the disk refuses.
    pub fn clear(&self) -> Result<()> {
        if !self.ownership.is_held() {
            let text = "the local database's lock was deleted, and the database may be another \
                        host's now; retry the task";
            return Err(Error::new(ErrorKind::StoreClosed, text).path(&self.path));
        }
        Database::destroy(&self.path)
    }

    fn open_again(&mut self, wanted: &Wanted<'_>) -> Result<Arc<Database>> {
        let db = Database::open(&self.path, wanted.stores, wanted.options.clone())?;
        self.identity = Identity::at(&self.path);
        Ok(db)
    }
}

/// Takes the lock; none if its owner is alive.
fn take_or_wait(lock: &Path, wanted: &Wanted<'_>) -> Result<Option<Ownership>> {
    let started = Instant::now();
    loop {
        let taken =
            Ownership::take(lock, wanted.executor).map_err(|error| refused(lock, &error))?;
        if taken.is_some()
            || started.elapsed() >= TAKEOVER
            || !Ownership::is_ending(lock, wanted.executor)
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

fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name
        .trim()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if name.is_empty() {
        "localhost".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use holdfast_core::{DatabaseOptions, Durability};
    use tempfile::TempDir;

    use std::sync::LazyLock;

    use super::*;
    use crate::executor::Executor;
    use crate::memory::budget::Budget;
    use crate::partition::SnapshotPolicy;
    use crate::protocol::{Epoch, RunNumber};

    fn options() -> DatabaseOptions {
        DatabaseOptions {
            durability: Durability::Changelog,
            ..DatabaseOptions::default()
        }
    }

    static MEMORY: LazyLock<Arc<Budget>> = LazyLock::new(|| Budget::new(usize::MAX));

    fn wanted<'a>(options: &'a DatabaseOptions, executor: Option<&'a Executor>) -> Wanted<'a> {
        Wanted {
            run: RunNumber(1),
            epoch: Epoch(0),
            first_epoch: Epoch(0),
            partitions: 1,
            stores: &[],
            options,
            executor,
            snapshots: SnapshotPolicy {
                interval: Duration::MAX,
                retain_epochs: 100,
            },
            memory: &MEMORY,
        }
    }

    fn open(home: &TempDir) -> (Arc<Database>, Directory) {
        let (options, damaged) = (options(), |_: &Path, error: &Error| {
            panic!("damaged: {error}")
        });
        let wanted = wanted(&options, None);
        Directory::open(home.path(), &wanted, damaged, |directory| {
            directory.remake(&wanted)
        })
        .expect("opens")
    }

    #[test]
    fn a_directory_belongs_to_its_owner_while_its_database_is_being_made_anew() {
        let home = tempfile::tempdir().expect("a folder");
        let (db, mut first) = open(&home);
        // In the middle of a wipe the database is closed, and RocksDB's own lock is free.
        db.close().expect("closes");
        let (other_database, second) = open(&home);
        assert_ne!(second.path, first.path);
        let db = first
            .remake(&wanted(&options(), None))
            .expect("is ours to wipe");
        assert!(first.is_there() && second.is_there());
        drop((db, other_database));
    }

    #[test]
    fn a_directory_is_free_once_its_owner_is_gone() {
        let home = tempfile::tempdir().expect("a folder");
        let (db, first) = open(&home);
        db.close().expect("closes");
        let path = first.path.clone();
        drop(first);
        assert_eq!(open(&home).1.path, path);
    }

    #[test]
    fn too_many_databases_are_refused_by_the_names_of_their_holders() {
        let home = tempfile::tempdir().expect("a folder");
        let executor = Executor::of(std::process::id().cast_signed()).expect("alive");
        let lock = |k| {
            Ownership::take(
                &home.path().join(format!("{}.{k}.lock", hostname())),
                Some(&executor),
            )
            .expect("locks")
        };
        let _held: Vec<_> = (0..MAX_DIRECTORIES).map(lock).collect();
        let (options, damaged) = (options(), |_: &Path, error: &Error| {
            panic!("damaged: {error}")
        });
        let wanted = wanted(&options, None);
        let error = Directory::open(home.path(), &wanted, damaged, |directory| {
            directory.remake(&wanted)
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
    fn a_directory_that_was_deleted_and_made_anew_is_not_ours() {
        let home = tempfile::tempdir().expect("a folder");
        let (_database, mut first) = open(&home);
        assert!(first.is_there());
        fs::rename(&first.path, home.path().join("moved")).expect("moves");
        fs::create_dir(&first.path).expect("makes");
        fs::write(first.path.join("CURRENT"), "MANIFEST-1").expect("writes");
        assert!(!first.is_there(), "same name, another directory");
        // With the lock gone another host may own what lies there: nothing of it is deleted.
        fs::remove_file(home.path().join(format!("{}.0.lock", hostname()))).expect("deletes");
        let error = first
            .remake(&wanted(&options(), None))
            .err()
            .expect("not ours");
        assert_eq!(error.kind(), ErrorKind::StoreClosed, "{error}");
        assert!(first.path.join("CURRENT").exists());
    }

    #[test]
    fn a_lock_whose_file_was_deleted_before_it_was_taken_keeps_nobody_out() {
        let home = tempfile::tempdir().expect("a folder");
        let lock = home.path().join("lock");
        let first = Ownership::take(&lock, None)
            .expect("locks")
            .expect("is free");
        assert!(Ownership::take(&lock, None).expect("looks").is_none());
        fs::remove_file(&lock).expect("deletes");
        assert!(!first.is_held());
        assert!(
            Ownership::take(&lock, None)
                .expect("locks")
                .is_some_and(|second| second.is_held())
        );
    }

    #[test]
    fn a_directory_is_waited_for_while_an_older_host_of_the_executor_ends() {
        let home = tempfile::tempdir().expect("a folder");
        let executor = Executor::of(std::process::id().cast_signed()).expect("alive");
        let options = options();
        let wanted = wanted(&options, Some(&executor));
        let open = || {
            Directory::open(
                home.path(),
                &wanted,
                |_, _| (),
                |directory| directory.remake(&wanted),
            )
            .expect("opens")
        };
        let (db, first) = open();
        // This host has it open for another query: the next directory is taken at once.
        let (_other, second) = open();
        assert_ne!(second.path, first.path);
        let path = first.path.clone();
        fs::write(
            home.path().join(format!("{}.0.lock", hostname())),
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
