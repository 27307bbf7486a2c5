//! A host, and how a worker greets it.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::credential::Credential;
use crate::net::frame::MAX_GREETING;
use crate::net::message::{self, MessageKind};
use crate::net::socket::{Endpoint, Stream};

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

/// The answer of a host to a greeting.
enum Greeted {
    /// The worker may open a session over the connection.
    Welcome(Stream),
    /// The host does not accept the worker.
    Rejected(io::Error),
}

impl Peer {
    /// Connects and waits for the answer to the greeting.
    ///
    /// # Errors
    /// `NotFound` and `ConnectionRefused` if no host listens, `TimedOut` if the host does not
    /// answer, [`Credential::rejected`] if it does not accept the worker, `PermissionDenied` if it
    /// does not prove that it has the worker's key, `InvalidData` if it does not answer as a host
    /// of this version; those of [`Endpoint::connect`].
    pub fn connect(&self) -> io::Result<Stream> {
        match self.greet()? {
            Greeted::Welcome(stream) => Ok(stream),
            Greeted::Rejected(error) => Err(error),
        }
    }

    /// Connects as [`Peer::connect`] does, and tries again within the patience: one connection that
    /// fails does not show that the host is gone.
    ///
    /// If the host refuses connections, its process has probably ended, so the attempts end after a
    /// fifth of the patience. If the host rejects the token or does not prove that it has the key,
    /// it is another host, and the attempts end at once. They also end at once if the host does not
    /// answer as a host of this version. A host that rejects a proof counts as one that refuses
    /// connections: it may soon get the run's key, from a task of its own executor.
    ///
    /// # Errors
    /// As [`Peer::connect`].
    pub fn connect_patiently(&self) -> io::Result<Stream> {
        let stream = self.retry(Self::connect)?;
        // The attempt had only the patience that was left.
        set_patience(&stream, self.patience)?;
        Ok(stream)
    }

    /// Checks that the process of the host works. The attempts are those of
    /// [`Peer::connect_patiently`].
    ///
    /// A host of another executor that rejects the worker's proof works, too. It has the encryption
    /// key of the session's host. It no longer has the worker's key, because a newer run has begun
    /// or the root is gone.
    ///
    /// # Errors
    /// As [`Peer::connect`].
    pub fn check_alive(&self) -> io::Result<()> {
        self.retry(|attempt| match (attempt.greet()?, &attempt.credential) {
            (Greeted::Welcome(_), _) | (Greeted::Rejected(_), Credential::Key(_)) => Ok(()),
            (Greeted::Rejected(error), Credential::Token(_)) => Err(error),
        })
    }

    /// Repeats an attempt that fails, each time with the patience that is left.
    fn retry<T>(&self, attempt: impl Fn(&Self) -> io::Result<T>) -> io::Result<T> {
        let started = Instant::now();
        loop {
            let left = self.patience.saturating_sub(started.elapsed());
            let next = Self {
                patience: left.max(Duration::from_millis(1)),
                ..self.clone()
            };
            let error = match attempt(&next) {
                Ok(done) => return Ok(done),
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

    fn greet(&self) -> io::Result<Greeted> {
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
        set_patience(&stream, *patience)?;
        let greeting = credential.greeting(&stream)?;
        message::send(&mut &stream, MessageKind::Hello, &greeting).map_err(late)?;
        match message::receive(&mut &stream, MAX_GREETING).map_err(late)? {
            Some((MessageKind::Welcome, payload)) => {
                credential.check_welcome(&payload, &stream)?;
                Ok(Greeted::Welcome(stream))
            }
            Some((MessageKind::Error, payload)) => Ok(Greeted::Rejected(io::Error::new(
                credential.rejected(),
                message::decode_error(&payload).to_string(),
            ))),
            Some((kind, _)) => {
                let text = format!(
                    "{endpoint} answers a greeting with {kind:?}: not a state host of this version"
                );
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
            // A host that is ending takes no new session. It counts as a host that does not run.
            None => Err(io::Error::new(
                io::ErrorKind::ConnectionRefused,
                format!("the state host at {endpoint} is ending"),
            )),
        }
    }
}

/// Sets how long a read or a write may take.
fn set_patience(stream: &Stream, patience: Duration) -> io::Result<()> {
    // A timeout of zero is an error.
    let timeout = Some(patience.max(Duration::from_millis(1)));
    stream.set_read_timeout(timeout)?;
    stream.set_write_timeout(timeout)
}
