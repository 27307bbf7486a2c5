//! READ_UNCOMMITTED readers do not wait for the writer's long calls. During such a call they see
//! the writes that had returned before it (`docs/design/transactions.md`).
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, OffsetChange, Position, StoreKind, StoreSpec,
    Timestamp, Transaction,
};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Failpoints are global to the process, so the tests run one after another.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

const LIMIT: i64 = 1 << 20;

fn open(path: &std::path::Path) -> Arc<Database> {
    let kv = |name: &str| StoreSpec::new(name, StoreKind::KeyValue);
    let specs = [
        kv("kv"),
        StoreSpec {
            persistent: false,
            ..kv("memory")
        },
        StoreSpec {
            transactional: false,
            ..kv("direct")
        },
    ];
    let options = DatabaseOptions {
        durability: Durability::Sync,
        uncommitted_max_bytes: LIMIT,
        ..DatabaseOptions::default()
    };
    Database::open(path, &specs, options).unwrap()
}

fn put(db: &Database, tx: &mut Transaction, store: &str, key: &[u8], value: &[u8]) {
    db.key_value(store)
        .unwrap()
        .put(tx, key, Some(value))
        .unwrap();
}

fn write(db: &Database, key: &[u8], value: &[u8]) {
    for store in ["kv", "memory"] {
        db.write(|tx| db.key_value(store)?.put(tx, key, Some(value)))
            .unwrap();
    }
}

fn get(db: &Database, view: &mut Transaction, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = ["kv", "memory"].map(|store| {
        db.key_value(store)
            .unwrap()
            .get(view, key, |v| v.map(<[u8]>::to_vec))
            .unwrap()
    });
    assert_eq!(found[0], found[1]);
    found[0].take()
}

/// Reads `k` in a new view; fails if the reader waits for the writer.
fn read_now(db: &Arc<Database>) -> Option<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    let db = Arc::clone(db);
    std::thread::spawn(move || {
        let mut view = db.read_uncommitted().unwrap();
        send.send(get(&db, &mut view, b"k")).unwrap();
    });
    receive
        .recv_timeout(Duration::from_secs(20))
        .expect("a reader waits for the writer")
}

/// Makes a call that waits at a failpoint, and runs `check` meanwhile.
fn while_at(point: Failpoint, call: impl FnOnce() + Send, check: impl FnOnce()) {
    struct Release;
    impl Drop for Release {
        fn drop(&mut self) {
            Failpoint::release();
        }
    }
    point.arm(Action::Hold, 0);
    std::thread::scope(|scope| {
        let caller = scope.spawn(call);
        let release = Release;
        while Failpoint::is_armed() {
            assert!(
                !caller.is_finished(),
                "the call does not pass the failpoint"
            );
            std::thread::yield_now();
        }
        check();
        drop(release);
    });
}

#[test]
fn readers_during_a_batch_see_the_state_before_it() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    db.expect_uncommitted_readers();
    write(&db, b"k", b"old");
    db.commit(OffsetChange::Keep).unwrap();
    write(&db, b"k", b"staged");
    db.write_batch(|tx| {
        assert_eq!(read_now(&db).unwrap(), b"staged");
        put(&db, tx, "kv", b"k", b"new");
        put(&db, tx, "memory", b"k", b"new");
        assert_eq!(read_now(&db).unwrap(), b"staged", "a part of a batch");
        Ok(())
    })
    .unwrap();
    assert_eq!(read_now(&db).unwrap(), b"new");
    // A refused call and a panicking call end as any other call.
    let refused = db.write_batch(|tx| db.key_value("none")?.put(tx, b"k", None));
    refused.unwrap_err();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.write_batch::<()>(|_| panic!("on purpose"))
    }));
    assert!(panicked.is_err());
    db.rollback().unwrap();
    assert_eq!(read_now(&db).unwrap(), b"old");
    let batch = db.long_call().unwrap();
    assert_eq!(read_now(&db).unwrap(), b"old");
    drop(batch);
}

#[test]
fn readers_during_a_spilling_put_see_the_state_before_it() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    db.expect_uncommitted_readers();
    write(&db, b"k", b"staged");
    let fill = || {
        for n in 0..100u8 {
            db.write(|tx| db.key_value("kv")?.put(tx, &[b'f', n], Some(&[0; 100_000])))
                .unwrap();
        }
    };
    while_at(Failpoint::BeforeSpill, fill, || {
        assert_eq!(read_now(&db).unwrap(), b"staged")
    });
    assert_eq!(read_now(&db).unwrap(), b"staged");
}

