//! What a loss of power leaves of a commit file. The simulated disk does not include this file,
//! because the engine writes it without RocksDB.

use crate::unsynced::UnsyncedBytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Result;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const FOLDER: &str = "+commit";

/// The synced files of the commit folder, except its sorted files, which RocksDB writes.
#[derive(Default)]
pub(crate) struct CommitFolder {
    synced: Mutex<Synced>,
}

#[derive(Default)]
struct Synced {
    /// Files with synced bytes, by inode, because they may be renamed.
    files: BTreeSet<u64>,
    /// Synced names, with inode and bytes.
    entries: BTreeMap<OsString, (u64, Vec<u8>)>,
    /// The inode of the folder, if its name is synced.
    folder: Option<u64>,
}

fn files(folder: &Path) -> Result<BTreeMap<OsString, (u64, Vec<u8>)>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "sst") {
            files.insert(
                path.file_name().unwrap_or_default().to_owned(),
                (std::fs::metadata(&path)?.ino(), std::fs::read(&path)?),
            );
        }
    }
    Ok(files)
}

impl CommitFolder {
    fn of<R>(&self, f: impl FnOnce(&mut Synced) -> R) -> R {
        f(&mut self.synced.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Records that a file or a directory was synced.
    pub(crate) fn synced(&self, path: &Path) {
        let note = |synced: &mut Synced| -> Result<()> {
            if path.ends_with(FOLDER) {
                synced.entries = files(path)?;
            } else if path.is_dir() {
                synced.folder = std::fs::metadata(path.join(FOLDER))
                    .ok()
                    .map(|folder| folder.ino());
            } else if path.is_file() {
                synced.files.insert(std::fs::metadata(path)?.ino());
            }
            Ok(())
        };
        // A file that no longer exists cannot be lost.
        let _ = self.of(note);
    }

    /// Removes what was not synced.
    ///
    /// With `entries`, the folder is removed if its own name was not synced. Otherwise, with an
    /// even seed, the names in it revert to those of its last sync. With an odd seed only the names
    /// of RocksDB's files revert: a disk need not write names in order.
    pub(crate) fn lose(&self, db: &Path, unsynced: UnsyncedBytes, entries: bool, seed: u64) {
        let folder = db.join(FOLDER);
        let synced = self.of(std::mem::take);
        let lose = || -> Result<()> {
            if entries && synced.folder != Some(std::fs::metadata(&folder)?.ino()) {
                return std::fs::remove_dir_all(&folder);
            }
            let entries = entries && seed.is_multiple_of(2);
            let now = files(&folder)?;
            for (name, (inode, bytes)) in &now {
                if entries
                    && synced
                        .entries
                        .get(name)
                        .is_none_or(|(before, _)| before != inode)
                {
                    std::fs::remove_file(folder.join(name))?;
                } else if unsynced != UnsyncedBytes::All && !synced.files.contains(inode) {
                    let half = if unsynced == UnsyncedBytes::Nothing {
                        0
                    } else {
                        bytes.len() / 2
                    };
                    std::fs::write(folder.join(name), &bytes[..half])?;
                }
            }
            for (name, (_, bytes)) in synced
                .entries
                .iter()
                .filter(|(name, _)| entries && !now.contains_key(*name))
            {
                std::fs::write(folder.join(name), bytes)?;
            }
            Ok(())
        };
        // Without the folder nothing can be lost.
        let _ = lose();
    }
}
