//! Syncs files and names on a local disk where the object store client does not.

use holdfast_core::Result;

use super::durable_folders;
use super::storage::Objects;

impl Objects {
    /// Makes another process's file and its name durable.
    pub fn sync(&self, name: &str) -> Result<()> {
        if self.is_local() {
            durable_folders::sync(&self.place(name))?;
        }
        self.sync_names(name)
    }

    /// Makes the name of another process's object durable, and the names of the folders above it.
    pub fn sync_names(&self, name: &str) -> Result<()> {
        if self.is_local() {
            let place = self.place(name);
            // Every object has a parent: the root's own folder is above all of them.
            durable_folders::sync(place.parent().unwrap_or(self.path()))?;
        }
        self.sync_folders_above(name)
    }

    /// Makes the removal of an object durable.
    pub fn sync_removal(&self, name: &str) -> Result<()> {
        let place = self.place(name);
        match place.parent() {
            Some(folder) if self.is_local() && folder.exists() => durable_folders::sync(folder),
            _ => Ok(()),
        }
    }

    /// Makes the names of an object's folders durable, up to the root's own.
    ///
    /// The client syncs the names of folders that it makes. If another process made a folder, that
    /// process may not have synced the name yet, or was killed before it could.
    pub(super) fn sync_folders_above(&self, name: &str) -> Result<()> {
        if !self.is_local() {
            return Ok(());
        }
        self.durable_folders
            .sync_above(&self.place(name), self.path())
    }
}
