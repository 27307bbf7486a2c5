//! Objects by name: put if absent, get, list. Everything that a root does goes through here.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::TryStreamExt;
use holdfast_core::{Error, ErrorKind, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutPayload};

use super::failure;
use super::runtime::block_on;

/// Put and read lose to each other only when somebody removes objects at the same time.
const ATTEMPTS: usize = 5;

/// What became of a put if absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is there with our content, durably.
    Own,
    /// The object was there before, with this other content, durably.
    Other(Bytes),
}

/// A folder's objects.
#[derive(Debug)]
pub struct Store {
    objects: Arc<dyn ObjectStore>,
    path: PathBuf,
    /// On a local disk durability is ours to ask for; an object store gives it with each put.
    local: bool,
}

impl Store {
    /// Opens a local folder, making it if it is missing. Every write is fsynced, with the folders above it.
    pub fn open(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(|error| failure::os("make the folder", path, &error))?;
        let local = LocalFileSystem::new_with_prefix(path).map_err(|error| failure::store("open", path, &error))?;
        Ok(Self { objects: Arc::new(local.with_fsync(true)), path: path.to_owned(), local: true })
    }

    /// A store over other objects, to be tried with broken ones.
    #[cfg(test)]
    pub fn over(objects: Arc<dyn ObjectStore>, path: &Path) -> Self {
        Self { objects, path: path.to_owned(), local: false }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An object's place on disk, for messages and fsync.
    pub fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// One bare attempt to create: `true` if it was made, `false` if something is there.
    pub fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
        let location = Name::from(name);
        match block_on(self.objects.put_opts(&location, payload, PutMode::Create.into()))? {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(failure::store("write", &self.place(name), &error)),
        }
    }

    /// Puts an object if it is absent. "Already exists" proves nothing by itself (a retry of our own put may have been
    /// the first), so what is there is read.
    pub fn put_absent(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        for _ in 0..ATTEMPTS {
            if self.create(name, bytes)? {
                return Ok(Put::Own);
            }
            if let Some(found) = self.get(name)? {
                // Who made it may not have come to its fsync of the folder yet.
                self.sync_folder_of(name)?;
                return Ok(if found == bytes { Put::Own } else { Put::Other(found) });
            }
        }
        Err(Error::new(
            ErrorKind::Io,
            format!(
                "cannot write {}: it exists when written and is missing when read, {ATTEMPTS} times over. Is something \
                 removing files from the state's root?",
                self.place(name).display()
            ),
        ))
    }

    /// An object's content.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let read = async { self.objects.get(&Name::from(name)).await?.bytes().await };
        self.found("read", name, block_on(read)?)
    }

    /// Whether an object is there.
    pub fn exists(&self, name: &str) -> Result<bool> {
        let head = async { self.objects.head(&Name::from(name)).await };
        self.found("look at", name, block_on(head)?).map(|found| found.is_some())
    }

    /// File names of the objects right in a folder, in no order; none if there is no such folder.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        let listing = self.objects.list(Some(&Name::from(folder))).try_collect::<Vec<_>>();
        let found = block_on(listing)?.map_err(|error| failure::store("list", &self.place(folder), &error))?;
        let file = |name: &Name| {
            let rest = name.as_ref().strip_prefix(folder)?.strip_prefix('/')?;
            (!rest.contains('/')).then(|| rest.to_owned())
        };
        Ok(found.iter().filter_map(|meta| file(&meta.location)).collect())
    }

    /// Names of the folders right in a folder, in no order.
    pub fn folders(&self, folder: &str) -> Result<Vec<String>> {
        let name = Name::from(folder);
        let found = block_on(self.objects.list_with_delimiter(Some(&name)))?;
        let found = found.map_err(|error| failure::store("list", &self.place(folder), &error))?;
        Ok(found.common_prefixes.iter().filter_map(|prefix| prefix.filename().map(str::to_owned)).collect())
    }

    /// Removes a folder with all objects right in it.
    pub fn remove_folder(&self, folder: &str) -> Result<()> {
        for file in self.list(folder)? {
            self.remove(&format!("{folder}/{file}"))?;
        }
        let path = self.place(folder);
        if self.local
            && let Err(error) = fs::remove_dir(&path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(failure::os("remove the folder", &path, &error));
        }
        Ok(())
    }

    /// Removes an object; it may be gone already.
    pub fn remove(&self, name: &str) -> Result<()> {
        let remove = async { self.objects.delete(&Name::from(name)).await };
        self.found("remove", name, block_on(remove)?).map(|_| ())
    }

    /// Makes a file of somebody else durable, and its name.
    pub fn sync(&self, name: &str) -> Result<()> {
        self.sync_path(&self.place(name))?;
        self.sync_folder_of(name)
    }

    fn sync_folder_of(&self, name: &str) -> Result<()> {
        let place = self.place(name);
        // The root's own folder lies above every object.
        self.sync_path(place.parent().unwrap_or(&self.path))
    }

    fn sync_path(&self, path: &Path) -> Result<()> {
        if !self.local {
            return Ok(());
        }
        File::open(path).and_then(|file| file.sync_all()).map_err(|error| failure::os("fsync", path, &error))
    }

    fn found<T>(&self, doing: &str, name: &str, result: object_store::Result<T>) -> Result<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(failure::store(doing, &self.place(name), &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::careless::{Careless, Fault};

    fn over(fault: Fault) -> Store {
        Store::over(Arc::new(Careless::new(fault)), Path::new("memory"))
    }

    #[test]
    fn a_put_that_finds_its_own_content_has_succeeded() {
        let store = over(Fault::None);
        assert_eq!(store.put_absent("a/b", b"1").expect("puts"), Put::Own);
        assert_eq!(store.put_absent("a/b", b"1").expect("puts"), Put::Own);
        assert_eq!(store.put_absent("a/b", b"2").expect("puts"), Put::Other(Bytes::from_static(b"1")));
    }

    #[test]
    fn exists_and_then_nothing_there_is_tried_again() {
        let store = over(Fault::ExistsFalsely(2));
        assert_eq!(store.put_absent("a", b"1").expect("puts at last"), Put::Own);
        let error = over(Fault::ExistsFalsely(100)).put_absent("a", b"1").expect_err("never comes to an end");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("memory/a"), "{error}");
    }

    #[test]
    fn a_listing_shows_a_folders_own_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path()).expect("opens");
        assert_eq!(store.list("log/1").expect("no folder is an empty one"), Vec::<String>::new());
        for name in ["log/1/a", "log/1/b", "log/1/c/d", "log/10/e"] {
            store.put_absent(name, b"x").expect("puts");
        }
        let mut files = store.list("log/1").expect("lists");
        files.sort();
        assert_eq!(files, ["a", "b"]);
    }
}
