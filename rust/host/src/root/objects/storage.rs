//! The objects of a root: opened in a folder or a bucket, read and listed by name.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::{TryStreamExt, future};
use holdfast_core::{Error, ErrorKind, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path as Name;
use object_store::{ListResult, ObjectStore, ObjectStoreExt};
use parking_lot::RwLock;
use serde::de::DeserializeOwned;

use super::client::{self, StorageOptions};
use super::durable_folders::DurableFolders;
use super::errors;
use super::location::{BucketAddress, RootLocation};
use super::runtime::block_on;
use crate::cancellation::Cancellation;
use crate::protocol::Violation;

/// The objects in a folder, or below a prefix of a bucket.
///
/// Calls fail with `Io` if the disk or the object store fails, with `UnsupportedOperation` for an
/// operation that the object store does not have, and with `StoreClosed` if the host is ending.
#[derive(Debug)]
pub struct Objects {
    client: RwLock<StoreClient>,
    /// The folder, or the bucket's address for messages.
    path: PathBuf,
    /// None for a folder.
    address: Option<BucketAddress>,
    /// In a folder this code must fsync; a put into an object store is durable without it.
    local: bool,
    /// Folders whose own names this process has synced, up to the root's.
    pub(super) durable_folders: DurableFolders,
    /// Cancels all requests when the host ends.
    cancellation: Cancellation,
}

/// The current connection to the object store.
#[derive(Debug)]
struct StoreClient {
    objects: Arc<dyn ObjectStore>,
    options: StorageOptions,
}

impl Objects {
    /// Opens a folder, or a prefix of a bucket.
    ///
    /// Creates a missing folder; sends no request to a bucket. All writes are durable. On a local
    /// disk, the names of the folders above them are durable, too.
    ///
    /// # Errors
    /// `InvalidValue` for options that the store does not have, `Io` for a folder that cannot be
    /// made.
    pub fn open(location: RootLocation, options: &StorageOptions) -> Result<Self> {
        match location {
            RootLocation::Local(path) => {
                if let Some(name) = options.0.keys().next() {
                    let text = format!(
                        "storage_options: {name:?} is for an object store, and {} is a local \
                         folder",
                        path.display()
                    );
                    return Err(Error::new(ErrorKind::InvalidValue, text));
                }
                fs::create_dir_all(&path)
                    .map_err(|error| errors::os("make the folder", &path, &error))?;
                let local = LocalFileSystem::new_with_prefix(&path)
                    .map_err(|error| errors::local("open", &path, &error))?;
                let client = StoreClient {
                    objects: Arc::new(local.with_fsync(true)),
                    options: StorageOptions::default(),
                };
                Ok(Self {
                    client: RwLock::new(client),
                    path,
                    address: None,
                    local: true,
                    durable_folders: DurableFolders::default(),
                    cancellation: Cancellation::default(),
                })
            }
            RootLocation::Bucket(address) => {
                let client = StoreClient {
                    objects: client::connect(&address, options)?,
                    options: options.clone(),
                };
                Ok(Self {
                    client: RwLock::new(client),
                    path: address.to_string().into(),
                    address: Some(address),
                    local: false,
                    durable_folders: DurableFolders::default(),
                    cancellation: Cancellation::default(),
                })
            }
        }
    }

    /// Wraps an object store that is open already; `path` is its name in messages.
    pub fn over(objects: Arc<dyn ObjectStore>, path: &Path) -> Self {
        let client = StoreClient {
            objects,
            options: StorageOptions::default(),
        };
        Self {
            client: RwLock::new(client),
            path: path.to_owned(),
            address: None,
            local: false,
            durable_folders: DurableFolders::default(),
            cancellation: Cancellation::default(),
        }
    }

    /// Makes the end of a host cancel all requests.
    pub fn under(self, cancellation: Cancellation) -> Self {
        Self {
            cancellation,
            ..self
        }
    }

    /// Checks that the host is not ending: called between two steps of long work.
    ///
    /// # Errors
    /// `StoreClosed` if it is ending.
    pub fn check_running(&self) -> Result<()> {
        self.cancellation.check()
    }

    /// Waits for a request on this thread, at most until the host ends.
    ///
    /// So a file that blocks its reader (a FIFO, a file system that hangs) does not block the end
    /// of the host.
    pub(in crate::root) fn wait<F: Future>(&self, request: F) -> Result<F::Output> {
        block_on(self.cancellation.or_cancelled(request))?
    }

    /// Replaces the options (credentials, for example) of all later requests.
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
        *self.client.write() = StoreClient {
            objects,
            options: options.clone(),
        };
        Ok(())
    }

    /// The object store underneath.
    pub(in crate::root) fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.client.read().objects)
    }

    /// Returns the folder, or the address.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the root is a folder of this machine.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Returns the full path of an object, for messages. On a local disk it is the path of the
    /// file.
    pub fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads an object; none if it does not exist.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>> {
        let objects = self.objects();
        let read = async { objects.get(&Name::from(name)).await?.bytes().await };
        self.found("read", name, self.wait(read)?)
    }

    /// Reads an object of JSON; none if it does not exist.
    ///
    /// # Errors
    /// `Restore` if it cannot be parsed.
    pub fn get_json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let Some(bytes) = self.get(name)? else {
            return Ok(None);
        };
        self.parse_json(name, &bytes).map(Some)
    }

    /// Parses the JSON that was read from the object `name`.
    ///
    /// # Errors
    /// `Restore` if it cannot be parsed.
    pub fn parse_json<T: DeserializeOwned>(&self, name: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| self.unreadable(name, &error))
    }

    /// Returns whether an object exists.
    pub fn exists(&self, name: &str) -> Result<bool> {
        let objects = self.objects();
        let head = async { objects.head(&Name::from(name)).await };
        self.found("check", name, self.wait(head)?)
            .map(|found| found.is_some())
    }

    /// Reads an object, and whether each of several others exists; all requests are sent at once.
    pub fn get_and_exist(
        &self,
        name: &str,
        others: &[String],
    ) -> Result<(Option<Bytes>, Vec<bool>)> {
        let objects = &self.objects();
        let read = async { objects.get(&Name::from(name)).await?.bytes().await };
        let heads = others
            .iter()
            .map(|name| async move { objects.head(&Name::from(name.as_str())).await });
        let (read, heads) = self.wait(future::join(read, future::join_all(heads)))?;
        let exist = others
            .iter()
            .zip(heads)
            .map(|(name, head)| self.found("check", name, head).map(|found| found.is_some()))
            .collect::<Result<_>>()?;
        Ok((self.found("read", name, read)?, exist))
    }

    /// Reads the first `length` bytes of several objects, or all of shorter ones; all requests are
    /// sent at once.
    pub fn get_prefixes(&self, names: &[String], length: u64) -> Result<Vec<Option<Bytes>>> {
        let objects = &self.objects();
        let reads = names.iter().map(|name| async move {
            objects
                .get_range(&Name::from(name.as_str()), 0..length)
                .await
        });
        let reads = self.wait(future::join_all(reads))?;
        names
            .iter()
            .zip(reads)
            .map(|(name, read)| match self.found("read", name, read) {
                // Object stores refuse a range of an empty object.
                Err(_) => self.get(name),
                found => found,
            })
            .collect()
    }

    /// File names of the objects directly in a folder, unordered; none if there is no such folder.
    pub fn list(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self
            .listing(folder)?
            .objects
            .iter()
            .filter_map(|meta| meta.location.filename().map(str::to_owned))
            .collect())
    }

    /// Full names of the objects in a folder and in all folders below it, unordered; in an object
    /// store one request lists a thousand.
    pub fn list_below(&self, folder: &str) -> Result<Vec<String>> {
        let objects = self.objects();
        let prefix = Name::from(folder);
        let names = objects.list(Some(&prefix));
        let names = names.map_ok(|meta| meta.location.to_string());
        self.wait(names.try_collect())?
            .map_err(|error| self.refused("list", folder, &error))
    }

    /// Full names and lengths of the objects directly in a folder.
    pub fn sizes(&self, folder: &str) -> Result<HashMap<String, u64>> {
        Ok(self
            .listing(folder)?
            .objects
            .into_iter()
            .map(|meta| (meta.location.to_string(), meta.size))
            .collect())
    }

    /// Names of the folders directly in a folder, unordered.
    pub fn folders(&self, folder: &str) -> Result<Vec<String>> {
        Ok(self
            .listing(folder)?
            .common_prefixes
            .iter()
            .filter_map(|prefix| prefix.filename().map(str::to_owned))
            .collect())
    }

    pub(super) fn listing(&self, folder: &str) -> Result<ListResult> {
        let found = self.wait(
            self.objects()
                .list_with_delimiter(Some(&Name::from(folder))),
        )?;
        found.map_err(|error| self.refused("list", folder, &error))
    }

    /// Returns the error for a broken rule of the protocol; its message names this root and, if
    /// offsets are missing, this machine.
    pub fn violation(&self, violation: impl Into<Violation>) -> Error {
        violation.into().at(&self.path, &machine_name())
    }

    /// Returns the error for an object that is not the expected JSON.
    pub fn unreadable(&self, name: &str, error: &serde_json::Error) -> Error {
        let place = self.place(name);
        Error::new(
            ErrorKind::Restore,
            format!(
                "{} cannot be read ({error}): restore it from a backup",
                place.display()
            ),
        )
    }

    /// Converts an error of the object store, without secrets. `doing` is a verb.
    pub(super) fn refused(&self, doing: &str, name: &str, error: &object_store::Error) -> Error {
        let place = self.place(name);
        if self.local {
            return errors::local(doing, &place, error);
        }
        let error = errors::remote(doing, &place, error);
        Error::new(
            error.kind(),
            self.client.read().options.hide(error.to_string()),
        )
    }

    /// Converts a result of the object store: a missing object is none, not an error.
    pub(in crate::root) fn found<T>(
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

fn machine_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "unnamed".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_shows_only_the_files_directly_in_the_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let objects = Objects::open(
            RootLocation::Local(folder.path().to_owned()),
            &StorageOptions::default(),
        )
        .expect("opens");
        assert_eq!(
            objects.list("log/1").expect("a missing folder is empty"),
            Vec::<String>::new()
        );
        for name in ["log/1/a", "log/1/b", "log/1/c/d", "log/10/e"] {
            objects.put_absent(name, b"x").expect("puts");
        }
        let mut files = objects.list("log/1").expect("lists");
        files.sort();
        assert_eq!(files, ["a", "b"]);
    }
}
