//! Commits that return an error or panic: after a rollback the state is that of the last commit in
//! RocksDB.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{
    Commit, Database, DatabaseOptions, ErrorKind, Offset, OffsetChange, Position, StoreKind,
    StoreSpec, Timestamp, TopicPartition, VersionRow,
};
use parking_lot::{Mutex, MutexGuard};

/// Failpoints are global to the process, so the tests run one after another.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

#[test]
fn rollback_after_failed_commit_restores_committed_state() {
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
    for (point, is_committed) in [
        (Failpoint::BeforeCommit, false),
        (Failpoint::AfterCommit, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), &specs, DatabaseOptions::default()).unwrap();
        let put = |value: &[u8], n: i64| {
            let mut tx = db.transaction().unwrap();
            for store in ["kv", "memory"] {
                db.key_value(store)
                    .unwrap()
                    .put(&mut tx, b"k", Some(value))
                    .unwrap();
            }
            db.versioned("rates")
                .unwrap()
                .put(&mut tx, b"k", Some(value), Timestamp(n))
                .unwrap();
            drop(tx);
            db.commit(OffsetChange::Set(vec![(log.clone(), Some(Offset(n)))]))
        };
        let check_state = |db: &Database, memory: bool, value: &[u8], n: i64| {
            let mut tx = db.begin().unwrap();
            for store in if memory {
                vec!["kv", "memory"]
            } else {
                vec!["kv"]
            } {
                assert!(
                    db.key_value(store)
                        .unwrap()
                        .get(&mut tx, b"k", |found| found == Some(value))
                        .unwrap(),
                    "{store}"
                );
                assert_eq!(db.store_offset(store, &log).unwrap(), Some(Offset(n)));
            }
            assert_eq!(db.stream_time("rates", &tx).unwrap(), Some(Timestamp(n)));
        };
        put(b"one", 1).unwrap();
        point.arm(Action::Error, 0);
        put(b"two", 2).unwrap_err();
        assert!(Failpoint::disarm());
        // A restore is a separate commit: it does not replace the rollback.
        let row = VersionRow {
            key: b"restored",
            value: Some(b"v"),
            timestamp: Timestamp(0),
        };
        for refused in [
            db.restore("kv", &[row], &Commit::default(), &Position::default()),
            db.commit(OffsetChange::Keep),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidState);
            assert!(error.to_string().contains("rollback()"), "{error}");
        }
        db.rollback().unwrap();
        let (value, n): (&[u8], i64) = if is_committed {
            (b"two", 2)
        } else {
            (b"one", 1)
        };
        check_state(&db, true, value, n);
        put(b"three", 3).unwrap();
        check_state(&db, true, b"three", 3);
        db.close().unwrap();
        check_state(
            &Database::open(dir.path(), &specs, DatabaseOptions::default()).unwrap(),
            false,
            b"three",
            3,
        );
    }
}

/// A range delete stages no record for stored rows. Once, the transaction was therefore treated as
/// unchanged.
#[test]
fn failed_range_delete_without_transaction_requires_rollback() {
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
        let db = Database::open(dir.path(), &specs, DatabaseOptions::default()).unwrap();
        let (kv, direct) = (db.key_value("kv").unwrap(), db.key_value("direct").unwrap());
        db.write(|tx| direct.put(tx, b"k", Some(b"v"))).unwrap();
        point.arm(Action::Error, 0);
        db.write_batch(|tx| direct.delete_range(tx, None, None))
            .unwrap_err();
        assert!(Failpoint::disarm());
        let refused = db.write(|tx| kv.put(tx, b"k", Some(b"v"))).unwrap_err();
        assert_eq!(
            refused.kind(),
            ErrorKind::InvalidState,
            "{point:?}: {refused}"
        );
        db.rollback().unwrap();
        let is_there = direct
            .get(&mut db.transaction().unwrap(), b"k", |found| {
                found.is_some()
            })
            .unwrap();
        assert_eq!(is_there, point == Failpoint::BeforeCommit);
        db.write(|tx| kv.put(tx, b"k", Some(b"v"))).unwrap();
    }
}

/// After a panic, the next commit once succeeded, and its offset skipped the lost writes.
#[test]
fn panicked_commit_requires_rollback() {
    let _turn = turn();
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(
        dir.path(),
        &[StoreSpec::new("kv", StoreKind::KeyValue)],
        DatabaseOptions::default(),
    )
    .unwrap();
    let log = || TopicPartition {
        topic: "log".into(),
        partition: 0,
    };
    let put = || {
        let store = db.key_value("kv")?;
        store.put(&mut *db.transaction()?, b"k", Some(b"v"))
    };
    let commit = |offset| db.commit(OffsetChange::Set(vec![(log(), Some(Offset(offset)))]));
    put().unwrap();
    Failpoint::BeforeCommit.arm(Action::Panic, 0);
    let committed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| commit(1)));
    assert!(Failpoint::disarm() && committed.is_err());
    for refused in [put(), commit(2)] {
        assert_eq!(
            refused.map_err(|error| error.kind()),
            Err(ErrorKind::InvalidState)
        );
    }
    db.rollback().unwrap();
    assert_eq!(db.committed_offset(&log()).unwrap(), None);
    put().and_then(|()| commit(1)).unwrap();
    assert_eq!(db.committed_offset(&log()).unwrap(), Some(Offset(1)));
}
