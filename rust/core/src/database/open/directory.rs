//! The directory of a database.

use crate::error::{Error, ErrorKind, Result};
use std::io;
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
    make_with_parents(path, |folder| std::fs::File::open(folder)?.sync_all()).map_err(|e| {
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

/// Creates the missing directories from the top, and syncs the entry of each with `sync` before it
/// creates the next. So a kill leaves at most one unsynced entry, that of the deepest directory.
/// The next call syncs it, unless the directory holds a database: RocksDB syncs the entries in its
/// own directory only, but a database is made after this function has returned.
fn make_with_parents(path: &Path, sync: impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let missing: Vec<&Path> = path
        .ancestors()
        .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
        .collect();
    if !path.join("CURRENT").exists()
        && let Some(found) = path.ancestors().nth(missing.len())
        && let Some(parent) = found.parent()
    {
        match sync(or_current(parent)) {
            // This user cannot read that folder, so another user has made the directory in it. Or
            // its disk cannot sync folders.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput
                ) => {}
            synced => synced?,
        }
    }
    for folder in missing.into_iter().rev() {
        std::fs::create_dir_all(folder)?;
        if let Some(parent) = folder.parent() {
            sync(or_current(parent))?;
        }
    }
    Ok(())
}

/// The parent of a relative path of one name is empty.
fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    }
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

#[cfg(test)]
mod tests {
    use super::make_with_parents;
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::io;
    use std::path::{Path, PathBuf};

    /// Makes `a/b/c`, and fails at the sync with the given number; adds what it has synced.
    fn make(top: &Path, fails_at: usize, durable: &RefCell<BTreeSet<PathBuf>>) -> io::Result<()> {
        let syncs = RefCell::new(0..fails_at);
        make_with_parents(&top.join("a/b/c"), |folder| {
            if syncs.borrow_mut().next().is_none() {
                return Err(io::Error::other("killed"));
            }
            for entry in std::fs::read_dir(folder)? {
                durable.borrow_mut().insert(entry?.path());
            }
            Ok(())
        })
    }

    #[test]
    fn every_new_name_is_synced_even_by_an_open_after_a_killed_one() {
        let wanted = |top: &Path| BTreeSet::from(["a", "a/b", "a/b/c"].map(|name| top.join(name)));
        for killed in 0.. {
            let top = tempfile::tempdir().expect("a folder");
            let durable = RefCell::default();
            let first = make(top.path(), killed, &durable);
            if first.is_err() {
                make(top.path(), usize::MAX, &durable).expect("it is made");
            }
            assert!(
                durable.borrow().is_superset(&wanted(top.path())),
                "killed at sync {killed}: {durable:?}"
            );
            if first.is_ok() {
                assert_eq!(
                    killed, 4,
                    "one sync above the found folder, one for each new one"
                );
                break;
            }
        }
    }
}
