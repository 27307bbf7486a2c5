//! The folder of a reader's copies. It is locked while the reader lives.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use holdfast_core::{Error, ErrorKind, Result};
use tempfile::TempDir;

/// The start of a folder's name.
const PREFIX: &str = "holdfast-reader-";
/// A file in the folder. Its lock shows that the reader lives, also to processes of another
/// container, where the ids of processes are different.
const LOCK: &str = "LOCK";

/// A folder that is removed when it is dropped.
pub struct CopiesFolder {
    folder: TempDir,
    /// Dropped after the folder.
    _lock: File,
}

impl CopiesFolder {
    /// Makes a folder, and removes those of readers that were not closed before their process
    /// ended, as in Spark's Python workers.
    ///
    /// # Errors
    /// `Io` if it cannot be made.
    pub fn make(parent: &Path) -> Result<Self> {
        remove_left_behind(parent);
        made(parent).map_err(|error| {
            let text = format!(
                "the folder of a reader's copies cannot be made ({error}): give another cache_dir"
            );
            Error::new(ErrorKind::Io, text).path(parent)
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn made(parent: &Path) -> io::Result<CopiesFolder> {
    let folder = tempfile::Builder::new()
        .prefix(&format!("{PREFIX}{}-", std::process::id()))
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)?;
    let lock = File::create_new(folder.path().join(LOCK))?;
    lock.try_lock()?;
    Ok(CopiesFolder {
        folder,
        _lock: lock,
    })
}

fn remove_left_behind(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split_once('-'));
        if let Some((process, _)) = process
            && !Path::new("/proc").join(process).exists()
            && !is_locked(&entry.path())
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            log::debug!("{}: {error}", entry.path().display());
        }
    }
}

/// Whether the reader of a folder lives.
fn is_locked(folder: &Path) -> bool {
    match File::open(folder.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_err(),
        // The reader ended before it made the file.
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id of no process: Linux has at most 4,194,304.
    const GONE: &str = "4194305";

    #[test]
    fn folders_of_ended_readers_are_removed_and_locked_ones_stay() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = |name: &str| {
            let path = parent.path().join(format!("{PREFIX}{GONE}-{name}"));
            fs::create_dir(&path).expect("a folder");
            path
        };
        let (ended, bare, elsewhere) = (folder("ended"), folder("bare"), folder("elsewhere"));
        File::create_new(ended.join(LOCK)).expect("a file");
        let lock = File::create_new(elsewhere.join(LOCK)).expect("a file");
        lock.try_lock().expect("a free file");
        let made = CopiesFolder::make(parent.path()).expect("a folder");
        assert!(is_locked(made.path()));
        assert!(!ended.exists() && !bare.exists());
        assert!(elsewhere.exists(), "its reader is in another container");
        let path = made.path().to_owned();
        drop(made);
        assert!(!path.exists());
    }
}
