//! A blocking stream between a worker or a reader and a host: a Unix socket on one machine, or TLS
//! over TCP.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

use crate::net::tls::{Channel, HostKey, TlsStream};
use crate::protocol::TcpEndpoint;

/// How long a TCP connection is idle before the kernel probes whether the peer's machine is up.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// How many unanswered probes end the connection.
const KEEPALIVE_TRIES: u32 = 4;
/// The time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Where a host listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// On the same machine.
    Unix(PathBuf),
    /// On any machine.
    Tcp(TcpEndpoint),
}

impl Endpoint {
    /// Connects within `timeout`; over TCP, also checks the host's key.
    ///
    /// # Errors
    /// The operating system's; `NotFound` for a name without an address; those of
    /// [`TlsStream::handshake`].
    pub fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        match self {
            Self::Unix(path) => connect_unix(path, timeout).map(Stream::Unix),
            Self::Tcp(TcpEndpoint { address, key }) => {
                let until = Instant::now() + timeout;
                let mut failed =
                    io::Error::new(io::ErrorKind::NotFound, format!("{address} has no address"));
                for address in address.to_socket_addrs()? {
                    // The standard library rejects a timeout of zero.
                    let left = until
                        .saturating_duration_since(Instant::now())
                        .max(Duration::from_millis(1));
                    let connected = TcpStream::connect_timeout(&address, left).and_then(|socket| {
                        set_up(&socket)?;
                        let stream = TlsStream::client(socket, *key)?;
                        stream.handshake(until)?;
                        Ok(Stream::Tls(Arc::new(stream)))
                    });
                    match connected {
                        Ok(stream) => return Ok(stream),
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
        }
    }
}

/// Connects to a Unix socket within `timeout`. Without a timeout, the kernel would wait for as long
/// as the host is frozen and its queue of connections is full.
fn connect_unix(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    let socket = net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let stream = UnixStream::from(socket);
    let address = SocketAddrUnix::new(path)?;
    let until = Instant::now() + timeout;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // `SO_SNDTIMEO` also limits `connect`. It must not be zero.
        stream.set_write_timeout(Some(left.max(Duration::from_millis(1))))?;
        match net::connect(&stream, &address) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let text = "the state host accepts no connections";
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(error) => return Err(error.into()),
        }
    }
    stream.set_write_timeout(None)?;
    Ok(stream)
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// A connection. Its methods fail as the operating system's calls do.
#[derive(Debug)]
pub enum Stream {
    /// On the same machine.
    Unix(UnixStream),
    /// From any machine.
    Tls(Arc<TlsStream>),
}

/// Sets up a TCP connection: messages are sent without delay, and the kernel detects a peer whose
/// machine is down.
fn set_up(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, KEEPALIVE_TRIES)?;
    Ok(())
}

impl Stream {
    /// The host's end of a TCP connection; its [`Stream::handshake`] follows.
    pub fn accepted(socket: TcpStream, key: &HostKey) -> io::Result<Self> {
        set_up(&socket)?;
        Ok(Self::Tls(Arc::new(TlsStream::server(socket, key)?)))
    }

    /// Makes the handshake of a TCP connection.
    pub fn handshake(&self, deadline: Instant) -> io::Result<()> {
        match self {
            Self::Unix(_) => Ok(()),
            Self::Tls(stream) => stream.handshake(deadline),
        }
    }

    /// What distinguishes a TLS connection from all others; none over a Unix socket.
    ///
    /// # Errors
    /// As [`TlsStream::channel`].
    pub fn channel(&self) -> io::Result<Option<Channel>> {
        match self {
            Self::Unix(_) => Ok(None),
            Self::Tls(stream) => stream.channel().map(Some),
        }
    }

    /// Whether this is a Unix socket: the peer is on this machine, and its user may open the
    /// socket.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Returns another handle of the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tls(stream) => Ok(Self::Tls(Arc::clone(stream))),
        }
    }

    /// Sets how long a read waits, on all handles.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tls(stream) => stream.socket().set_read_timeout(timeout),
        }
    }

    /// Sets how long a write waits, on all handles.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_write_timeout(timeout),
            Self::Tls(stream) => stream.socket().set_write_timeout(timeout),
        }
    }

    /// Sets whether reads and writes return at once, on all handles.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(nonblocking),
            Self::Tls(stream) => stream.socket().set_nonblocking(nonblocking),
        }
    }

    /// Shuts the connection down, on all handles.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tls(stream) => stream.socket().shutdown(how),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
            Stream::Tls(stream) => (&mut &**stream).read(buffer),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&*self).read(buffer)
    }
}

impl Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).write(bytes),
            Stream::Tls(stream) => (&mut &**stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => (&mut &**stream).flush(),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connect_to_a_frozen_host_ends_in_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("host.sock");
        let frozen = net::socket(AddressFamily::UNIX, SocketType::STREAM, None).expect("a socket");
        net::bind(&frozen, &SocketAddrUnix::new(&path).expect("a short path")).expect("binds");
        net::listen(&frozen, 0).expect("listens");
        let endpoint = Endpoint::Unix(path);
        let mut queued = Vec::new();
        let failed = loop {
            match endpoint.connect(Duration::from_millis(20)) {
                Ok(stream) => queued.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(failed.kind(), io::ErrorKind::TimedOut);
        assert!(!queued.is_empty());
    }
}
