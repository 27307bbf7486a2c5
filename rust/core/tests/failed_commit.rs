//! Commits that return an error: the task goes on from what the database really holds.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{
    ErrorKind, Offset, OffsetChange, StoreKind, StoreSpec, Task, TaskOptions, Timestamp,
    TopicPartition, VersionRow,
};
use parking_lot::{Mutex, MutexGuard};

/// Failpoints are the process's, so tests take turns.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

#[test]
fn after_a_rollback_the_task_stands_where_the_database_does() {
    let _turn = turn();
    let versioned = StoreKind::Versioned {
        history_retention: 100,
        segment_interval: 10,
    };
    let memory = StoreSpec {
        persistent: false,
        ..StoreSpec::new("memory", StoreKind::KeyValue)
    };
    let specs = [
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec::new("rates", versioned),
        memory,
    ];
    let log = TopicPartition {
        topic: "log".into(),
        partition: 0,
    };
    for (point, took_place) in [
        (Failpoint::BeforeCommit, false),
        (Failpoint::AfterCommit, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let task = Task::open(dir.path(), &specs, TaskOptions::default()).unwrap();
        let put = |value: &[u8], n: i64| {
            let mut tx = task.transaction().unwrap();
            for store in ["kv", "memory"] {
                task.key_value(store)
                    .unwrap()
                    .put(&mut tx, b"k", Some(value))
                    .unwrap();
            }
            task.versioned("rates")
                .unwrap()
                .put(&mut tx, b"k", Some(value), Timestamp(n))
                .unwrap();
            drop(tx);
            task.commit(OffsetChange::Set(vec![(log.clone(), Some(Offset(n)))]))
        };
        let stands_at = |task: &Task, memory: bool, value: &[u8], n: i64| {
            let mut tx = task.begin().unwrap();
            for store in if memory {
                vec!["kv", "memory"]
            } else {
                vec!["kv"]
            } {
                assert!(
                    task.key_value(store)
                        .unwrap()
                        .get(&mut tx, b"k", |found| found == Some(value))
                        .unwrap(),
                    "{store}"
                );
                assert_eq!(task.store_offset(store, &log).unwrap(), Some(Offset(n)));
            }
            assert_eq!(task.stream_time("rates", &tx).unwrap(), Some(Timestamp(n)));
        };
        put(b"one", 1).unwrap();
        point.arm(Action::Error, 0);
        put(b"two", 2).unwrap_err();
        assert!(Failpoint::disarm());
        // A restore is a commit of its own: it does not end the wait for the rollback.
        let row = VersionRow {
            key: b"restored",
            value: Some(b"v"),
            timestamp: Timestamp(0),
        };
        for refused in [
            task.restore("kv", &[row], OffsetChange::Keep),
            task.commit(OffsetChange::Keep),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidState);
            assert!(error.to_string().contains("rollback()"), "{error}");
        }
        task.rollback().unwrap();
        let (value, n): (&[u8], i64) = if took_place { (b"two", 2) } else { (b"one", 1) };
        stands_at(&task, true, value, n);
        put(b"three", 3).unwrap();
        stands_at(&task, true, b"three", 3);
        task.close().unwrap();
        stands_at(
            &Task::open(dir.path(), &specs, TaskOptions::default()).unwrap(),
            false,
            b"three",
            3,
        );
    }
}

/// A range delete stages no record, so the transaction looked untouched.
#[test]
fn a_range_delete_that_was_not_written_through_leaves_nothing_but_a_rollback() {
    let _turn = turn();
    let specs = [
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec {
            transactional: false,
            ..StoreSpec::new("direct", StoreKind::KeyValue)
        },
    ];
    for point in [Failpoint::BeforeCommit, Failpoint::AfterCommit] {
        let dir = tempfile::tempdir().unwrap();
        let task = Task::open(dir.path(), &specs, TaskOptions::default()).unwrap();
        let (kv, direct) = (
            task.key_value("kv").unwrap(),
            task.key_value("direct").unwrap(),
        );
        task.write(|tx| direct.put(tx, b"k", Some(b"v"))).unwrap();
        point.arm(Action::Error, 0);
        task.write_batch(|tx| direct.delete_range(tx, None, None))
            .unwrap_err();
        assert!(Failpoint::disarm());
        let refused = task.write(|tx| kv.put(tx, b"k", Some(b"v"))).unwrap_err();
        assert_eq!(
            refused.kind(),
            ErrorKind::InvalidState,
            "{point:?}: {refused}"
        );
        task.rollback().unwrap();
        let is_there = direct
            .get(&mut task.transaction().unwrap(), b"k", |found| {
                found.is_some()
            })
            .unwrap();
        assert_eq!(is_there, point == Failpoint::BeforeCommit);
        task.write(|tx| kv.put(tx, b"k", Some(b"v"))).unwrap();
    }
}
