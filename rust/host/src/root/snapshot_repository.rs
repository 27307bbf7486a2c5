//! `snapshots/`: copies of partitions' databases, each after one epoch.
//!
//! ```text
//! snapshots/<operator>/<partition>/<epoch, 20 digits>.<chain>    manifests, JSON
//! snapshots/<operator>/<partition>/files/<digest>-<bytes>        files, named by their content
//! ```
//!
//! RocksDB never changes a file, so snapshots share files, and a snapshot costs only what was
//! written since the one before. A manifest is put after its files. It is valid only if its chain
//! is that of the object which decided its epoch.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3Default;

use super::names::{self, SnapshotId};
use super::objects::{Objects, os};
use super::rewind_marks::RewindMarks;
use crate::protocol::{Digest, OperatorName, PartitionId, RunNumber};

const FORMAT: u32 = 1;

/// Files that are fetched at the same time.
const LANES: usize = 4;

/// The files of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SnapshotManifest {
    format: u32,
    files: Vec<SnapshotFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SnapshotFile {
    /// The file's name in the database's directory.
    name: String,
    digest: Digest,
    bytes: u64,
}

impl SnapshotManifest {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

impl SnapshotFile {
    fn object(&self, id: &SnapshotId) -> String {
        names::snapshot_file(&id.operator, id.partition, self.digest, self.bytes)
    }
}

/// Digests of the files of the last snapshot, so that unchanged files are not read again.
///
/// A hard link has the same key as its file.
pub type KnownDigests = HashMap<FileKey, Digest>;

/// Inode, length, and seconds and nanoseconds of the last change.
///
/// Inodes are reused and some file systems have no nanoseconds, so no part alone is enough.
type FileKey = (u64, u64, i64, i64);

/// The size of a snapshot, and how much of it was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotTransfer {
    /// Files of the snapshot.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes that were copied; files that already existed are not.
    pub copied: u64,
}

/// The snapshots of a root.
#[derive(Debug)]
pub struct SnapshotRepository {
    objects: Arc<Objects>,
    marks: Arc<RewindMarks>,
}

impl SnapshotRepository {
    /// The snapshots of a root.
    pub(super) fn new(objects: Arc<Objects>, marks: Arc<RewindMarks>) -> Self {
        Self { objects, marks }
    }

