//! Errors: one type with few kinds. A kind says what the caller can do (`docs/stores/README.md`).

use std::any::Any;
use std::fmt;
use std::path::Path;

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The kind of an error, by what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The store or its database is closed: open it again.
    StoreClosed,
    /// Another process, or another database of this one, holds the directory: close it there.
    StoreLocked,
    /// Files are damaged: restore from a snapshot or the changelog.
    StoreCorrupted,
    /// Written by another format version or another program: use the version of Holdfast that wrote
    /// it, or another path.
    FormatVersion,
    /// A newer run of the query exists: stop this one.
    Fenced,
    /// A key or value could not be converted: fix the data or the serde.
    Serialization,
    /// The state is older than the position that a query requires, or a store lacks data: try again
    /// later, or restore the store that the message names.
    NotUpToBound,
    /// The log no longer holds the changes of an epoch: the message names the oldest one that it
    /// holds.
    ChangesLost,
    /// Not possible by design: the message names what to call instead.
    UnsupportedOperation,
    /// The state does not fit the job that uses it: the message says how to repair it.
    StateMismatch,
    /// A changelog or snapshot object is missing or damaged.
    Restore,
    /// The store was opened before a fork: start the child with spawn, or fork before the first
    /// database is opened.
    ForkedProcess,
    /// The operating system reported an error: for example, a full disk or a missing permission.
    Io,
    /// An argument's value is wrong (`ValueError`).
    InvalidValue,
    /// An argument's type is wrong (`TypeError`).
    InvalidType,
    /// The call is not possible in this state: the message says what to do first, often a rollback
    /// or a reopen.
    InvalidState,
}

impl ErrorKind {
    const ALL: [(Self, &'static str); 16] = [
        (Self::StoreClosed, "StoreClosed"),
        (Self::StoreLocked, "StoreLocked"),
        (Self::StoreCorrupted, "StoreCorrupted"),
        (Self::FormatVersion, "FormatVersion"),
        (Self::Fenced, "Fenced"),
        (Self::Serialization, "Serialization"),
        (Self::NotUpToBound, "NotUpToBound"),
        (Self::ChangesLost, "ChangesLost"),
        (Self::UnsupportedOperation, "UnsupportedOperation"),
        (Self::StateMismatch, "TaskCorrupted"),
        (Self::Restore, "Restore"),
        (Self::ForkedProcess, "ForkedProcess"),
        (Self::Io, "Io"),
        (Self::InvalidValue, "InvalidValue"),
        (Self::InvalidType, "InvalidType"),
        (Self::InvalidState, "InvalidState"),
    ];

    /// Returns the kind's name on the wire. The binding chooses the Python exception
    /// (`rust/python/src/error.rs`).
    pub fn name(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("Io", |(_, name)| name)
    }

    /// Returns the kind that has this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .find(|(_, n)| *n == name)
            .map(|(kind, _)| *kind)
    }
}

/// An error. Its `Display` is the full message for the user: what happened, to which store at which
/// path, and what to do.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    store: Option<String>,
    path: Option<String>,
    key: Option<String>,
}

impl Error {
    /// Returns an error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            store: None,
            path: None,
            key: None,
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the store that the error names.
    pub fn store_name(&self) -> Option<&str> {
        self.store.as_deref()
    }

    /// Returns the path that the error names.
    pub fn path_name(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Puts `what: ` in front of the message.
    #[must_use]
    pub fn about(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Names the store, unless one is named already.
    #[must_use]
    pub fn store(mut self, name: &str) -> Self {
        self.store.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Names the path, unless one is named already.
    #[must_use]
    pub fn path(mut self, path: &Path) -> Self {
        self.path.get_or_insert_with(|| path.display().to_string());
        self
    }

    /// Names the first bytes of the key, unless one is named already.
    #[must_use]
    pub fn key(mut self, key: &[u8]) -> Self {
        self.key.get_or_insert_with(|| {
            let shown = &key[..key.len().min(32)];
            let more = if key.len() > shown.len() { "…" } else { "" };
            format!("{}{more}", shown.escape_ascii())
        });
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let parts = [
            ("store", &self.store),
            ("key", &self.key),
            ("path", &self.path),
        ];
        let mut named = parts
            .iter()
            .filter_map(|(what, name)| name.as_ref().map(|name| (what, name)));
        if let Some((what, name)) = named.next() {
            write!(f, " [{what}: {name}")?;
            for (what, name) in named {
                write!(f, ", {what}: {name}")?;
            }
            f.write_str("]")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Returns the message of a caught panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(message), _) => message,
        (None, Some(message)) => message,
        (None, None) => "a panic without a message",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_store_key_and_path() {
        let error = Error::new(ErrorKind::StoreClosed, "it is closed")
            .store("rates")
            .key(b"EUR\x00")
            .path(Path::new("/d"));
        assert_eq!(
            error.to_string(),
            "it is closed [store: rates, key: EUR\\x00, path: /d]"
        );
        assert_eq!(
            ErrorKind::from_name(error.kind().name()),
            Some(ErrorKind::StoreClosed)
        );
    }
}
