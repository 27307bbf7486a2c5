//! `query/`: Spark's checkpoint beside the state.

use std::fs;

use holdfast_core::ErrorKind;
use holdfast_host::protocol::{Digest, Epoch, RunNumber};

use crate::support::{EPOCH, refused, root, spark};

#[test]
fn sparks_logs_are_read_beside_the_state() {
    let root = root();
    refused(
        root.spark.check("q", EPOCH),
        ErrorKind::StateMismatch,
        &["epoch 5", "state.checkpoint_location"],
    );
    assert_eq!(root.spark.latest_commit().expect("reads"), None);
    spark(&root, "metadata", r#"{"id":"q"}"#);
    spark(&root, "offsets/5", "v1\n{}");
    for file in [
        "commits/3",
        "commits/4",
        "commits/.4.crc",
        "commits/.5.uuid.tmp",
    ] {
        spark(&root, file, "v1\n{}");
    }
    root.spark.check("q", EPOCH).expect("its own");
    refused(
        root.spark.check("other", EPOCH),
        ErrorKind::StateMismatch,
        &["query other", "query q"],
    );
    assert_eq!(root.spark.latest_commit().expect("reads"), Some(Epoch(4)));
    assert!(
        root.spark.is_committed(Epoch(4)).expect("reads")
            && !root.spark.is_committed(EPOCH).expect("reads")
    );
    let offsets = root.spark.offsets(EPOCH).expect("reads").expect("is there");
    assert_eq!(
        (offsets.digest, offsets.batch_timestamp),
        (Digest::of(b"v1\n{}"), None)
    );
    refused(
        root.spark.batch_time(EPOCH, offsets),
        ErrorKind::Restore,
        &["offsets/5", "batch timestamp"],
    );
    spark(&root, "offsets/5", "v1\n{\"batchTimestampMs\":7}\n0");
    let logs = root.spark.logs(EPOCH).expect("reads");
    assert_eq!(
        (
            logs.offsets.and_then(|file| file.batch_timestamp),
            logs.committed,
            logs.previous_committed
        ),
        (Some(7), false, true)
    );
    root.spark.sync_offsets(RunNumber(1), EPOCH).expect("syncs");
    root.spark.sync_commit(Epoch(4)).expect("syncs");
    root.spark
        .sync_commit(Epoch(1))
        .expect("Spark has removed it");
    // An object store's objects are durable, so nothing is synced there.
    if root.path() == root.files() {
        refused(
            root.spark.sync_offsets(RunNumber(1), Epoch(6)),
            ErrorKind::Io,
            &["offsets/6"],
        );
    }
    fs::write(root.files().join("query/metadata"), "{").expect("writes");
    refused(
        root.spark.check("q", EPOCH),
        ErrorKind::Restore,
        &["query/metadata"],
    );
}
