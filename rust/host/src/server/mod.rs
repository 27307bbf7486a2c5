//! The state host as a process: listens, serves each connection in a thread of its own, ends with
//! its executor.

mod connection;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use holdfast_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::executor::{Executor, Watch};
use crate::host::{Host, Reach};
use crate::net::socket::Stream;

/// How often the executor is looked at where the kernel does not tell, and everything else that is
/// due.
const TICK: Duration = Duration::from_millis(100);
/// How long sessions may take to notice that the host ends.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long a host without sessions stays for a snapshot that is under way.
const UPLOAD: Duration = Duration::from_secs(600);

/// How a host is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where to listen. The folder is made with mode 0700 if it is missing, the socket has 0600.
    pub socket: PathBuf,
    /// What a worker must show.
    pub token: String,
    /// Where workers of other executors come to it; none where there are no others.
    pub tcp: Option<TcpPlace>,
    /// Whose state it serves: it ends with that process.
    pub executor: Option<Executor>,
    /// It ends when no session has been open for this long.
    pub idle: Duration,
}

/// Where a host listens for other machines, at a port that the system gives.
#[derive(Debug, Clone)]
pub struct TcpPlace {
    /// The name or address of this machine as other executors know it.
    pub name: String,
    /// The address to listen at; `name` if there is none of its own.
    pub bind: Option<String>,
}

/// Serves until the executor is gone or the host has been idle; then closes all databases.
///
/// # Errors
/// `StoreLocked` if another host serves this socket; `Io` where it cannot listen.
pub fn serve(options: &ServerOptions) -> Result<()> {
    let (listener, lock) = listen(&options.socket)?;
    let (tcp, reach) = match &options.tcp {
        Some(place) => listen_to_others(place, &options.token)
            .map(|(listener, reach)| (Some(listener), Some(reach)))?,
        None => (None, None),
    };
    let elsewhere = reach
        .as_ref()
        .map_or_else(String::new, |reach| format!(" and {}", reach.endpoint));
    let host = Arc::new(Host::new(options.executor, reach));
    let watch = options.executor.map(Executor::watch);
    let sessions = Sessions::default();
    log::info!(
        "state host {} listens at {}{elsewhere}",
        std::process::id(),
        options.socket.display()
    );
    let listeners = Listeners {
        own: listener,
        others: tcp,
    };
    let result = accept_all(options, &listeners, watch.as_ref(), &host, &sessions);
    // From here on a worker finds no host and starts the next one, which waits for the locks of our
    // databases.
    if let Err(error) = fs::remove_file(&options.socket) {
        log::debug!("removing {}: {error}", options.socket.display());
    }
    drop(listeners);
    // Behind the socket: the next host makes a new one as soon as it has the lock.
    drop(lock);
    sessions.end();
    // A short run's snapshot is begun near its end: cut off each time, there would never be one.
    wait_until(|| !host.is_uploading());
    host.close();
    log::info!("state host {} has closed its databases", std::process::id());
    result
}

fn accept_all(
    options: &ServerOptions,
    listeners: &Listeners,
    watch: Option<&Watch>,
    host: &Arc<Host>,
    sessions: &Sessions,
) -> Result<()> {
    let mut busy = Instant::now();
    let (mut swept, mut sweep) = (Instant::now(), Sweep::default());
    loop {
        wait(listeners, watch)?;
        if watch.is_some_and(|watch| !watch.is_alive()) {
            log::info!("the executor is gone");
            return Ok(());
        }
        for accepted in listeners.accept() {
            match accepted {
                // Whoever comes next may be served: nobody else's sessions end for this one.
                Ok(stream) => {
                    if let Err(error) = sessions.start(stream, host, &options.token) {
                        log::warn!("{error}");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // One connection that failed, or no file handles left for a moment: the next one
                // may come through.
                Err(error) => {
                    log::warn!("a connection could not be taken: {error}");
                    thread::sleep(TICK);
                }
            }
        }
        if sessions.any() {
            busy = Instant::now();
        } else if busy.elapsed() > options.idle
            && (!host.is_uploading() || busy.elapsed() > options.idle + UPLOAD)
        {
            log::info!("no session for {} s", options.idle.as_secs());
            return Ok(());
        }
        if swept.elapsed() > options.idle.max(TICK) / 4 {
            swept = Instant::now();
            let (host, idle) = (Arc::clone(host), options.idle);
            sweep.begin(move || {
                host.close_unused(idle);
                host.tell_counts(false);
            });
        }
    }
}

/// Work beside the accepting of connections, one at a time: a host that does not accept for long is
/// taken to be gone. Dropped, it waits for what is under way.
#[derive(Default)]
struct Sweep(Option<JoinHandle<()>>);

impl Sweep {
    fn begin(&mut self, work: impl FnOnce() + Send + 'static) {
        if self
            .0
            .as_ref()
            .is_some_and(|running| !running.is_finished())
        {
            return;
        }
        match thread::Builder::new().name("sweep".to_owned()).spawn(work) {
            Ok(running) => self.0 = Some(running),
            Err(error) => log::warn!("partitions that nobody uses stay open for now: {error}"),
        }
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        if self.0.take().is_some_and(|running| running.join().is_err()) {
            log::warn!("closing partitions that nobody uses came to a panic");
        }
    }
}

/// Where connections come in: of this executor's workers, and of others'.
struct Listeners {
    own: UnixListener,
    others: Option<TcpListener>,
}

impl Listeners {
    fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [
            Some(self.own.as_fd()),
            self.others.as_ref().map(AsFd::as_fd),
        ]
        .into_iter()
        .flatten()
    }

    /// A connection of each, if one is there.
    fn accept(&self) -> impl Iterator<Item = io::Result<Stream>> {
        let own = self.own.accept().map(|(stream, _)| Stream::Unix(stream));
        let others = self.others.as_ref().map(|listener| {
            listener
                .accept()
                .and_then(|(stream, _)| Stream::tcp(stream))
        });
        [Some(own), others].into_iter().flatten()
    }
}

/// Waits for a connection, the executor's end, or the next tick.
fn wait(listeners: &Listeners, watch: Option<&Watch>) -> Result<()> {
    let fds = listeners.fds().chain(watch.and_then(Watch::fd));
    let mut fds: Vec<PollFd<'_>> = fds
        .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
        .collect();
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: TICK.subsec_nanos().into(),
    };
    match poll(&mut fds, Some(&tick)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(Error::new(
            ErrorKind::Io,
            format!("the state host cannot wait for connections: {error}"),
        )),
    }
}

