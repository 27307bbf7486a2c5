//! The lock of a database's directory, held before anything in it is read or changed.
//!
//! RocksDB locks a directory when it opens it. An open of Holdfast must read, check and repair
//! files before that, and the files of an open database are never complete. So Holdfast has a lock
//! of its own: a record lock on the file `HOLDER`. RocksDB's lock has the same properties: a forked
//! child does not inherit it, and the kernel drops it when its process ends. A lock by `flock`
//! would be inherited, and a child that outlives its parent would keep the directory locked.
//!
//! A process never conflicts with its own record locks, and it drops them when it closes *any*
//! descriptor of the file. So a table has the directories that this process holds, and no other
//! code opens the file.

use super::failure::io_failure;
use crate::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file with the id of the process that has the directory open. A directory of Holdfast has it
/// before RocksDB creates the first file.
pub(crate) const HOLDER: &str = "HOLDER";

/// A directory that this process holds.
struct Held {
    path: PathBuf,
    /// The device and the inode of its `HOLDER`: a directory has several paths if it is mounted
    /// more than once.
    holder: (u64, u64),
    /// The process that took it: a forked child inherits the table.
    pid: u32,
}

static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// A directory that no other process, and no other database of this process, can lock.
pub(crate) struct DirectoryLock {
    /// Closed first: a close drops all locks of this process on the file, so no other thread may
    /// have locked it again by then.
    _holder: File,
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
    /// Opens the directory's `HOLDER` and adds the directory to the table.
    ///
    /// The table is locked meanwhile: no other thread has this file open between the check and the
    /// open. A file that is held is not opened, since its close would drop the lock.
    fn add(path: &Path, name: &Path, pid: u32) -> Result<(Self, File)> {
        let not_writable = |e: std::io::Error| not_writable(name, &e);
        let id = |file: &Metadata| (file.dev(), file.ino());
        let mut table = HELD.lock();
        let found = std::fs::metadata(name).ok().map(|file| id(&file));
        if let Some(held) = table
            .iter()
            .find(|held| held.path == path || Some(held.holder) == found)
        {
            return Err(locked(path, &held.pid.to_string()));
        }
        let holder = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(name)
            .map_err(not_writable)?;
        table.push(Held {
            path: path.to_owned(),
            holder: id(&holder.metadata().map_err(not_writable)?),
            pid,
        });
        Ok((Self(path.to_owned()), holder))
    }
}

impl DirectoryLock {
    /// Locks an existing directory and writes the id of this process into its `HOLDER`.
    ///
    /// The path must be canonical: a directory whose `HOLDER` is deleted is known by its path. If
    /// the directory has no database, its `HOLDER` is on disk on return. So a database that a crash
    /// leaves half made is not taken for a database of another program.
    ///
    /// # Errors
    /// `StoreLocked` with the holder's process id, and nothing is changed; `Io` if the directory
    /// cannot be written.
    pub(crate) fn acquire(path: &Path) -> Result<Self> {
        let pid = std::process::id();
        let name = path.join(HOLDER);
        let (entry, mut holder) = TableEntry::add(path, &name, pid)?;
        match fcntl_lock(&holder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let mut other = String::new();
                let read = holder.read_to_string(&mut other);
                let known = read.is_ok() && !other.is_empty();
                return Err(locked(path, if known { &other } else { "unknown" }));
            }
            Err(e) => return Err(not_writable(&name, &e.into())),
        }
        write_holder(&mut holder, pid, path).map_err(|e| not_writable(&name, &e))?;
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

fn not_writable(name: &Path, e: &std::io::Error) -> Error {
    io_failure("locking the directory", name, e)
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
