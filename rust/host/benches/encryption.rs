//! The cost of encryption: frames over TLS, over plain TCP and over a Unix socket.
//!
//! `cargo bench --profile release --locked --workspace --bench encryption`. Both ends are threads
//! of this process. Measured in turns: the time of one message of 100 bytes and its answer, that of
//! a frame of 1 MiB among many, and the time until a new connection is usable.
#![expect(clippy::unwrap_used, reason = "a failed step ends the benchmark")]

#[path = "../../../benches/rust/turns.rs"]
mod turns;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_host::net::frame::{self, MAX_PAYLOAD};
use holdfast_host::net::socket::{Endpoint, Stream};
use holdfast_host::net::tls::HostKey;
use holdfast_host::protocol::TcpEndpoint;

const MESSAGES: u32 = 2_000;
const FRAMES: usize = 256;
const FRAME_BYTES: usize = 1 << 20;
const CONNECTIONS: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(10);
const SIDES: [&str; 3] = ["a Unix socket", "TCP", "TLS"];

fn main() {
    let key = HostKey::generate().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = TcpEndpoint {
        address: listener.local_addr().unwrap().to_string(),
        key: key.fingerprint(),
    };
    let unix = || UnixStream::pair().unwrap();
    let plain = || {
        let near = TcpStream::connect(&endpoint.address).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nodelay(true).unwrap();
        far.set_nodelay(true).unwrap();
        (near, far)
    };
    let encrypted = || {
        thread::scope(|scope| {
            let near = scope.spawn(|| Endpoint::Tcp(endpoint.clone()).connect(PATIENCE).unwrap());
            let far = Stream::accepted(listener.accept().unwrap().0, &key).unwrap();
            far.handshake(Instant::now() + PATIENCE).unwrap();
            (near.join().unwrap(), far)
        })
    };
    let mut criterion = turns::criterion();
    let mut compare = |name: &str, turn: &mut dyn FnMut() -> Vec<f64>| {
        let turns = turns::take(&mut criterion, name, &SIDES, |_| turn());
        let [unix, tcp, tls] =
            [0, 1, 2].map(|side| turns::median(&turns::side(&turns, side)) * 1e6);
        turns::publish(
            (&format!("{name} over TLS"), "over TCP", "", "time"),
            &turns::ratios(&turns, 2, 1),
            &format!("{tls:.1} µs against {tcp:.1}; over a Unix socket {unix:.1} µs"),
            "loopback, TCP_NODELAY",
        );
    };
    compare("a message of 100 bytes and its answer", &mut || {
        vec![
            message_seconds(unix()),
            message_seconds(plain()),
            message_seconds(encrypted()),
        ]
    });
    compare("a frame of 1 MiB", &mut || {
        vec![
            frame_seconds(unix()),
            frame_seconds(plain()),
            frame_seconds(encrypted()),
        ]
    });
    compare("a new connection", &mut || {
        vec![
            connection_seconds(unix),
            connection_seconds(plain),
            connection_seconds(encrypted),
        ]
    });
    criterion.final_summary();
}

/// Returns the seconds of one new connection.
fn connection_seconds<S>(connect: impl Fn() -> (S, S)) -> f64 {
    let started = Instant::now();
    for _ in 0..CONNECTIONS {
        connect();
    }
    (started.elapsed() / CONNECTIONS).as_secs_f64()
}

/// Returns the seconds of one message of 100 bytes and its answer.
fn message_seconds<S: Read + Write + Send>((near, far): (S, S)) -> f64 {
    let (mut near, mut far) = (Buffered::new(near), Buffered::new(far));
    let payload = [7; 100];
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..MESSAGES {
                frame::read(&mut far, MAX_PAYLOAD).unwrap().unwrap();
                send(&mut far, &payload).unwrap();
            }
        });
        let started = Instant::now();
        for _ in 0..MESSAGES {
            send(&mut near, &payload).unwrap();
            frame::read(&mut near, MAX_PAYLOAD).unwrap().unwrap();
        }
        (started.elapsed() / MESSAGES).as_secs_f64()
    })
}

/// Returns the seconds of one frame of many, the last of which is answered.
fn frame_seconds<S: Read + Write + Send>((near, far): (S, S)) -> f64 {
    let (mut near, mut far) = (Buffered::new(near), Buffered::new(far));
    let payload = vec![7; FRAME_BYTES];
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..FRAMES {
                frame::read(&mut far, MAX_PAYLOAD).unwrap().unwrap();
            }
            send(&mut far, &[7; 100]).unwrap();
        });
        let started = Instant::now();
        for _ in 0..FRAMES {
            send(&mut near, &payload).unwrap();
        }
        frame::read(&mut near, MAX_PAYLOAD).unwrap().unwrap();
        started.elapsed().as_secs_f64() / FRAMES as f64
    })
}

/// Sends a message. A small one is sent in one write, as by the buffers of both ends.
fn send(stream: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    let mut writer = io::BufWriter::with_capacity(256, stream);
    frame::write(&mut writer, 1, payload)?;
    writer.flush()
}

/// A stream whose reads are buffered, as both ends of a session do.
struct Buffered<S>(io::BufReader<S>);

impl<S: Read> Buffered<S> {
    fn new(stream: S) -> Self {
        Self(io::BufReader::with_capacity(64 << 10, stream))
    }
}

impl<S: Read> Read for Buffered<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Write> Write for Buffered<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}
