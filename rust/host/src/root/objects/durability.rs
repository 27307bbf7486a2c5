//! Syncs of a root on a local disk, besides those of the object store client.

use std::path::Path;

use holdfast_core::Result;

use super::durable_folders;
use super::storage::Objects;

impl Objects {
    /// Makes a file that another process wrote durable, with its name and those of the folders
    /// above it.
    pub fn sync(&self, name: &str) -> Result<()> {
        self.sync_path(&self.place(name))?;
        self.sync_folder_of(name)?;
        self.sync_folders_above(name)
    }

    /// Makes the names of an object's folders durable, up to the root's own.
    ///
    /// The client syncs the names of folders that it makes. Another process that made one may not
    /// have synced it yet, or was killed before it could.
    pub(super) fn sync_folders_above(&self, name: &str) -> Result<()> {
        if !self.is_local() {
            return Ok(());
        }
        self.durable_folders
            .sync_above(&self.place(name), self.path())
    }

    pub(super) fn sync_folder_of(&self, name: &str) -> Result<()> {
        let place = self.place(name);
        // Every object has a parent: the root's own folder is above all of them.
        self.sync_path(place.parent().unwrap_or(self.path()))
    }

    fn sync_path(&self, path: &Path) -> Result<()> {
        if self.is_local() {
            durable_folders::sync(path)?;
        }
        Ok(())
    }
}
