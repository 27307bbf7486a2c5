//! The commit file of a spilled transaction (KIP-844): once it exists, the transaction is
//! committed.
//!
//! ```text
//! +commit/COMMIT     u32 length of header | header, JSON | RocksDB write batch | xxh3-128
//! +commit/N-M.sst    sorted file M of table N; the header lists the files by family
//! ```
//!
//! The sorted files and the commit file are synced before a rename gives the commit file its name.
//! So a file of that name is either complete or damaged.

use crate::error::{Error, ErrorKind, Result};
use crate::rocks::{Environment, RocksOptions, io_failure, put_back, sync_path};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// The folder in a database's directory. The folders of user-defined stores are beside it and are
/// named after the stores. The `+`, which no store name has, prevents a conflict.
const FOLDER: &str = "+commit";
const NAME: &str = "COMMIT";
const DRAFT: &str = "COMMIT.draft";
/// The format that this version writes.
const FORMAT: u16 = 1;
const CHECKSUM: usize = 16;

/// The changes that a commit makes to the database.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::database) struct CommitFile {
    pub(in crate::database) header: CommitHeader,
    /// Offsets, positions, stream times, properties, and rows that did not spill. The commit writes
    /// this batch after it has ingested the sorted files.
    pub(in crate::database) batch: Vec<u8>,
}

/// The commit and its sorted files.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::database) struct CommitHeader {
    format: u16,
    /// The number of the commit, which the batch also writes to the metadata.
    pub(in crate::database) id: u64,
    /// The sorted files by family.
    pub(in crate::database) families: Vec<FamilyFiles>,
}

/// The sorted files of one family, in key order.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::database) struct FamilyFiles {
    /// The family's name on disk.
    pub(in crate::database) family: String,
    files: Vec<(String, u64)>,
}

impl FamilyFiles {
    /// Records the names and sizes of files, which must exist.
    pub(in crate::database) fn of(family: String, paths: &[PathBuf]) -> Result<Self> {
        let entry = |path: &PathBuf| {
            let bytes = std::fs::metadata(path)
                .map_err(|e| io_failure("reading the size of a sorted file", path, &e))?
                .len();
            Ok((
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                bytes,
            ))
        };
        Ok(Self {
            family,
            files: paths.iter().map(entry).collect::<Result<_>>()?,
        })
    }

    /// Returns the paths of the files. Fails with `StoreCorrupted` if a file is missing or has
    /// another size.
    pub(in crate::database) fn paths(&self, db: &Path) -> Result<Vec<PathBuf>> {
        let path = |(name, bytes): &(String, u64)| {
            let path = folder(db).join(name);
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.len() == *bytes => Ok(path),
                Ok(metadata) => Err(damaged(
                    &path,
                    &format!(
                        "it has {} bytes; the commit recorded {bytes}",
                        metadata.len()
                    ),
                )),
                Err(e) => Err(damaged(&path, &e.to_string())),
            }
        };
        self.files.iter().map(path).collect()
    }
}

/// The folder of a commit's files while the commit runs.
pub(in crate::database) fn folder(db: &Path) -> PathBuf {
    db.join(FOLDER)
}

fn damaged(path: &Path, why: &str) -> Error {
    let words = format!(
        "a commit that had begun cannot be finished, since one of its files is missing or damaged \
         ({why}); restore the directory from a checkpoint or the changelog"
    );
    Error::new(ErrorKind::StoreCorrupted, words).path(path)
}

/// Syncs the directory entries of a commit's files and of their folder. A process may see a commit
/// file whose entry was never synced: a loss of power could remove it.
pub(in crate::database) fn sync_names(db: &Path, environment: Option<&Environment>) -> Result<()> {
    let folder = folder(db);
    sync_path(&folder, environment)
        .and_then(|()| sync_path(db, environment))
        .map_err(|e| io_failure("syncing the folder of a commit", &folder, &e))
}

/// Makes an empty folder for a commit's files; deletes files that an earlier commit left.
pub(in crate::database) fn make_folder(
    db: &Path,
    environment: Option<&Environment>,
) -> Result<PathBuf> {
    remove(db, environment)?;
    let folder = folder(db);
    let made = std::fs::create_dir(&folder).and_then(|()| sync_path(db, environment));
    made.map_err(|e| io_failure("creating the folder of a commit", &folder, &e))?;
    Ok(folder)
}

/// Deletes a commit's files, the commit file first. So a crash leaves either all files of the
/// commit or no commit file.
pub(in crate::database) fn remove(db: &Path, environment: Option<&Environment>) -> Result<()> {
    let folder = folder(db);
    if !folder.exists() {
        return Ok(());
    }
    let remove = || -> std::io::Result<()> {
        match std::fs::remove_file(folder.join(NAME)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => sync_path(&folder, environment)?,
        }
        std::fs::remove_dir_all(&folder)
    };
    remove().map_err(|e| io_failure("removing a commit's files", &folder, &e))
}

impl CommitFile {
    pub(in crate::database) fn new(id: u64, families: Vec<FamilyFiles>, batch: Vec<u8>) -> Self {
        Self {
            header: CommitHeader {
                format: FORMAT,
                id,
                families,
            },
            batch,
        }
    }

