//! Which local directory a partition's database lies in.
//!
//! `<home>/<hostname>.<k>/` with the first k whose lock is free. Beside it, `<hostname>.<k>.executor` names the executor
//! whose host holds it: if that one is dead, its host is about to end, and waiting a moment saves a restore.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result, Task};

use super::Wanted;
use crate::executor::Executor;

/// How long to wait for the lock of a host whose executor is gone.
const TAKEOVER: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(20);
/// More live hosts than this on one machine for one partition are a mistake.
const MAX_DIRECTORIES: u32 = 64;

/// A local directory whose database is open.
pub struct Directory {
    path: PathBuf,
}

impl Directory {
    /// Opens the first database that nobody holds. `damaged` hears of each that is thrown away for damage.
    ///
    /// # Errors
    /// `Io` where the directory cannot be made; `StoreLocked` if too many are held.
    pub fn open(home: &Path, wanted: &Wanted<'_>, mut damaged: impl FnMut(&Path, &Error)) -> Result<(Arc<Task>, Self)> {
        make_private(home)?;
        let hostname = hostname();
        for k in 0..MAX_DIRECTORIES {
            let path = home.join(format!("{hostname}.{k}"));
            let mark = home.join(format!("{hostname}.{k}.executor"));
            match open_or_wait(&path, &mark, wanted, &mut damaged) {
                Ok(task) => {
                    if let Some(executor) = wanted.executor {
                        fs::write(&mark, executor.to_string()).map_err(|error| refused(&mark, &error))?;
                    }
                    return Ok((task, Self { path }));
                }
                Err(error) if error.kind() == ErrorKind::StoreLocked => log::info!("{error}"),
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(
            ErrorKind::StoreLocked,
            format!("{MAX_DIRECTORIES} processes hold databases of one partition on this machine: end those that should not run"),
        )
        .path(home))
    }

    /// Whether the files are still there: somebody may have cleaned up under us.
    pub fn is_there(&self) -> bool {
        self.path.join("CURRENT").exists()
    }

    /// Throws the database away and opens an empty one in its place.
    pub fn wipe(&self, task: &Task, wanted: &Wanted<'_>) -> Result<Arc<Task>> {
        if let Err(error) = task.close() {
            log::debug!("closing {} before it is deleted: {error}", self.path.display());
        }
        Task::destroy(&self.path)?;
        Task::open(&self.path, wanted.stores, wanted.options.clone())
    }
}

fn open_or_wait(path: &Path, mark: &Path, wanted: &Wanted<'_>, damaged: &mut impl FnMut(&Path, &Error)) -> Result<Arc<Task>> {
    let started = Instant::now();
    loop {
        match Task::open(path, wanted.stores, wanted.options.clone()) {
            Err(error) if error.kind() == ErrorKind::StoreLocked && started.elapsed() < TAKEOVER && is_ending(mark, wanted) => {
                thread::sleep(RETRY);
            }
            Err(error) if error.kind() == ErrorKind::StoreCorrupted => {
                damaged(path, &error);
                Task::destroy(path)?;
                return Task::open(path, wanted.stores, wanted.options.clone());
            }
            result => return result,
        }
    }
}

/// Whether the host that holds the lock is about to end: its executor is dead, or it is an older host of our own.
fn is_ending(mark: &Path, wanted: &Wanted<'_>) -> bool {
    let holder = fs::read_to_string(mark).ok().and_then(|text| text.parse::<Executor>().ok());
    holder.is_some_and(|holder| !holder.is_alive() || wanted.executor == Some(&holder))
}

fn make_private(home: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(|error| refused(home, &error))
}

fn refused(path: &Path, error: &std::io::Error) -> Error {
    let text = format!("the local state cannot be written ({error}): check the disk and its permissions, or give State(local_dir=...)");
    Error::new(ErrorKind::Io, text).path(path)
}

fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    if name.is_empty() { "localhost".to_owned() } else { name }
}
