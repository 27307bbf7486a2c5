//! Why a connection ends early.

use std::io;

use holdfast_core::{Error, ErrorKind};

/// Why a session ended early.
#[derive(Debug)]
pub enum SessionError {
    /// The connection to the worker failed, and no error can be sent.
    WorkerGone(io::Error),
    /// The session failed; the error is sent to the worker.
    Failed(Error),
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::InvalidData {
            return Self::Failed(Error::new(ErrorKind::InvalidState, error.to_string()));
        }
        Self::WorkerGone(error)
    }
}

impl From<Error> for SessionError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
