//! Stores without transactions: what an unclean stop does to them.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{OffsetChange, StoreKind, StoreSpec, Task, TaskOptions, Timestamp};
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path) -> Arc<Task> {
    let kind = StoreKind::Versioned { history_retention: 100, segment_interval: 10 };
    Task::open(path, &[StoreSpec { transactional: false, ..StoreSpec::new("rates", kind) }], TaskOptions::default()).unwrap()
}

fn put(task: &Task, key: &[u8], at: i64) {
    let mut tx = task.transaction().unwrap();
    task.versioned("rates").unwrap().put(&mut tx, key, Some(b"v"), Timestamp(at)).unwrap();
    task.write_through(&mut tx).unwrap();
}

fn get(task: &Task, key: &[u8]) -> Option<i64> {
    let rates = task.versioned("rates").unwrap();
    rates.get(&mut task.begin().unwrap(), key, |version| version.map(|version| version.timestamp.0)).unwrap()
}

/// Found by the kill loop: the expiry filter was shown the discarded version and dropped the one of after.
#[test]
fn a_discarded_version_does_not_supersede_one_put_later() {
    for flushed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let task = open(dir.path());
        put(&task, b"k", 200);
        if flushed {
            task.flush(true).unwrap();
        }
        drop(task);
        let task = open(dir.path());
        assert_eq!(get(&task, b"k"), None, "discarded");
        put(&task, b"k", 50);
        put(&task, b"other", 1_000);
        task.commit(OffsetChange::Keep).unwrap();
        task.flush(true).unwrap();
        task.compact("rates").unwrap();
        let versions = task.versioned("rates").unwrap();
        let mut found = Vec::new();
        let mut view = task.begin().unwrap();
        let mut scan = versions.versions_range(&mut view, None, None, Timestamp(0), Timestamp(2_000)).unwrap();
        scan.for_each(&mut |key, version| {
            found.push((key.to_vec(), version.timestamp.0));
            true
        })
        .unwrap();
        assert_eq!(found, [(b"k".to_vec(), 50), (b"other".to_vec(), 1_000)], "flushed: {flushed}");
    }
}
