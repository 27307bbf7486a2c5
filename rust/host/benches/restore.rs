//! How long restoring a partition's state takes: a restart on the same disk after SIGKILL, and a
//! new disk.
//!
//! `cargo bench --profile release --locked --workspace --bench restore`; `HOLDFAST_BENCH_SIZES` has
//! the numbers of records. Every timed step runs in a new process, so nothing is open. The files
//! may be in the operating system's page cache. Restores to a new disk alternate with plain copies
//! of the snapshot's files in the same number of threads; each file is fsynced.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed step ends the benchmark"
)]

mod support;
#[path = "../../../benches/rust/turns.rs"]
mod turns;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use arrow_array::RecordBatch;
use criterion::Criterion;
use holdfast_host::host::Host;
use holdfast_host::protocol::{OperatorName, PartitionId};
use holdfast_host::root::{Root, StorageOptions};
use holdfast_host::session::{Routed, Session};
use serde_json::{Value, json};
use support::{BenchRoot, batch_of, request_of};
use turns::TURNS;

const EPOCH_ROWS: usize = 500_000;
const ARROW_ROWS: usize = 10_000;
/// Epochs after the one that starts the snapshot.
const TAIL: usize = 3;
const LANES: usize = 4;
/// Rows of the first micro-batch after a restart.
const FIRST_ROWS: usize = 1_000;

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["load", root, records] => load(Path::new(root), records.parse().unwrap()),
        ["restart", root, epoch] => restart(Path::new(root), epoch.parse().unwrap()),
        ["fetch", root, to] => fetch(Path::new(root), Path::new(to)),
        ["copy", root, to] => copy(Path::new(root), Path::new(to)),
        _ => {
            let sizes = turns::sizes(if turns::is_quick() {
                &[200_000]
            } else if turns::is_full() {
                &[1_000_000, 10_000_000, 50_000_000]
            } else {
                &[1_000_000, 10_000_000]
            });
            let mut criterion = turns::criterion();
            for records in sizes {
                measure(&mut criterion, records);
            }
            criterion.final_summary();
        }
    }
}

fn measure(criterion: &mut Criterion, records: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (root, to) = (folder.path().join("root"), folder.path().join("to"));
    BenchRoot::at(&root);
    let mut epoch: usize = child(&["load", root.to_str().unwrap(), &records.to_string()])["epochs"]
        .as_u64()
        .unwrap() as usize;
    let bytes = size(&root.join("snapshots"));
    let what = format!("the state host, {records} records ({} MiB)", bytes >> 20);
    let mut again = |wipe: bool| {
        if wipe {
            fs::remove_dir_all(root.join("state")).unwrap();
        }
        let times = child(&["restart", root.to_str().unwrap(), &epoch.to_string()]);
        fs::write(root.join(format!("query/commits/{epoch}")), "v1").unwrap();
        epoch += 1;
        times
    };
    let transfer = |command: &str| {
        let times = child(&[command, root.to_str().unwrap(), to.to_str().unwrap()]);
        fs::remove_dir_all(&to).unwrap();
        seconds(&times, "seconds")
    };
    // Each turn adds an epoch behind the snapshot.
    let measured = format!(
        "{what}, new disk: snapshot, {TAIL} to {} epochs behind it, first state",
        TAIL + TURNS - 1
    );
    let turns = turns::take(
        criterion,
        &measured,
        &["Holdfast", "copy", "the files alone"],
        |_| {
            let (copy, files) = (transfer("copy"), transfer("fetch"));
            vec![seconds(&again(true), "state"), copy, files]
        },
    );
    let middle = |side: usize| turns::median(&turns::side(&turns, side));
    let note = format!(
        "{:.2} s against {:.2} s to copy the files; files alone {:.2} of its speed",
        middle(0),
        middle(1),
        turns::median(&turns::ratios(&turns, 1, 2))
    );
    turns::publish(
        (
            &measured,
            "copying the same bytes, fsynced",
            ">= 0.7",
            "speed",
        ),
        &turns::ratios(&turns, 1, 0),
        &note,
        "files and log fsynced; 4 threads a copy; LZ4",
    );
    let measured = format!(
        "{what}, restart after SIGKILL on the same disk: from the request to the first row"
    );
    let turns = turns::take(
        criterion,
        &measured,
        &[
            "to the first row",
            "from the start of the process",
            "to the state",
        ],
        |_| {
            let times = again(false);
            ["row", "process", "state"]
                .map(|step| seconds(&times, step))
                .to_vec()
        },
    );
    let middle = |side: usize| turns::median(&turns::side(&turns, side));
    let note = format!(
        "from the start of the host's process {:.3} s; state ready in {:.3} s of it",
        middle(1),
        middle(2)
    );
    turns::publish(
        (&measured, "nothing (absolute)", "< 1", "s"),
        &turns::side(&turns, 0),
        &note,
        "log fsynced; LZ4",
    );
}

