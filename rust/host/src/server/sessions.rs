//! The connections that a host serves, each in its own thread: sessions and readers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};

use crate::host::Host;
use crate::net::socket::Stream;
use crate::server::connection;
use crate::server::right::Right;

/// The most connections of readers that a host serves. Each takes a thread and its buffers.
const MAX_READERS: u64 = 2_000;
/// A host serves one reader for this many file handles of the process. A reader's connection takes
/// up to four handles, and the databases need the rest.
const HANDLES: u64 = 8;
/// The most TCP connections whose peer has sent no token or proof yet. The next one closes the
/// oldest, because a valid peer sends its token or proof within milliseconds.
const MAX_UNKNOWN: usize = 500;

/// The open connections, with their streams, which are shut down when the host ends.
#[derive(Default, Clone)]
pub struct Sessions {
    streams: Arc<Mutex<SessionStreams>>,
}

#[derive(Default)]
struct SessionStreams {
    last_number: u64,
    by_number: HashMap<u64, Stream>,
    /// The connections of workers. Those of readers do not delay the end of an idle host.
    workers: HashSet<u64>,
    readers: HashSet<u64>,
    /// TCP connections whose peer has sent no token or proof yet.
    unknown: BTreeSet<u64>,
}

impl SessionStreams {
    /// Shuts down the connection that has waited longest for its peer's token.
    fn close_oldest_unknown(&mut self) {
        let oldest = self.unknown.pop_first();
        if let Some(stream) = oldest.and_then(|oldest| self.by_number.get(&oldest))
            && let Err(error) = stream.shutdown(Shutdown::Both)
        {
            log::debug!("closing a connection without a token: {error}");
        }
    }
}

/// A connection among those that a host serves.
struct OpenConnection {
    sessions: Sessions,
    number: u64,
}

/// Returns how many connections of readers the process may serve.
fn max_readers() -> usize {
    let handles = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(MAX_READERS.min(handles / HANDLES)).unwrap_or(usize::MAX)
}

impl OpenConnection {
    /// Counts the peer.
    ///
    /// # Errors
    /// `InvalidState` if the host serves too many readers.
    fn admit(&self, right: &Right) -> Result<()> {
        let most = max_readers();
        let mut streams = self.sessions.streams.lock();
        streams.unknown.remove(&self.number);
        match right {
            Right::WriteAny | Right::Write(_) => {
                streams.workers.insert(self.number);
            }
            Right::Read(_) if streams.readers.len() < most => {
                streams.readers.insert(self.number);
            }
            Right::Read(_) => {
                let text = format!(
                    "the state host serves {most} connections of readers, and takes no more: close \
                     readers that are not in use, share one between threads, or raise the limit of \
                     open files (ulimit -n), up to {MAX_READERS} readers at {HANDLES} files each"
                );
                return Err(Error::new(ErrorKind::InvalidState, text));
            }
        }
        Ok(())
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut streams = self.sessions.streams.lock();
        streams.by_number.remove(&self.number);
        streams.workers.remove(&self.number);
        streams.readers.remove(&self.number);
        streams.unknown.remove(&self.number);
    }
}

impl Sessions {
    /// Serves a connection in a new thread.
    ///
    /// # Errors
    /// `Io` if the thread or a handle of the stream cannot be created.
    pub fn start(&self, stream: Stream, host: &Arc<Host>, token: &str) -> Result<()> {
        let failed = |error: &io::Error| {
            Error::new(
                ErrorKind::Io,
                format!("a connection cannot be served: {error}"),
            )
        };
        stream
            .set_nonblocking(false)
            .map_err(|error| failed(&error))?;
        let handle = stream.try_clone().map_err(|error| failed(&error))?;
        let number = {
            let mut streams = self.streams.lock();
            if !stream.is_local() && streams.unknown.len() >= MAX_UNKNOWN {
                streams.close_oldest_unknown();
            }
            streams.last_number += 1;
            let number = streams.last_number;
            if !stream.is_local() {
                streams.unknown.insert(number);
            }
            streams.by_number.insert(number, handle);
            number
        };
        let open = OpenConnection {
            sessions: self.clone(),
            number,
        };
        let (host, token) = (Arc::clone(host), token.to_owned());
        let work = move || {
            connection::serve(stream, &host, &token, &|right| open.admit(right));
            // The thread drops its reference to the host before it removes the connection: when no
            // session is left, the host can close its databases.
            drop(host);
            drop(open);
        };
        thread::Builder::new()
            .name(format!("session-{number}"))
            .spawn(work)
            .map(drop)
            .map_err(|error| failed(&error))
    }

    /// Whether a session is open.
    pub fn any(&self) -> bool {
        !self.streams.lock().workers.is_empty()
    }

    /// Closes all connections, which ends their sessions.
    pub fn shut_down(&self) {
        for stream in self.streams.lock().by_number.values() {
            if let Err(error) = stream.shutdown(Shutdown::Both) {
                log::debug!("closing the connection of a session: {error}");
            }
        }
    }
}

/// Polls until the condition holds, up to `limit`.
pub fn wait_until(condition: impl Fn() -> bool, limit: Duration) {
    let started = Instant::now();
    while !condition() && started.elapsed() < limit {
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::net::tls::HostKey;

    #[test]
    fn readers_are_limited_and_workers_are_not() {
        let sessions = Sessions::default();
        let open = |number| OpenConnection {
            sessions: sessions.clone(),
            number,
        };
        let reader = Right::Read("a root".to_owned());
        let mut readers: Vec<OpenConnection> = (0..max_readers() as u64).map(open).collect();
        for one in &readers {
            one.admit(&reader).expect("there is room");
        }
        let next = open(1_000_000);
        let error = next.admit(&reader).expect_err("there is none").to_string();
        assert!(error.contains("connections of readers"), "{error}");
        next.admit(&Right::WriteAny).expect("a worker is served");
        assert!(sessions.any());
        drop((readers.pop(), next));
        assert!(!sessions.any());
        let next = open(1_000_001);
        next.admit(&reader).expect("there is room again");
    }

    #[test]
    fn oldest_connection_without_a_token_is_closed_first() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let address = listener.local_addr().expect("an address");
        let sessions = Sessions::default();
        let mut peers = Vec::new();
        for number in 1..=3 {
            peers.push(TcpStream::connect(address).expect("connects"));
            let (socket, _) = listener.accept().expect("a connection");
            let key = HostKey::generate().expect("a key");
            let stream = Stream::accepted(socket, &key).expect("can be set up");
            let mut streams = sessions.streams.lock();
            streams.by_number.insert(number, stream);
            streams.unknown.insert(number);
        }
        sessions.streams.lock().close_oldest_unknown();
        let mut peer = &peers[0];
        assert_eq!(peer.read(&mut [0]).expect("the end"), 0);
        assert_eq!(sessions.streams.lock().unknown, BTreeSet::from([2, 3]));
    }
}
