//! A reader's own copies at old epochs: shared, bounded, and removed.

use std::path::Path;
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::{Offline, ReadFrom, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::ReadCall;

use crate::support::{Host, Spark, TaskRequest, right};

const EPOCHS: i64 = 24;
/// The most copies: of old epochs, and the newest.
const COPIES: usize = 16 + 1;

/// The copies in a reader's folder.
fn copies(cache: &Path) -> usize {
    let readers = std::fs::read_dir(cache).unwrap();
    readers
        .map(|reader| std::fs::read_dir(reader.unwrap().path()).unwrap().count())
        .sum()
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

#[test]
fn reads_of_old_epochs_share_few_copies() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..EPOCHS {
        spark.begin(epoch);
        TaskRequest::new(&spark, "a", epoch)
            .run(host.connect(), &[right("EUR", epoch, epoch)])
            .unwrap();
        spark.commit(epoch);
    }
    let cache = tempfile::tempdir().unwrap();
    let root = spark.path().to_str().unwrap().to_owned();
    let options = StorageOptions::default();
    let reader = StateReader::connect(&root, &options, Some(cache.path())).unwrap();
    // The rates that a scan at an epoch finds.
    let scan = |epoch: i64| -> Vec<i64> {
        let none = RecordBatch::try_new_with_options(
            Schema::empty().into(),
            Vec::new(),
            &RecordBatchOptions::new().with_row_count(Some(0)),
        );
        let rows = reader
            .scan(
                ("join", "table"),
                ReadCall::default(),
                none.unwrap(),
                None,
                at(epoch),
            )
            .unwrap();
        let rates = |rows: RecordBatch| rows["rate"].as_primitive::<Int64Type>().values().to_vec();
        rows.flat_map(|rows| rates(rows.unwrap())).collect()
    };
    assert_eq!(scan(EPOCHS - 1), [EPOCHS - 1]);
    assert_eq!(copies(cache.path()), 1);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(scan(0), [0]));
        }
    });
    assert_eq!(copies(cache.path()), 2, "eight reads share one copy");
    for epoch in 0..EPOCHS {
        assert_eq!(scan(epoch), [epoch]);
        assert!(copies(cache.path()) <= COPIES);
    }
    assert_eq!(copies(cache.path()), COPIES);
    drop(reader);
    assert_eq!(copies(cache.path()), 0);
}