#[test]
fn readers_during_commit_checkpoint_restore_and_close_see_the_state_before() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    db.expect_uncommitted_readers();
    let commit = || db.commit(OffsetChange::Keep).unwrap();
    write(&db, b"k", b"1");
    while_at(Failpoint::BeforeCommit, commit, || {
        assert_eq!(read_now(&db).unwrap(), b"1")
    });
    assert_eq!(read_now(&db).unwrap(), b"1");

    write(&db, b"k", b"2");
    let mut tx = db.transaction().unwrap();
    tx.spill().unwrap();
    drop(tx);
    while_at(Failpoint::BeforeCommitFile, commit, || {
        assert_eq!(read_now(&db).unwrap(), b"2")
    });
    assert_eq!(read_now(&db).unwrap(), b"2");

    write(&db, b"k", b"3");
    let copy = || db.checkpoint(&folder.path().join("copy")).unwrap();
    while_at(Failpoint::BeforeCheckpoint, copy, || {
        assert_eq!(read_now(&db).unwrap(), b"3")
    });
    commit();

    let restore = || {
        let row = |key| holdfast_core::VersionRow {
            key,
            value: Some(&b"4"[..]),
            timestamp: holdfast_core::Timestamp(0),
        };
        db.restore(
            "kv",
            &[row(b"other")],
            &Commit::default(),
            &Position::default(),
        )
        .unwrap();
    };
    while_at(Failpoint::BeforeCommit, restore, || {
        assert_eq!(read_now(&db).unwrap(), b"3")
    });

    let mut other = db.begin().unwrap();
    put(&db, &mut other, "kv", b"k", b"5");
    put(&db, &mut other, "memory", b"k", b"5");
    let private = || {
        db.commit_transaction(other, holdfast_core::Commit::default())
            .unwrap()
    };
    while_at(Failpoint::BeforeCommit, private, || {
        assert_eq!(read_now(&db).unwrap(), b"3")
    });
    assert_eq!(read_now(&db).unwrap(), b"5");

    write(&db, b"k", b"6");
    while_at(
        Failpoint::BeforeFlush,
        || db.close().unwrap(),
        || assert_eq!(read_now(&db).unwrap(), b"6"),
    );
}

/// A put into a store without transactions is a separate commit.
#[test]
fn readers_during_a_put_without_transaction_see_the_state_before_it() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let kind = StoreKind::Versioned {
        history_retention: 10,
        segment_interval: 5,
    };
    let specs = [
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec {
            persistent: false,
            ..StoreSpec::new("memory", StoreKind::KeyValue)
        },
        StoreSpec {
            transactional: false,
            ..StoreSpec::new("direct", kind)
        },
    ];
    let db = Database::open(
        folder.path(),
        &specs,
        DatabaseOptions {
            durability: Durability::Sync,
            ..DatabaseOptions::default()
        },
    )
    .unwrap();
    db.expect_uncommitted_readers();
    let direct = db.versioned("direct").unwrap();
    let put = |at| {
        assert!(
            db.write(|tx| direct.put(tx, b"d", Some(b"v"), Timestamp(at)))
                .unwrap()
                .accepted
        )
    };
    let times = || {
        let mut view = db.read_uncommitted().unwrap();
        let newest = direct
            .get(&mut view, b"d", |found| {
                found.map(|version| version.timestamp)
            })
            .unwrap();
        (newest, direct.stream_time(&view))
    };
    put(100);
    write(&db, b"k", b"staged");
    while_at(
        Failpoint::BeforeCommit,
        || put(200),
        || {
            assert_eq!(read_now(&db).unwrap(), b"staged");
            assert_eq!(times(), (Some(Timestamp(100)), Some(Timestamp(100))));
        },
    );
    assert_eq!(read_now(&db).unwrap(), b"staged");
    assert_eq!(times(), (Some(Timestamp(200)), Some(Timestamp(200))));
}

#[test]
fn both_isolation_levels_read_the_same_rows_of_a_store_without_transactions() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    db.expect_uncommitted_readers();
    let direct = db.key_value("direct").unwrap();
    let value = |mut view: Transaction| {
        direct
            .get(&mut view, b"k", |found| found.is_some())
            .unwrap()
    };
    // New views of the last commit see the write although its call has not returned.
    let batch = || {
        db.write_batch(|tx| direct.put(tx, b"k", Some(b"v")))
            .unwrap()
    };
    let (send, receive) = mpsc::channel();
    while_at(Failpoint::BeforeExpiry, batch, || {
        assert!(value(db.begin().unwrap()));
        let db = Arc::clone(&db);
        std::thread::spawn(move || send.send(db.read_uncommitted().unwrap()).unwrap());
    });
    assert!(
        value(receive.recv_timeout(Duration::from_secs(20)).unwrap()),
        "older than a view of the last commit"
    );
}
