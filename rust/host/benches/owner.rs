//! The cost of a session whose partition another executor's host owns: the same rows over TCP
//! instead of a Unix socket.
//!
//! `cargo bench -p holdfast-host --bench owner --profile release`; an argument sets the rows of an
//! epoch. Both hosts are on this machine, so a network's bandwidth is not part of the result.
//! Prints medians over alternating epochs and their ratio, and the sums and the ratio of the
//! processor time of client and hosts together, which other load does not change.
#![expect(clippy::unwrap_used, reason = "a failed step ends the benchmark")]

mod support;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use holdfast_host::client::Client;
use holdfast_host::server::{ServerOptions, TcpPlace, serve};
use support::{BenchRoot, batch, request};

const EPOCHS: usize = 40;
const ARROW_ROWS: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() {
    let rows: usize = std::env::args()
        .filter_map(|argument| argument.parse().ok())
        .next()
        .unwrap_or(100_000);
    let (root, sockets) = (BenchRoot::new(), tempfile::tempdir().unwrap());
    let [owner, other] = ["owner", "other"].map(|name| host(sockets.path().join(name)));
    let (mut times, mut ticks) = ([Vec::new(), Vec::new()], [0, 0]);
    for epoch in 0..EPOCHS {
        root.begin(epoch);
        let batches: Vec<RecordBatch> = (0..rows)
            .step_by(ARROW_ROWS)
            .map(|start| batch(epoch, start, ARROW_ROWS.min(rows - start)))
            .collect();
        let elsewhere = epoch % 2;
        let (started, before) = (Instant::now(), busy_ticks());
        let mut client = Client::connect([&owner, &other][elsewhere], "bench", PATIENCE).unwrap();
        client.open(&request(&root, epoch)).unwrap();
        batches.iter().for_each(|batch| client.push(batch).unwrap());
        client
            .finish()
            .unwrap()
            .for_each(|batch| drop(batch.unwrap()));
        // The first two epochs create the database, and make the other host find its owner.
        if epoch >= 2 {
            times[elsewhere].push(started.elapsed().as_secs_f64() * 1e3);
            ticks[elsewhere] += busy_ticks() - before;
        }
        root.commit(epoch);
    }
    let [own, elsewhere] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!(
        "{rows} rows: {own:.1} ms at the own host, {elsewhere:.1} ms at another executor's, ratio \
         {:.2}",
        elsewhere / own
    );
    println!(
        "processor: {} and {} ticks, ratio {:.2}",
        ticks[0],
        ticks[1],
        ticks[1] as f64 / ticks[0] as f64
    );
}

/// Clock ticks that all threads of this process have run.
fn busy_ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace()
        .skip(11)
        .take(2)
        .map(|ticks| ticks.parse::<u64>().unwrap())
        .sum()
}

fn host(socket: PathBuf) -> PathBuf {
    let options = ServerOptions {
        socket: socket.clone(),
        token: "bench".into(),
        tcp: Some(TcpPlace {
            name: "127.0.0.1".into(),
            bind: None,
        }),
        executor: None,
        idle: Duration::from_secs(600),
        owns_process: false,
    };
    thread::spawn(move || serve(&options).unwrap());
    while !is_there(&socket) {
        thread::sleep(Duration::from_millis(1));
    }
    socket
}

fn is_there(socket: &Path) -> bool {
    Client::connect(socket, "bench", PATIENCE).is_ok()
}
