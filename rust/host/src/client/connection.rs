//! The worker's connection to one host, with a check that the host is alive while the worker waits.
//!
//! A session may take any time, but a worker must not wait for a host that is stopped or whose
//! machine is down. If a read or a write waits longer than the session's patience, the worker sends
//! a greeting over a second connection. A host that answers the greeting is working. A host of
//! another executor also counts as working if it answers that it rejects the worker's key. A host
//! that does not answer within the patience is unreachable.

use std::io::{self, BufReader, BufWriter, Read, Write};

use holdfast_core::{Error, ErrorKind};

use crate::client::peer::Peer;
use crate::net::frame::MAX_PAYLOAD;
use crate::net::message::{self, MessageKind};
use crate::net::socket::Stream;

/// Size of the read and the write buffer. Large columns bypass them.
const BUFFER_BYTES: usize = 64 << 10;

/// One handle of a stream that checks its peer while it waits.
struct WatchedStream {
    stream: Stream,
    peer: Peer,
}

impl WatchedStream {
    /// Repeats a read or write that timed out, as long as the peer answers greetings.
    fn retry_while_alive<T>(
        &self,
        mut attempt: impl FnMut(&Stream) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match attempt(&self.stream) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    self.peer.check_alive().map_err(|error| {
                        // The kind of the greeting's error is replaced: callers retry
                        // `Interrupted`, and do not count the host as unreachable for `InvalidData`
                        // or `InvalidInput`.
                        io::Error::new(
                            io::ErrorKind::ConnectionAborted,
                            format!("it keeps silent, and a second connection fails: {error}"),
                        )
                    })?;
                }
                result => return result,
            }
        }
    }
}

impl Read for WatchedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retry_while_alive(|mut stream| stream.read(buffer))
    }
}

impl Write for WatchedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.retry_while_alive(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.retry_while_alive(|mut stream| stream.flush())
    }
}

/// Why a request to a host failed.
#[derive(Debug)]
pub enum ConnectionError {
    /// The host is unreachable; the text is the reason.
    Unreachable(String),
    /// The host answered with an error.
    Reported(Error),
}

/// A connection to a host.
pub struct ClientConnection {
    reader: BufReader<WatchedStream>,
    writer: BufWriter<WatchedStream>,
}

impl ClientConnection {
    /// Connects and waits for the answer to the greeting.
    ///
    /// # Errors
    /// I/O errors, which the caller handles: those of [`Peer::connect`].
    pub fn connect(peer: Peer) -> io::Result<Self> {
        Self::over(peer.connect()?, peer)
    }

    /// As [`ClientConnection::connect`], but repeats a failed attempt within the patience before
    /// the host counts as gone.
    ///
    /// # Errors
    /// As [`ClientConnection::connect`].
    pub fn connect_patiently(peer: Peer) -> io::Result<Self> {
        Self::over(peer.connect_patiently()?, peer)
    }

    fn over(stream: Stream, peer: Peer) -> io::Result<Self> {
        let reader = WatchedStream {
            stream: stream.try_clone()?,
            peer: peer.clone(),
        };
        Ok(Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, reader),
            writer: BufWriter::with_capacity(BUFFER_BYTES, WatchedStream { stream, peer }),
        })
    }

    /// The host at the other end.
    pub fn peer(&self) -> &Peer {
        &self.writer.get_ref().peer
    }

    /// The stream to the host; the sender flushes it.
    pub fn writer(&mut self) -> &mut impl Write {
        &mut self.writer
    }

    /// Receives the next message of the host.
    ///
    /// # Errors
    /// `Reported` for an `Error` message and for a message that is unknown or too long; otherwise
    /// `Unreachable`.
    pub fn receive(&mut self) -> Result<(MessageKind, Vec<u8>), ConnectionError> {
        match message::receive(&mut self.reader, MAX_PAYLOAD) {
            Ok(Some((MessageKind::Error, payload))) => {
                Err(ConnectionError::Reported(message::decode_error(&payload)))
            }
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(ConnectionError::Unreachable(
                "it closed the connection".into(),
            )),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(
                ConnectionError::Reported(Error::new(ErrorKind::InvalidState, error.to_string())),
            ),
            Err(error) => Err(ConnectionError::Unreachable(error.to_string())),
        }
    }

    /// Returns the cause of a failed write: the write's own error if the message is too large,
    /// otherwise the error that the host sent before it closed the connection, if there is one.
    pub fn write_failure(&mut self, error: &io::Error) -> ConnectionError {
        if error.kind() == io::ErrorKind::InvalidInput {
            return ConnectionError::Reported(Error::new(
                ErrorKind::InvalidValue,
                error.to_string(),
            ));
        }
        while let Ok(Some((kind, payload))) = message::receive(&mut self.reader, MAX_PAYLOAD) {
            if kind == MessageKind::Error {
                return ConnectionError::Reported(message::decode_error(&payload));
            }
        }
        ConnectionError::Unreachable(error.to_string())
    }

    /// Converts a failure to the error that the user sees.
    pub fn user_error(&self, failure: ConnectionError) -> Error {
        match failure {
            ConnectionError::Reported(error) => error,
            ConnectionError::Unreachable(how) => Error::new(
                ErrorKind::InvalidState,
                format!(
                    "the state host at {} is gone ({how}); nothing is lost: Spark retries the \
                     task, and the retry finds or starts another host (in local mode retries need \
                     a master like local[2,4])",
                    self.peer().endpoint
                ),
            ),
        }
    }
}

impl Drop for ClientConnection {
    /// Flushes the buffer. A failure is only logged: the host drops the session when the connection
    /// ends.
    fn drop(&mut self) {
        if let Err(error) = self.writer.flush() {
            log::debug!(
                "closing the connection to {}: {error}",
                self.peer().endpoint
            );
        }
    }
}

#[cfg(test)]
mod tests;
