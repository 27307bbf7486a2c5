//! Objects by name: put if absent, get, list. Everything that a root does goes through here.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, future, stream};
use holdfast_core::{Error, ErrorKind, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{ListResult, ObjectStore, ObjectStoreExt, PutMode, PutPayload};
use parking_lot::RwLock;

use super::client::{self, StorageOptions};
use super::failure;
use super::location::{Address, Location};
use super::runtime::block_on;

/// Put and read lose to each other only when somebody removes objects at the same time.
const ATTEMPTS: usize = 5;
/// A put that an object store does not acknowledge is tried once more: the client below has
/// repeated it already where it is sure that it did not take place.
const FAILURES: usize = 2;
/// A part of a file that has not grown for so long is nobody's any more.
const ABANDONED: Duration = Duration::from_secs(3_600);

/// What became of a put if absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// The object is there with our content, durably.
    Own,
    /// The object was there before, with this other content, durably.
    Other(Bytes),
}

/// The objects of a folder, or below a prefix of a bucket.
///
/// Its calls fail with `Io` for what the disk or the store refuses, and with `UnsupportedOperation`
/// for what the store does not have.
#[derive(Debug)]
pub struct Store {
    client: RwLock<Client>,
    /// Where they lie: a folder, or an address (for messages only).
    path: PathBuf,
    /// None in a folder.
    address: Option<Address>,
    /// In a folder durability is ours to ask for; an object store gives it with each put.
    local: bool,
}

/// How a store is reached at the moment.
#[derive(Debug)]
struct Client {
    objects: Arc<dyn ObjectStore>,
    options: StorageOptions,
}

impl Store {
    /// Opens a folder, making it if it is missing, or a bucket's prefix, of which nothing is asked
    /// yet. Every write is durable, in a folder together with the folders above it.
    ///
    /// # Errors
    /// `InvalidValue` for options that the store does not have, `Io` for a folder that cannot be
    /// made.
    pub fn open(location: Location, options: &StorageOptions) -> Result<Self> {
        match location {
            Location::Local(path) => {
                if let Some(name) = options.0.keys().next() {
                    let text = format!(
                        "storage_options: {name:?} is for an object store, and {} is a local \
                         folder",
                        path.display()
                    );
                    return Err(Error::new(ErrorKind::InvalidValue, text));
                }
                fs::create_dir_all(&path)
                    .map_err(|error| failure::os("make the folder", &path, &error))?;
                let local = LocalFileSystem::new_with_prefix(&path)
                    .map_err(|error| failure::local("open", &path, &error))?;
                let client = Client {
                    objects: Arc::new(local.with_fsync(true)),
                    options: StorageOptions::default(),
                };
                Ok(Self {
                    client: RwLock::new(client),
                    path,
                    address: None,
                    local: true,
                })
            }
            Location::Bucket(address) => {
                let client = Client {
                    objects: client::connect(&address, options)?,
                    options: options.clone(),
                };
                Ok(Self {
                    client: RwLock::new(client),
                    path: address.to_string().into(),
                    address: Some(address),
                    local: false,
                })
            }
        }
    }

    /// A store over other objects.
    pub fn over(objects: Arc<dyn ObjectStore>, path: &Path) -> Self {
        let client = Client {
            objects,
            options: StorageOptions::default(),
        };
        Self {
            client: RwLock::new(client),
            path: path.to_owned(),
            address: None,
            local: false,
        }
    }

    /// Reaches the store with these options from now on: credentials are renewed.
    ///
    /// # Errors
    /// `InvalidValue` for options that the store does not have.
    pub fn renew(&self, options: &StorageOptions) -> Result<()> {
        let Some(address) = self
            .address
            .as_ref()
            .filter(|_| self.client.read().options != *options)
        else {
            return Ok(());
        };
        let objects = client::connect(address, options)?;
        *self.client.write() = Client {
            objects,
            options: options.clone(),
        };
        Ok(())
    }

