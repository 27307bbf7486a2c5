//! A versioned store that is opened with a longer history retention: of what had ended before the
//! shorter one some versions may be left and some not, so nothing from before it is shown.
#![allow(clippy::unwrap_used, reason = "a test")]

mod killed;

use holdfast_core::{
    Database, DatabaseOptions, Durability, OffsetChange, StoreKind, StoreSpec, Timestamp,
};
use killed::copy_as_killed;
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path, history_retention: i64, durability: Durability) -> Arc<Database> {
    let kind = StoreKind::Versioned {
        history_retention,
        segment_interval: 10,
    };
    Database::open(
        path,
        &[StoreSpec::new("rates", kind)],
        DatabaseOptions {
            durability,
            ..DatabaseOptions::default()
        },
    )
    .unwrap()
}

fn put(db: &Database, key: &[u8], time: i64) -> bool {
    let mut tx = db.transaction().unwrap();
    let put = db
        .versioned("rates")
        .unwrap()
        .put(&mut tx, key, Some(b"v"), Timestamp(time))
        .unwrap();
    drop(tx);
    db.commit(OffsetChange::Keep).unwrap();
    put.accepted
}

/// The begin of the version in force at a moment.
fn at(db: &Database, key: &[u8], time: i64) -> Option<i64> {
    let mut tx = db.begin().unwrap();
    let rates = db.versioned("rates").unwrap();
    let found = rates
        .get_as_of(&mut tx, key, Timestamp(time), |found| {
            found.map(|version| version.timestamp.0)
        })
        .unwrap();
    let mut scanned = None;
    let mut scan = rates.scan(&mut tx, Some(Timestamp(time))).unwrap();
    scan.for_each(&mut |scanned_key, version| {
        if scanned_key == key {
            scanned = Some(version.timestamp.0);
        }
        true
    })
    .unwrap();
    assert_eq!(scanned, found, "a scan as of {time}");
    found
}

fn versions(db: &Database, key: &[u8]) -> Vec<i64> {
    let mut begins = Vec::new();
    let mut tx = db.begin().unwrap();
    let mut scan = db
        .versioned("rates")
        .unwrap()
        .versions(&mut tx, key, Timestamp::MIN, Timestamp::MAX, true)
        .unwrap();
    scan.for_each(&mut |_, version| {
        begins.push(version.timestamp.0);
        true
    })
    .unwrap();
    begins
}

/// Versions of a key that change at 100, 400, 600 and 950, and one of another key, which never
/// changes.
fn filled(path: &Path, history_retention: i64, durability: Durability) {
    let db = open(path, history_retention, durability);
    put(&db, b"still", 50);
    for time in [100, 400, 600, 950, 1_000] {
        put(&db, if time == 1_000 { b"other" } else { b"EUR" }, time);
    }
    db.close().unwrap();
}

#[test]
fn nothing_is_shown_from_before_the_shorter_retention() {
    for durability in [Durability::Sync, Durability::Changelog] {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 100, durability);
        // Also when it is opened again, and when the retention is raised again.
        for history_retention in [10_000, 10_000, 20_000] {
            let db = open(dir.path(), history_retention, durability);
            assert_eq!([150, 500, 899].map(|time| at(&db, b"EUR", time)), [None; 3]);
            assert_eq!(
                [900, 949, 950].map(|time| at(&db, b"EUR", time)),
                [Some(600), Some(600), Some(950)]
            );
            assert_eq!(
                at(&db, b"still", 500),
                Some(50),
                "the newest version has no end"
            );
            assert_eq!(versions(&db, b"EUR"), [600, 950]);
            assert!(!put(&db, b"EUR", 899), "its end may be among what is gone");
            assert!(put(&db, b"late", 900));
            db.close().unwrap();
        }
        // Until the longer retention catches up.
        let db = open(dir.path(), 20_000, durability);
        assert!(put(&db, b"other", 20_950));
        assert_eq!(
            [949, 950].map(|time| at(&db, b"EUR", time)),
            [None, Some(950)]
        );
        assert!(put(&db, b"EUR", 960) && !put(&db, b"EUR", 949));
    }
}

#[test]
fn a_retention_that_was_shorter_for_a_while_counts() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 10_000, Durability::Sync);
    for (history_retention, found) in [
        (10_000, Some(400)),
        (300, None),
        (500, None),
        (10_000, None),
    ] {
        let db = open(dir.path(), history_retention, Durability::Sync);
        assert_eq!(at(&db, b"EUR", 500), found, "{history_retention}");
        assert_eq!(at(&db, b"EUR", 700), Some(600), "{history_retention}");
        db.close().unwrap();
    }
    // From 700 on all is there, and the retention that lasts longest is known, whichever came last.
    let db = open(dir.path(), 10_000, Durability::Sync);
    assert_eq!(
        [699, 700].map(|time| at(&db, b"EUR", time)),
        [None, Some(600)]
    );
}

/// Without a log of its own a database may fall back behind the open that made the retention
/// shorter, but files that this open has rewritten stay as they are.
#[test]
fn a_crash_does_not_forget_that_the_retention_was_shorter() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
    filled(&path, 10_000, Durability::Changelog);
    let _database = open(&path, 100, Durability::Changelog);
    // What a crash would leave; what compactions have done until then makes no difference.
    copy_as_killed(&path, &copy);
    let after = open(&copy, 10_000, Durability::Changelog);
    assert_eq!([500, 899].map(|time| at(&after, b"EUR", time)), [None; 2]);
    assert_eq!(at(&after, b"EUR", 900), Some(600));
}
