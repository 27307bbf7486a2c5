//! READ_UNCOMMITTED readers do not wait for the writer's long calls, and see what had returned
//! before them (`stores.md` section 3).
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{
    Database, DatabaseOptions, Durability, OffsetChange, StoreKind, StoreSpec, Timestamp,
    Transaction,
};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// Failpoints are the process's, so tests take turns.
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

/// What a reader that never waits sees of `k`, by a view that it takes now.
fn seen(db: &Arc<Database>) -> Option<Vec<u8>> {
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

/// Does a call that stays at a point, and looks meanwhile.
fn while_at(point: Failpoint, call: impl FnOnce() + Send, look: impl FnOnce()) {
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
            assert!(!caller.is_finished(), "the call does not come to the point");
            std::thread::yield_now();
        }
        look();
        drop(release);
    });
}

#[test]
fn a_batch_shows_what_was_there_before_it() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    db.expect_uncommitted_readers();
    write(&db, b"k", b"old");
    db.commit(OffsetChange::Keep).unwrap();
    write(&db, b"k", b"staged");
    db.write_batch(|tx| {
        assert_eq!(seen(&db).unwrap(), b"staged");
        put(&db, tx, "kv", b"k", b"new");
        put(&db, tx, "memory", b"k", b"new");
        assert_eq!(seen(&db).unwrap(), b"staged", "half of a batch");
        Ok(())
    })
    .unwrap();
    assert_eq!(seen(&db).unwrap(), b"new");
    // A call that is refused, and one that panics, end as any other.
    let refused = db.write_batch(|tx| db.key_value("none")?.put(tx, b"k", None));
    refused.unwrap_err();
    let torn = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.write_batch::<()>(|_| panic!("on purpose"))
    }));
    assert!(torn.is_err());
    db.rollback().unwrap();
    assert_eq!(seen(&db).unwrap(), b"old");
    let batch = db.long_call().unwrap();
    assert_eq!(seen(&db).unwrap(), b"old");
    drop(batch);
}

#[test]
fn a_put_that_spills_shows_what_was_there_before_it() {
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
        assert_eq!(seen(&db).unwrap(), b"staged")
    });
    assert_eq!(seen(&db).unwrap(), b"staged");
}

#[test]
fn commits_copies_restores_and_closes_show_what_was_there_before_them() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let db = open(folder.path());
    db.expect_uncommitted_readers();
    let commit = || db.commit(OffsetChange::Keep).unwrap();
    write(&db, b"k", b"1");
    while_at(Failpoint::BeforeCommit, commit, || {
        assert_eq!(seen(&db).unwrap(), b"1")
    });
    assert_eq!(seen(&db).unwrap(), b"1");

    write(&db, b"k", b"2");
    let mut tx = db.transaction().unwrap();
    tx.spill().unwrap();
    drop(tx);
    while_at(Failpoint::BeforeCommitFile, commit, || {
        assert_eq!(seen(&db).unwrap(), b"2")
    });
    assert_eq!(seen(&db).unwrap(), b"2");

    write(&db, b"k", b"3");
    let copy = || db.checkpoint(&folder.path().join("copy")).unwrap();
    while_at(Failpoint::BeforeCheckpoint, copy, || {
        assert_eq!(seen(&db).unwrap(), b"3")
    });
    commit();

    let restore = || {
        let row = |key| holdfast_core::VersionRow {
            key,
            value: Some(&b"4"[..]),
            timestamp: holdfast_core::Timestamp(0),
        };
        db.restore("kv", &[row(b"other")], OffsetChange::Keep)
            .unwrap();
    };
    while_at(Failpoint::BeforeCommit, restore, || {
        assert_eq!(seen(&db).unwrap(), b"3")
    });

    let mut other = db.begin().unwrap();
    put(&db, &mut other, "kv", b"k", b"5");
    put(&db, &mut other, "memory", b"k", b"5");
    let private = || {
        db.commit_transaction(other, holdfast_core::Commit::default())
            .unwrap()
    };
    while_at(Failpoint::BeforeCommit, private, || {
        assert_eq!(seen(&db).unwrap(), b"3")
    });
    assert_eq!(seen(&db).unwrap(), b"5");

    write(&db, b"k", b"6");
    while_at(
        Failpoint::BeforeFlush,
        || db.close().unwrap(),
        || assert_eq!(seen(&db).unwrap(), b"6"),
    );
}

/// A put into a store without transactions is a commit of its own.
#[test]
fn a_put_that_is_written_through_shows_what_was_there_before_it() {
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
            assert_eq!(seen(&db).unwrap(), b"staged");
            assert_eq!(times(), (Some(Timestamp(100)), Some(Timestamp(100))));
        },
    );
    assert_eq!(seen(&db).unwrap(), b"staged");
    assert_eq!(times(), (Some(Timestamp(200)), Some(Timestamp(200))));
}

#[test]
fn a_store_without_transactions_is_read_alike_at_both_levels() {
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
    // The write is there for new views of the last commit, and its call has not returned.
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
        "behind a reader of the last commit"
    );
}
