//! Where a host listens: a Unix socket for workers of its own executor and readers on its machine,
//! TCP for all others.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use holdfast_core::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::executor::ExecutorWatch;
use crate::net::socket::Stream;
use crate::net::tls::HostKey;
use crate::protocol::TcpEndpoint;

/// Where a host listens for workers of other executors and readers on other machines. The system
/// chooses the port.
#[derive(Debug, Clone)]
pub struct TcpPlace {
    /// The name or address of this machine as other executors know it.
    pub name: String,
    /// The address to listen at; by default `name`.
    pub bind: Option<String>,
}

/// The listeners of a host.
pub struct Listeners {
    /// For workers of the host's executor, and readers on its machine.
    pub local: UnixListener,
    /// For workers of other executors, and readers on other machines.
    pub tcp: Option<TlsListener>,
}

/// A TCP listener whose connections are encrypted.
#[derive(Debug)]
pub struct TlsListener {
    listener: TcpListener,
    key: HostKey,
}

impl Listeners {
    fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let tcp = self.tcp.as_ref().map(|tcp| tcp.listener.as_fd());
        [Some(self.local.as_fd()), tcp].into_iter().flatten()
    }

    /// Accepts at most one connection of each listener.
    pub fn accept(&self) -> impl Iterator<Item = io::Result<Stream>> {
        let local = self.local.accept().map(|(stream, _)| Stream::Unix(stream));
        let tcp = self.tcp.as_ref().map(|tcp| {
            let (socket, _) = tcp.listener.accept()?;
            Stream::accepted(socket, &tcp.key)
        });
        [Some(local), tcp].into_iter().flatten()
    }

    /// Waits for a connection or the executor's end, at most for `tick`.
    ///
    /// # Errors
    /// `Io` if the system cannot wait.
    pub fn wait(&self, watch: Option<&ExecutorWatch>, tick: Duration) -> Result<()> {
        let fds = self.fds().chain(watch.and_then(ExecutorWatch::fd));
        let mut fds: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: tick.subsec_nanos().into(),
        };
        match poll(&mut fds, Some(&tick)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(Error::new(
                ErrorKind::Io,
                format!("the state host cannot wait for connections: {error}"),
            )),
        }
    }
}

/// Listens for workers of other executors and readers on other machines.
///
/// If the address is translated on the way, it is not an address of this machine. Then the host
/// listens at all of the machine's addresses.
///
/// # Errors
/// `Io` if the host cannot listen, or cannot make a key.
pub fn listen_on_tcp(place: &TcpPlace) -> Result<(TlsListener, TcpEndpoint)> {
    let failed = |error: io::Error| {
        let text = format!(
            "the state host cannot listen for other executors at {place:?} ({error}): check the \
             host name and the bind address of this machine's executors"
        );
        Error::new(ErrorKind::Io, text)
    };
    let bind = place.bind.as_deref().unwrap_or(&place.name);
    let listener = TcpListener::bind((bind, 0)).or_else(|error| {
        log::info!("{bind} is no address of this machine ({error}); listening at all addresses");
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
    let key = HostKey::generate()?;
    let endpoint = TcpEndpoint {
        address: format!("{name}:{port}"),
        key: key.fingerprint(),
    };
    Ok((TlsListener { listener, key }, endpoint))
}

/// Binds the socket and returns it with its lock.
///
/// The host that serves the socket holds the lock beside it, so an existing socket belongs to a
/// host that has ended.
///
/// # Errors
/// `StoreLocked` if another host serves this socket; `Io` if the host cannot listen.
pub fn listen_on_socket(socket: &Path) -> Result<(UnixListener, File)> {
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
    // A worker that gets no answer from the host ends the process with this id.
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
