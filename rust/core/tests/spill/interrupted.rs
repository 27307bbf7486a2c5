//! Interrupted spills, and interrupted commits of spilled transactions.

use crate::support::{
    at, committed, directory, expected, open, options, partition, put, rows, specs, transaction,
    turn,
};
use holdfast_core::failpoint::{Action, Failpoint};
use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, ErrorKind, Offset, OffsetChange, Position,
    StoreKind, StoreSpec, Timestamp, TransactionMechanism, VersionRow, WindowPut, WindowedKey,
};

/// A commit that is interrupted before its commit file is written is rolled back. One that is
/// interrupted later is completed by the next recovery.
#[test]
fn interrupted_commit_is_rolled_back_or_completed_as_a_whole() {
    let _turn = turn();
    use Failpoint::{
        AfterCommit, AfterCommitFile, BeforeCommit, BeforeCommitFile, BeforeCommitFileRemoval,
        BeforeFlush, BetweenIngests,
    };
    let points = [
        (BeforeFlush, 0, false),
        (BeforeCommitFile, 0, false),
        (AfterCommitFile, 0, true),
        (BetweenIngests, 0, true),
        (BetweenIngests, 1, true),
        (BetweenIngests, 2, true),
        (BeforeCommit, 0, true),
        (AfterCommit, 0, true),
        (BeforeFlush, 1, true),
        (BeforeCommitFileRemoval, 0, true),
    ];
    for durability in [Durability::Sync, Durability::Changelog] {
        let (before, after, further) = (
            expected(durability, 1),
            expected(durability, 2),
            expected(durability, 3),
        );
        for (point, passed, forward) in points {
            for (action, by_reopen) in [
                (Action::Error, false),
                (Action::Error, true),
                (Action::Panic, false),
            ] {
                let what =
                    format!("{point:?} {passed} {action:?} {durability:?}, by reopen: {by_reopen}");
                let dir = directory();
                let options = options(durability, 0);
                let db = Database::open(dir.path(), &specs(), options.clone()).unwrap();
                transaction(&db, 1);
                db.commit(at(1)).unwrap();
                assert_eq!(committed(&db), before, "{what}");
                transaction(&db, 2);
                point.arm(action, passed);
                let result =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| db.commit(at(2))));
                assert!(Failpoint::disarm(), "{what}: not passed");
                assert!(!matches!(result, Ok(Ok(()))), "{what}");
                let db = if by_reopen {
                    drop(db);
                    Database::open(dir.path(), &specs(), options).unwrap()
                } else {
                    let _ = db.recover().unwrap();
                    db
                };
                assert_eq!(
                    &committed(&db),
                    if forward { &after } else { &before },
                    "{what}"
                );
                assert!(!dir.path().join("+commit").exists(), "{what}");
                if !forward {
                    transaction(&db, 2);
                    db.commit(at(2)).unwrap();
                }
                transaction(&db, 3);
                db.commit(at(3)).unwrap();
                assert_eq!(committed(&db), further, "{what}");
            }
        }
    }
}

#[test]
fn database_refuses_work_until_an_interrupted_commit_is_completed() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 0);
    transaction(&db, 1);
    let old = committed(&db);
    Failpoint::BetweenIngests.arm(Action::Error, 0);
    let error = db.commit(at(1)).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("rollback(), recover() or the next open"),
        "{error}"
    );
    assert_eq!(committed(&db), old, "readers see the last commit");
    let refused = [
        db.transaction().map(drop).unwrap_err(),
        db.commit(OffsetChange::Keep).unwrap_err(),
        db.restore("kv", &[], &Commit::default(), &Position::default())
            .unwrap_err(),
        db.checkpoint(&dir.path().join("copy")).unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::InvalidState);
        assert!(error.to_string().contains("recover()"), "{error}");
    }
    assert_eq!(db.recover().unwrap(), [(partition(), Offset(1))]);
    assert_ne!(committed(&db), old);
    db.checkpoint(&dir.path().join("copy")).unwrap();
}

/// A state host commits private transactions only, and calls neither rollback() nor recover().
#[test]
fn private_transaction_ends_an_interrupted_commit() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 0);
    transaction(&db, 1);
    let old = committed(&db);
    Failpoint::BetweenIngests.arm(Action::Error, 0);
    db.commit(at(1)).unwrap_err();
    let error = db
        .commit_transaction(db.begin().unwrap(), Commit::default())
        .unwrap_err();
    assert!(error.to_string().contains("another commit"), "{error}");
    assert_ne!(committed(&db), old);
    db.commit_transaction(db.begin().unwrap(), Commit::default())
        .unwrap();
}

