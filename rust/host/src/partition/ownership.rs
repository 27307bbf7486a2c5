//! Who owns a local directory: an advisory lock on a file beside it.
//!
//! RocksDB's own lock lies inside the directory, so nobody holds it while the directory is deleted
//! and made anew: two hosts could come to own one. This lock lies outside, is taken before the
//! directory is touched, and is held until the database is closed; the operating system lets go of
//! it when the process ends, however it ends. The file is never deleted by a host: one that is
//! opened and one that is there must stay the same.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use crate::executor::Executor;

/// The right to open, delete and make anew one local directory.
#[derive(Debug)]
pub struct Ownership {
    file: File,
    path: PathBuf,
}

impl Ownership {
    /// Takes the lock, unless somebody holds it, and writes down for whom.
    pub fn take(path: &Path, executor: Option<&Executor>) -> io::Result<Option<Self>> {
        loop {
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let mut taken = Self {
                file,
                path: path.to_owned(),
            };
            // Somebody may have deleted the file between the two calls: what is locked then keeps
            // nobody out.
            if taken.is_held() {
                taken.file.set_len(0)?;
                if let Some(executor) = executor {
                    write!(taken.file, "{executor}\n{}\n", process::id())?;
                }
                return Ok(Some(taken));
            }
        }
    }

    /// Whether the lock still keeps others out: somebody may have deleted its file.
    pub fn is_held(&self) -> bool {
        let locked = self.file.metadata().map(|file| Identity::of(&file));
        locked.is_ok_and(|locked| Identity::at(&self.path) == Some(locked))
    }

    /// Who holds the lock of this file, as it is written there.
    pub fn holder(path: &Path) -> Option<String> {
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let executor = lines.next()?.split(' ').next()?.to_owned();
        Some(format!(
            "process {}, state host of process {executor}",
            lines.next()?
        ))
    }

    /// Whether the host that holds the lock of this file is about to end: its executor is dead, or
    /// it is an older host of our own executor.
    pub fn is_ending(path: &Path, executor: Option<&Executor>) -> bool {
        let Ok(text) = fs::read_to_string(path) else {
            return false;
        };
        let mut lines = text.lines();
        let Some(holder) = lines.next().and_then(|line| line.parse::<Executor>().ok()) else {
            return false;
        };
        // Another query's partition in this very process is not about to end.
        let is_other = lines
            .next()
            .is_some_and(|host| host != process::id().to_string());
        !holder.is_alive() || executor == Some(&holder) && is_other
    }
}

/// Which file or folder lies at a path, whatever its name: one that was deleted and made anew is
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
        }
    }

    /// What lies there now.
    pub fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self::of(&file))
    }
}