/// The open sessions: who they are, to hang up on them when the host ends.
#[derive(Default, Clone)]
struct Sessions {
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    next: u64,
    streams: HashMap<u64, Stream>,
}

impl Sessions {
    fn start(&self, stream: Stream, host: &Arc<Host>, token: &str) -> Result<()> {
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
            let mut open = self.open.lock();
            open.next += 1;
            let number = open.next;
            open.streams.insert(number, handle);
            number
        };
        let (host, token, sessions) = (Arc::clone(host), token.to_owned(), self.clone());
        let work = move || {
            connection::serve(stream, &host, &token);
            // The host's own handle must be let go of before the count says so.
            drop(host);
            sessions.open.lock().streams.remove(&number);
        };
        thread::Builder::new()
            .name(format!("session-{number}"))
            .spawn(work)
            .map(drop)
            .map_err(|error| {
                self.open.lock().streams.remove(&number);
                failed(&error)
            })
    }

    fn any(&self) -> bool {
        !self.open.lock().streams.is_empty()
    }

    /// Hangs up on all sessions, and gives their threads a moment to let go of the databases.
    fn end(&self) {
        for stream in self.open.lock().streams.values() {
            if let Err(error) = stream.shutdown(Shutdown::Both) {
                log::debug!("hanging up on a session: {error}");
            }
        }
        wait_until(|| !self.any());
    }
}

/// Waits for a moment until something is so.
fn wait_until(is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() && started.elapsed() < FAREWELL {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Listens for workers of other executors. An address that is not this machine's own (it is
/// translated on the way) is no reason to give up: then at all of the machine's.
fn listen_to_others(place: &TcpPlace, token: &str) -> Result<(TcpListener, Reach)> {
    let failed = |error: io::Error| {
        let text = format!(
            "the state host cannot listen for other executors at {place:?} ({error}): check \
             spark.executor.bindAddress, SPARK_LOCAL_IP and SPARK_LOCAL_HOSTNAME of this machine"
        );
        Error::new(ErrorKind::Io, text)
    };
    let bind = place.bind.as_deref().unwrap_or(&place.name);
    let listener = TcpListener::bind((bind, 0)).or_else(|error| {
        log::info!("{bind} is no address of this machine ({error}); listening at all that it has");
        TcpListener::bind(("::", 0)).or_else(|_| TcpListener::bind(("0.0.0.0", 0)))
    });
    let listener = listener.map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    let name = if place.name.contains(':') {
        format!("[{}]", place.name.trim_matches(['[', ']']))
    } else {
        place.name.clone()
    };
    Ok((
        listener,
        Reach {
            endpoint: format!("{name}:{port}"),
            token: token.to_owned(),
        },
    ))
}

/// Binds the socket. The lock beside it is held by the one host that serves it, so a socket that is
/// there is a dead one's.
fn listen(socket: &Path) -> Result<(UnixListener, File)> {
    let failed = |error: io::Error| {
        let text = format!(
            "the state host cannot listen at {} ({error}): check TMPDIR's permissions",
            socket.display()
        );
        Error::new(ErrorKind::Io, text)
    };
    if let Some(folder) = socket.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(failed)?;
    }
    let lock_path = socket.with_extension("host");
    let mut lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&lock_path)
        .map_err(failed)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        Errno::WOULDBLOCK => Error::new(
            ErrorKind::StoreLocked,
            format!(
                "another state host serves {}: connect to that one",
                socket.display()
            ),
        ),
        other => failed(other.into()),
    })?;
    // Whoever finds the host without an answer knows whom to end.
    lock.set_len(0)
        .and_then(|()| write!(lock, "{}", std::process::id()))
        .map_err(failed)?;
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    let listener = UnixListener::bind(socket).map_err(failed)?;
    fs::set_permissions(socket, Permissions::from_mode(0o600)).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok((listener, lock))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;

    #[test]
    fn a_sweep_runs_beside_and_one_at_a_time() {
        let (mut sweep, (go, waits), (tell, told)) = (Sweep::default(), channel(), channel());
        let first = tell.clone();
        sweep.begin(move || {
            // Nobody lets it go before it has been begun.
            let let_go =
                waits.recv_timeout(Duration::from_secs(20)) != Err(RecvTimeoutError::Timeout);
            first.send(let_go).expect("somebody listens");
        });
        let second = tell.clone();
        sweep.begin(move || second.send(false).expect("somebody listens"));
        go.send(()).expect("it is under way");
        drop(sweep);
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), [true]);
    }
}
