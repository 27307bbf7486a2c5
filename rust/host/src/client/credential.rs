//! What gives a worker the right to open a session.

use std::io;

use crate::net::socket::Stream;
use crate::net::tls::Channel;
use crate::net::writer_key::{ProvingEnd, WriterKey};

/// What gives a worker the right to open a session.
#[derive(Debug, Clone)]
pub enum Credential {
    /// The token of the host of the worker's own executor.
    Token(String),
    /// The key of the run's workers for the session's root, at hosts of other executors.
    Key(WriterKey),
}

impl Credential {
    /// Returns the greeting for the host at the other end of this connection.
    ///
    /// # Errors
    /// `InvalidInput` for a key over a connection that is not encrypted; those of
    /// [`Stream::channel`].
    pub fn greeting(&self, stream: &Stream) -> io::Result<Vec<u8>> {
        match self {
            Self::Token(token) => Ok(token.clone().into_bytes()),
            Self::Key(key) => {
                let channel = encrypted(stream)?;
                Ok(key.proof(ProvingEnd::Worker, &channel).to_vec())
            }
        }
    }

    /// Checks the `Welcome` of the host at the other end. A host that gets a proof must prove that
    /// it has the key, too. A session's request and rows are sent to no other process.
    ///
    /// # Errors
    /// `PermissionDenied` if the host does not prove that it has the key; those of
    /// [`Credential::greeting`].
    pub fn check_welcome(&self, welcome: &[u8], stream: &Stream) -> io::Result<()> {
        let Self::Key(key) = self else {
            // Only processes of this user can create the socket.
            return Ok(());
        };
        if key.is_proven(ProvingEnd::Host, welcome, &encrypted(stream)?) {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the process there does not prove that it is a state host of this query: its claim \
             below owners/ is false, so check who may write there",
        ))
    }

    /// Returns the kind of the error if a host rejects the credential.
    ///
    /// A host that rejects the token is not the host of this executor. A host that rejects a proof
    /// may accept it later, once a task of the run has begun on its executor.
    pub fn rejected(&self) -> io::ErrorKind {
        match self {
            Self::Token(_) => io::ErrorKind::PermissionDenied,
            Self::Key(_) => io::ErrorKind::ConnectionRefused,
        }
    }
}

/// Returns the channel of a connection, which must be encrypted.
fn encrypted(stream: &Stream) -> io::Result<Channel> {
    let channel = stream.channel()?;
    channel.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}
