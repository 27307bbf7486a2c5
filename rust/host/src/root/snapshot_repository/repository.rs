//! Lists, puts and fetches snapshots.

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
use xxhash_rust::xxh3::Xxh3Default;

use super::manifest::{SnapshotFile, SnapshotManifest};
use super::partition_snapshots::PartitionSnapshots;
use crate::protocol::{Digest, Epoch, OperatorName, PartitionId, Term};
use crate::root::names::{self, SnapshotId};
use crate::root::objects::{Objects, os};
use crate::root::rewind_marks::RewindMarks;

/// Files that are fetched at the same time.
const LANES: usize = 4;

/// Digests of the files of the last snapshot, so that unchanged files are not read again.
///
/// A hard link has the same key as its file.
pub type KnownDigests = HashMap<FileKey, Digest>;

/// Inode, length, and seconds and nanoseconds of the last modification.
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
    /// Bytes that were copied; files that already existed do not count.
    pub copied: u64,
}

/// The snapshots of a root.
#[derive(Debug)]
pub struct SnapshotRepository {
    pub(super) objects: Arc<Objects>,
    marks: Arc<RewindMarks>,
}

impl SnapshotRepository {
    /// The snapshots of a root.
    pub(in crate::root) fn new(objects: Arc<Objects>, marks: Arc<RewindMarks>) -> Self {
        Self { objects, marks }
    }

    /// Lists a partition's snapshots, newest first.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn list(&self, operator: &OperatorName, partition: PartitionId) -> Result<Vec<SnapshotId>> {
        self.of_partition(operator, partition)
            .map(PartitionSnapshots::into_all)
    }

    /// Lists a partition's snapshots, with the marks of those that a host removes.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn of_partition(
        &self,
        operator: &OperatorName,
        partition: PartitionId,
    ) -> Result<PartitionSnapshots> {
        let files = self.objects.list(&names::snapshots(operator, partition))?;
        Ok(PartitionSnapshots::parse(operator, partition, &files))
    }

    /// Marks a snapshot that the caller is going to remove.
    ///
    /// After the mark, the caller checks that it may remove the snapshot, then removes it. A rewind
    /// claims its run, then reads the marks. So either the caller is fenced, or the rewind does not
    /// use the snapshot.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn mark_removal(&self, id: &SnapshotId) -> Result<()> {
        self.objects
            .put_absent(&names::snapshot_removal(id), b"{}")
            .map(drop)
    }

    /// Removes the mark of a snapshot that is removed.
    ///
    /// Another host with the same mark may still be about to remove the snapshot. That has no
    /// effect: the snapshot is gone, and no later owner uses its name.
    ///
    /// # Errors
    /// `Io` if the disk fails.
    pub fn unmark_removal(&self, id: &SnapshotId) -> Result<()> {
        self.objects.remove(&names::snapshot_removal(id))
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
    /// `Fenced` if the snapshot's run is not the newest any more, `Io` if the disk fails.
    pub fn put(
        &self,
        id: &SnapshotId,
        directory: &Path,
        known: &mut KnownDigests,
    ) -> Result<SnapshotTransfer> {
        let (lasting, mut files) = (self.lasting_files(id)?, Vec::new());
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
            let bytes = found.len();
            let term = lasting.get(&(digest, bytes)).copied().unwrap_or(id.term);
            files.push(SnapshotFile {
                name,
                digest,
                bytes,
                term,
            });
        }
        *known = seen;
        let manifest = SnapshotManifest::new(files);
        let copied = self.put_files(id, &manifest, directory)?;
        let json = serde_json::to_vec(&manifest).map_err(|error| {
            Error::new(ErrorKind::Serialization, format!("a manifest: {error}"))
        })?;
        self.objects.put_absent(&names::snapshot(id), &json)?;
        // The upload may have taken long, so the run may no longer be the newest.
        let name = names::snapshot(id);
        let fenced = self.marks.fence_put(&name, id.epoch, id.term.run);
        if let Err(fenced) = &fenced
            && !self.objects.exists(&name)?
        {
            // A rewind took the epoch back, and the manifest was removed.
            return Err(fenced.clone());
        }
        // If this host is not the owner any more, the owner may have removed files that no manifest
        // named yet. The manifest counts as a snapshot, even of a run that is no longer the newest.
        let again = self.put_files(id, &manifest, directory)?;
        if again > 0 {
            let place = self.objects.place(&name);
            log::warn!(
                "{}: {again} bytes of its files were removed meanwhile and were put again",
                place.display()
            );
        }
        fenced.map(|()| SnapshotTransfer {
            files: manifest.files.len(),
            bytes: manifest.bytes(),
            copied,
        })
    }

    /// Returns the files that a new snapshot may use: those of the partition's lasting snapshots,
    /// by digest and length, each with its term.
    ///
    /// A former owner that stalled may be about to remove any other file. It does not remove these:
    /// it has marked the snapshots that it removes, or its check finds the claim of the new owner.
    fn lasting_files(&self, id: &SnapshotId) -> Result<HashMap<(Digest, u64), Term>> {
        let found = self.of_partition(&id.operator, id.partition)?;
        let mut files = HashMap::new();
        for other in found.lasting(Epoch(i64::MAX)) {
            match self.manifest(other) {
                Ok(manifest) => {
                    let terms = manifest.files.iter();
                    files.extend(terms.map(|file| ((file.digest, file.bytes), file.term)));
                }
                Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                // A damaged snapshot is found and removed by the restore that needs it.
                Err(_) => {}
            }
        }
        Ok(files)
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
        // An earlier put of a file may have failed after its name appeared, before the sync.
        if let Some(file) = manifest.files.first() {
            self.objects.sync_names(&file.object(id))?;
        }
        Ok(copied)
    }

    /// Fetches a snapshot into a new directory, several files at the same time.
    ///
    /// All bytes are verified. `progress` is called with the bytes copied so far, first with zero.
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
        if file.name.contains('/') || file.name.starts_with('.') {
            let text = format!("{} has a name that no database file has", place.display());
            return Err(Error::new(ErrorKind::Restore, text));
        }
        let mut hasher = Xxh3Default::new();
        let fetched = self
            .objects
            .get_file(&object, &directory.join(&file.name), |bytes| {
                hasher.update(bytes);
                more(bytes.len());
            })?;
        file.check_content(&place, fetched, Digest::from_hasher(&hasher))
    }

    /// Returns the names of a snapshot's files in the root.
    ///
    /// # Errors
    /// `Restore` for a manifest that cannot be read, `Io` if the disk fails.
    pub fn files(&self, id: &SnapshotId) -> Result<Vec<String>> {
        let manifest = self.manifest(id)?;
        let files = manifest.files.iter();
        Ok(files.map(|file| file.object(id)).collect())
    }

    pub(super) fn manifest(&self, id: &SnapshotId) -> Result<SnapshotManifest> {
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
        match manifest.other_format() {
            None => Ok(manifest),
            Some(text) => Err(Error::new(
                ErrorKind::FormatVersion,
                wrong(text).to_string(),
            )),
        }
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
