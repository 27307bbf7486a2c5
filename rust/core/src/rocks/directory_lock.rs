//! The lock of a database's directory. Before the directory is locked, only the check for the files
//! of another program (`database/open/foreign.rs`) reads its files.
//!
//! RocksDB locks a directory when it opens the database. Holdfast reads, checks and repairs files
//! before that. It must not do so while the database is open elsewhere, since the files of an open
//! database are incomplete. So Holdfast has a second lock, on the file `HOLDER`.
//!
//! RocksDB's lock is a record lock: a process loses it when it closes *any* descriptor of the file,
//! for example when it copies the directory file by file. The lock on `HOLDER` belongs to one
//! descriptor. It ends with the process, even if a forked child continues to run (`file_lock.rs`).
//!
//! A table lists the directories that this process holds. Without it, a second database of the
//! process could open a directory whose `HOLDER` was deleted.

mod file_lock;

use self::file_lock::FileLock;
use super::failure::io_failure;
use crate::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The file with the id of the process that has the directory open, or had it open last. Holdfast
/// creates it before RocksDB creates the first file. A checkpoint lacks it until its first open.
pub(crate) const HOLDER: &str = "HOLDER";

/// A directory that this process holds.
struct Held {
    path: PathBuf,
    /// The process that locked it. In a forked child, entries from before the fork have the id of
    /// the parent.
    pid: u32,
}

static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// A directory that no other process, and no other database of this process, can lock.
pub(crate) struct DirectoryLock {
    /// Released first: a thread that finds the directory free in the table can lock it.
    _holder: FileLock,
    entry: TableEntry,
}

/// An entry of the table of held directories, removed on drop.
struct TableEntry(PathBuf);

impl Drop for TableEntry {
    fn drop(&mut self) {
        HELD.lock().retain(|held| held.path != self.0);
    }
}

impl TableEntry {
    /// Adds a directory to the table.
    fn add(path: &Path, pid: u32) -> Result<Self> {
        let mut table = HELD.lock();
        if let Some(held) = table.iter().find(|held| held.path == path) {
            return Err(locked(path, &held.pid.to_string()));
        }
        table.push(Held {
            path: path.to_owned(),
            pid,
        });
        Ok(Self(path.to_owned()))
    }
}

impl DirectoryLock {
    /// Locks an existing directory and writes the id of this process into its `HOLDER`.
    ///
    /// The path must be canonical: if `HOLDER` is deleted, only the path identifies the directory.
    /// If the directory has no database yet, `HOLDER` is synced. After a crash while the database
    /// is created, the next open then does not mistake the files for those of another program.
    ///
    /// # Errors
    /// `StoreLocked` with the holder's process id if `HOLDER` has it, and nothing is changed; `Io`
    /// if the directory cannot be written.
    pub(crate) fn acquire(path: &Path) -> Result<Self> {
        let pid = std::process::id();
        let name = path.join(HOLDER);
        let not_writable = |e| io_failure("locking the directory", &name, &e);
        let entry = TableEntry::add(path, pid)?;
        let mut holder = FileLock::open(&name).map_err(not_writable)?;
        if !holder.try_lock().map_err(not_writable)? {
            let mut other = String::new();
            let read = holder.file.read_to_string(&mut other);
            let known = read.is_ok() && !other.is_empty();
            return Err(locked(path, if known { &other } else { "unknown" }));
        }
        write_holder(&mut holder.file, pid, path).map_err(not_writable)?;
        Ok(Self {
            _holder: holder,
            entry,
        })
    }

    /// The locked directory.
    pub(crate) fn path(&self) -> &Path {
        &self.entry.0
    }
}

fn write_holder(holder: &mut File, pid: u32, path: &Path) -> std::io::Result<()> {
    holder.set_len(0)?;
    holder.rewind()?;
    holder.write_all(pid.to_string().as_bytes())?;
    if !path.join("CURRENT").exists() {
        holder.sync_all()?;
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

fn locked(path: &Path, holder: &str) -> Error {
    let this = if holder == std::process::id().to_string() {
        " (this one)"
    } else {
        ""
    };
    let message = format!(
        "the directory is open in process {holder}{this}; close the database there, or open \
         another directory"
    );
    Error::new(ErrorKind::StoreLocked, message).path(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_locked_once_under_all_its_paths() -> Result<()> {
        let dir = tempfile::tempdir().expect("a folder");
        let (real, other) = (dir.path().join("real"), dir.path().join("other"));
        std::fs::create_dir(&real).expect("a folder");
        // Stands for a bind mount: two canonical paths of one directory.
        std::os::unix::fs::symlink(&real, &other).expect("a link");
        for (first, second) in [(&real, &other), (&other, &real)] {
            let held = DirectoryLock::acquire(first)?;
            let error = DirectoryLock::acquire(second).err().expect("is open");
            assert_eq!(error.kind(), ErrorKind::StoreLocked);
            assert!(error.to_string().contains("(this one)"), "{error}");
            drop(held);
            drop(DirectoryLock::acquire(second)?);
        }
        Ok(())
    }
}
