//! The folder of a reader's copies. It is locked while the reader lives.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use holdfast_core::{Error, ErrorKind, Result};
use tempfile::TempDir;

/// The start of a folder's name.
const PREFIX: &str = "holdfast-reader-";
/// A folder is locked immediately after it is made. An unlocked one that is older has no reader.
const LOCKED_WITHIN: Duration = Duration::from_secs(60);

/// A folder that is removed when it is dropped.
pub struct CopiesFolder {
    folder: TempDir,
    /// The folder itself. Its lock shows that the reader lives, also to processes of another
    /// container, where the ids of processes are different. Dropped after the folder.
    lock: File,
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

    /// Whether another program has removed it, as programs that clean `/tmp` do.
    pub fn is_removed(&self) -> bool {
        let inode = |metadata: io::Result<Metadata>| metadata.ok().map(|found| found.ino());
        inode(fs::metadata(self.path())) != inode(self.lock.metadata())
    }
}

fn made(parent: &Path) -> io::Result<CopiesFolder> {
    let folder = tempfile::Builder::new()
        .prefix(PREFIX)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)?;
    let lock = File::open(folder.path())?;
    if let Err(error) = lock.try_lock() {
        // NFS has no locks of folders. There, folders that are left behind are not removed.
        log::debug!("{}: {error}", folder.path().display());
    }
    Ok(CopiesFolder { folder, lock })
}

fn remove_left_behind(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten();
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(PREFIX))
            && is_left_behind(&entry.path()).unwrap_or(false)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            log::debug!("{}: {error}", entry.path().display());
        }
    }
}

/// Whether no reader uses a folder.
fn is_left_behind(folder: &Path) -> io::Result<bool> {
    let handle = File::open(folder)?;
    let modified = handle.metadata()?.modified()?;
    Ok(modified.elapsed().is_ok_and(|age| age > LOCKED_WITHIN) && handle.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn folders_of_ended_readers_are_removed_and_locked_or_new_ones_stay() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = |name: &str, age: Duration| {
            let path = parent.path().join(format!("{PREFIX}{name}"));
            fs::create_dir(&path).expect("a folder");
            let handle = File::open(&path).expect("the folder");
            handle
                .set_modified(SystemTime::now() - age)
                .expect("a time");
            (path, handle)
        };
        let hour = Duration::from_secs(3600);
        let (ended, _) = folder("ended", hour);
        let (new, _) = folder("new", Duration::ZERO);
        let (locked, handle) = folder("locked", hour);
        handle.try_lock().expect("a free folder");
        let made = CopiesFolder::make(parent.path()).expect("a folder");
        assert!(!ended.exists());
        assert!(new.exists(), "its reader has not locked it yet");
        assert!(locked.exists(), "its reader lives");
        assert!(
            File::open(made.path())
                .expect("the folder")
                .try_lock()
                .is_err()
        );
        assert!(!made.is_removed());
        fs::remove_dir(made.path()).expect("an empty folder");
        assert!(made.is_removed());
        let other = CopiesFolder::make(parent.path()).expect("a folder");
        let path = other.path().to_owned();
        drop(other);
        assert!(!path.exists());
    }
}
