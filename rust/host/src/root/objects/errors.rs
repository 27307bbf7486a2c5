//! Converts errors of the operating system and of object stores, with advice for the user.

use std::error::Error as _;
use std::io;
use std::path::Path;

use holdfast_core::{Error, ErrorKind};
use rustix::io::Errno;

/// Converts an object store's error. `doing` is a verb: "write", "read", "list".
pub fn remote(doing: &str, place: &Path, error: &object_store::Error) -> Error {
    use object_store::Error as StoreError;
    let (kind, advice) = match error {
        StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => (
            ErrorKind::Io,
            "The credentials (storage_options, or the environment of driver and executors) must \
             allow reads, writes, listings and deletions below the root",
        ),
        StoreError::NotFound { .. } => (
            ErrorKind::Io,
            "Make the bucket (or container) first, and check its region",
        ),
        StoreError::NotImplemented { .. } | StoreError::NotSupported { .. } => (
            ErrorKind::UnsupportedOperation,
            "Keep the state in a store that has conditional writes",
        ),
        _ => (
            ErrorKind::Io,
            "The store did not answer, or its answer was wrong, even after retries. Check that \
             driver and executors can connect to it (endpoint, region, network) and that it works; \
             then the task may be retried, and the query started again: nothing that was committed \
             is lost",
        ),
    };
    // The innermost cause is the most precise: "error sending request" hides that the connection
    // was refused.
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let (text, cause) = (error.to_string(), cause.to_string());
    let text = if text.contains(&cause) {
        text
    } else {
        format!("{text}: {cause}")
    };
    Error::new(
        kind,
        format!("cannot {doing} {}: {text}. {advice}", place.display()),
    )
}

/// Converts an error of `object_store` on a local disk.
pub fn local(doing: &str, path: &Path, error: &object_store::Error) -> Error {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            return os(doing, path, error);
        }
        source = inner.source();
    }
    Error::new(
        ErrorKind::Io,
        format!("cannot {doing} {}: {error}", path.display()),
    )
}

/// Returns advice for a process that may open no more files; none for another error.
pub fn open_files(error: &io::Error) -> Option<&'static str> {
    let errors = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    let is_limit = error
        .raw_os_error()
        .is_some_and(|error| errors.contains(&error));
    is_limit.then_some(
        "Raise the limit of open files for the executors (ulimit -n; containers and services have \
         their own limits), or serve fewer partitions per executor",
    )
}

/// Converts an error of the operating system. `doing` is a verb.
pub fn os(doing: &str, path: &Path, error: &io::Error) -> Error {
    use io::ErrorKind as Os;
    let advice = open_files(error).unwrap_or(match error.kind() {
        Os::StorageFull | Os::QuotaExceeded | Os::FileTooLarge => {
            "Free space there (or raise the quota); then the task may be retried, and the query \
             started again: nothing that was committed is lost"
        }
        Os::PermissionDenied | Os::ReadOnlyFilesystem => {
            "The user that runs the Spark executors must be able to read and write there"
        }
        Os::NotADirectory | Os::AlreadyExists => {
            "There is a file where a folder of the state's root must be"
        }
        _ => "Check the disk, then start the query again: nothing that was committed is lost",
    });
    Error::new(
        ErrorKind::Io,
        format!("cannot {doing} {}: {error}. {advice}", path.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_and_a_forbidden_folder_say_what_to_do() {
        let full = os(
            "write",
            Path::new("/r/log/1"),
            &io::Error::from_raw_os_error(28),
        );
        assert_eq!(full.kind(), ErrorKind::Io);
        assert!(
            full.to_string().contains("/r/log/1") && full.to_string().contains("Free space"),
            "{full}"
        );
        let files = os(
            "write",
            Path::new("/r/log/1"),
            &io::Error::from_raw_os_error(24),
        );
        assert!(files.to_string().contains("ulimit -n"), "{files}");
        let source = Box::new(io::Error::from_raw_os_error(13));
        let wrapped = object_store::Error::Generic {
            store: "LocalFileSystem",
            source,
        };
        let forbidden = local("write", Path::new("/r"), &wrapped);
        assert!(
            forbidden
                .to_string()
                .contains("must be able to read and write"),
            "{forbidden}"
        );
    }

    #[test]
    fn a_store_that_refuses_says_what_to_do() {
        let source = || "it said so".into();
        let path = || "a".to_owned();
        for (error, kind, part) in [
            (
                object_store::Error::PermissionDenied {
                    path: path(),
                    source: source(),
                },
                ErrorKind::Io,
                "must allow reads, writes",
            ),
            (
                object_store::Error::NotFound {
                    path: path(),
                    source: source(),
                },
                ErrorKind::Io,
                "Make the bucket",
            ),
            (
                object_store::Error::NotSupported { source: source() },
                ErrorKind::UnsupportedOperation,
                "conditional writes",
            ),
            (
                object_store::Error::Generic {
                    store: "S3",
                    source: source(),
                },
                ErrorKind::Io,
                "nothing that was committed is lost",
            ),
        ] {
            let error = remote("write", Path::new("s3://b/r/log/1"), &error);
            assert_eq!(error.kind(), kind);
            assert!(
                error.to_string().contains("s3://b/r/log/1") && error.to_string().contains(part),
                "{error}"
            );
        }
    }
}
