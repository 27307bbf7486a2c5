//! Syncs of a root on a local disk, besides those of the object store client.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use holdfast_core::Result;
use parking_lot::Mutex;

use super::errors;
use super::storage::Objects;

/// Folders whose own names this process has synced, up to the root's.
#[derive(Debug, Default)]
pub struct DurableFolders(Mutex<HashMap<PathBuf, FolderIdentity>>);

/// Inode and birth time: a folder that was removed and made anew has others.
type FolderIdentity = (u64, Option<SystemTime>);

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
        let place = self.place(name);
        let mut synced = Vec::new();
        for folder in place.ancestors().skip(1) {
            let identity = match fs::metadata(folder) {
                Ok(found) => (found.ino(), found.created().ok()),
                // Removed meanwhile, with the object.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(errors::os("look at", folder, &error)),
            };
            if self.durable_folders.0.lock().get(folder) == Some(&identity) {
                break;
            }
            if let Some(parent) = folder.parent() {
                self.sync_path(parent)?;
            }
            synced.push((folder.to_owned(), identity));
            if folder == self.path() {
                break;
            }
        }
        self.durable_folders.0.lock().extend(synced);
        Ok(())
    }

    pub(super) fn sync_folder_of(&self, name: &str) -> Result<()> {
        let place = self.place(name);
        // Every object has a parent: the root's own folder is above all of them.
        self.sync_path(place.parent().unwrap_or(self.path()))
    }

    fn sync_path(&self, path: &Path) -> Result<()> {
        if !self.is_local() {
            return Ok(());
        }
        File::open(path)
            .and_then(|file| file.sync_all())
            .map_err(|error| errors::os("fsync", path, &error))
    }
}
