//! Copies files of any size between a disk and the root, and within the root, in bounded memory.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use futures::TryStreamExt;
use holdfast_core::{Error, ErrorKind, Result};
use object_store::path::Path as Name;
use object_store::{GetResult, GetResultPayload, ObjectStoreExt, WriteMultipart};

use super::errors;
use super::storage::Objects;

/// Bytes of one part of an upload; object stores require at least 5 MiB.
const PART: u64 = 8 << 20;
/// At most this many parts of a file are uploaded at the same time.
const PARTS: usize = 3;

/// Bytes that one read of a file on a local disk gets.
const CHUNK: usize = 256 << 10;

impl Objects {
    /// Puts a file under a name that contains the digest of its content.
    ///
    /// An existing object of that name is overwritten: it has the same content, or is damaged. The
    /// object becomes visible only when it is complete. Memory: a few parts.
    ///
    /// # Errors
    /// `Io` if the disk or the store fails.
    pub fn put_file(&self, name: &str, from: &Path) -> Result<()> {
        self.put_open(
            name,
            File::open(from).map_err(|error| errors::os("read", from, &error))?,
            from,
        )
    }

    /// Like [`Objects::put_file`], for an open file and any name; `from` is the file's name in
    /// messages.
    ///
    /// # Errors
    /// As [`Objects::put_file`].
    pub fn put_open(&self, name: &str, mut file: File, from: &Path) -> Result<()> {
        let next = async || -> Result<Vec<u8>> {
            let mut part = Vec::new();
            (&mut file)
                .take(PART)
                .read_to_end(&mut part)
                .map_err(|error| errors::os("read", from, &error))?;
            Ok(part)
        };
        self.wait(self.put_parts(name, next))??;
        self.sync_folders_above(name)
    }

    /// Copies an object; returns whether it exists. An existing object `to` is overwritten. An
    /// object that is removed meanwhile, by another host for example, counts as missing.
    ///
    /// The copy becomes visible only when it is complete. Memory: a few parts. The object store
    /// itself is not asked for a copy: Azure may acknowledge one before it is complete, and S3
    /// copies at most 5 GiB.
    ///
    /// # Errors
    /// `Io` if the disk or the store fails, or if the object is replaced meanwhile.
    pub fn copy(&self, from: &str, to: &str) -> Result<bool> {
        let (objects, location) = (self.objects(), Name::from(from));
        let head = self.wait(objects.head(&location))?;
        let Some(found) = self.found("read", from, head)? else {
            return Ok(false);
        };
        let mut begin = 0;
        // Each part is a request of its own: one request for a large object could take too long.
        let next = async || -> Result<Vec<u8>> {
            let end = found.size.min(begin + PART);
            if begin == end {
                return Ok(Vec::new());
            }
            let part = objects
                .get_range(&location, begin..end)
                .await
                .map_err(|error| self.refused("read", from, &error))?;
            if part.len() as u64 != end - begin {
                let place = self.place(from);
                let text = format!("{} was replaced while it was copied", place.display());
                return Err(Error::new(ErrorKind::Io, text).path(self.path()));
            }
            begin = end;
            Ok(part.to_vec())
        };
        match self.wait(self.put_parts(to, next))? {
            Err(_) if !self.exists(from)? => return Ok(false),
            copied => copied?,
        }
        self.sync_folders_above(to)?;
        Ok(true)
    }

