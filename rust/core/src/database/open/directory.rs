//! The directory of a database.

use crate::error::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Creates a directory and its missing parents, and syncs the entries that name them.
pub(in crate::database) fn make_directory(path: &Path) -> Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(Error::new(
            ErrorKind::InvalidValue,
            "there is a file where the database's directory should be; name another path",
        )
        .path(path));
    }
    let missing = path
        .ancestors()
        .take_while(|ancestor| !ancestor.exists())
        .count();
    // RocksDB syncs only the entries in its own directory, not the entries that name that directory
    // and its new parents. An open that was killed may have made the directory and not synced it.
    let unsynced = missing.max(usize::from(!path.join("CURRENT").exists()));
    let created = std::fs::create_dir_all(path).and_then(|()| {
        path.ancestors()
            .skip(1)
            .take(unsynced)
            .enumerate()
            .try_for_each(|(number, parent)| {
                let parent = if parent.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    parent
                };
                match std::fs::File::open(parent).and_then(|parent| parent.sync_all()) {
                    // If this user cannot read the folder above an existing directory, another
                    // user has made the directory.
                    Err(e)
                        if e.kind() == std::io::ErrorKind::PermissionDenied
                            && number >= missing =>
                    {
                        Ok(())
                    }
                    synced => synced,
                }
            })
    });
    created.map_err(|e| {
        Error::new(
            ErrorKind::Io,
            format!(
                "the directory cannot be made: {e}; check the permissions of its parent or choose \
                 another path"
            ),
        )
        .path(path)
    })
}

/// The canonical path of a directory. `DirectoryLock` needs it, since it compares the paths of the
/// directories that this process has locked.
pub(super) fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|e| {
        Error::new(
            ErrorKind::Io,
            format!(
                "the directory cannot be found: {e}; check the permissions of the folders above it"
            ),
        )
        .path(path)
    })
}
