//! What the operating system or the store refused, in words.

use std::error::Error as _;
use std::io;
use std::path::Path;

use holdfast_core::{Error, ErrorKind};

/// A store's error as ours. `doing` is a verb: "write", "read", "list".
pub fn store(doing: &str, path: &Path, error: &object_store::Error) -> Error {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            return os(doing, path, error);
        }
        source = inner.source();
    }
    Error::new(ErrorKind::Io, format!("cannot {doing} {}: {error}", path.display()))
}

/// An error of the operating system as ours.
pub fn os(doing: &str, path: &Path, error: &io::Error) -> Error {
    use io::ErrorKind as Os;
    let advice = match error.kind() {
        Os::StorageFull | Os::QuotaExceeded => {
            "Free space there (or raise the quota) and start the query again: nothing that was committed is lost"
        }
        Os::PermissionDenied | Os::ReadOnlyFilesystem => {
            "The user that runs the Spark executors must be able to read and write the state's root"
        }
        Os::NotADirectory | Os::AlreadyExists => "There is a file where a folder of the state's root must be",
        _ => "Check the disk of the state's root, then start the query again: nothing that was committed is lost",
    };
    Error::new(ErrorKind::Io, format!("cannot {doing} {}: {error}. {advice}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_forbidden_folder_say_what_to_do() {
        let full = os("write", Path::new("/r/log/1"), &io::Error::from_raw_os_error(28));
        assert_eq!(full.kind(), ErrorKind::Io);
        assert!(full.to_string().contains("/r/log/1") && full.to_string().contains("Free space"), "{full}");
        let source = Box::new(io::Error::from_raw_os_error(13));
        let wrapped = object_store::Error::Generic { store: "LocalFileSystem", source };
        let forbidden = store("write", Path::new("/r"), &wrapped);
        assert!(forbidden.to_string().contains("must be able to read and write"), "{forbidden}");
    }
}
