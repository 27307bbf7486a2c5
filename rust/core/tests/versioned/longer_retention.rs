//! A versioned store that is opened with a longer history retention. Some of the versions that
//! ended before the shorter retention may have been dropped, so a read returns none of them.

use crate::killed::copy_as_killed;
use holdfast_core::{
    Database, DatabaseOptions, Durability, ErrorKind, OffsetChange, Result, StoreKind, StoreSpec,
    Timestamp,
};
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path, history_retention: i64, durability: Durability) -> Arc<Database> {
    let options = DatabaseOptions {
        durability,
        ..DatabaseOptions::default()
    };
    open_with(path, history_retention, options).unwrap()
}

fn open_with(
    path: &Path,
    history_retention: i64,
    options: DatabaseOptions,
) -> Result<Arc<Database>> {
    let kind = StoreKind::Versioned {
        history_retention,
        segment_interval: 10,
    };
    Database::open(path, &[StoreSpec::new("rates", kind)], options)
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

/// Returns the begin of the version that is valid at a time.
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

/// Writes a key that changes at 100, 400, 600 and 950, and one that never changes. A third key
/// moves the stream time to 1,000.
fn filled(path: &Path, history_retention: i64, durability: Durability) {
    let db = open(path, history_retention, durability);
    put(&db, b"still", 50);
    for time in [100, 400, 600, 950, 1_000] {
        put(&db, if time == 1_000 { b"other" } else { b"EUR" }, time);
    }
    db.close().unwrap();
}

#[test]
fn versions_before_the_shorter_retention_are_not_returned() {
    for durability in [Durability::Sync, Durability::Changelog] {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 100, durability);
        // The same holds if the store is opened again, and if the retention is raised again.
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
            assert!(!put(&db, b"EUR", 899), "its end may be removed already");
            assert!(put(&db, b"late", 900));
            db.close().unwrap();
        }
        // The limit of 900 remains until the stream time exceeds it by the longer retention.
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
fn temporarily_shorter_retention_hides_versions() {
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
    // All versions from 700 on are returned: the shortest retention counts, whenever it was set.
    let db = open(dir.path(), 10_000, Durability::Sync);
    assert_eq!(
        [699, 700].map(|time| at(&db, b"EUR", time)),
        [None, Some(600)]
    );
}

/// After a crash a database without a write-ahead log may lose the record of the shorter retention,
/// but the files that were rewritten under it stay as they are.
#[test]
fn shorter_retention_is_known_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("db"), dir.path().join("copy"));
    filled(&path, 10_000, Durability::Changelog);
    let _database = open(&path, 100, Durability::Changelog);
    // The copy is what a crash leaves. Compactions before it make no difference.
    copy_as_killed(&path, &copy);
    let after = open(&copy, 10_000, Durability::Changelog);
    assert_eq!([500, 899].map(|time| at(&after, b"EUR", time)), [None; 2]);
    assert_eq!(at(&after, b"EUR", 900), Some(600));
}

#[test]
fn longer_retention_is_refused_on_request_if_it_would_hide_versions() {
    let dir = tempfile::tempdir().unwrap();
    let opens = |history_retention| {
        let options = DatabaseOptions {
            refuse_hidden_rows: true,
            ..DatabaseOptions::default()
        };
        let db = open_with(dir.path(), history_retention, options)?;
        db.close()
    };
    assert!(opens(100).is_ok(), "a new database");
    assert!(opens(10_000).is_ok(), "a database without versions");
    filled(dir.path(), 10_000, Durability::Sync);
    assert!(opens(10_000).is_ok() && opens(300).is_ok());
    // A refused open changes nothing: the second one is refused, too.
    for _ in 0..2 {
        let error = opens(10_000).expect_err("versions would be hidden");
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        assert_eq!(error.store_name(), Some("rates"));
        assert!(error.path_name().is_some());
    }
    assert!(opens(300).is_ok());
    let db = open(dir.path(), 10_000, Durability::Sync);
    assert_eq!(at(&db, b"EUR", 500), None, "hidden");
    db.close().unwrap();
    assert!(opens(10_000).is_ok(), "it is not longer than before");
}
