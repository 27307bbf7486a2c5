//! The worker's connection to one host: greeted, and watched while it waits.
//!
//! A host may take its time over a session; one that is stopped, or whose machine is gone, must not
//! be waited for. So when nothing has come for a while, the worker greets the host over a second
//! connection: a host that answers is at work, one that does not answer within the patience is
//! gone.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::time::Duration;

use holdfast_core::{Error, ErrorKind};

use crate::net::frame::{MAX_GREETING, MAX_PAYLOAD};
use crate::net::message::{self, Kind};
use crate::net::socket::{Endpoint, Stream};

/// Both buffers: large columns pass them by, small ones gather.
const BUFFER_BYTES: usize = 64 << 10;

/// A host, and how to come to it.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Where it listens.
    pub endpoint: Endpoint,
    /// What it wants to see.
    pub token: String,
    /// Within what time a live host answers a greeting.
    pub patience: Duration,
}

impl Peer {
    /// A connection whose greeting was answered.
    fn greet(&self) -> io::Result<Stream> {
        let Self {
            endpoint,
            token,
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
        message::send(&mut &stream, Kind::Hello, token.as_bytes()).map_err(late)?;
        match message::receive(&mut &stream, MAX_GREETING).map_err(late)? {
            Some((Kind::Welcome, _)) => Ok(stream),
            Some((Kind::Error, payload)) => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                message::decode_error(&payload).to_string(),
            )),
            Some((kind, _)) => {
                let text = format!(
                    "{endpoint} answers a greeting with {kind:?}: not a state host of this version"
                );
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
            // A host that is about to end takes no new session: the same as none.
            None => Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("the state host at {endpoint} is ending"),
            )),
        }
    }
}

/// One handle of a stream whose peer is looked after while it keeps silent.
struct Watched {
    stream: Stream,
    peer: Peer,
}

impl Watched {
    fn patiently<T>(&self, mut attempt: impl FnMut(&Stream) -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt(&self.stream) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    self.peer.greet().map_err(|error| {
                        // Never an interruption or a timeout of its own: whoever reads would try
                        // again.
                        io::Error::new(
                            io::ErrorKind::ConnectionAborted,
                            format!("it keeps silent, and a second connection finds: {error}"),
                        )
                    })?;
                }
                result => return result,
            }
        }
    }
}

impl Read for Watched {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.patiently(|mut stream| stream.read(buffer))
    }
}

impl Write for Watched {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Why a host did not answer.
#[derive(Debug)]
pub enum Failed {
    /// It is gone: in words, how that was seen.
    Gone(String),
    /// It said why.
    Said(Error),
}

/// A connection to a host.
pub struct Line {
    reader: BufReader<Watched>,
    writer: BufWriter<Watched>,
}

impl Line {
    /// Connects and shows the token.
    ///
    /// # Errors
    /// Plain I/O errors, since what to do about them is the caller's: `NotFound` and
    /// `ConnectionRefused` mean that no host listens, `TimedOut` that it does not answer,
    /// `PermissionDenied` that the token is wrong.
    pub fn connect(peer: Peer) -> io::Result<Self> {
        let stream = peer.greet()?;
        let reader = Watched {
            stream: stream.try_clone()?,
            peer: peer.clone(),
        };
        Ok(Self {
            reader: BufReader::with_capacity(BUFFER_BYTES, reader),
            writer: BufWriter::with_capacity(BUFFER_BYTES, Watched { stream, peer }),
        })
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.writer.get_ref().peer
    }

    /// What is sent through; the sender flushes.
    pub fn writer(&mut self) -> &mut impl Write {
        &mut self.writer
    }

    /// The next message of the host.
    ///
    /// # Errors
    /// `Failed::Said` for an `Error` message, with the error that it carries, and for one that is
    /// unknown or too long; else `Failed::Gone`.
    pub fn receive(&mut self) -> Result<(Kind, Vec<u8>), Failed> {
        match message::receive(&mut self.reader, MAX_PAYLOAD) {
            Ok(Some((Kind::Error, payload))) => Err(Failed::Said(message::decode_error(&payload))),
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(Failed::Gone("it closed the connection".into())),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Failed::Said(
                Error::new(ErrorKind::InvalidState, error.to_string()),
            )),
            Err(error) => Err(Failed::Gone(error.to_string())),
        }
    }

