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
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

/// A file with the id of the process that has the directory open. A directory of Holdfast has it
/// before RocksDB creates the first file.
pub(crate) const HOLDER: &str = "HOLDER";

/// The directories that this process holds, each with the process that took it: a forked child
/// inherits the table.
static HELD: Mutex<BTreeMap<PathBuf, u32>> = Mutex::new(BTreeMap::new());

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
        HELD.lock().remove(&self.0);
    }
}

impl DirectoryLock {
    /// Locks an existing directory and writes the id of this process into its `HOLDER`.
    ///
    /// The path must be canonical: the table compares paths. If the directory has no database, its
    /// `HOLDER` is on disk on return. So a database that a crash leaves half made is not taken for
    /// a database of another program.
    ///
    /// # Errors
    /// `StoreLocked` with the holder's process id, and nothing is changed; `Io` if the directory
    /// cannot be written.
    pub(crate) fn acquire(path: &Path) -> Result<Self> {
        let pid = std::process::id();
        match HELD.lock().entry(path.to_owned()) {
            Entry::Occupied(held) => return Err(locked(path, &held.get().to_string())),
            Entry::Vacant(free) => free.insert(pid),
        };
        let entry = TableEntry(path.to_owned());
        let name = path.join(HOLDER);
        let not_writable = |e: &std::io::Error| io_failure("locking the directory", &name, e);
        let mut holder = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&name)
            .map_err(|e| not_writable(&e))?;
        match fcntl_lock(&holder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::ACCESS) => {
                let mut other = String::new();
                let read = holder.read_to_string(&mut other);
                let known = read.is_ok() && !other.is_empty();
                return Err(locked(path, if known { &other } else { "unknown" }));
            }
            Err(e) => return Err(not_writable(&e.into())),
        }
        write_holder(&mut holder, pid, path).map_err(|e| not_writable(&e))?;
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
