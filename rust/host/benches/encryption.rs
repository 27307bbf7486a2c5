//! The cost of encryption: frames over TLS, over plain TCP and over a Unix socket.
//!
//! `cargo bench --profile release --locked --workspace --bench encryption`. Both ends are threads
//! of this process. Prints medians of rounds in turns: the time of one message of 100 bytes and its
//! answer, the throughput of frames of 1 MiB, and the time until a new connection is usable.
#![expect(clippy::unwrap_used, reason = "a failed step ends the benchmark")]

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_host::net::frame::{self, MAX_PAYLOAD};
use holdfast_host::net::socket::{Endpoint, Stream};
use holdfast_host::net::tls::HostKey;
use holdfast_host::protocol::TcpEndpoint;

const ROUNDS: usize = 15;
const MESSAGES: u32 = 2_000;
const FRAMES: usize = 256;
const FRAME_BYTES: usize = 1 << 20;
const CONNECTIONS: u32 = 50;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() {
    let key = HostKey::generate().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = TcpEndpoint {
        address: listener.local_addr().unwrap().to_string(),
        key: key.fingerprint(),
    };
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
    let mut results: [[Vec<f64>; 3]; 3] = Default::default();
    for _ in 0..ROUNDS {
        measure(|| UnixStream::pair().unwrap(), &mut results[0]);
        measure(plain, &mut results[1]);
        measure(encrypted, &mut results[2]);
    }
    let [unix, tcp, tls] = results.map(|figures| figures.map(median));
    for (name, figures) in [("Unix", unix), ("TCP", tcp), ("TLS", tls)] {
        let [round_trip, throughput, connect] = figures;
        println!(
            "{name}: round trip {:.1} µs, {:.2} GB/s, connection {:.0} µs",
            round_trip * 1e6,
            throughput / 1e9,
            connect * 1e6
        );
    }
    println!(
        "TLS ÷ TCP: round trip {:.2}, throughput {:.2}",
        tls[0] / tcp[0],
        tls[1] / tcp[1]
    );
}

/// Adds the figures of one round.
fn measure<S>(connect: impl Fn() -> (S, S), figures: &mut [Vec<f64>; 3])
where
    S: Read + Write + Send,
{
    let started = Instant::now();
    for _ in 0..CONNECTIONS {
        connect();
    }
    figures[2].push((started.elapsed() / CONNECTIONS).as_secs_f64());
    let (near, far) = connect();
    let (mut near, mut far) = (Buffered::new(near), Buffered::new(far));
    thread::scope(|scope| {
        scope.spawn(move || answer(&mut far).unwrap());
        let payload = [7; 100];
        let started = Instant::now();
        for _ in 0..MESSAGES {
            send(&mut near, &payload).unwrap();
            frame::read(&mut near, MAX_PAYLOAD).unwrap().unwrap();
        }
        figures[0].push((started.elapsed() / MESSAGES).as_secs_f64());
        let payload = vec![7; FRAME_BYTES];
        let started = Instant::now();
        for _ in 0..FRAMES {
            send(&mut near, &payload).unwrap();
        }
        frame::read(&mut near, MAX_PAYLOAD).unwrap().unwrap();
        figures[1].push((FRAMES * FRAME_BYTES) as f64 / started.elapsed().as_secs_f64());
    });
}

/// Answers each small message, and the last large one.
fn answer(stream: &mut (impl Read + Write)) -> io::Result<()> {
    let mut large = 0;
    while large < FRAMES {
        let frame = frame::read(stream, MAX_PAYLOAD)?.unwrap();
        let is_large = frame.payload.len() == FRAME_BYTES;
        large += usize::from(is_large);
        if !is_large || large == FRAMES {
            send(stream, &frame.payload[..100])?;
        }
    }
    Ok(())
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

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
