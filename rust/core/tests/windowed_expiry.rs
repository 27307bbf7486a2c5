//! Expired windows: their space on disk, and the scans that still read them.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Database, DatabaseOptions, FigureValue, OffsetChange, StoreKind, StoreSpec, Timestamp,
    WindowPut,
};
use std::sync::Arc;

const ROWS: i64 = 20_000;

fn spec() -> StoreSpec {
    let kind = StoreKind::Window {
        retention: ROWS,
        window_size: 1,
        retain_duplicates: false,
        timestamped: false,
    };
    StoreSpec::new("w", kind)
}

fn open(dir: &std::path::Path) -> Arc<Database> {
    Database::open(dir, &[spec()], DatabaseOptions::default()).unwrap()
}

fn put(db: &Database, start: i64) {
    let key = start
        .wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)
        .to_be_bytes();
    let put = WindowPut {
        key: &key,
        value: Some(b"value"),
        start: Timestamp(start),
        timestamp: None,
    };
    db.window("w")
        .unwrap()
        .put(&mut db.transaction().unwrap(), put)
        .unwrap();
}

fn filled(dir: &std::path::Path) -> Arc<Database> {
    let db = open(dir);
    (0..ROWS).for_each(|start| put(&db, start));
    db.commit(OffsetChange::Keep).unwrap();
    db.flush(true).unwrap();
    db.compact("w").unwrap();
    db
}

fn file_bytes(db: &Database) -> u64 {
    match db.metrics().unwrap().get("file-bytes") {
        Some(FigureValue::Whole(bytes)) => bytes,
        other => panic!("file-bytes is {other:?}"),
    }
}

#[test]
fn expired_windows_free_their_space() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    let before = file_bytes(&db);
    assert!(before > 300_000, "{before}");
    put(&db, 10 * ROWS);
    db.commit(OffsetChange::Keep).unwrap();
    // The rows ordered by time were dropped as whole files, without a compaction.
    let without_times = file_bytes(&db);
    assert!(
        without_times < before * 3 / 4,
        "{without_times} of {before}"
    );
    db.compact("w").unwrap();
    let after = file_bytes(&db);
    assert!(after < before / 50, "{after} of {before}");
}

#[test]
fn open_scan_reads_windows_that_expire_and_are_compacted() {
    let dir = tempfile::tempdir().unwrap();
    let db = filled(dir.path());
    let window = db.window("w").unwrap();
    let mut tx = db.begin().unwrap();
    let mut scan = window
        .fetch_range(&mut tx, None, None, Timestamp::MIN, Timestamp::MAX, false)
        .unwrap();
    drop(tx);
    put(&db, 10 * ROWS);
    db.commit(OffsetChange::Keep).unwrap();
    put(&db, 20 * ROWS);
    db.commit(OffsetChange::Keep).unwrap();
    db.compact("w").unwrap();
    let mut starts = Vec::new();
    scan.for_each(&mut |window, _| {
        starts.push(window.start.0);
        true
    })
    .unwrap();
    assert!(starts.into_iter().eq(0..ROWS));
}

/// An epoch without rows still moves stream time. The windows that this expires must stay expired.
#[test]
fn stream_time_without_rows_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    for db in [
        open(dir.path()),
        Database::open_in_memory(&[spec()], DatabaseOptions::default()).unwrap(),
    ] {
        let window = db.window("w").unwrap();
        put(&db, 0);
        db.commit(OffsetChange::Keep).unwrap();
        window.advance_stream_time(&mut db.transaction().unwrap(), Timestamp(ROWS));
        db.commit(OffsetChange::Keep).unwrap();
        let mut tx = db.begin().unwrap();
        assert_eq!(window.stream_time(&tx), Some(Timestamp(ROWS)));
        let key = 0_i64.to_be_bytes();
        assert!(
            !window
                .fetch(&mut tx, &key, Timestamp(0), |found| found.is_some())
                .unwrap()
        );
    }
}
