//! The folders of a local root whose names are durable.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use holdfast_core::Result;
use parking_lot::Mutex;

use super::errors;

/// Folders whose own names this process has synced, up to the root's.
#[derive(Debug, Default)]
pub struct DurableFolders(Mutex<HashMap<PathBuf, FolderIdentity>>);

/// Inode and birth time: they differ for a folder that was removed and made again.
type FolderIdentity = (u64, Option<SystemTime>);

impl DurableFolders {
    /// Makes the names of the folders above `place` durable, up to that of `root`.
    pub(super) fn sync_above(&self, place: &Path, root: &Path) -> Result<()> {
        let mut synced = Vec::new();
        for folder in place.ancestors().skip(1) {
            let identity = match fs::metadata(folder) {
                Ok(found) => (found.ino(), found.created().ok()),
                // Removed meanwhile, with the object.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(errors::os("check", folder, &error)),
            };
            if self.0.lock().get(folder) == Some(&identity) {
                break;
            }
            if let Some(parent) = folder.parent() {
                sync(parent)?;
            }
            synced.push((folder.to_owned(), identity));
            if folder == root {
                break;
            }
        }
        self.0.lock().extend(synced);
        Ok(())
    }
}

/// Syncs a file, or the names in a folder.
pub(super) fn sync(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| errors::os("fsync", path, &error))
}
