//! A reader's own copies at old epochs: shared, bounded, and removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::{CacheSettings, Offline, ReadFrom, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::ReadCall;

use crate::support::{Host, Spark, TaskRequest, right};

const EPOCHS: i64 = 24;
/// The most copies: of old epochs, and the newest.
const COPIES: usize = 16 + 1;

/// How many copies a reader's folder has.
fn copies(cache: &Path) -> usize {
    let readers = std::fs::read_dir(cache).unwrap();
    let folders = readers.flat_map(|reader| std::fs::read_dir(reader.unwrap().path()).unwrap());
    folders
        .filter(|entry| entry.as_ref().unwrap().path().is_dir())
        .count()
}

/// The bytes of the copies in a reader's folder.
fn bytes(cache: &Path) -> u64 {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let readers = below(cache).into_iter();
    let files = readers
        .flat_map(|reader| below(&reader))
        .flat_map(|copy| below(&copy));
    files
        .filter_map(|file| file.metadata().ok())
        .map(|file| file.len())
        .sum()
}

/// A scan gives its last rows before its thread frees the copy.
fn wait_for(most: u64, now: impl Fn() -> u64) {
    let started = Instant::now();
    while now() > most {
        let is_late = started.elapsed() > Duration::from_secs(20);
        assert!(!is_late, "{} of {most}", now());
        thread::sleep(Duration::from_millis(5));
    }
}

fn at(epoch: i64) -> ReadFrom {
    ReadFrom {
        exactly: Some(Epoch(epoch)),
        at_least: None,
        timeout: Duration::from_secs(60),
        offline: Offline::Only,
        isolation_level: None,
        stale_ok: false,
    }
}

/// A root with these epochs, each of which puts its number as the rate.
fn epochs(spark: &Spark, host: &Host) {
    for epoch in 0..EPOCHS {
        spark.begin(epoch);
        TaskRequest::new(spark, "a", epoch)
            .run(host.connect(), &[right("EUR", epoch, epoch)])
            .unwrap();
        spark.commit(epoch);
    }
}

fn connect(spark: &Spark, cache: &Path, bytes: u64) -> Arc<StateReader> {
    let root = spark.path().to_str().unwrap().to_owned();
    let cache = CacheSettings {
        directory: Some(cache.to_owned()),
        bytes,
    };
    StateReader::connect(&root, &StorageOptions::default(), cache).unwrap()
}

/// The rates that a scan at an epoch finds.
fn scan(reader: &Arc<StateReader>, epoch: i64) -> Vec<i64> {
    let none = RecordBatch::try_new_with_options(
        Schema::empty().into(),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(0)),
    );
    let (table, call) = (("join", "table"), ReadCall::default());
    let rows = reader.scan(table, call, none.unwrap(), None, at(epoch));
    let rates = |rows: RecordBatch| rows["rate"].as_primitive::<Int64Type>().values().to_vec();
    rows.unwrap()
        .flat_map(|rows| rates(rows.unwrap()))
        .collect()
}

#[test]
fn reads_of_old_epochs_share_few_copies() {
    let (spark, host) = (Spark::new(), Host::start());
    epochs(&spark, &host);
    let cache = tempfile::tempdir().unwrap();
    let reader = connect(&spark, cache.path(), u64::MAX);
    assert_eq!(scan(&reader, EPOCHS - 1), [EPOCHS - 1]);
    assert_eq!(copies(cache.path()), 1);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(scan(&reader, 0), [0]));
        }
    });
    assert_eq!(copies(cache.path()), 2, "eight reads share one copy");
    for epoch in 0..EPOCHS {
        assert_eq!(scan(&reader, epoch), [epoch]);
        assert!(copies(cache.path()) <= COPIES);
    }
    assert_eq!(copies(cache.path()), COPIES);
    drop(reader);
    assert_eq!(copies(cache.path()), 0);
}

#[test]
fn copies_of_a_reader_stay_within_cache_bytes() {
    let (spark, host) = (Spark::new(), Host::start());
    epochs(&spark, &host);
    let cache = tempfile::tempdir().unwrap();
    let reader = connect(&spark, cache.path(), u64::MAX);
    assert_eq!(scan(&reader, EPOCHS - 1), [EPOCHS - 1]);
    let one = bytes(cache.path());
    drop(reader);

    let bound = 3 * one;
    let reader = connect(&spark, cache.path(), bound);
    for epoch in (0..EPOCHS).rev() {
        assert_eq!(scan(&reader, epoch), [epoch]);
        // A database that is open writes some more lines into its log.
        wait_for(bound + one / 10, || bytes(cache.path()));
    }
    assert!(copies(cache.path()) > 1);
    drop(reader);

    // A copy that is larger than the bound is used, and deleted after the read.
    let reader = connect(&spark, cache.path(), one / 2);
    for epoch in [EPOCHS - 1, 3, EPOCHS - 1] {
        assert_eq!(scan(&reader, epoch), [epoch]);
        wait_for(0, || copies(cache.path()) as u64);
    }
}
