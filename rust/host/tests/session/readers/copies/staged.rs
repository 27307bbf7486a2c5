//! What a reader's own copy stages of an epoch that is not final.

use std::time::Duration;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;
use holdfast_host::protocol::IsolationLevel;
use holdfast_host::reader::{CacheSettings, Offline, ReadFrom, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::ReadCall;

use crate::support::{Host, Spark, TaskRequest, right, wait_until};

#[test]
fn after_the_last_read_a_copy_drops_what_it_staged() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..2 {
        spark.begin(epoch);
        TaskRequest::new(&spark, "a", epoch)
            .run(host.connect(), &[right("EUR", epoch, epoch)])
            .unwrap();
        if epoch == 0 {
            spark.commit(epoch);
        }
    }
    let options = StorageOptions::default();
    let root = spark.path().to_str().unwrap();
    let reader = StateReader::connect(root, &options, CacheSettings::default()).unwrap();
    let from = ReadFrom {
        exactly: None,
        at_least: None,
        timeout: Duration::from_secs(60),
        offline: Offline::Only,
        isolation_level: Some(IsolationLevel::ReadUncommitted),
        stale_ok: false,
    };
    let rows = || -> usize {
        let none = RecordBatch::try_new_with_options(
            Schema::empty().into(),
            Vec::new(),
            &RecordBatchOptions::new().with_row_count(Some(0)),
        );
        let call = ReadCall::default();
        let rows = reader.scan(("join", "table"), call, none.unwrap(), None, from);
        rows.unwrap().map(|rows| rows.unwrap().num_rows()).sum()
    };
    // A second round finds the same, and drops it again.
    for _ in 0..2 {
        assert_eq!(rows(), 1);
        assert!(reader.staged_bytes() > 0, "held for the next read");
        wait_until(
            || reader.staged_bytes() == 0,
            || format!("{} bytes are held", reader.staged_bytes()),
        );
    }
}
