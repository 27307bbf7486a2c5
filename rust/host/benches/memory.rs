//! A host's memory under load, against its setting: partitions take turns on two threads, and the
//! state outgrows all caches.
//!
//! `cargo bench --profile release --locked --workspace --bench memory -- 600` runs for 600 seconds
//! a turn (60 without a number). The load runs in a separate process, started as the Spark layer
//! starts a host; its resident memory is sampled throughout.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step ends the benchmark"
)]

mod support;
#[path = "../../../benches/rust/turns.rs"]
mod turns;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use holdfast_host::host::Host;
use holdfast_host::session::{Routed, Session};
use serde_json::json;
use support::{BenchRoot, batch_of, request_of};

const PARTITIONS: usize = 8;
const THREADS: usize = 2;
const EPOCH_ROWS: usize = 100_000;
const ARROW_ROWS: usize = 10_000;
const MEMORY: u64 = 512 << 20;
const TURNS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if let [word, root, seconds] = arguments.as_slice()
        && word == "load"
    {
        return load(
            Path::new(root),
            Duration::from_secs(seconds.parse().unwrap()),
        );
    }
    let quick = turns::is_quick();
    let default = if quick { 10 } else { 60 };
    let seconds: u64 = arguments
        .iter()
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(default);
    let turns: Vec<Turn> = (0..if quick { 1 } else { TURNS })
        .map(|_| Turn::run(seconds))
        .collect();
    let median = |values: &mut dyn Iterator<Item = u64>| {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    };
    let epochs = median(&mut turns.iter().map(|turn| turn.epochs));
    let quarters = [0, 1, 2, 3].map(|n| median(&mut turns.iter().map(|turn| turn.quarters[n])));
    let most = |turn: &Turn| turn.quarters.iter().max().copied().unwrap_or(0) as f64;
    let measured = format!(
        "resident memory of a state host, {PARTITIONS} partitions, {seconds} s, {epochs} epochs of \
         {EPOCH_ROWS} rows in each"
    );
    let against = format!("its setting, {} MiB", MEMORY >> 20);
    let shares: Vec<f64> = turns
        .iter()
        .map(|turn| most(turn) / (MEMORY >> 20) as f64)
        .collect();
    turns::publish(
        (&measured, &against, "<= 1.1", "memory"),
        &shares,
        &format!("the most in each quarter of the time: {quarters:?} MiB"),
        &format!("host {} MiB, log fsynced", MEMORY >> 20),
    );
}

/// The load of one turn, in a process and a root of its own.
struct Turn {
    /// The most MiB in each quarter of the time.
    quarters: [u64; 4],
    epochs: u64,
}

impl Turn {
    fn run(seconds: u64) -> Self {
        let root = BenchRoot::new();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["load", root.path().to_str().unwrap(), &seconds.to_string()])
            .env("MALLOC_ARENA_MAX", "2")
            .spawn()
            .unwrap();
        let (started, mut seen) = (Instant::now(), Vec::new());
        while child.try_wait().unwrap().is_none() {
            thread::sleep(Duration::from_millis(200));
            if let Some(bytes) = resident(child.id()) {
                seen.push((started.elapsed(), bytes));
            }
        }
        let all = started.elapsed();
        let quarters = [0_u32, 1, 2, 3].map(|quarter| {
            seen.iter()
                .filter(|(at, _)| *at >= all * quarter / 4 && *at < all * (quarter + 1) / 4)
                .map(|(_, bytes)| *bytes >> 20)
                .max()
                .unwrap_or(0)
        });
        let commits = fs::read_dir(root.path().join("query/commits")).unwrap();
        Self {
            quarters,
            epochs: commits.count() as u64,
        }
    }
}

fn resident(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    Some(text.split_whitespace().nth(1)?.parse::<u64>().ok()? * 4096)
}

fn load(root: &Path, time: Duration) {
    let (host, started) = (Arc::new(Host::new(None, None)), Instant::now());
    let mut epoch = 0;
    while started.elapsed() < time {
        fs::write(root.join(format!("query/offsets/{epoch}")), "v1").unwrap();
        for first in (0..PARTITIONS).step_by(THREADS) {
            thread::scope(|scope| {
                for partition in first..first + THREADS {
                    let host = &host;
                    scope.spawn(move || run(host, root, epoch, partition));
                }
            });
        }
        fs::write(root.join(format!("query/commits/{epoch}")), "v1").unwrap();
        epoch += 1;
    }
    host.close();
}

fn run(host: &Arc<Host>, root: &Path, epoch: usize, partition: usize) {
    let settings = json!({"memory": MEMORY, "snapshot_interval": 20_000_000, "retain_epochs": 5});
    let request = request_of(
        &BenchRoot::at(root),
        epoch,
        (partition, PARTITIONS),
        &settings,
    );
    let Routed::Local(mut session, _) = Session::open(host, request.as_bytes()).unwrap() else {
        panic!("no other host")
    };
    let rows = |start: usize| batch_of(partition, epoch, start, ARROW_ROWS, true);
    session.columns(&rows(0).schema()).unwrap();
    for start in (0..EPOCH_ROWS).step_by(ARROW_ROWS) {
        session.push(rows(start)).unwrap();
    }
    session
        .finish(Some(&rows(0).schema()), &mut |_| Ok(()))
        .unwrap();
}
