//! Removes objects, folders, and parts of files that a killed host left.

use std::fs;
use std::io;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use holdfast_core::Result;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt};

use super::errors;
use super::storage::Objects;

/// A part of a file is abandoned if it has not grown for this long.
const ABANDONED: Duration = Duration::from_secs(3_600);

impl Objects {
    /// Removes a folder with all objects in it; another host may do so at the same time.
    pub fn remove_folder(&self, folder: &str) -> Result<()> {
        if self.is_local() {
            // Includes parts of unfinished puts, which a listing does not show.
            return self.removed(folder, fs::remove_dir_all(self.place(folder)));
        }
        let objects = self.objects();
        let files = objects
            .list(Some(&Name::from(folder)))
            .map_ok(|meta| meta.location)
            .boxed();
        let removed = objects.delete_stream(files);
        let mut each = removed.map(|removed| self.found("remove", folder, removed).map(drop));
        self.wait(async {
            while let Some(removed) = each.next().await {
                removed?;
            }
            Ok(())
        })?
    }

    /// Removes a folder if it is empty.
    pub fn remove_empty_folder(&self, folder: &str) -> Result<()> {
        // In a bucket a folder is only a prefix of names.
        if !self.is_local() {
            return Ok(());
        }
        match fs::remove_dir(self.place(folder)) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => self.removed(folder, removed),
        }
    }

    /// Removes abandoned parts of files, which are older than the longest possible put.
    ///
    /// A host that is killed during a put leaves such a part; a listing does not show it.
    pub fn remove_parts(&self, folder: &str) -> Result<()> {
        if !self.is_local() {
            return Ok(());
        }
        let place = self.place(folder);
        let entries = match fs::read_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|error| errors::os("list", &place, &error))?,
        };
        for entry in entries
            .flatten()
            .filter(|entry| entry.file_name().as_encoded_bytes().contains(&b'#'))
        {
            let written = entry.metadata().and_then(|found| found.modified());
            if written.is_ok_and(|written| written.elapsed().is_ok_and(|age| age > ABANDONED)) {
                self.removed(
                    &format!("{folder}/{}", entry.file_name().display()),
                    fs::remove_file(entry.path()),
                )?;
            }
        }
        Ok(())
    }

    fn removed(&self, name: &str, removed: io::Result<()>) -> Result<()> {
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(errors::os("remove", &self.place(name), &error))
            }
            _ => Ok(()),
        }
    }

    /// Removes an object, if it exists.
    pub fn remove(&self, name: &str) -> Result<()> {
        let objects = self.objects();
        let remove = async { objects.delete(&Name::from(name)).await };
        self.found("remove", name, self.wait(remove)?).map(|_| ())
    }
}
