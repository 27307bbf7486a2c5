use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::client::credential::Credential;
use crate::net::frame::MAX_GREETING;
use crate::net::socket::Endpoint;
use crate::net::tls::HostKey;
use crate::net::writer_key::{ProvingEnd, WriterKey, WriterSecret};
use crate::protocol::TcpEndpoint;

/// Longer than any step of a passing test.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A listener in place of a host, and how a worker connects to it.
fn listener_and_peer(folder: &tempfile::TempDir, patience: Duration) -> (UnixListener, Peer) {
    let socket = folder.path().join("host.sock");
    let listener = UnixListener::bind(&socket).expect("binds");
    (
        listener,
        Peer {
            endpoint: Endpoint::Unix(socket),
            credential: Credential::Token("a token".to_owned()),
            patience,
        },
    )
}

/// Accepts the next connection and answers its greeting.
fn welcome(listener: &UnixListener) -> UnixStream {
    let started = Instant::now();
    listener.set_nonblocking(true).expect("can be set");
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                assert!(started.elapsed() < TEST_TIMEOUT, "no greeting arrives");
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => panic!("{error}"),
        }
    };
    stream.set_nonblocking(false).expect("can be set");
    let greeting = message::receive(&mut stream, MAX_GREETING).expect("a message");
    assert_eq!(greeting, Some((MessageKind::Hello, b"a token".to_vec())));
    message::send(&mut stream, MessageKind::Welcome, b"").expect("is sent");
    stream
}

#[test]
fn worker_waits_for_a_silent_host_that_answers_greetings() {
    let folder = tempfile::tempdir().expect("a folder");
    let (listener, peer) = listener_and_peer(&folder, Duration::from_millis(500));
    let host = thread::spawn(move || {
        let mut session = welcome(&listener);
        // The worker's patience runs out twice before the answer.
        drop((welcome(&listener), welcome(&listener)));
        message::send(&mut session, MessageKind::Answer, b"at last").expect("is sent");
    });
    let mut connection = ClientConnection::connect(peer).expect("a connection");
    let answer = connection.receive().expect("an answer");
    assert_eq!(answer, (MessageKind::Answer, b"at last".to_vec()));
    host.join().expect("was greeted");
}

#[test]
fn host_that_answers_no_greeting_is_unreachable() {
    let folder = tempfile::tempdir().expect("a folder");
    let (listener, peer) = listener_and_peer(&folder, Duration::from_millis(100));
    // A host that is stopped within a session: the kernel accepts connections, and no process
    // answers.
    let host = thread::spawn(move || {
        let mut session = welcome(&listener);
        session
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("can be set");
        session.read(&mut [0])
    });
    let mut connection = ClientConnection::connect(peer).expect("a connection");
    let Err(failure) = connection.receive() else {
        panic!("it was silent")
    };
    let error = connection.user_error(failure).to_string();
    assert!(
        error.contains("keeps silent") && error.contains("no answer within 0.1 s"),
        "{error}"
    );
    drop(connection);
    assert_eq!(
        host.join()
            .expect("ends")
            .expect("the worker closes the connection"),
        0
    );
}

#[test]
fn worker_waits_for_a_silent_host_that_has_dropped_its_key() {
    let writer = WriterKey::of(&WriterSecret("secret".to_owned()), "an id", "r");
    let key = HostKey::generate().expect("a key");
    let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
    let peer = Peer {
        endpoint: Endpoint::Tcp(TcpEndpoint {
            address: listener.local_addr().expect("an address").to_string(),
            key: key.fingerprint(),
        }),
        credential: Credential::Key(writer.clone()),
        patience: Duration::from_millis(500),
    };
    let greeted = move || {
        let (socket, _) = listener.accept().expect("a connection");
        let mut stream = Stream::accepted(socket, &key).expect("can be set up");
        let deadline = Instant::now() + TEST_TIMEOUT;
        stream.handshake(deadline).expect("a handshake");
        message::receive(&mut stream, MAX_GREETING).expect("a message");
        stream
    };
    let host = thread::spawn(move || {
        let mut session = greeted();
        let channel = session.channel().expect("a channel").expect("encrypted");
        let proof = writer.proof(ProvingEnd::Host, &channel);
        message::send(&mut session, MessageKind::Welcome, &proof).expect("is sent");
        for _ in 0..2 {
            // A task of the next run has begun meanwhile.
            let rejected = Error::new(ErrorKind::InvalidState, "no task of this run is known");
            message::send_error(&mut greeted(), MessageKind::Error, &rejected).expect("is sent");
        }
        let fenced = Error::new(ErrorKind::Fenced, "run 2 is newer");
        message::send_error(&mut session, MessageKind::Error, &fenced).expect("is sent");
    });
    let mut connection = ClientConnection::connect(peer).expect("a connection");
    let Err(ConnectionError::Reported(error)) = connection.receive() else {
        panic!("the host has sent an error");
    };
    assert_eq!(error.kind(), ErrorKind::Fenced);
    host.join().expect("was greeted");
}
