//! Stores without transactions after an unclean stop, and beside the commit of another transaction.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Commit, Database, DatabaseOptions, ErrorKind, Offset, OffsetChange, ProcessingGuarantee,
    StoreKind, StoreSpec, Timestamp, TopicPartition, Transaction,
};
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path) -> Arc<Database> {
    let kind = StoreKind::Versioned {
        history_retention: 100,
        segment_interval: 10,
    };
    Database::open(
        path,
        &[StoreSpec {
            transactional: false,
            ..StoreSpec::new("rates", kind)
        }],
        DatabaseOptions::default(),
    )
    .unwrap()
}

fn put(db: &Database, key: &[u8], at: i64) {
    let mut tx = db.transaction().unwrap();
    db.versioned("rates")
        .unwrap()
        .put(&mut tx, key, Some(b"v"), Timestamp(at))
        .unwrap();
    db.write_through(&mut tx).unwrap();
}

fn get(db: &Database, key: &[u8]) -> Option<i64> {
    let rates = db.versioned("rates").unwrap();
    rates
        .get(&mut db.begin().unwrap(), key, |version| {
            version.map(|version| version.timestamp.0)
        })
        .unwrap()
}

/// Found by the kill loop: the expiry filter read the discarded version, and dropped the version
/// that was put after it.
#[test]
fn discarded_version_does_not_supersede_a_later_put() {
    for flushed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path());
        put(&db, b"k", 200);
        if flushed {
            db.flush(true).unwrap();
        }
        drop(db);
        let db = open(dir.path());
        assert_eq!(get(&db, b"k"), None, "discarded");
        put(&db, b"k", 50);
        put(&db, b"other", 1_000);
        db.commit(OffsetChange::Keep).unwrap();
        db.flush(true).unwrap();
        db.compact("rates").unwrap();
        let versions = db.versioned("rates").unwrap();
        let mut found = Vec::new();
        let mut view = db.begin().unwrap();
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
) -> holdfast_core::Result<Arc<Database>> {
    let direct = |name: &&str| StoreSpec {
        transactional,
        ..StoreSpec::new(*name, StoreKind::KeyValue)
    };
    let stores: Vec<StoreSpec> = names
        .iter()
        .map(direct)
        .chain([StoreSpec::new("staged", StoreKind::KeyValue)])
        .collect();
    Database::open(
        path,
        &stores,
        DatabaseOptions {
            guarantee,
            ..DatabaseOptions::default()
        },
    )
}

fn has_row(db: &Database, name: &str) -> bool {
    db.key_value(name)
        .unwrap()
        .get(&mut db.begin().unwrap(), b"k", |found| found.is_some())
        .unwrap()
}

/// Writes two stores without transactions and does not close them.
fn write_without_close(path: &Path, guarantee: ProcessingGuarantee) {
    let db = open_two(path, &["a", "b"], false, guarantee).unwrap();
    let mut tx = db.transaction().unwrap();
    for name in ["a", "b"] {
        db.key_value(name)
            .unwrap()
            .put(&mut tx, b"k", Some(b"v"))
            .unwrap();
    }
    db.write_through(&mut tx).unwrap();
}

#[test]
fn unclean_stop_is_recorded_until_the_store_is_reopened() {
    let once = ProcessingGuarantee::ExactlyOnce;
    let dir = tempfile::tempdir().unwrap();
    write_without_close(dir.path(), once);
    // Opens without store `b`: with and without a close, with and without store `a`.
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
    assert_eq!(refused.kind(), ErrorKind::StateMismatch, "{refused}");
    let both = open_two(dir.path(), &["a", "b"], false, once).unwrap();
    assert!(has_row(&both, "a"), "store a was closed");
    assert!(!has_row(&both, "b"));
    both.close().unwrap();
    // No unclean stop is recorded any more.
    open_two(dir.path(), &["a", "b"], true, once)
        .unwrap()
        .close()
        .unwrap();
}

#[test]
fn commit_that_keeps_the_offsets_does_not_settle_direct_writes() {
    for moves in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let once = ProcessingGuarantee::ExactlyOnce;
        let db = open_two(dir.path(), &["a"], false, once).unwrap();
        let commit = |offset| {
            let tp = TopicPartition {
                topic: "log".to_owned(),
                partition: 0,
            };
            let offsets = OffsetChange::Set(vec![(tp, Some(Offset(offset)))]);
            let offsets = if offset == 10 || moves {
                offsets
            } else {
                OffsetChange::Keep
            };
            db.commit_with(&Commit {
                offsets,
                ..Commit::default()
            })
            .unwrap();
        };
        commit(10);
        let mut tx = db.transaction().unwrap();
        db.key_value("a")
            .unwrap()
            .put(&mut tx, b"k", Some(b"v"))
            .unwrap();
        db.write_through(&mut tx).unwrap();
        drop(tx);
        commit(12);
        db.close().unwrap();
        let reopened = open_two(dir.path(), &["a"], false, once).unwrap();
        assert_eq!(
            has_row(&reopened, "a"),
            moves,
            "a replay from 10 writes it again"
        );
    }
}

#[test]
fn at_least_once_accepts_an_unclean_stop_for_opened_stores_only() {
    let (once, at_least_once) = (
        ProcessingGuarantee::ExactlyOnce,
        ProcessingGuarantee::AtLeastOnce,
    );
    let dir = tempfile::tempdir().unwrap();
    write_without_close(dir.path(), at_least_once);
    let with_one = open_two(dir.path(), &["a"], false, at_least_once).unwrap();
    assert!(has_row(&with_one, "a"));
    with_one.close().unwrap();
    let both = open_two(dir.path(), &["a", "b"], false, once).unwrap();
    assert!(has_row(&both, "a"));
    assert!(!has_row(&both, "b"));
}

/// Once, a write-through rebased the open transaction onto the commit of another transaction. The
/// older version then replaced the newer one as the latest.
#[test]
fn write_through_refuses_a_transaction_that_another_commit_overtook() {
    let dir = tempfile::tempdir().unwrap();
    let versioned = StoreKind::Versioned {
        history_retention: 100,
        segment_interval: 10,
    };
    let stores = [
        StoreSpec::new("rates", versioned),
        StoreSpec {
            transactional: false,
            ..StoreSpec::new("direct", StoreKind::KeyValue)
        },
    ];
    let db = Database::open(dir.path(), &stores, DatabaseOptions::default()).unwrap();
    let (rates, direct) = (
        db.versioned("rates").unwrap(),
        db.key_value("direct").unwrap(),
    );
    let put_rate = |tx: &mut Transaction, at| rates.put(tx, b"EUR", Some(b"v"), Timestamp(at));
    db.write(|tx| put_rate(tx, 20)).unwrap();
    let mut private = db.begin().unwrap();
    put_rate(&mut private, 30).unwrap();
    db.commit_transaction(private, Commit::default()).unwrap();
    let put_direct = || db.write(|tx| direct.put(tx, b"k", Some(b"v")));
    let error = put_direct().expect_err("overtaken");
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(
        error.to_string().contains("another commit was made"),
        "{error}"
    );
    assert!(db.commit(OffsetChange::Keep).is_err());
    db.rollback().unwrap();
    put_direct().unwrap();
    db.commit(OffsetChange::Keep).unwrap();
    assert_eq!(get(&db, b"EUR"), Some(30));
}