    /// Lists a partition's snapshots, newest first.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn list(&self, operator: &OperatorName, partition: PartitionId) -> Result<Vec<SnapshotId>> {
        let files = self.objects.list(&names::snapshots(operator, partition))?;
        let mut found: Vec<SnapshotId> = files
            .iter()
            .filter_map(|file| names::parse_snapshot(file))
            .map(|(epoch, chain)| SnapshotId {
                operator: operator.clone(),
                partition,
                epoch,
                chain,
            })
            .collect();
        found.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.epoch));
        Ok(found)
    }

    /// Lists the snapshots of all partitions of an operator, unordered.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn list_all(&self, operator: &OperatorName) -> Result<Vec<SnapshotId>> {
        let folders = self.objects.folders(&names::all_snapshots(operator))?;
        let partitions = folders
            .iter()
            .filter_map(|folder| folder.parse().ok().map(PartitionId));
        partitions
            .map(|partition| self.list(operator, partition))
            .collect::<Result<Vec<_>>>()
            .map(|found| found.concat())
    }

    /// Puts a snapshot: the files of a directory that does not change, then the manifest.
    ///
    /// # Errors
    /// `Fenced` if `run` is not the newest any more, `Io` if the disk fails.
    pub fn put(
        &self,
        id: &SnapshotId,
        run: RunNumber,
        directory: &Path,
        known: &mut KnownDigests,
    ) -> Result<SnapshotTransfer> {
        let mut manifest = SnapshotManifest {
            format: FORMAT,
            files: Vec::new(),
        };
        let refused = |path: &Path, error: &io::Error| os("read", path, error);
        let entries =
            fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut paths: Vec<PathBuf> = entries
            .map_err(|error| refused(directory, &error))?
            .iter()
            .map(fs::DirEntry::path)
            .collect();
        paths.sort();
        let mut seen = KnownDigests::new();
        for path in paths {
            self.objects.check_running()?;
            let found = path.metadata().map_err(|error| refused(&path, &error))?;
            let key = (found.ino(), found.len(), found.mtime(), found.mtime_nsec());
            let digest = match known.get(&key) {
                Some(digest) => *digest,
                None => digest_of(&path).map_err(|error| refused(&path, &error))?,
            };
            seen.insert(key, digest);
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            manifest.files.push(SnapshotFile {
                name,
                digest,
                bytes: found.len(),
            });
        }
        *known = seen;
        let copied = self.put_files(id, &manifest, directory)?;
        let json = serde_json::to_vec(&manifest).map_err(|error| {
            Error::new(ErrorKind::Serialization, format!("a manifest: {error}"))
        })?;
        self.objects.put_absent(&names::snapshot(id), &json)?;
        // The upload may have taken long.
        self.marks.fence_put(&names::snapshot(id), id.epoch, run)?;
        // A former owner that stalled during its garbage collection may have removed files that no
        // manifest named yet.
        let again = self.put_files(id, &manifest, directory)?;
        if again > 0 {
            let place = self.objects.place(&names::snapshot(id));
            log::warn!(
                "{}: {again} bytes of its files were removed meanwhile, and are put again",
                place.display()
            );
        }
        Ok(SnapshotTransfer {
            files: manifest.files.len(),
            bytes: manifest.bytes(),
            copied,
        })
    }

    /// Puts the files of a snapshot that are missing or have another length; returns their bytes.
    fn put_files(
        &self,
        id: &SnapshotId,
        manifest: &SnapshotManifest,
        directory: &Path,
    ) -> Result<u64> {
        let (mut there, mut copied) = (
            self.objects
                .sizes(&names::snapshot_files(&id.operator, id.partition))?,
            0,
        );
        for file in &manifest.files {
            let object = file.object(id);
            if there.get(&object) != Some(&file.bytes) {
                self.objects
                    .put_file(&object, &directory.join(&file.name))?;
                copied += file.bytes;
                there.insert(object, file.bytes);
            }
        }
        Ok(copied)
    }

    /// Fetches a snapshot into a new directory, several files at the same time.
    ///
    /// All bytes are verified. `progress` is called with what was copied so far, first with
    /// nothing.
    ///
    /// # Errors
    /// `Restore` if something is missing or damaged, `Io` if the disk fails.
    pub fn fetch(
        &self,
        id: &SnapshotId,
        directory: &Path,
        progress: &(dyn Fn(SnapshotTransfer) + Sync),
    ) -> Result<SnapshotTransfer> {
        let mut manifest = self.manifest(id)?;
        // Largest files first, so that all threads end at about the same time.
        manifest
            .files
            .sort_by_key(|file| std::cmp::Reverse(file.bytes));
        let all = SnapshotTransfer {
            files: manifest.files.len(),
            bytes: manifest.bytes(),
            copied: 0,
        };
        progress(all);
        fs::create_dir_all(directory).map_err(|error| os("make the folder", directory, &error))?;
        let (next, copied, failed) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(None));
        let more = |bytes: usize| {
            let bytes = bytes as u64;
            progress(SnapshotTransfer {
                copied: copied.fetch_add(bytes, Ordering::Relaxed) + bytes,
                ..all
            });
        };
        thread::scope(|scope| {
            for _ in 0..LANES.min(manifest.files.len()) {
                scope.spawn(|| {
                    while let Some(file) = manifest.files.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        if let Err(error) = self.fetch_file(id, file, directory, &more) {
                            failed.lock().get_or_insert(error);
                            next.store(manifest.files.len(), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        match failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(SnapshotTransfer {
                copied: all.bytes,
                ..all
            }),
        }
    }

    fn fetch_file(
        &self,
        id: &SnapshotId,
        file: &SnapshotFile,
        directory: &Path,
        more: &dyn Fn(usize),
    ) -> Result<()> {
        let object = file.object(id);
        let place = self.objects.place(&object);
        let wrong =
            |what: &str| Error::new(ErrorKind::Restore, format!("{} {what}", place.display()));
        if file.name.contains('/') || file.name.starts_with('.') {
            return Err(wrong("has a name that no database's file has"));
        }
        let mut hasher = Xxh3Default::new();
        let fetched = self
            .objects
            .get_file(&object, &directory.join(&file.name), |bytes| {
                hasher.update(bytes);
                more(bytes.len());
            })?;
        if fetched.ok_or_else(|| wrong("is missing"))? != file.bytes
            || Digest::from_hasher(&hasher) != file.digest
        {
            return Err(wrong("is damaged: its bytes have another digest"));
        }
        Ok(())
    }

    /// Returns the names of a snapshot's files in the root.
    ///
    /// # Errors
    /// `Restore` for a manifest that cannot be read, `Io` if the disk fails.
    pub fn files(&self, id: &SnapshotId) -> Result<Vec<String>> {
        Ok(self
            .manifest(id)?
            .files
            .iter()
            .map(|file| file.object(id))
            .collect())
    }

    fn manifest(&self, id: &SnapshotId) -> Result<SnapshotManifest> {
        let name = names::snapshot(id);
        let wrong = |what: String| {
            Error::new(
                ErrorKind::Restore,
                format!("snapshot {} {what}", self.objects.place(&name).display()),
            )
        };
        let bytes = self
            .objects
            .get(&name)?
            .ok_or_else(|| wrong("is missing".to_owned()))?;
        let manifest: SnapshotManifest = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("cannot be read ({error})")))?;
        if manifest.format != FORMAT {
            let text = format!(
                "has format {}, this version of Holdfast reads {FORMAT}",
                manifest.format
            );
            return Err(Error::new(
                ErrorKind::FormatVersion,
                wrong(text).to_string(),
            ));
        }
        Ok(manifest)
    }
}

/// Returns the digest of a file.
fn digest_of(path: &Path) -> io::Result<Digest> {
    let mut reader = BufReader::with_capacity(256 << 10, File::open(path)?);
    let mut hasher = Xxh3Default::new();
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Ok(Digest::from_hasher(&hasher));
        }
        hasher.update(piece);
        let length = piece.len();
        reader.consume(length);
    }
}
