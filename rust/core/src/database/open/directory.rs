//! The directory of a database, and the process that has it open.

use crate::error::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

/// A file with the id of the process that has the directory open. A directory of Holdfast has it
/// before RocksDB creates the first file.
pub(super) const HOLDER: &str = "HOLDER";

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
    // RocksDB syncs only its own directory, not the entries of that directory and of new parents.
    let created = std::fs::create_dir_all(path).and_then(|()| {
        path.ancestors()
            .skip(1)
            .take(missing)
            .try_for_each(|parent| {
                let parent = if parent.as_os_str().is_empty() {
                    Path::new(".")
                } else {
                    parent
                };
                std::fs::File::open(parent)?.sync_all()
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

/// The canonical path of a directory. RocksDB's locks within a process are by path: with another
/// spelling of the path there would be two locks, and two writers of one directory.
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

/// Marks a directory without a database as Holdfast's. The mark is on disk on return, so a database
/// that a crash left half made is not taken for one of another program.
pub(super) fn claim_new(path: &Path) -> Result<()> {
    let claimed = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path.join(HOLDER))
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::File::open(path)?.sync_all());
    claimed.map_err(|error| not_writable(path, &error))
}

/// Writes the id of this process into the directory.
pub(super) fn write_holder(path: &Path) -> Result<()> {
    std::fs::write(path.join(HOLDER), std::process::id().to_string())
        .map_err(|error| not_writable(path, &error))
}

fn not_writable(path: &Path, error: &std::io::Error) -> Error {
    let words = format!("the directory cannot be written: {error}");
    Error::new(ErrorKind::Io, words).path(path)
}

/// Adds the id of the process that has the directory open to the error of a locked one.
pub(super) fn name_holder(error: Error, path: &Path) -> Error {
    if error.kind() != ErrorKind::StoreLocked {
        return error;
    }
    let holder = std::fs::read_to_string(path.join(HOLDER))
        .ok()
        .filter(|holder| !holder.is_empty())
        .unwrap_or_else(|| "unknown".to_owned());
    let this = if holder == std::process::id().to_string() {
        " (this one)"
    } else {
        ""
    };
    let message = format!(
        "the directory is open in process {holder}{this}; close the database there, or open \
         another directory"
    );
    Error::new(ErrorKind::StoreLocked, message).path(path)
}