    /// What is behind a failed write: what the host said before it hung up, if it said something.
    pub fn broken(&mut self, error: &io::Error) -> Failed {
        if error.kind() == io::ErrorKind::InvalidInput {
            return Failed::Said(Error::new(ErrorKind::InvalidValue, error.to_string()));
        }
        while let Ok(Some((kind, payload))) = message::receive(&mut self.reader, MAX_PAYLOAD) {
            if kind == Kind::Error {
                return Failed::Said(message::decode_error(&payload));
            }
        }
        Failed::Gone(error.to_string())
    }

    /// A failure as the error for the user.
    pub fn error(&self, failed: Failed) -> Error {
        match failed {
            Failed::Said(error) => error,
            Failed::Gone(how) => Error::new(
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

impl Drop for Line {
    /// An unsent rest in the buffer is of no use to anyone: the host drops the session when the
    /// connection ends.
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
    use std::thread;
    use std::time::Instant;

    use super::*;

    /// Longer than anything here takes that goes as it should.
    const LONG: Duration = Duration::from_secs(20);

    /// Where a host would listen, and how a worker comes there.
    fn place(folder: &tempfile::TempDir, patience: Duration) -> (UnixListener, Peer) {
        let socket = folder.path().join("host.sock");
        let listener = UnixListener::bind(&socket).expect("binds");
        (
            listener,
            Peer {
                endpoint: Endpoint::Unix(socket),
                token: "a token".to_owned(),
                patience,
            },
        )
    }

    /// Takes the next connection and answers its greeting.
    fn welcome(listener: &UnixListener) -> UnixStream {
        let started = Instant::now();
        listener.set_nonblocking(true).expect("can be set");
        let mut stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    assert!(started.elapsed() < LONG, "nobody greets");
                    thread::sleep(Duration::from_millis(2));
                }
                Err(error) => panic!("{error}"),
            }
        };
        stream.set_nonblocking(false).expect("can be set");
        let greeting = message::receive(&mut stream, MAX_GREETING).expect("a message");
        assert_eq!(greeting, Some((Kind::Hello, b"a token".to_vec())));
        message::send(&mut stream, Kind::Welcome, b"").expect("is sent");
        stream
    }

    #[test]
    fn a_host_that_is_silent_but_answers_greetings_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let (listener, peer) = place(&folder, Duration::from_millis(500));
        let host = thread::spawn(move || {
            let mut session = welcome(&listener);
            // The worker's patience ends twice before it has its answer.
            drop((welcome(&listener), welcome(&listener)));
            message::send(&mut session, Kind::Answer, b"at last").expect("is sent");
        });
        let mut line = Line::connect(peer).expect("a connection");
        let answer = line.receive().expect("an answer");
        assert_eq!(answer, (Kind::Answer, b"at last".to_vec()));
        host.join().expect("was greeted");
    }

    #[test]
    fn a_host_that_answers_no_greeting_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let (listener, peer) = place(&folder, Duration::from_millis(100));
        // It is stopped in mid-session: the kernel still takes connections, and nobody answers.
        let host = thread::spawn(move || {
            let mut session = welcome(&listener);
            session.set_read_timeout(Some(LONG)).expect("can be set");
            session.read(&mut [0])
        });
        let mut line = Line::connect(peer).expect("a connection");
        let Err(failed) = line.receive() else {
            panic!("it was silent")
        };
        let error = line.error(failed).to_string();
        assert!(
            error.contains("keeps silent") && error.contains("no answer within 0.1 s"),
            "{error}"
        );
        drop(line);
        assert_eq!(host.join().expect("ends").expect("the worker hangs up"), 0);
    }
}