/// A restore commits the offsets of its own store only. After it, the writes to a store without
/// transactions are still uncommitted.
#[test]
fn restore_that_spills_does_not_commit_writes_of_other_stores() {
    let _turn = turn();
    for (interrupted, rolled_back) in [(false, false), (true, true), (true, false)] {
        let what = format!("interrupted: {interrupted}, rolled back: {rolled_back}");
        let dir = directory();
        let db = open(dir.path(), 0);
        let put_direct = |value: &[u8]| {
            db.write(|tx| db.key_value("direct")?.put(tx, b"k", Some(value)))
                .unwrap();
        };
        put_direct(b"5");
        db.commit(at(5)).unwrap();
        put_direct(b"6");
        if interrupted {
            Failpoint::BetweenIngests.arm(Action::Error, 0);
        }
        let row = |key| VersionRow {
            key,
            value: Some(b"v"),
            timestamp: Timestamp(0),
        };
        let commit = Commit {
            offsets: at(7),
            properties: Vec::new(),
        };
        let restored = db.restore("kv", &[row(b"a"), row(b"b")], &commit, &Position::default());
        assert_eq!(restored.is_err(), interrupted, "{what}");
        assert!(!interrupted || Failpoint::disarm(), "{what}: not passed");
        if rolled_back {
            db.rollback().unwrap();
        }
        db.close().unwrap();
        let db = open(dir.path(), 0);
        let direct = db.key_value("direct").unwrap();
        let found = direct.get(&mut db.begin().unwrap(), b"k", |value| value.is_some());
        assert!(!found.unwrap(), "{what}");
        assert_eq!(db.store_offset("direct", &partition()).unwrap(), None);
        assert_eq!(rows(&db, &mut db.begin().unwrap()).len(), 2, "{what}");
        assert_eq!(
            db.store_offset("kv", &partition()).unwrap(),
            Some(Offset(7))
        );
    }
}