fn seconds(times: &Value, step: &str) -> f64 {
    times[step].as_f64().unwrap()
}

/// Runs this program in another process and returns what it printed.
fn child(arguments: &[&str]) -> Value {
    let started = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_micros()
        .to_string();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(arguments)
        .env("STARTED", started)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Prints the measurement and ends by SIGKILL: nothing is flushed or closed.
fn done(message: &Value) {
    println!("{message}");
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .unwrap();
}

/// Runs one epoch; returns the seconds until the state is restored and until the first row.
fn epoch(
    host: &Arc<Host>,
    root: &Path,
    epoch: usize,
    rows: usize,
    orders: bool,
    snapshot: bool,
) -> (f64, f64) {
    fs::write(root.join(format!("query/offsets/{epoch}")), "v1").unwrap();
    let interval: u64 = if snapshot { 0 } else { 1 << 50 };
    let batches: Vec<RecordBatch> = (0..rows)
        .step_by(ARROW_ROWS)
        .map(|start| batch_of(0, epoch, start, ARROW_ROWS.min(rows - start), orders))
        .collect();
    let request = request_of(
        &BenchRoot::at(root),
        epoch,
        (0, 1),
        &json!({"snapshot_interval": interval}),
    );
    let started = Instant::now();
    let Routed::Local(mut session, _) = Session::open(host, request.as_bytes()).unwrap() else {
        panic!("no other host")
    };
    session.columns(&batches[0].schema()).unwrap();
    let state = started.elapsed().as_secs_f64();
    let schema = batches[0].schema();
    batches
        .into_iter()
        .for_each(|batch| session.push(batch).unwrap());
    let mut first = None;
    session
        .finish(Some(&schema), &mut |_| {
            first.get_or_insert_with(|| started.elapsed().as_secs_f64());
            Ok(())
        })
        .unwrap();
    (state, first.unwrap_or(0.0))
}

fn load(root: &Path, records: usize) {
    let host = Arc::new(Host::new(None, None));
    let mut next = 0;
    let mut run = |rows: usize, snapshot: bool| {
        epoch(&host, root, next, rows, false, snapshot);
        fs::write(root.join(format!("query/commits/{next}")), "v1").unwrap();
        next += 1;
        next
    };
    for start in (0..records).step_by(EPOCH_ROWS) {
        run(EPOCH_ROWS.min(records - start), false);
    }
    // The next epoch applies the last one and starts its snapshot.
    let mut epochs = run(FIRST_ROWS, true);
    while manifests(root) == 0 {
        thread::sleep(Duration::from_millis(10));
    }
    for _ in 0..TAIL {
        epochs = run(FIRST_ROWS, false);
    }
    done(&json!({"epochs": epochs}));
}

fn restart(root: &Path, number: usize) {
    let started = Duration::from_micros(std::env::var("STARTED").unwrap().parse().unwrap());
    let begun = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .saturating_sub(started)
        .as_secs_f64();
    let host = Arc::new(Host::new(None, None));
    let (state, row) = epoch(&host, root, number, FIRST_ROWS, true, false);
    done(&json!({"state": state, "row": row, "process": begun + row}));
}

fn fetch(root: &Path, to: &Path) {
    let root = Root::open(root.to_str().unwrap(), &StorageOptions::default()).unwrap();
    let snapshots = root
        .snapshots
        .list(&OperatorName::new("join").unwrap(), PartitionId(0))
        .unwrap();
    let started = Instant::now();
    root.snapshots.fetch(&snapshots[0], to, &|_| ()).unwrap();
    done(&json!({"seconds": started.elapsed().as_secs_f64()}));
}

fn copy(root: &Path, to: &Path) {
    let files: Vec<PathBuf> = fs::read_dir(root.join("snapshots/join/0/files"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    let started = Instant::now();
    fs::create_dir_all(to).unwrap();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut copy = File::create(to.join(file.file_name().unwrap())).unwrap();
                    io::copy(&mut File::open(file).unwrap(), &mut copy).unwrap();
                    copy.sync_all().unwrap();
                }
            });
        }
    });
    File::open(to).unwrap().sync_all().unwrap();
    done(&json!({"seconds": started.elapsed().as_secs_f64()}));
}

fn manifests(root: &Path) -> usize {
    let Ok(folder) = fs::read_dir(root.join("snapshots/join/0")) else {
        return 0;
    };
    folder
        .filter(|file| file.as_ref().unwrap().path().is_file())
        .count()
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| {
            if entry.path().is_dir() {
                size(&entry.path())
            } else {
                entry.metadata().unwrap().len()
            }
        })
        .sum()
}
