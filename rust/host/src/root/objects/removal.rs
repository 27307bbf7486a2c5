//! Removes objects, empty folders, and the parts of files that a killed host left.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, future};
use holdfast_core::Result;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt};

use super::errors;
use super::storage::Objects;

/// A part of a file is abandoned if it has not grown for this long.
const ABANDONED: Duration = Duration::from_secs(3_600);

impl Objects {
    /// Removes the objects in a folder, and in the folders below it, whose file names `wanted`
    /// accepts. Folders that are then empty are removed, too.
    ///
    /// Another host may remove the same objects at the same time.
    pub fn remove_files(
        &self,
        folder: &str,
        wanted: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<()> {
        if self.is_local() {
            return self.removed(folder, remove_files(&self.place(folder), &wanted));
        }
        let objects = self.objects();
        let files = objects
            .list(Some(&Name::from(folder)))
            .map_ok(|meta| meta.location)
            .try_filter(move |name| future::ready(name.filename().is_some_and(&wanted)))
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

    /// Removes abandoned parts of files: those that have not grown for an hour.
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
    /// As [`Objects::remove`]; the object does not reappear after a loss of power.
    pub fn remove_durably(&self, name: &str) -> Result<()> {
        self.remove(name)?;
        // The folder is synced even if the object was missing: its earlier removal may not have
        // been synced.
        self.sync_removal(name)
    }
}

/// As [`Objects::remove_files`], on a local disk.
fn remove_files(folder: &Path, wanted: &impl Fn(&str) -> bool) -> io::Result<()> {
    let unless_missing = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unless_missing(remove_files(&entry.path(), wanted))?;
            continue;
        }
        let file = entry.file_name();
        let file = file.to_string_lossy();
        // A part of an unfinished put has the object's name, then `#` and a number. A listing of
        // objects does not show it.
        if wanted(file.split('#').next().unwrap_or(&file)) {
            unless_missing(fs::remove_file(entry.path()))?;
        }
    }
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::StorageOptions;
    use super::super::location::RootLocation;
    use super::*;

    #[test]
    fn a_removal_keeps_other_files_and_leaves_no_empty_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| folder.path().join(name);
        let location = RootLocation::Local(folder.path().to_owned());
        let objects = Objects::open(location, &StorageOptions::default()).expect("opens");
        for name in ["a/old", "a/b/old", "c/old", "c/new", "c/d/new"] {
            objects.put_absent(name, b"x").expect("puts");
        }
        fs::write(place("a/old#1"), "a part of an unfinished put").expect("writes");
        for removed in ["a", "c", "missing"] {
            objects
                .remove_files(removed, |file| file == "old")
                .expect("removes");
        }
        let exist = ["a", "c/old", "c/new", "c/d/new"].map(|name| place(name).exists());
        assert_eq!(exist, [false, false, true, true]);
    }
}
