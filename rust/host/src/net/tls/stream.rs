//! A blocking stream over TLS.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use parking_lot::Mutex;
use rustls::Connection;

use crate::net::read_until::ReadUntil;
use crate::net::tls::channel::{self, Channel};
use crate::net::tls::host_key::HostKey;
use crate::net::tls::pinned_key::{self, OTHER_KEY};
use crate::protocol::KeyFingerprint;

/// A TCP connection, usually to or from another machine.
///
/// Only one thread at a time reads or writes, because a read holds the lock while it waits. Another
/// thread may shut the socket down.
pub struct TlsStream {
    socket: TcpStream,
    tls: Mutex<Connection>,
}

impl TlsStream {
    /// A client's end. Sends nothing yet.
    ///
    /// # Errors
    /// `Other` if the TLS library cannot be set up.
    pub fn client(socket: TcpStream, key: KeyFingerprint) -> io::Result<Self> {
        Self::over(socket, pinned_key::connection(key))
    }

    /// The host's end. Receives nothing yet.
    ///
    /// # Errors
    /// As [`TlsStream::client`].
    pub fn server(socket: TcpStream, key: &HostKey) -> io::Result<Self> {
        Self::over(socket, key.connection())
    }

    fn over(
        socket: TcpStream,
        connection: Result<impl Into<Connection>, rustls::Error>,
    ) -> io::Result<Self> {
        let connection = connection.map_err(io::Error::other)?;
        Ok(Self {
            socket,
            tls: Mutex::new(connection.into()),
        })
    }

    /// Makes the handshake, and removes the timeouts of the socket.
    ///
    /// # Errors
    /// `PermissionDenied` if the host has another key, `InvalidData` if the peer does not speak
    /// TLS, `ConnectionRefused` if it closes the connection, `TimedOut` at the deadline; otherwise
    /// the operating system's.
    pub fn handshake(&self, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_write_timeout(Some(left))?;
        let mut socket = ReadUntil::new(&self.socket, deadline, TcpStream::set_read_timeout);
        let mut tls = self.tls.lock();
        while tls.is_handshaking() {
            tls.complete_io(&mut socket).map_err(handshake_error)?;
        }
        self.socket.set_read_timeout(None)?;
        self.socket.set_write_timeout(None)
    }

    /// What distinguishes this connection from all others.
    ///
    /// # Errors
    /// `Other` before the end of the handshake.
    pub fn channel(&self) -> io::Result<Channel> {
        let tls = self.tls.lock();
        tls.export_keying_material([0; 32], channel::LABEL, None)
            .map(Channel)
            .map_err(io::Error::other)
    }

    /// The socket, whose timeouts are those of the stream.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Sends the bytes that are already encrypted.
    fn send(&self, tls: &mut Connection) -> io::Result<()> {
        while tls.wants_write() {
            match tls.write_tls(&mut &self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A read waits for the peer once. If the received bytes are no whole record, it fails with
/// `Interrupted`, so that the caller checks its deadline. So a peer that sends a byte now and then
/// does not block the thread.
impl Read for &TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut tls = self.tls.lock();
        if let Some(read) = received(&mut tls, buffer) {
            return read;
        }
        tls.read_tls(&mut &self.socket)?;
        tls.process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        received(&mut tls, buffer).unwrap_or_else(|| Err(io::ErrorKind::Interrupted.into()))
    }
}

/// Takes what was received and decrypted; none if there is nothing yet.
fn received(tls: &mut Connection, buffer: &mut [u8]) -> Option<io::Result<usize>> {
    match tls.reader().read(buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        // An answer is complete before the connection ends, so the end needs no proof.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Some(Ok(0)),
        result => Some(result),
    }
}

impl Write for &TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut tls = self.tls.lock();
        self.send(&mut tls)?;
        let taken = tls.writer().write(bytes)?;
        match self.send(&mut tls) {
            // The bytes are encrypted: a caller that sent them again would send them twice. The
            // next write or flush waits for them.
            Err(error) if is_timeout(&error) => Ok(taken),
            sent => sent.map(|()| taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send(&mut self.tls.lock())
    }
}

impl fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.socket.fmt(f)
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn handshake_error(error: io::Error) -> io::Error {
    let cause = error
        .get_ref()
        .and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match (error.kind(), cause) {
        (_, Some(cause)) if *cause == OTHER_KEY => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the process there has another key than the root names: the state host has ended, and \
             another process has its port",
        ),
        (_, Some(cause)) => io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the peer does not speak TLS as state hosts do: {cause}"),
        ),
        // A host that is ending closes its connections, and new ones are refused.
        (io::ErrorKind::UnexpectedEof, None) => io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "the peer closed the connection",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::net::socket::Stream;

    /// Longer than any step of a passing test.
    const TEST_TIMEOUT: Duration = Duration::from_secs(20);

    fn soon() -> Instant {
        Instant::now() + TEST_TIMEOUT
    }

    /// The two ends of a TCP connection.
    fn sockets() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let near = TcpStream::connect(listener.local_addr().expect("an address"));
        let (far, _) = listener.accept().expect("a connection");
        far.set_read_timeout(Some(TEST_TIMEOUT))
            .expect("can be set");
        (near.expect("connects"), far)
    }

    /// The two ends of a connection to a host, and the results of their handshakes.
    fn ends(
        key: &HostKey,
        expected: KeyFingerprint,
    ) -> ((TlsStream, TlsStream), (io::Result<()>, io::Result<()>)) {
        let (near, far) = sockets();
        let client = TlsStream::client(near, expected).expect("a client");
        let host = TlsStream::server(far, key).expect("a host");
        let handshakes = thread::scope(|scope| {
            let of_client = scope.spawn(|| {
                let shaken = client.handshake(soon());
                if shaken.is_err() {
                    client.socket.shutdown(Shutdown::Both).ok();
                }
                shaken
            });
            let of_host = host.handshake(soon());
            (of_client.join().expect("ends"), of_host)
        });
        ((client, host), handshakes)
    }

