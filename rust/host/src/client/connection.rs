//! The worker's connection to one host, with a check that the host is alive while the worker waits.
//!
//! A session may take any time, but a worker must not wait for a host that is stopped or whose
//! machine is down. If nothing arrives within the session's patience, the worker sends a greeting
//! over a second connection. A host that answers the greeting is working. A host that does not
//! answer within the patience is unreachable.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind};

use crate::client::credential::Credential;
use crate::net::frame::{MAX_GREETING, MAX_PAYLOAD};
use crate::net::message::{self, MessageKind};
use crate::net::socket::{Endpoint, Stream};

/// Size of the read and the write buffer. Large columns bypass them.
const BUFFER_BYTES: usize = 64 << 10;

/// The pause between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);
/// A host whose machine refuses connections for `patience / REFUSED` is gone.
const REFUSED: u32 = 5;

/// A host and how to connect to it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where the host listens.
    pub endpoint: Endpoint,
    /// What gives the right to open a session there.
    pub credential: Credential,
    /// How long a live host may take to answer a greeting.
    pub patience: Duration,
}

impl Peer {
    /// Connects as [`Peer::greet`] does, and tries again within the patience: one connection that
    /// fails does not show that the host is gone.
    ///
    /// If the host refuses connections, its process has probably ended, so the attempts end after a
    /// fifth of the patience. A host that rejects the token, or does not prove that it has the key,
    /// is another host, so they end at once. A host that rejects a proof may have a task of the run
    /// soon, so it counts as one that refuses connections.
    fn greet_again(&self) -> io::Result<Stream> {
        let started = Instant::now();
        loop {
            let left = self.patience.saturating_sub(started.elapsed());
            let attempt = Self {
                patience: left.max(Duration::from_millis(1)),
                ..self.clone()
            };
            let error = match attempt.greet() {
                Ok(stream) => return Ok(stream),
                Err(error) => error,
            };
            let limit = match error.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData => return Err(error),
                io::ErrorKind::ConnectionRefused => self.patience / REFUSED,
                _ => self.patience,
            };
            if started.elapsed() + RETRY >= limit {
                return Err(error);
            }
            thread::sleep(RETRY);
        }
    }

    /// Connects and waits for the answer to the greeting.
    fn greet(&self) -> io::Result<Stream> {
        let Self {
            endpoint,
            credential,
            patience,
        } = self;
        let late = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer within {:.1} s", patience.as_secs_f64()),
            ),
            _ => error,
        };
        let stream = endpoint.connect(*patience).map_err(late)?;
        let timeout = Some((*patience).max(Duration::from_millis(1)));
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        let greeting = credential.greeting(&stream)?;
        message::send(&mut &stream, MessageKind::Hello, &greeting).map_err(late)?;
        match message::receive(&mut &stream, MAX_GREETING).map_err(late)? {
            Some((MessageKind::Welcome, payload)) => {
                credential.check_welcome(&payload, &stream)?;
                Ok(stream)
            }
            Some((MessageKind::Error, payload)) => Err(io::Error::new(
                credential.rejected(),
                message::decode_error(&payload).to_string(),
            )),
            Some((kind, _)) => {
                let text = format!(
                    "{endpoint} answers a greeting with {kind:?}: not a state host of this version"
                );
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
            // A host that is ending takes no new session, like a host that does not run.
            None => Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("the state host at {endpoint} is ending"),
            )),
        }
    }
}

/// One handle of a stream that checks its peer while it waits.
struct WatchedStream {
    stream: Stream,
    peer: Peer,
}

impl WatchedStream {
    /// Repeats a read or write that timed out as long as the peer answers greetings.
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
                    self.peer.greet_again().map_err(|error| {
                        // The error does not have the greeting's kind, because the caller retries
                        // interruptions and timeouts.
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

/// Why a host gave no answer.
#[derive(Debug)]
pub enum ConnectionError {
    /// The host is unreachable; the text says how that was found.
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
    /// Connects and sends the token.
    ///
    /// # Errors
    /// I/O errors, which the caller handles: `NotFound` and `ConnectionRefused` if no host listens,
    /// `TimedOut` if the host does not answer, `PermissionDenied` if the token is wrong.
    pub fn connect(peer: Peer) -> io::Result<Self> {
        Self::over(peer.greet()?, peer)
    }

    /// As [`ClientConnection::connect`], for a host that counts as gone if it cannot be reached
    /// within the patience.
    ///
    /// # Errors
    /// As [`ClientConnection::connect`].
    pub fn connect_patiently(peer: Peer) -> io::Result<Self> {
        Self::over(peer.greet_again()?, peer)
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

    /// Returns the cause of a failed write: the error that the host sent before it closed the
    /// connection, if there is one.
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
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    /// A time that no step of a passing test takes.
    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    /// A listener in place of a host, and how a worker connects to it.
    fn listener_and_peer(folder: &tempfile::TempDir, patience: Duration) -> (UnixListener, Peer) {
        let socket = folder.path().join("host.sock");
        let listener = UnixListener::bind(&socket).expect("binds");
        (
            listener,
            Peer {
                endpoint: Endpoint::Unix(socket),
                credential: Credential::Token("a token".to_owned()),
                patience,
            },
        )
    }

    /// Accepts the next connection and answers its greeting.
    fn welcome(listener: &UnixListener) -> UnixStream {
        let started = Instant::now();
        listener.set_nonblocking(true).expect("can be set");
        let mut stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(started.elapsed() < TEST_TIMEOUT, "no greeting arrives");
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("{error}"),
            }
        };
        stream.set_nonblocking(false).expect("can be set");
        let greeting = message::receive(&mut stream, MAX_GREETING).expect("a message");
        assert_eq!(greeting, Some((MessageKind::Hello, b"a token".to_vec())));
        message::send(&mut stream, MessageKind::Welcome, b"").expect("is sent");
        stream
    }

    #[test]
    fn worker_waits_for_a_silent_host_that_answers_greetings() {
        let folder = tempfile::tempdir().expect("a folder");
        let (listener, peer) = listener_and_peer(&folder, Duration::from_millis(500));
        let host = thread::spawn(move || {
            let mut session = welcome(&listener);
            // The worker's patience runs out twice before the answer.
            drop((welcome(&listener), welcome(&listener)));
            message::send(&mut session, MessageKind::Answer, b"at last").expect("is sent");
        });
        let mut connection = ClientConnection::connect(peer).expect("a connection");
        let answer = connection.receive().expect("an answer");
        assert_eq!(answer, (MessageKind::Answer, b"at last".to_vec()));
        host.join().expect("was greeted");
    }

    #[test]
    fn host_that_answers_no_greeting_is_unreachable() {
        let folder = tempfile::tempdir().expect("a folder");
        let (listener, peer) = listener_and_peer(&folder, Duration::from_millis(100));
        // A host that is stopped within a session: the kernel accepts connections, and no process
        // answers.
        let host = thread::spawn(move || {
            let mut session = welcome(&listener);
            session
                .set_read_timeout(Some(TEST_TIMEOUT))
                .expect("can be set");
            session.read(&mut [0])
        });
        let mut connection = ClientConnection::connect(peer).expect("a connection");
        let Err(failure) = connection.receive() else {
            panic!("it was silent")
        };
        let error = connection.user_error(failure).to_string();
        assert!(
            error.contains("keeps silent") && error.contains("no answer within 0.1 s"),
            "{error}"
        );
        drop(connection);
        assert_eq!(
            host.join()
                .expect("ends")
                .expect("the worker closes the connection"),
            0
        );
    }
}
