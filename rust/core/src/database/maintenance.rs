//! Copies, compaction and deletion of a database.

use super::database::Database;
use super::open::make_directory;
use crate::error::{Error, ErrorKind, Result};
use crate::transaction::Place;
use std::path::Path;

impl Database {
    /// Makes a consistent copy of the last commit in a new directory, with hard links where the
    /// file system has them. Missing parent folders are created.
    ///
    /// A store without transactions may be newer in the copy than the last commit. Under
    /// exactly-once, the first open of the copy discards such a store.
    ///
    /// # Errors
    /// `UnsupportedOperation` for a database in memory; `InvalidValue` for a directory that exists,
    /// or whose parent is a file; `Io` if it cannot be created; `InvalidState` if an interrupted
    /// commit has not been ended.
    pub fn checkpoint(&self, directory: &Path) -> Result<()> {
        self.rocks.check_owner()?;
        if self.is_in_memory() {
            return Err(Error::new(
                ErrorKind::UnsupportedOperation,
                "a database in memory has no files to copy; open one in a directory",
            ));
        }
        if directory.exists() {
            return Err(Error::new(
                ErrorKind::InvalidValue,
                "the checkpoint's directory exists already; name a new one",
            )
            .path(directory));
        }
        if let Some(parent) = directory
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            make_directory(parent)?;
        }
        // The lock excludes commits.
        let mut writer = self.transactions.writer.lock();
        writer.check_finished(self.path())?;
        let _published = self.publish_writer(&mut writer);
        self.rocks.checkpoint(directory)
    }

    /// Rewrites a store's files and drops its expired rows. A store in memory has no files: its
    /// expired rows are dropped by commits.
    ///
    /// # Errors
    /// `InvalidValue` for a store that the database was not opened with; `Io` or `StoreCorrupted`
    /// if files cannot be written or read, also before this call.
    pub fn compact(&self, store: &str) -> Result<()> {
        self.rocks.check_owner()?;
        for table in self.entry(store)?.store.tables() {
            if let Place::Files(family) = table.place {
                self.rocks.compact(family).map_err(|e| e.store(store))?;
            }
        }
        Ok(())
    }

    /// Deletes a database's directory with everything in it. The database must be closed.
    ///
    /// # Errors
    /// `Io` if it cannot be deleted. A missing directory is not an error.
    pub fn destroy(path: &Path) -> Result<()> {
        match std::fs::remove_dir_all(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::new(
                ErrorKind::Io,
                format!("the directory could not be deleted: {e}; check its permissions"),
            )
            .path(path)),
            _ => Ok(()),
        }
    }
}
