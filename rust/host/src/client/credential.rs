//! What gives a worker the right to open a session.

use std::io;

use crate::net::socket::Stream;
use crate::net::writer_key::WriterKey;

/// What gives a worker the right to open a session.
#[derive(Debug, Clone)]
pub enum Credential {
    /// The token of the host of the worker's own executor.
    Token(String),
    /// The key of the run's workers for the session's root, at hosts of other executors.
    Key(WriterKey),
}

impl Credential {
    /// Returns what the host must receive over this connection.
    ///
    /// # Errors
    /// `InvalidInput` for a key over a connection that is not encrypted; those of
    /// [`Stream::channel`].
    pub fn greeting(&self, stream: &Stream) -> io::Result<Vec<u8>> {
        match self {
            Self::Token(token) => Ok(token.clone().into_bytes()),
            Self::Key(key) => match stream.channel()? {
                Some(channel) => Ok(key.proof(&channel).to_vec()),
                None => Err(io::ErrorKind::InvalidInput.into()),
            },
        }
    }

    /// The kind of the error of a host that rejects it.
    ///
    /// A token is rejected by another host than the one that was sought. The host that proves the
    /// owner's key rejects a proof only until a task of the run begins on its machine.
    pub fn rejected(&self) -> io::ErrorKind {
        match self {
            Self::Token(_) => io::ErrorKind::PermissionDenied,
            Self::Key(_) => io::ErrorKind::ConnectionRefused,
        }
    }
}
