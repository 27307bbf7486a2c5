//! Copies whose files are damaged are made again.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StringArray};
use arrow_schema::Schema;
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::{CacheSettings, Offline, ReadFrom, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::ReadCall;

use crate::snapshots::{every, manifests};
use crate::support::{Host, Row, Spark, right};

const KEYS: usize = 20_000;
const TABLE: (&str, &str) = ("join", "table");

/// The files of tables in the reader's copies.
fn tables(cache: &Path) -> Vec<PathBuf> {
    let below = |folder: PathBuf| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let copies = below(cache.to_owned()).into_iter().flat_map(below);
    let files = copies.flat_map(below);
    files
        .filter(|file| file.extension().is_some_and(|end| end == "sst"))
        .collect()
}

/// Damages a file with rows; returns whether it exists.
fn damage(file: &Path) -> bool {
    let table = match OpenOptions::new().write(true).open(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return false,
        table => table.unwrap(),
    };
    // The blocks of rows come first. The copy has only the block of the key in memory.
    let most = table.metadata().unwrap().len() / 2;
    table.write_all_at(&vec![0xAA; most as usize], 0).unwrap();
    true
}

#[test]
fn damaged_copy_is_made_again() {
    let (spark, host) = (Spark::new(), Host::start());
    let rows: Vec<Row> = (0..KEYS)
        .map(|number| right(&format!("key-{number}"), 1, number as i64))
        .collect();
    let run = |epoch: i64, rows: &[Row]| drop(every(&spark, epoch, 0).run(host.connect(), rows));
    spark.epoch(0, || run(0, &rows));
    let has_snapshot = || !manifests(&spark).is_empty();
    let next = spark.run_epochs_until(1, has_snapshot, |epoch| run(epoch, &[]));
    let cache = tempfile::tempdir().unwrap();
    let settings = CacheSettings {
        directory: Some(cache.path().to_owned()),
        bytes: u64::MAX,
    };
    let root = spark.path().to_str().unwrap().to_owned();
    let reader = StateReader::connect(&root, &StorageOptions::default(), settings).unwrap();
    let from = ReadFrom {
        exactly: Some(Epoch(next - 1)),
        at_least: None,
        timeout: Duration::from_secs(60),
        offline: Offline::Only,
        isolation_level: None,
        stale_ok: false,
    };
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["key-7"]));
    let keys = RecordBatch::try_from_iter([("currency", keys)]).unwrap();
    reader
        .get(TABLE, &ReadCall::default(), &keys, from)
        .unwrap();

    let files = || {
        let files = tables(cache.path());
        assert!(!files.is_empty(), "the copy is of a snapshot");
        files
    };
    // A compaction may delete a file meanwhile.
    while !files().iter().all(|file| damage(file)) {}
    let none = RecordBatch::try_new_with_options(
        Schema::empty().into(),
        Vec::new(),
        &RecordBatchOptions::new().with_row_count(Some(0)),
    );
    let scan = reader.scan(TABLE, ReadCall::default(), none.unwrap(), None, from);
    let found: usize = scan.unwrap().map(|rows| rows.unwrap().num_rows()).sum();
    assert_eq!(found, KEYS);
}