    /// Puts an object of the parts that `next` returns. All but the last one have [`PART`] bytes.
    async fn put_parts(
        &self,
        name: &str,
        mut next: impl AsyncFnMut() -> Result<Vec<u8>>,
    ) -> Result<()> {
        let refused = |error: &object_store::Error| self.refused("write", name, error);
        let objects = self.objects();
        let (mut part, location) = (next().await?, Name::from(name));
        if (part.len() as u64) < PART {
            return objects
                .put(&location, part.into())
                .await
                .map(drop)
                .map_err(|error| refused(&error));
        }
        let upload = objects
            .put_multipart(&location)
            .await
            .map_err(|error| refused(&error))?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART as usize);
        while !part.is_empty() {
            upload.put(part.into());
            let has_room = upload.wait_for_capacity(PARTS).await;
            let read = match has_room {
                Ok(()) => next().await,
                Err(error) => Err(refused(&error)),
            };
            part = match read {
                Ok(part) => part,
                Err(error) => {
                    // Parts that remain do no harm, but they are billed.
                    if let Err(left) = upload.abort().await {
                        log::warn!(
                            "{}: the parts of an upload that failed were left behind: {left}",
                            self.place(name).display()
                        );
                    }
                    return Err(error);
                }
            };
        }
        upload
            .finish()
            .await
            .map(drop)
            .map_err(|error| refused(&error))
    }

    /// Fetches an object into a file and syncs the file, but not its name; returns the object's
    /// length, or none if it does not exist.
    ///
    /// `seen` is called with all bytes, in order. Memory: one chunk.
    ///
    /// # Errors
    /// `Io` if the store or the disk fails; then the file is incomplete.
    pub fn get_file(&self, name: &str, to: &Path, seen: impl FnMut(&[u8])) -> Result<Option<u64>> {
        let Some(found) = self.open_object(name)? else {
            return Ok(None);
        };
        let unwritten = |error: &io::Error| errors::os("write", to, error);
        let file = File::create(to).map_err(|error| unwritten(&error))?;
        let length = self.receive(name, found, (&file, to), seen)?;
        file.sync_all().map_err(|error| unwritten(&error))?;
        Ok(Some(length))
    }

    /// Fetches an object into an open file; returns whether it exists. `to` is the file's name in
    /// messages.
    ///
    /// # Errors
    /// As [`Objects::get_file`].
    pub fn get_open(&self, name: &str, file: &File, to: &Path) -> Result<bool> {
        let Some(found) = self.open_object(name)? else {
            return Ok(false);
        };
        self.receive(name, found, (file, to), |_| ()).map(|_| true)
    }

    /// Reads an object in pieces; returns its length, or none if it does not exist.
    ///
    /// `seen` is called with all bytes, in order. Memory: one chunk.
    ///
    /// # Errors
    /// `Io` if the store or the disk fails.
    pub fn read_pieces(&self, name: &str, mut seen: impl FnMut(&[u8])) -> Result<Option<u64>> {
        let Some(found) = self.open_object(name)? else {
            return Ok(None);
        };
        let mut length = 0;
        self.pieces(name, found, |bytes| {
            seen(bytes);
            length += bytes.len() as u64;
            Ok(())
        })?;
        Ok(Some(length))
    }

    fn open_object(&self, name: &str) -> Result<Option<GetResult>> {
        let objects = self.objects();
        self.found("read", name, self.wait(objects.get(&Name::from(name)))?)
    }

    fn receive(
        &self,
        name: &str,
        found: GetResult,
        (mut file, to): (&File, &Path),
        mut seen: impl FnMut(&[u8]),
    ) -> Result<u64> {
        let mut length = 0;
        self.pieces(name, found, |bytes| {
            seen(bytes);
            length += bytes.len() as u64;
            file.write_all(bytes)
                .map_err(|error| errors::os("write", to, &error))
        })?;
        Ok(length)
    }

    /// Calls `each` with all bytes of an object, in order.
    fn pieces(
        &self,
        name: &str,
        found: GetResult,
        mut each: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        match found.payload {
            GetResultPayload::File(mut from, _) => {
                let mut chunk = vec![0; CHUNK];
                loop {
                    self.check_running()?;
                    match from
                        .read(&mut chunk)
                        .map_err(|error| errors::os("read", &self.place(name), &error))?
                    {
                        0 => break,
                        read => each(&chunk[..read])?,
                    }
                }
            }
            GetResultPayload::Stream(mut stream) => {
                while let Some(bytes) = self
                    .wait(stream.try_next())?
                    .map_err(|error| self.refused("read", name, &error))?
                {
                    each(&bytes)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;
    use std::thread;

    use object_store::ObjectStore;
    use object_store::memory::InMemory;

    use super::*;
    use crate::cancellation::Cancellation;
    use crate::root::objects::{RootLocation, StorageOptions};
    use crate::root::testing::{Fault, FaultyStore};

    fn stores(folder: &Path) -> [Objects; 2] {
        [
            Objects::open(
                RootLocation::Local(folder.join("root")),
                &StorageOptions::default(),
            )
            .expect("opens"),
            Objects::over(Arc::new(InMemory::new()), Path::new("memory")),
        ]
    }

    #[test]
    fn files_of_any_length_survive_a_round_trip() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        for store in stores(folder.path()) {
            for length in [0, 1, PART - 1, PART, PART + 1, PART * 4 + 7] {
                let content: Vec<u8> = (0..length)
                    .map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8)
                    .collect();
                fs::write(&from, &content).expect("writes");
                let name = format!("files/{length}");
                for _ in 0..2 {
                    store.put_file(&name, &from).expect("puts, also once more");
                }
                let mut seen = Vec::new();
                let got = store
                    .get_file(&name, &to, |bytes| seen.extend_from_slice(bytes))
                    .expect("gets");
                assert_eq!(got, Some(length));
                assert!(
                    seen == content && fs::read(&to).expect("reads") == content,
                    "{length} bytes"
                );
            }
            assert_eq!(
                store.get_file("files/none", &to, |_| ()).expect("looks"),
                None
            );
        }
    }

    #[test]
    fn objects_of_any_length_are_copied_within_a_root() {
        let folder = tempfile::tempdir().expect("a folder");
        let from = folder.path().join("from");
        for store in stores(folder.path()) {
            for length in [0, 1, PART - 1, PART, PART + 1, PART * 2 + 7] {
                let content: Vec<u8> = (0..length).map(|at| (at ^ (at >> 8)) as u8).collect();
                fs::write(&from, &content).expect("writes");
                store.put_file("a/old", &from).expect("puts");
                assert!(store.copy("a/old", "b/c/new").expect("copies"));
                let copied = store.get("b/c/new").expect("gets").expect("is there");
                assert!(copied == content, "{length} bytes");
            }
            assert!(!store.copy("a/none", "b/none").expect("looks"));
            assert!(!store.exists("b/none").expect("looks"));
        }
    }

    #[test]
    fn a_damaged_object_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::write(&from, b"whole").expect("writes");
        for store in stores(folder.path()) {
            store.put_absent("files/5", b"who").expect("puts");
            store.put_file("files/5", &from).expect("puts");
            assert_eq!(
                store.get_file("files/5", &to, |_| ()).expect("gets"),
                Some(5)
            );
        }
    }

    #[test]
    fn an_upload_ends_with_the_host() {
        let folder = tempfile::tempdir().expect("a folder");
        let from = folder.path().join("from");
        fs::write(&from, vec![7_u8; PART as usize + 1]).expect("writes");
        let (store, host) = (
            Arc::new(FaultyStore::new(Fault::None)),
            Cancellation::default(),
        );
        let over = || {
            Objects::over(
                Arc::clone(&store) as Arc<dyn ObjectStore>,
                Path::new("memory"),
            )
        };
        let objects = over().under(host.clone());
        // The object store does not answer.
        let stall = store.stall_request("files/a");
        thread::scope(|scope| {
            let upload = scope.spawn(|| objects.put_file("files/a", &from));
            stall.wait();
            host.cancel();
            let error = upload.join().expect("ends").expect_err("is cancelled");
            assert_eq!(error.kind(), ErrorKind::StoreClosed);
        });
        assert!(!over().exists("files/a").expect("looks"));
    }
}
