//! Stores without transactions: what an unclean stop does to them.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    ErrorKind, OffsetChange, ProcessingGuarantee, StoreKind, StoreSpec, Task, TaskOptions,
    Timestamp,
};
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path) -> Arc<Task> {
    let kind = StoreKind::Versioned {
        history_retention: 100,
        segment_interval: 10,
    };
    Task::open(
        path,
        &[StoreSpec {
            transactional: false,
            ..StoreSpec::new("rates", kind)
        }],
        TaskOptions::default(),
    )
    .unwrap()
}

fn put(task: &Task, key: &[u8], at: i64) {
    let mut tx = task.transaction().unwrap();
    task.versioned("rates")
        .unwrap()
        .put(&mut tx, key, Some(b"v"), Timestamp(at))
        .unwrap();
    task.write_through(&mut tx).unwrap();
}

fn get(task: &Task, key: &[u8]) -> Option<i64> {
    let rates = task.versioned("rates").unwrap();
    rates
        .get(&mut task.begin().unwrap(), key, |version| {
            version.map(|version| version.timestamp.0)
        })
        .unwrap()
}

/// Found by the kill loop: the expiry filter was shown the discarded version and dropped the one of
/// after.
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
        let mut scan = versions
            .versions_range(&mut view, None, None, Timestamp(0), Timestamp(2_000))
            .unwrap();
        scan.for_each(&mut |key, version| {
            found.push((key.to_vec(), version.timestamp.0));
            true
        })
        .unwrap();
        assert_eq!(
            found,
            [(b"k".to_vec(), 50), (b"other".to_vec(), 1_000)],
            "flushed: {flushed}"
        );
    }
}

fn open_two(
    path: &Path,
    names: &[&str],
    transactional: bool,
    guarantee: ProcessingGuarantee,
) -> holdfast_core::Result<Arc<Task>> {
    let direct = |name: &&str| StoreSpec {
        transactional,
        ..StoreSpec::new(*name, StoreKind::KeyValue)
    };
    let stores: Vec<StoreSpec> = names
        .iter()
        .map(direct)
        .chain([StoreSpec::new("staged", StoreKind::KeyValue)])
        .collect();
    Task::open(
        path,
        &stores,
        TaskOptions {
            guarantee,
            ..TaskOptions::default()
        },
    )
}

fn has_row(task: &Task, name: &str) -> bool {
    task.key_value(name)
        .unwrap()
        .get(&mut task.begin().unwrap(), b"k", |found| found.is_some())
        .unwrap()
}

/// Two stores without transactions, written and not closed.
fn left_open(path: &Path, guarantee: ProcessingGuarantee) {
    let task = open_two(path, &["a", "b"], false, guarantee).unwrap();
    let mut tx = task.transaction().unwrap();
    for name in ["a", "b"] {
        task.key_value(name)
            .unwrap()
            .put(&mut tx, b"k", Some(b"v"))
            .unwrap();
    }
    task.write_through(&mut tx).unwrap();
}

#[test]
fn an_unclean_stop_is_remembered_until_the_store_is_opened_again() {
    let once = ProcessingGuarantee::ExactlyOnce;
    let dir = tempfile::tempdir().unwrap();
    left_open(dir.path(), once);
    // Opens without it, closed and not, with stores like it and without.
    open_two(dir.path(), &[], false, once)
        .unwrap()
        .close()
        .unwrap();
    drop(open_two(dir.path(), &[], false, once).unwrap());
    let with_one = open_two(dir.path(), &["a"], false, once).unwrap();
    assert!(!has_row(&with_one, "a"));
    with_one
        .key_value("a")
        .unwrap()
        .put(&mut with_one.transaction().unwrap(), b"k", Some(b"v"))
        .unwrap();
    with_one
        .write_through(&mut with_one.transaction().unwrap())
        .unwrap();
    with_one.close().unwrap();
    open_two(dir.path(), &[], false, ProcessingGuarantee::AtLeastOnce)
        .unwrap()
        .close()
        .unwrap();

    let refused = open_two(dir.path(), &["b"], true, once).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::TaskCorrupted, "{refused}");
    let both = open_two(dir.path(), &["a", "b"], false, once).unwrap();
    assert!(has_row(&both, "a"), "that one was closed");
    assert!(!has_row(&both, "b"));
    both.close().unwrap();
    // Settled: nothing is remembered.
    open_two(dir.path(), &["a", "b"], true, once)
        .unwrap()
        .close()
        .unwrap();
}

#[test]
fn at_least_once_takes_a_store_as_an_unclean_stop_left_it_and_the_others_stay_in_doubt() {
    let (once, at_least_once) = (
        ProcessingGuarantee::ExactlyOnce,
        ProcessingGuarantee::AtLeastOnce,
    );
    let dir = tempfile::tempdir().unwrap();
    left_open(dir.path(), at_least_once);
    let with_one = open_two(dir.path(), &["a"], false, at_least_once).unwrap();
    assert!(has_row(&with_one, "a"));
    with_one.close().unwrap();
    let both = open_two(dir.path(), &["a", "b"], false, once).unwrap();
    assert!(has_row(&both, "a"));
    assert!(!has_row(&both, "b"));
}
