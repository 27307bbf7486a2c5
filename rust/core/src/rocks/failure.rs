//! Maps errors of RocksDB and of the file system to Holdfast's, so that a user never gets a bare
//! RocksDB message.

use crate::error::{Error, ErrorKind};
use std::path::Path;

/// Whether an error of RocksDB means that the disk is full. RocksDB continues once there is space.
pub(super) fn is_disk_full(error: &rust_rocksdb::Error) -> bool {
    error.kind() == rust_rocksdb::ErrorKind::IOError && error.to_string().contains("No space left")
}

/// Returns an error that says what failed and what the user can do, with RocksDB's message.
pub(super) fn failure(doing: &str, path: &Path, error: rust_rocksdb::Error) -> Error {
    use rust_rocksdb::ErrorKind as Rocks;
    let words = error.to_string();
    let (kind, advice) = match error.kind() {
        Rocks::Corruption => (
            ErrorKind::StoreCorrupted,
            "a file of the database is damaged; restore the directory from a checkpoint, or \
             delete it where a changelog can rebuild it",
        ),
        Rocks::IOError if is_disk_full(&error) => (
            ErrorKind::Io,
            "the disk is full; free space, then call rollback() and repeat the work, or open the \
             database again",
        ),
        Rocks::IOError if words.contains("File too large") || words.contains("quota exceeded") => (
            ErrorKind::Io,
            "a limit of the size of files or a quota is reached; raise it or free space, then \
             close the database and open it again: rollback() does not suffice after this error",
        ),
        Rocks::IOError | Rocks::InvalidArgument if words.contains("Too many open files") => (
            ErrorKind::Io,
            "this process has too many open files; raise the limit (ulimit -n), then open the \
             database again",
        ),
        Rocks::IOError
            if words.contains("Permission denied") || words.contains("Read-only file system") =>
        {
            (
                ErrorKind::Io,
                "the directory cannot be written; change its permissions or choose another path",
            )
        }
        Rocks::IOError if words.contains("No such file") => (
            ErrorKind::StoreCorrupted,
            "a file of the database is missing; restore the directory from a checkpoint or the \
             changelog",
        ),
        // RocksDB reports a read error during its check of the options, or during its test for
        // direct I/O, as an invalid option.
        Rocks::InvalidArgument
            if words.contains("IO error") || words.contains("Direct I/O is not supported") =>
        {
            (
                ErrorKind::Io,
                "the operating system refused a read or write; see the cause, then open the \
                 database again",
            )
        }
        Rocks::IOError => (
            ErrorKind::Io,
            "the operating system refused a read or write; see the cause, then open the database \
             again",
        ),
        Rocks::InvalidArgument => (
            ErrorKind::InvalidValue,
            "RocksDB does not accept an option or argument; see the cause, then correct it",
        ),
        _ => (ErrorKind::Io, "open the database again"),
    };
    Error::new(kind, format!("{doing} failed: {advice} (cause: {words})")).path(path)
}

/// Returns an error for a failed call of the file system, outside RocksDB.
pub(crate) fn io_failure(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    let advice = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            "the disk or a quota is full; free space, then call rollback() or open the database \
             again"
        }
        _ => {
            "the operating system refused the call; see the cause, then call rollback() or open \
             the database again"
        }
    };
    Error::new(
        ErrorKind::Io,
        format!("{doing} failed: {advice} (cause: {error})"),
    )
    .path(path)
}
