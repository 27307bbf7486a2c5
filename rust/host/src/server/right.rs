//! What a peer may do, by its greeting.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use holdfast_core::{Error, ErrorKind, Result};

use crate::host::{Host, ProvenWriter};
use crate::net::socket::Stream;

/// What a peer may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Right {
    /// To open any session. The peer is a worker of the host's own executor.
    WriteAny,
    /// To open sessions of one root. The peer is a worker of another executor.
    Write(ProvenWriter),
    /// To read the root of this id.
    Read(String),
}

impl Right {
    /// Returns the right of a peer that has sent this greeting.
    ///
    /// `token` opens sessions over the Unix socket only. A worker of another executor proves that
    /// it has a key, so that what it sends is of no use on another connection. A reader sends the
    /// token of its root over any connection.
    ///
    /// # Errors
    /// `InvalidState` if the greeting gives no right; `Io` if a proof cannot be checked.
    pub fn of(greeting: &[u8], stream: &Stream, host: &Host, token: &str) -> Result<Self> {
        let channel = stream.channel().map_err(|error| {
            Error::new(ErrorKind::Io, format!("a peer cannot be checked: {error}"))
        })?;
        let write = match channel {
            None => verify_slices_are_equal(greeting, token.as_bytes())
                .is_ok()
                .then_some(Self::WriteAny),
            Some(channel) => host.proven_writer(greeting, &channel).map(Self::Write),
        };
        let read = || host.readable_root(greeting).map(Self::Read);
        write.or_else(read).ok_or_else(|| {
            let text = match channel {
                None => {
                    "the state host has another token: this worker belongs to another executor, or \
                     the reader's token is not valid"
                }
                Some(_) => {
                    "no task of this run has begun at the state host, or the reader's token is \
                     not valid"
                }
            };
            Error::new(ErrorKind::InvalidState, text)
        })
    }

    /// The content of the `Welcome`. A worker of another executor sends its request only to a host
    /// that has the root's key.
    pub fn welcome(&self) -> &[u8] {
        match self {
            Self::Write(writer) => &writer.answer,
            Self::WriteAny | Self::Read(_) => &[],
        }
    }
}
