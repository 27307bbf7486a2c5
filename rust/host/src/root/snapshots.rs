//! Snapshots: a partition's database at one epoch, file by file.
//!
//! ```text
//! snapshots/<operator>/<partition>/<epoch, 20 digits>.<chain>    manifests, JSON
//! snapshots/<operator>/<partition>/files/<digest>-<bytes>        files, named by their content
//! ```
//!
//! A file is put once, whatever snapshots hold it: those of RocksDB never change, so a snapshot
//! costs what was written since the one before. A manifest comes after its files; it is a good one
//! only if its chain is that of the object which decided its epoch.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3Default;

use super::{Root, failure, names};
use crate::protocol::{Digest, Epoch, OperatorName, PartitionId, RunNumber};

const FORMAT: u32 = 1;

/// Files that are fetched at once.
const LANES: usize = 4;

/// Which snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotId {
    /// Whose state.
    pub operator: OperatorName,
    /// Of which partition.
    pub partition: PartitionId,
    /// After which epoch.
    pub epoch: Epoch,
    /// The chain's digest there.
    pub chain: Digest,
}

/// What a snapshot is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    files: Vec<SnapshotFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SnapshotFile {
    /// Its name in the database's directory.
    name: String,
    digest: Digest,
    bytes: u64,
}

impl Manifest {
    fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

impl SnapshotFile {
    fn object(&self, id: &SnapshotId) -> String {
        names::snapshot_file(&id.operator, id.partition, self.digest, self.bytes)
    }
}

/// Digests of files that were read before, by what tells a file from others (a hard link is the
/// same file).
pub type Known = HashMap<FileKey, Digest>;

/// Inode, bytes, seconds and nanoseconds of the last change. Not the nanoseconds alone: some file
/// systems have none, and inodes come again.
type FileKey = (u64, u64, i64, i64);

/// What was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Files of the snapshot.
    pub files: usize,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes that were copied: of files that were not there yet.
    pub copied: u64,
}

impl Root {
    /// A partition's snapshots, newest first.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn snapshots(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Result<Vec<SnapshotId>> {
        let files = self.store.list(&names::snapshots(operator, partition))?;
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

    /// The snapshots of all partitions of an operator, in no order.
    ///
    /// # Errors
    /// `Io` for what the disk refuses.
    pub fn all_snapshots(&self, operator: &OperatorName) -> Result<Vec<SnapshotId>> {
        let folders = self.store.folders(&names::all_snapshots(operator))?;
        let partitions = folders
            .iter()
            .filter_map(|folder| folder.parse().ok().map(PartitionId));
        partitions
            .map(|partition| self.snapshots(operator, partition))
            .collect::<Result<Vec<_>>>()
            .map(|found| found.concat())
    }

    /// Puts a snapshot: the files of a directory that nobody writes to, then the manifest.
    ///
    /// # Errors
    /// `Fenced` if `run` is not the newest any more, `Io` for what the disk refuses.
    pub fn put_snapshot(
        &self,
        id: &SnapshotId,
        run: RunNumber,
        directory: &Path,
        known: &mut Known,
    ) -> Result<Moved> {
        let mut manifest = Manifest {
            format: FORMAT,
            files: Vec::new(),
        };
        let refused = |path: &Path, error: &io::Error| failure::os("read", path, error);
        let entries =
            fs::read_dir(directory).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let mut paths: Vec<PathBuf> = entries
            .map_err(|error| refused(directory, &error))?
            .iter()
            .map(fs::DirEntry::path)
            .collect();
        paths.sort();
        let mut seen = Known::new();
        for path in paths {
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
        self.store.put_absent(&names::snapshot(id), &json)?;
        // The upload may have taken long.
        self.settle(&names::snapshot(id), id.epoch, run)?;
        // Another host that stalled while it cleaned up may have taken some of them for nobody's.
        let again = self.put_files(id, &manifest, directory)?;
        if again > 0 {
            let place = self.store.place(&names::snapshot(id));
            log::warn!(
                "{}: {again} bytes of its files were removed meanwhile, and are put again",
                place.display()
            );
        }
        Ok(Moved {
            files: manifest.files.len(),
            bytes: manifest.bytes(),
            copied,
        })
    }

    /// Puts the files of a snapshot that are not there in their length; returns their bytes.
    fn put_files(&self, id: &SnapshotId, manifest: &Manifest, directory: &Path) -> Result<u64> {
        let (mut there, mut copied) = (
            self.store
                .sizes(&names::snapshot_files(&id.operator, id.partition))?,
            0,
        );
        for file in &manifest.files {
            let object = file.object(id);
            if there.get(&object) != Some(&file.bytes) {
                self.store.put_file(&object, &directory.join(&file.name))?;
                copied += file.bytes;
                there.insert(object, file.bytes);
            }
        }
        Ok(copied)
    }

    /// Fetches a snapshot into a new directory, several files at once; all bytes are checked.
    /// `so_far` hears what has been copied, at first nothing.
    ///
    /// # Errors
    /// `Restore` if something is missing or damaged, `Io` for what the disk refuses.
    pub fn fetch_snapshot(
        &self,
        id: &SnapshotId,
        directory: &Path,
        so_far: &(dyn Fn(Moved) + Sync),
    ) -> Result<Moved> {
        let mut manifest = self.manifest(id)?;
        // The large ones first, so that all lanes end at about the same time.
        manifest
            .files
            .sort_by_key(|file| std::cmp::Reverse(file.bytes));
        let all = Moved {
            files: manifest.files.len(),
            bytes: manifest.bytes(),
            copied: 0,
        };
        so_far(all);
        fs::create_dir_all(directory)
            .map_err(|error| failure::os("make the folder", directory, &error))?;
        let (next, copied, failed) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(None));
        let more = |bytes: usize| {
            let bytes = bytes as u64;
            so_far(Moved {
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
            None => Ok(Moved {
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
        let place = self.store.place(&object);
        let wrong =
            |what: &str| Error::new(ErrorKind::Restore, format!("{} {what}", place.display()));
        if file.name.contains('/') || file.name.starts_with('.') {
            return Err(wrong("has a name that no database's file has"));
        }
        let mut hasher = Xxh3Default::new();
        let fetched = self
            .store
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

    /// The objects that a snapshot is made of, apart from its manifest.
    pub(super) fn snapshot_objects(&self, id: &SnapshotId) -> Result<Vec<String>> {
        Ok(self
            .manifest(id)?
            .files
            .iter()
            .map(|file| file.object(id))
            .collect())
    }

    fn manifest(&self, id: &SnapshotId) -> Result<Manifest> {
        let name = names::snapshot(id);
        let wrong = |what: String| {
            Error::new(
                ErrorKind::Restore,
                format!("snapshot {} {what}", self.store.place(&name).display()),
            )
        };
        let bytes = self
            .store
            .get(&name)?
            .ok_or_else(|| wrong("is missing".to_owned()))?;
        let manifest: Manifest = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("cannot be read ({error})")))?;
        if manifest.format != FORMAT {
            let text = format!(
                "has format {}, this version of Holdfast knows {FORMAT}",
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

/// The digest of a file, read in pieces.
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