    fn kind(result: io::Result<()>) -> io::ErrorKind {
        result.expect_err("fails").kind()
    }

    #[test]
    fn bytes_arrive_once_although_writes_time_out() {
        let key = HostKey::generate().expect("a key");
        let ((client, host), (near, far)) = ends(&key, key.fingerprint());
        near.and(far).expect("a connection");
        let sent: Vec<u8> = (0..20_000_000_u32).map(|n| (n / 3) as u8).collect();
        let timeout = Some(Duration::from_millis(20));
        client
            .socket
            .set_write_timeout(timeout)
            .expect("can be set");
        let (mut rest, mut timeouts) = (&sent[..], 0);
        let received = thread::scope(|scope| {
            let read = || {
                let mut bytes = Vec::new();
                (&mut &host).read_to_end(&mut bytes).map(|_| bytes)
            };
            let mut reads = None;
            while !rest.is_empty() || reads.is_none() {
                match (&mut &client).write(rest) {
                    Ok(taken) => rest = &rest[taken..],
                    Err(error) => {
                        assert!(is_timeout(&error), "{error}");
                        timeouts += 1;
                        // The host reads only after a write has timed out.
                        reads.get_or_insert_with(|| scope.spawn(read));
                    }
                }
            }
            while (&mut &client).flush().is_err() {}
            client.socket.shutdown(Shutdown::Write).expect("shuts down");
            let reads = reads.expect("the host reads").join();
            reads.expect("ends").expect("is read")
        });
        assert!(timeouts > 0, "the sockets held everything");
        assert!(received == sent, "{} bytes", received.len());
    }

    #[test]
    fn only_the_two_ends_of_a_connection_share_its_channel() {
        let key = HostKey::generate().expect("a key");
        let channels = [(), ()].map(|()| {
            let ((client, host), _) = ends(&key, key.fingerprint());
            [client, host].map(|end| end.channel().expect("a channel").0)
        });
        assert_eq!(channels[0][0], channels[0][1]);
        assert_eq!(channels[1][0], channels[1][1]);
        assert_ne!(channels[0][0], channels[1][0]);
    }

    #[test]
    fn host_with_another_key_is_refused_before_any_data() {
        let (key, other) = (HostKey::generate(), HostKey::generate());
        let (key, other) = (key.expect("a key"), other.expect("a key"));
        let (_, (near, far)) = ends(&key, other.fingerprint());
        assert_eq!(kind(near), io::ErrorKind::PermissionDenied);
        assert!(far.is_err(), "the host has no connection");
    }

    #[test]
    fn public_key_without_its_private_key_is_refused() {
        let impostor = HostKey::impostor().expect("a key");
        let (_, (near, far)) = ends(&impostor, impostor.fingerprint());
        assert_eq!(kind(near), io::ErrorKind::InvalidData);
        assert!(far.is_err(), "the impostor has no connection");
    }

    #[test]
    fn peer_without_tls_is_refused() {
        let key = HostKey::generate().expect("a key");
        for greeting in [
            &b"\x01\x40\0\0\0a token"[..],
            b"GET / HTTP/1.1\r\n\r\n",
            &[0; 99],
        ] {
            let (mut near, far) = sockets();
            near.write_all(greeting).expect("is sent");
            let host = TlsStream::server(far, &key).expect("a host");
            let error = kind(host.handshake(soon()));
            assert_eq!(error, io::ErrorKind::InvalidData, "{greeting:?}");
        }
        let (near, far) = sockets();
        drop(near);
        let host = TlsStream::server(far, &key).expect("a host");
        assert_eq!(
            kind(host.handshake(soon())),
            io::ErrorKind::ConnectionRefused
        );
    }

    #[test]
    fn handshake_ends_at_its_deadline_although_bytes_arrive() {
        let key = HostKey::generate().expect("a key");
        let (mut near, far) = sockets();
        let host = TlsStream::server(far, &key).expect("a host");
        let peer = thread::spawn(move || {
            // The head of a handshake message of 16,000 bytes, which never ends.
            let mut bytes = [0x16, 3, 1, 0x3e, 0x80]
                .into_iter()
                .chain([0].into_iter().cycle());
            while near.write_all(&[bytes.next().expect("has no end")]).is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let deadline = Instant::now() + Duration::from_millis(200);
        assert_eq!(kind(host.handshake(deadline)), io::ErrorKind::TimedOut);
        drop(host);
        peer.join().expect("ends with the connection");
    }

    #[test]
    fn deadline_holds_against_a_record_that_never_ends() {
        let key = HostKey::generate().expect("a key");
        let ((client, host), _) = ends(&key, key.fingerprint());
        // The header of a record of 16 KiB, then its bytes one at a time.
        (&client.socket)
            .write_all(&[0x17, 3, 3, 0x40, 0])
            .expect("sends");
        let host = Stream::Tls(Arc::new(host));
        thread::scope(|scope| {
            let drip = scope.spawn(|| {
                while (&client.socket).write_all(&[0]).is_ok() {
                    thread::sleep(Duration::from_millis(5));
                }
            });
            let deadline = Instant::now() + Duration::from_millis(200);
            let mut read = ReadUntil::new(&host, deadline, Stream::set_read_timeout);
            let error = read
                .read_exact(&mut [0; 5])
                .expect_err("no whole record came");
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            host.shutdown(Shutdown::Both).expect("can be shut down");
            drop(host);
            drip.join().expect("ends");
        });
    }
}
