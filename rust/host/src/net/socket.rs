//! A blocking stream between worker and host: a Unix socket on one machine, TCP between machines.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

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
    /// On any machine: `name:port`.
    Tcp(String),
}

impl Endpoint {
    /// Connects within `timeout`.
    ///
    /// # Errors
    /// The operating system's; `NotFound` for a name without an address.
    pub fn connect(&self, timeout: Duration) -> io::Result<Stream> {
        match self {
            Self::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
            Self::Tcp(address) => {
                let until = Instant::now() + timeout;
                let mut failed =
                    io::Error::new(io::ErrorKind::NotFound, format!("{address} has no address"));
                for address in address.to_socket_addrs()? {
                    // The standard library rejects a timeout of zero.
                    let left = until
                        .saturating_duration_since(Instant::now())
                        .max(Duration::from_millis(1));
                    match TcpStream::connect_timeout(&address, left) {
                        Ok(stream) => return Stream::tcp(stream),
                        Err(error) => failed = error,
                    }
                }
                Err(failed)
            }
        }
    }
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
    Tcp(TcpStream),
}

impl Stream {
    /// Sets up a TCP connection: messages are sent without delay, and the kernel detects a peer
    /// whose machine is down.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, KEEPALIVE)?;
        sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_INTERVAL)?;
        sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_TRIES)?;
        Ok(Self::Tcp(stream))
    }

    /// Whether the peer is on this machine, and its user may open the socket.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    /// Returns another handle of the same connection.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
        }
    }

    /// Sets how long a read waits, on all handles.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_read_timeout(timeout),
            Self::Tcp(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Sets how long a write waits, on all handles.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_write_timeout(timeout),
            Self::Tcp(stream) => stream.set_write_timeout(timeout),
        }
    }

    /// Sets whether reads and writes return at once, on all handles.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.set_nonblocking(nonblocking),
            Self::Tcp(stream) => stream.set_nonblocking(nonblocking),
        }
    }

    /// Shuts the connection down, on all handles.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(how),
            Self::Tcp(stream) => stream.shutdown(how),
        }
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
            Stream::Tcp(stream) => (&mut &*stream).read(buffer),
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
            Stream::Tcp(stream) => (&mut &*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
