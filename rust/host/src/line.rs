//! The worker's connection to one host: greeted, and watched while it waits.
//!
//! A host may take its time over a session; one that is stopped, or whose machine is gone, must not be waited for. So when
//! nothing has come for a while, the worker greets the host over a second connection: a host that answers is at work, one
//! that does not answer within the patience is gone.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::time::Duration;

use holdfast_core::{Error, ErrorKind};

use crate::frame::{MAX_GREETING, MAX_PAYLOAD};
use crate::stream::{Endpoint, Stream};
use crate::wire::{self, Kind};

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
        let Self { endpoint, token, patience } = self;
        let late = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {:.1} s", patience.as_secs_f64()))
            }
            _ => error,
        };
        let stream = endpoint.connect(*patience).map_err(late)?;
        let timeout = Some((*patience).max(Duration::from_millis(1)));
        stream.set_read_timeout(timeout)?;
        stream.set_write_timeout(timeout)?;
        wire::send(&mut &stream, Kind::Hello, token.as_bytes()).map_err(late)?;
        match wire::receive(&mut &stream, MAX_GREETING).map_err(late)? {
            Some((Kind::Welcome, _)) => Ok(stream),
            Some((Kind::Error, payload)) => Err(io::Error::new(io::ErrorKind::PermissionDenied, wire::decode_error(&payload).to_string())),
            Some((kind, _)) => {
                let text = format!("{endpoint} answers a greeting with {kind:?}: not a state host of this version");
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
            // A host that is about to end takes no new session: the same as none.
            None => Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("the state host at {endpoint} is ending"))),
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
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    self.peer.greet().map_err(|error| {
                        // Never an interruption or a timeout of its own: whoever reads would try again.
                        io::Error::new(io::ErrorKind::ConnectionAborted, format!("it keeps silent, and a second connection finds: {error}"))
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
    /// Errors are plain I/O errors, since what to do about them is the caller's: `NotFound` and `ConnectionRefused` mean
    /// that no host listens, `TimedOut` that it does not answer, `PermissionDenied` that the token is wrong.
    pub fn connect(peer: Peer) -> io::Result<Self> {
        let stream = peer.greet()?;
        let reader = Watched { stream: stream.try_clone()?, peer: peer.clone() };
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

    /// The next message of the host; an `Error` message is the error that it carries.
    pub fn receive(&mut self) -> Result<(Kind, Vec<u8>), Failed> {
        match wire::receive(&mut self.reader, MAX_PAYLOAD) {
            Ok(Some((Kind::Error, payload))) => Err(Failed::Said(wire::decode_error(&payload))),
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(Failed::Gone("it closed the connection".into())),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(Failed::Said(Error::new(ErrorKind::InvalidState, error.to_string())))
            }
            Err(error) => Err(Failed::Gone(error.to_string())),
        }
    }

    /// What is behind a failed write: what the host said before it hung up, if it said something.
    pub fn broken(&mut self, error: &io::Error) -> Failed {
        if error.kind() == io::ErrorKind::InvalidInput {
            return Failed::Said(Error::new(ErrorKind::InvalidValue, error.to_string()));
        }
        while let Ok(Some((kind, payload))) = wire::receive(&mut self.reader, MAX_PAYLOAD) {
            if kind == Kind::Error {
                return Failed::Said(wire::decode_error(&payload));
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
                    "the state host at {} is gone ({how}); nothing is lost: Spark retries the task, and the retry finds or starts \
                     another host (in local mode retries need a master like local[2,4])",
                    self.peer().endpoint
                ),
            ),
        }
    }
}

impl Drop for Line {
    /// An unsent rest in the buffer is of no use to anyone: the host drops the session when the connection ends.
    fn drop(&mut self) {
        if let Err(error) = self.writer.flush() {
            log::debug!("closing the connection to {}: {error}", self.peer().endpoint);
        }
    }
}