    fn encode(&self) -> Result<Vec<u8>> {
        let header = serde_json::to_vec(&self.header).map_err(|e| {
            Error::new(
                ErrorKind::InvalidState,
                format!("a commit file's header cannot be written: {e}"),
            )
        })?;
        let mut bytes = Vec::with_capacity(header.len() + self.batch.len() + 64);
        bytes.extend_from_slice(&(header.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&self.batch);
        let checksum = xxh3_128(&bytes);
        bytes.extend_from_slice(&checksum.to_be_bytes());
        Ok(bytes)
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let whole = || {
            let (body, checksum) = bytes.split_last_chunk::<CHECKSUM>()?;
            if xxh3_128(body).to_be_bytes() != *checksum {
                return None;
            }
            let (len, body) = body.split_first_chunk::<4>()?;
            let (header, batch) = body.split_at_checked(u32::from_be_bytes(*len) as usize)?;
            Some((
                serde_json::from_slice::<serde_json::Value>(header).ok()?,
                batch,
            ))
        };
        let (header, batch) = whole().ok_or_else(|| damaged(path, "its checksum is wrong"))?;
        let format = header["format"].as_u64();
        if format != Some(u64::from(FORMAT)) {
            let format = format.map_or("no format number".to_owned(), |n| format!("format {n}"));
            let words = format!(
                "a commit that had begun has {format}, and this version of Holdfast \
                 reads {FORMAT}; open the database with the version that wrote it"
            );
            return Err(Error::new(ErrorKind::FormatVersion, words).path(path));
        }
        let header = serde_json::from_value(header).map_err(|e| damaged(path, &e.to_string()))?;
        Ok(Self {
            header,
            batch: batch.to_vec(),
        })
    }

    /// Writes and syncs a draft, then renames it to the commit file's name. The caller must have
    /// synced the sorted files' data.
    pub(in crate::database) fn write(
        &self,
        db: &Path,
        environment: Option<&Environment>,
    ) -> Result<()> {
        let folder = folder(db);
        let bytes = self.encode()?;
        let write = || -> std::io::Result<()> {
            let draft = folder.join(DRAFT);
            std::fs::write(&draft, &bytes)?;
            sync_path(&draft, environment)?;
            // The names of the sorted files must be on disk before the commit file's.
            sync_path(&folder, environment)?;
            std::fs::rename(draft, folder.join(NAME))?;
            sync_path(&folder, environment)
        };
        write().map_err(|e| io_failure("writing a commit file", &folder, &e))
    }

    /// Restores the commit's sorted files that the manifest names and RocksDB has removed
    /// (`rocks/recovery/missing_files.rs`). The database must be closed.
    pub(in crate::database) fn put_back(&self, db: &Path, options: &RocksOptions) -> Result<()> {
        // A family with a missing or changed file is skipped: its files cannot be used, and a
        // finished commit does not need them.
        let families = self
            .header
            .families
            .iter()
            .filter_map(|family| Some((family.family.as_str(), family.paths(db).ok()?)));
        put_back(db, options, families)
    }

    /// Reads the file of a commit that has begun, if there is one.
    ///
    /// # Errors
    /// `StoreCorrupted` for a damaged file, `FormatVersion` for a file of another format version.
    pub(in crate::database) fn read(db: &Path) -> Result<Option<Self>> {
        let path = folder(db).join(NAME);
        match std::fs::read(&path) {
            Ok(bytes) => Self::decode(&bytes, &path).map(Some),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io_failure("reading a commit file", &path, &e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commit_file_round_trips_and_damage_is_an_error() -> Result<()> {
        let dir =
            tempfile::tempdir().map_err(|e| io_failure("making a directory", Path::new(""), &e))?;
        let db = dir.path();
        assert_eq!(CommitFile::read(db)?, None);
        let folder = make_folder(db, None)?;
        let sst = folder.join("0-0.sst");
        std::fs::write(&sst, b"rows").map_err(|e| io_failure("writing", &sst, &e))?;
        let families = vec![FamilyFiles::of(
            "kv:a".to_owned(),
            std::slice::from_ref(&sst),
        )?];
        let file = CommitFile::new(7, families, vec![1, 2, 3]);
        assert_eq!(CommitFile::read(db)?, None);
        file.write(db, None)?;
        assert_eq!(CommitFile::read(db)?.as_ref(), Some(&file));
        assert_eq!(file.header.families[0].paths(db)?, vec![sst.clone()]);

        let good = file.encode()?;
        for n in 0..good.len() {
            let mut bad = good.clone();
            bad[n] ^= 4;
            assert_eq!(
                CommitFile::decode(&bad, db).map_err(|e| e.kind()),
                Err(ErrorKind::StoreCorrupted)
            );
            assert_eq!(
                CommitFile::decode(&good[..n], db).map_err(|e| e.kind()),
                Err(ErrorKind::StoreCorrupted)
            );
        }
        let newer = CommitFile {
            header: CommitHeader {
                format: 2,
                ..file.header
            },
            batch: file.batch,
        };
        assert_eq!(
            CommitFile::decode(&newer.encode()?, db).map_err(|e| e.kind()),
            Err(ErrorKind::FormatVersion)
        );

        std::fs::write(&sst, b"row").map_err(|e| io_failure("writing", &sst, &e))?;
        assert!(
            newer.header.families[0]
                .paths(db)
                .is_err_and(|e| e.kind() == ErrorKind::StoreCorrupted)
        );
        remove(db, None)?;
        assert!(
            newer.header.families[0]
                .paths(db)
                .is_err_and(|e| e.kind() == ErrorKind::StoreCorrupted)
        );
        assert_eq!(CommitFile::read(db)?, None);
        Ok(())
    }
}