    /// The objects themselves.
    pub(super) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.client.read().objects)
    }

    /// The folder, or the address.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is a folder of this machine.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Where an object lies, for messages; in a folder its file.
    pub fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// What the store has refused, in words and without secrets. `doing` is a verb.
    pub(super) fn refused(&self, doing: &str, name: &str, error: &object_store::Error) -> Error {
        let place = self.place(name);
        if self.local {
            return failure::local(doing, &place, error);
        }
        let error = failure::remote(doing, &place, error);
        Error::new(
            error.kind(),
            self.client.read().options.hide(error.to_string()),
        )
    }

    /// One bare attempt to create: `true` if it was made, `false` if something is there. After an
    /// error it may have been made, or may come to be made later.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
        let location = Name::from(name);
        match block_on(
            self.objects()
                .put_opts(&location, payload, PutMode::Create.into()),
        )? {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.refused("write", name, &error)),
        }
    }

    /// Puts an object if it is absent. "Already exists" proves nothing by itself (a retry of our
    /// own put may have been the first), so what is there is read; likewise where an object store's
    /// answer is lost.
    ///
    /// # Errors
    /// `Io` for what the disk or the store refuses. The object may be there all the same, or come
    /// to be.
    pub fn put_absent(&self, name: &str, bytes: &[u8]) -> Result<Put> {
        let mut failures = 0;
        for _ in 0..ATTEMPTS {
            let failed = match self.create(name, bytes) {
                Ok(true) => return Ok(Put::Own),
                Ok(false) => None,
                Err(error) if self.local => return Err(error),
                Err(error) => Some(error),
            };
            if let Some(found) = self.get(name)? {
                // Who made it may not have come to its fsync of the folder yet.
                self.sync_folder_of(name)?;
                return Ok(if found == bytes {
                    Put::Own
                } else {
                    Put::Other(found)
                });
            }
            if let Some(error) = failed {
                failures += 1;
                if failures == FAILURES {
                    return Err(error);
                }
            }
        }
        Err(Error::new(
            ErrorKind::Io,
            format!(
                "cannot write {}: it exists when written and is missing when read, {ATTEMPTS} \
                 times over. Is something removing files from the state's root?",
                self.place(name).display()
            ),
        ))
    }

    /// Whether a second create of an object fails, as it must: everything else hangs on it.
    ///
    /// # Errors
    /// `Io` for what the disk or the store refuses, also at the second attempt.
    pub fn refuses_second(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.put_absent(name, bytes)?;
        // It is there, so a create whose answer was lost can be tried again.
        self.create(name, bytes)
            .or_else(|_| self.create(name, bytes))
            .map(|created| !created)
    }

    /// An object's content.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let objects = self.objects();
        let read = async { objects.get(&Name::from(name)).await?.bytes().await };
        self.found("read", name, block_on(read)?)
    }

    /// Whether an object is there.
    pub fn exists(&self, name: &str) -> Result<bool> {
        let objects = self.objects();
        let head = async { objects.head(&Name::from(name)).await };
        self.found("look at", name, block_on(head)?)
            .map(|found| found.is_some())
    }

    /// Whether objects are there, all asked for at once.
    pub fn exist(&self, names: &[String]) -> Result<Vec<bool>> {
        let objects = &self.objects();
        let heads = names
            .iter()
            .map(|name| async move { objects.head(&Name::from(name.as_str())).await });
        let heads = block_on(future::join_all(heads))?;
        names
            .iter()
            .zip(heads)
            .map(|(name, head)| {
                self.found("look at", name, head)
                    .map(|found| found.is_some())
            })
            .collect()
    }

    /// File names of the objects right in a folder, in no order; none if there is no such folder.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self
            .listing(folder)?
            .objects
            .iter()
            .filter_map(|meta| meta.location.filename().map(str::to_owned))
            .collect())
    }

    /// Names (from the root) and lengths of the objects right in a folder.
    pub fn sizes(&self, folder: &str) -> Result<HashMap<String, u64>> {
        Ok(self
            .listing(folder)?
            .objects
            .into_iter()
            .map(|meta| (meta.location.to_string(), meta.size))
            .collect())
    }

    /// Names of the folders right in a folder, in no order.
    pub fn folders(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self
            .listing(folder)?
            .common_prefixes
            .iter()
            .filter_map(|prefix| prefix.filename().map(str::to_owned))
            .collect())
    }

    fn listing(&self, folder: &str) -> Result<ListResult> {
        let found = block_on(
            self.objects()
                .list_with_delimiter(Some(&Name::from(folder))),
        )?;
        found.map_err(|error| self.refused("list", folder, &error))
    }

    /// Removes a folder with all objects right in it. Another host may be at it, too.
    pub fn remove_folder(&self, folder: &str) -> Result<()> {
        if self.local {
            // With what a listing does not show: parts of files that a host left which was killed
            // in mid-put.
            return self.removed(folder, fs::remove_dir_all(self.place(folder)));
        }
        let files = self
            .listing(folder)?
            .objects
            .into_iter()
            .map(|meta| Ok(meta.location));
        let removed = self
            .objects()
            .delete_stream(stream::iter(files.collect::<Vec<_>>()).boxed());
        let mut each = removed.map(|removed| self.found("remove", folder, removed).map(drop));
        block_on(async {
            while let Some(removed) = each.next().await {
                removed?;
            }
            Ok(())
        })?
    }

    /// Removes a folder that has become empty; one that is not stays.
    pub fn remove_empty_folder(&self, folder: &str) -> Result<()> {
        // Elsewhere a folder is no more than a part of names.
        if !self.local {
            return Ok(());
        }
        match fs::remove_dir(self.place(folder)) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => self.removed(folder, removed),
        }
    }

    /// Removes parts of files that lie in a folder longer than any put takes: of a host that was
    /// killed in mid-put. A listing does not show them, and nobody will complete them.
    pub fn remove_parts(&self, folder: &str) -> Result<()> {
        if !self.local {
            return Ok(());
        }
        let place = self.place(folder);
        let entries = match fs::read_dir(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(|error| failure::os("list", &place, &error))?,
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
                Err(failure::os("remove", &self.place(name), &error))
            }
            _ => Ok(()),
        }
    }

    /// Removes an object; it may be gone already.
    pub fn remove(&self, name: &str) -> Result<()> {
        let objects = self.objects();
        let remove = async { objects.delete(&Name::from(name)).await };
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
        File::open(path)
            .and_then(|file| file.sync_all())
            .map_err(|error| failure::os("fsync", path, &error))
    }

    pub(super) fn found<T>(
        &self,
        doing: &str,
        name: &str,
        result: object_store::Result<T>,
    ) -> Result<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.refused(doing, name, &error)),
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
        assert_eq!(
            store.put_absent("a/b", b"2").expect("puts"),
            Put::Other(Bytes::from_static(b"1"))
        );
    }

    #[test]
    fn exists_and_then_nothing_there_is_tried_again() {
        let store = over(Fault::ExistsFalsely(2));
        assert_eq!(store.put_absent("a", b"1").expect("puts at last"), Put::Own);
        let error = over(Fault::ExistsFalsely(100))
            .put_absent("a", b"1")
            .expect_err("never comes to an end");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("memory/a"), "{error}");
    }

    #[test]
    fn a_listing_shows_a_folders_own_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(
            Location::Local(folder.path().to_owned()),
            &StorageOptions::default(),
        )
        .expect("opens");
        assert_eq!(
            store.list("log/1").expect("no folder is an empty one"),
            Vec::<String>::new()
        );
        for name in ["log/1/a", "log/1/b", "log/1/c/d", "log/10/e"] {
            store.put_absent(name, b"x").expect("puts");
        }
        let mut files = store.list("log/1").expect("lists");
        files.sort();
        assert_eq!(files, ["a", "b"]);
    }
}
