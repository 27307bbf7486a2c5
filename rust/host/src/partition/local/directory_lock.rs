//! The lock of a local directory: an advisory lock on a file beside it.
//!
//! RocksDB's own lock is inside the directory, so it does not protect the directory while it is
//! deleted and remade: two hosts could use the same one. This lock is outside, is taken before the
//! directory is touched, and is held until the database is closed. The operating system releases it
//! when the process ends. A host never deletes the file, because a lock on a deleted file excludes
//! no other host.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;

use crate::executor::Executor;

/// The right to open, delete and remake one local directory.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
    path: PathBuf,
}

impl DirectoryLock {
    /// Takes the lock and writes the holder into the file; none if another process, or this one,
    /// already holds it.
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
            // If the file was deleted between the two calls, the lock excludes no other process.
            if taken.is_held() {
                taken.file.set_len(0)?;
                if let Some(executor) = executor {
                    write!(taken.file, "{executor}\n{}\n", process::id())?;
                }
                return Ok(Some(taken));
            }
        }
    }

    /// Returns whether the lock still excludes other processes: its file may have been deleted.
    pub fn is_held(&self) -> bool {
        let locked = self.file.metadata().map(|file| FileIdentity::of(&file));
        locked.is_ok_and(|locked| FileIdentity::at(&self.path) == Some(locked))
    }

    /// Describes the holder of the lock, as written in its file.
    pub fn holder(path: &Path) -> Option<String> {
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let executor = lines.next()?.split(' ').next()?.to_owned();
        Some(format!(
            "process {}, state host of process {executor}",
            lines.next()?
        ))
    }

    /// Returns whether the holder of the lock is about to end: its executor is dead, or it is an
    /// older host of this host's executor.
    pub fn is_ending(path: &Path, executor: Option<&Executor>) -> bool {
        let Ok(text) = fs::read_to_string(path) else {
            return false;
        };
        let mut lines = text.lines();
        let Some(holder) = lines.next().and_then(|line| line.parse::<Executor>().ok()) else {
            return false;
        };
        // If this process holds the lock, for another query, the holder is not about to end.
        let is_other = lines
            .next()
            .is_some_and(|host| host != process::id().to_string());
        !holder.is_alive() || executor == Some(&holder) && is_other
    }
}

/// Identifies a file or folder independently of its name. A file that was deleted and remade has
/// another identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
        }
    }

    /// Returns the identity of what is at a path now.
    pub fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|file| Self::of(&file))
    }
}
