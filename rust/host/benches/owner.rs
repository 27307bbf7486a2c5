//! The cost of a session whose partition another executor's host owns: the same rows over TCP
//! instead of a Unix socket.
//!
//! `cargo bench --profile release --locked --workspace --bench owner`. `HOLDFAST_BENCH_SIZES` sets
//! the rows of an epoch. Both hosts are on this machine, so a network's bandwidth is not part of
//! the result.
#![expect(clippy::unwrap_used, reason = "a failed step ends the benchmark")]

mod support;
#[path = "../../../benches/rust/turns.rs"]
mod turns;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use holdfast_host::client::Client;
use holdfast_host::server::{ServerOptions, TcpPlace, serve};
use support::{BenchRoot, batch, request};

const ARROW_ROWS: usize = 10_000;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() {
    let (root, sockets) = (BenchRoot::new(), tempfile::tempdir().unwrap());
    let [owner, other] = ["owner", "other"].map(|name| host(sockets.path().join(name)));
    let mut criterion = turns::criterion();
    let mut number = 0;
    for rows in turns::sizes(&[100_000]) {
        let mut both = || {
            [&owner, &other].map(|host| {
                let seconds = epoch(&root, host, number, rows);
                number += 1;
                seconds
            })
        };
        let measured = format!("an epoch of {rows} rows whose partition another host owns");
        let turns = turns::take(
            &mut criterion,
            &measured,
            &["the own host", "another host"],
            |turn| {
                if turn == 0 {
                    // Creates the database, and makes the other host find its owner.
                    both();
                }
                both().to_vec()
            },
        );
        let [own, elsewhere] = [0, 1].map(|side| turns::median(&turns::side(&turns, side)) * 1e3);
        turns::publish(
            (&measured, "at the owner, by a Unix socket", "", "time"),
            &turns::ratios(&turns, 1, 0),
            &format!("{elsewhere:.1} ms against {own:.1}"),
            "log fsynced; TLS over loopback; LZ4",
        );
    }
    criterion.final_summary();
}

/// Runs an epoch at a host and returns its seconds.
fn epoch(root: &BenchRoot, host: &Path, number: usize, rows: usize) -> f64 {
    root.begin(number);
    let batches: Vec<RecordBatch> = (0..rows)
        .step_by(ARROW_ROWS)
        .map(|start| batch(number, start, ARROW_ROWS.min(rows - start)))
        .collect();
    let started = Instant::now();
    let mut client = Client::connect(host, "bench", PATIENCE).unwrap();
    client.open(&request(root, number)).unwrap();
    batches.iter().for_each(|batch| client.push(batch).unwrap());
    client
        .finish()
        .unwrap()
        .for_each(|batch| drop(batch.unwrap()));
    let seconds = started.elapsed().as_secs_f64();
    root.commit(number);
    seconds
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
