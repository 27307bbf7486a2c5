//! Put if absent, the write on which the protocol is based.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

use bytes::Bytes;
use holdfast_core::{Error, ErrorKind, Result};
use object_store::path::Path as Name;
use object_store::{PutMode, PutPayload};

use super::errors;
use super::storage::Objects;

/// Attempts at a put whose object exists when it is written and is missing when it is read. Only a
/// concurrent removal causes this.
const ATTEMPTS: usize = 5;
/// Attempts at a put that the object store does not acknowledge. The object store's client has
/// already repeated requests that certainly had no effect.
const FAILURES: usize = 2;

/// The result of a put if absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutOutcome {
    /// The object durably has the content of this put.
    Ours,
    /// The object already existed, durably, with this other content.
    Other(Bytes),
}

impl Objects {
    /// Puts an object if it is absent.
    ///
    /// "Already exists" does not prove that another process made the object: an earlier attempt of
    /// the same put may have made it. So the existing content is read and compared. The same is
    /// done if an answer of the object store was lost.
    ///
    /// # Errors
    /// `Io` if the disk or the store fails. The object may exist nevertheless, or appear later.
    pub fn put_absent(&self, name: &str, bytes: &[u8]) -> Result<PutOutcome> {
        let mut failures = 0;
        for _ in 0..ATTEMPTS {
            let failed = match self.create(name, bytes) {
                Ok(true) => {
                    self.sync_folders_above(name)?;
                    return Ok(PutOutcome::Ours);
                }
                Ok(false) => None,
                Err(error) if self.is_local() => return Err(error),
                Err(error) => Some(error),
            };
            if let Some(found) = self.get(name)? {
                // The process that made it may not have synced the folder yet.
                self.sync_names(name)?;
                return Ok(if found == bytes {
                    PutOutcome::Ours
                } else {
                    PutOutcome::Other(found)
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
                "cannot write {}: it exists when it is written and is missing when it is read, \
                 {ATTEMPTS} times. Stop the process that removes files from the state's root",
                self.place(name).display()
            ),
        ))
    }

    /// As [`Objects::put_absent`], for an object that only this user may read.
    ///
    /// On a local disk the object's top folder becomes private, too, with all objects in it. In an
    /// object store the object is as readable as all others.
    ///
    /// # Errors
    /// As [`Objects::put_absent`].
    pub fn put_private(&self, name: &str, bytes: &[u8]) -> Result<PutOutcome> {
        if !self.is_local() {
            return self.put_absent(name, bytes);
        }
        let place = self.place(name);
        let top = name.split('/').next().unwrap_or(name);
        // The folder's mode protects the object until the object's mode is set.
        self.make_private(&self.place(top))?;
        let put = self.put_absent(name, bytes)?;
        fs::set_permissions(&place, Permissions::from_mode(0o600))
            .map_err(|error| errors::os("set the permissions of", &place, &error))?;
        Ok(put)
    }

    /// Makes a folder that only this user can open, or sets the mode of one that exists.
    fn make_private(&self, folder: &Path) -> Result<()> {
        let failed = |error: io::Error| errors::os("set the permissions of", folder, &error);
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(failed(error)),
            Ok(()) => Ok(()),
            Err(_) => {
                let mode = fs::metadata(folder).map_err(failed)?.permissions().mode();
                if mode & 0o077 != 0 {
                    fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
                }
                Ok(())
            }
        }
    }

    /// Returns whether a second create of an object fails, as the protocol requires.
    ///
    /// # Errors
    /// `Io` if the disk or the object store fails.
    pub fn refuses_second(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.put_absent(name, bytes)?;
        // The object exists, so a create whose answer was lost can be repeated.
        self.create(name, bytes)
            .or_else(|_| self.create(name, bytes))
            .map(|created| !created)
    }

    /// Attempts to create an object, once: `true` if it was made, `false` if it exists.
    ///
    /// After an error the object may exist, or may appear later.
    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        let payload = PutPayload::from(Bytes::copy_from_slice(bytes));
        let location = Name::from(name);
        match self.wait(
            self.objects()
                .put_opts(&location, payload, PutMode::Create.into()),
        )? {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.refused("write", name, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::root::testing::{Fault, FaultyStore};

    fn over(fault: Fault) -> Objects {
        Objects::over(Arc::new(FaultyStore::new(fault)), Path::new("memory"))
    }

    #[test]
    fn a_put_that_finds_its_own_content_has_succeeded() {
        let objects = over(Fault::None);
        let put = |content: &[u8]| objects.put_absent("a/b", content).expect("puts");
        assert_eq!(put(b"1"), PutOutcome::Ours);
        assert_eq!(put(b"1"), PutOutcome::Ours);
        assert_eq!(put(b"2"), PutOutcome::Other(Bytes::from_static(b"1")));
    }

    #[test]
    fn a_put_is_repeated_if_the_existing_object_cannot_be_read() {
        let objects = over(Fault::ExistsFalsely(2));
        assert_eq!(
            objects.put_absent("a", b"1").expect("puts at last"),
            PutOutcome::Ours
        );
        let error = over(Fault::ExistsFalsely(100))
            .put_absent("a", b"1")
            .expect_err("never succeeds");
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("memory/a"), "{error}");
    }
}