#[test]
fn commit_that_fails_before_its_commit_file_requires_recovery() {
    let _turn = turn();
    let dir = directory();
    let db = open(dir.path(), 0);
    put(&db, b"a", Some(b"1"));
    db.commit(at(1)).unwrap();
    put(&db, b"b", Some(b"2"));
    put(&db, b"c", Some(b"3"));
    Failpoint::BeforeCommitFile.arm(Action::Error, 0);
    assert_eq!(db.commit(at(2)).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(
        db.transaction().map(drop).unwrap_err().kind(),
        ErrorKind::InvalidState
    );
    assert_eq!(db.recover().unwrap(), [(partition(), Offset(1))]);
    assert_eq!(rows(&db, &mut db.transaction().unwrap()).len(), 1);
}

#[test]
fn failed_spill_leaves_the_transaction_unchanged() {
    let _turn = turn();
    for point in [Failpoint::BeforeSpill, Failpoint::AfterSpill] {
        let dir = directory();
        let db = open(dir.path(), 0);
        let store = db.key_value("kv").unwrap();
        put(&db, b"a", Some(b"1"));
        point.arm(Action::Error, 0);
        let error = store
            .put(&mut db.transaction().unwrap(), b"b", Some(b"2"))
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(rows(&db, &mut db.transaction().unwrap()).len(), 1);
        put(&db, b"b", Some(b"2"));
        assert_eq!(rows(&db, &mut db.transaction().unwrap()).len(), 2);
        db.commit(at(1)).unwrap();
        assert_eq!(rows(&db, &mut db.begin().unwrap()).len(), 2);
    }
}

#[test]
fn failed_spill_leaves_stream_time_unchanged() {
    let _turn = turn();
    let window = |retain_duplicates| StoreKind::Window {
        retention: 100,
        window_size: 1,
        retain_duplicates,
        timestamped: false,
    };
    let kinds = [
        window(false),
        window(true),
        StoreKind::Session { retention: 100 },
    ];
    for kind in kinds {
        let dir = directory();
        let specs = [StoreSpec::new("s", kind)];
        let db = Database::open(dir.path(), &specs, options(Durability::Sync, 0)).unwrap();
        let put = |time: i64| {
            let mut tx = db.transaction().unwrap();
            if let Ok(store) = db.window("s") {
                return store.put(
                    &mut tx,
                    WindowPut {
                        key: b"k",
                        value: Some(b"v"),
                        start: Timestamp(time),
                        timestamp: None,
                    },
                );
            }
            let session = WindowedKey {
                key: b"k",
                start: Timestamp(time),
                end: Timestamp(time),
            };
            db.session("s").unwrap().put(&mut tx, session, Some(b"v"))
        };
        // A put that is refused while nothing is staged leaves the transaction empty.
        let too_large = vec![0; 1 << 30];
        if let Ok(store) = db.window("s") {
            let put = WindowPut {
                key: b"k",
                value: Some(&too_large),
                start: Timestamp(1_000_000),
                timestamp: None,
            };
            assert_eq!(
                store
                    .put(&mut db.transaction().unwrap(), put)
                    .unwrap_err()
                    .kind(),
                ErrorKind::InvalidValue
            );
            assert!(db.transaction().unwrap().is_empty(), "{:?}", specs[0].kind);
        }
        put(10).unwrap();
        Failpoint::BeforeSpill.arm(Action::Error, 0);
        assert_eq!(put(1_000_000).unwrap_err().kind(), ErrorKind::Io);
        for _ in 0..2 {
            assert_eq!(
                db.stream_time("s", &db.transaction().unwrap()).unwrap(),
                Some(Timestamp(10)),
                "{:?}",
                specs[0].kind
            );
            db.commit(at(1)).unwrap();
        }
        put(1_000_000).unwrap();
        assert_eq!(
            db.stream_time("s", &db.transaction().unwrap()).unwrap(),
            Some(Timestamp(1_000_000))
        );
    }
}

#[test]
fn damaged_commit_is_an_error_that_names_the_file() {
    let _turn = turn();
    for damaged in ["COMMIT", "0-0.sst"] {
        let dir = directory();
        let db = open(dir.path(), 0);
        transaction(&db, 1);
        Failpoint::AfterCommitFile.arm(Action::Error, 0);
        db.commit(at(1)).unwrap_err();
        drop(db);
        let file = dir.path().join("+commit").join(damaged);
        let bytes = std::fs::read(&file).unwrap();
        std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        let error = Database::open(dir.path(), &specs(), options(Durability::Sync, 0))
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreCorrupted, "{error}");
        assert!(error.to_string().contains(damaged), "{error}");
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(
            committed(&open(dir.path(), 0)),
            expected(Durability::Sync, 1)
        );
    }
}

/// Once, the writer and READ_UNCOMMITTED readers read the rows before the failed one.
#[test]
fn half_of_a_failed_batch_is_never_read() {
    let _turn = turn();
    for mechanism in [
        TransactionMechanism::SecondaryStore,
        TransactionMechanism::Auto,
    ] {
        let dir = directory();
        let options = DatabaseOptions {
            mechanism,
            ..options(Durability::Sync, 64 << 10)
        };
        let db = Database::open(dir.path(), &specs(), options).unwrap();
        let kv = db.key_value("kv").unwrap();
        put(&db, b"before", Some(b"1"));
        db.commit(at(1)).unwrap();
        let value = vec![7; 32 << 10];
        let keys: Vec<[u8; 1]> = (0..10).map(|n| [n]).collect();
        Failpoint::BeforeSpill.arm(Action::Error, 0);
        let failed = db.write_batch(|tx| {
            kv.put_batch(tx, keys.iter().map(|key| (&key[..], Some(&value[..]))))
        });
        assert!(Failpoint::disarm(), "{mechanism:?}: it does not spill");
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
        for refused in [
            db.transaction().map(drop).unwrap_err(),
            db.long_call().map(drop).unwrap_err(),
            db.read_uncommitted().map(drop).unwrap_err(),
        ] {
            assert_eq!(refused.kind(), ErrorKind::InvalidState);
            assert!(refused.to_string().contains("rollback()"), "{refused}");
        }
        assert_eq!(rows(&db, &mut db.begin().unwrap()).len(), 1);
        db.rollback().unwrap();
        let mut tx = db.read_uncommitted().unwrap();
        assert_eq!(rows(&db, &mut tx).len(), 1, "{mechanism:?}");
        db.write_batch(|tx| kv.put_batch(tx, keys.iter().map(|key| (&key[..], Some(&value[..])))))
            .unwrap();
        db.commit(at(2)).unwrap();
        assert_eq!(rows(&db, &mut db.begin().unwrap()).len(), 11);
    }
}
