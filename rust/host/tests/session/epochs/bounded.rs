//! Bounds: many small epochs do not grow the root or the local disk, and many far-future rows do
//! not grow the host's memory.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use holdfast_host::host::Host;
use holdfast_host::session::{Routed, Session};
use serde_json::json;

use crate::support::{HostProcess, Spark, TaskRequest, batch, left, right, schema};

/// The number of epochs; `make proof` sets 10,000.
fn epochs() -> i64 {
    std::env::var("EPOCHS")
        .ok()
        .and_then(|epochs| epochs.parse().ok())
        .unwrap_or(200)
}

const RETAINED: i64 = 20;
/// How many epochs of the log may remain: it is removed in the background.
const BEHIND: usize = 100;

/// The number of files below a folder, and their bytes.
fn held(folder: &Path) -> (usize, u64) {
    let Ok(entries) = fs::read_dir(folder) else {
        return (0, 0);
    };
    entries.flatten().fold((0, 0), |(files, bytes), entry| {
        let (more, and) = match entry.metadata() {
            Ok(found) if found.is_dir() => held(&entry.path()),
            Ok(found) => (1, found.len()),
            // The file was removed meanwhile.
            Err(_) => (0, 0),
        };
        (files + more, bytes + and)
    })
}

fn run(host: &Arc<Host>, spark: &Spark, epoch: i64) {
    let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28,
        "snapshot_interval": 10_000, "retain_epochs": RETAINED});
    let request = TaskRequest::new(spark, "a", epoch)
        .with("/settings", settings)
        .attempt(epoch)
        .request
        .to_string();
    let Routed::Local(mut session, _) = Session::open(host, request.as_bytes()).unwrap() else {
        panic!("no other host")
    };
    // The same keys in every epoch and a history of 50 epochs: the state does not grow.
    let rows: Vec<_> = (0..20)
        .map(|key| right(&format!("key-{key}"), epoch * 20_000, epoch))
        .chain([left("key-3", epoch * 20_000, 7)])
        .collect();
    session.push(batch(0, &rows)).unwrap();
    let staged = session.finish(Some(&*schema()), &mut |_| Ok(())).unwrap();
    assert_eq!(staged.counts.matched, 1);
}

#[test]
fn root_and_disk_do_not_grow_over_many_epochs() {
    let (spark, host, epochs) = (Spark::new(), Arc::new(Host::new(None, None)), epochs());
    let mut quarters = [Duration::ZERO; 4];
    let mut early = None;
    for epoch in 0..epochs {
        let started = Instant::now();
        spark.epoch(epoch, || run(&host, &spark, epoch));
        quarters[usize::try_from(epoch * 4 / epochs).unwrap()] += started.elapsed();
        if epoch == epochs / 4 {
            early = Some(held(&spark.path().join("state")));
        }
    }
    // Snapshots are taken in the background: run more epochs until one is taken and the log before
    // it is removed.
    let logged = || fs::read_dir(spark.path().join("log")).unwrap().count();
    let epoch = spark.run_epochs_until(
        epochs,
        || logged() <= BEHIND,
        |epoch| run(&host, &spark, epoch),
    );
    let (log, snapshots, local) = (
        logged(),
        held(&spark.path().join("snapshots")),
        held(&spark.path().join("state")),
    );
    println!(
        "{epoch} epochs: {log} epochs in the log, snapshots {snapshots:?}, local {early:?} then \
         {local:?} (files, bytes)"
    );
    println!(
        "seconds of each quarter: {:?}",
        quarters.map(|time| time.as_secs_f64())
    );
    assert!((1..=BEHIND).contains(&log), "{log} epochs are in the log");
    // Two snapshots, and possibly one that is being taken.
    assert!(
        snapshots.0 < 300 && snapshots.1 < 32 << 20,
        "snapshots have {snapshots:?} files and bytes"
    );
    assert!(
        local.0 < 300 && local.1 < 32 << 20,
        "the local disk has {local:?} files and bytes"
    );
    host.close();
}

#[test]
fn far_future_rows_are_not_held_in_memory() {
    const BATCHES: usize = 40;
    let (spark, host) = (Spark::new(), HostProcess::start());
    fs::write(
        spark.path().join("query/offsets/0"),
        "v1\n{\"batchTimestampMs\":0}\n0",
    )
    .unwrap();
    let mut task = TaskRequest::new(&spark, "a", 0);
    task.request["operator"]["max_ahead"] = 0.into();
    // 3 MB in a batch, 120 MB in total.
    let rows: Vec<_> = (0..10_000)
        .map(|id| left(&"k".repeat(300), 1, id))
        .collect();
    let warm = TaskRequest::new(&spark, "a", 0).with("/operator/name", "warm");
    warm.run(host.connect(), &[]).unwrap();
    let before = host.peak_memory();
    task.attempt(2)
        .run_batches(host.connect(), &[rows.as_slice(); BATCHES])
        .unwrap();
    let grown = host.peak_memory() - before;
    let stored = fs::metadata(spark.path().join(format!("ahead/join/{:020}.0.arrow", 0)))
        .unwrap()
        .len();
    assert!(stored > 100 << 20, "{stored} bytes");
    assert!(
        grown < 100 << 20,
        "{grown} more bytes of memory for {stored} bytes of far-future rows"
    );
}
