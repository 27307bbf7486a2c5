//! The connections that a host serves, each in its own thread: sessions and readers.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::Shutdown;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::host::Host;
use crate::net::socket::Stream;
use crate::server::connection;

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
}

/// A connection among those that a host serves.
struct OpenConnection {
    sessions: Sessions,
    number: u64,
}

impl OpenConnection {
    /// Notes that the peer is a worker.
    fn is_worker(&self) {
        self.sessions.streams.lock().workers.insert(self.number);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut streams = self.sessions.streams.lock();
        streams.by_number.remove(&self.number);
        streams.workers.remove(&self.number);
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
            streams.last_number += 1;
            let number = streams.last_number;
            streams.by_number.insert(number, handle);
            number
        };
        let open = OpenConnection {
            sessions: self.clone(),
            number,
        };
        let (host, token) = (Arc::clone(host), token.to_owned());
        let work = move || {
            connection::serve(stream, &host, &token, &|| open.is_worker());
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
