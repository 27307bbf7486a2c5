//! Expired rows of stores in memory are freed by later commits. They need not wait for a flush of
//! files: a crash loses such a store anyway.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Database, DatabaseOptions, Durability, FigureValue, OffsetChange, StoreKind, StoreSpec,
    Timestamp, WindowPut, WindowedKey,
};
use std::sync::Arc;

const RETENTION: i64 = 100;
/// Rows of each store in a commit, one for each microsecond.
const ROWS: i64 = 50;
const COMMITS: i64 = 100;
const STORES: [&str; 3] = ["versioned", "window", "session"];

fn specs() -> Vec<StoreSpec> {
    let kinds = [
        StoreKind::Versioned {
            history_retention: RETENTION,
            segment_interval: 10,
        },
        StoreKind::Window {
            retention: RETENTION,
            window_size: 1,
            retain_duplicates: false,
            timestamped: false,
        },
        StoreKind::Session {
            retention: RETENTION,
        },
    ];
    let memory = STORES.iter().zip(kinds).map(|(name, kind)| StoreSpec {
        persistent: false,
        ..StoreSpec::new(*name, kind)
    });
    memory.collect()
}

fn put(db: &Database, prefix: &str, time: i64) {
    let (key, at) = ((time % 10).to_be_bytes(), Timestamp(time));
    let mut tx = db.transaction().unwrap();
    let name = |kind: &str| format!("{prefix}{kind}");
    db.versioned(&name("versioned"))
        .unwrap()
        .put(&mut tx, &key, Some(b"v"), at)
        .unwrap();
    let window = WindowPut {
        key: &key,
        value: Some(b"v"),
        start: at,
        timestamp: None,
    };
    db.window(&name("window"))
        .unwrap()
        .put(&mut tx, window)
        .unwrap();
    let session = WindowedKey {
        key: &key,
        start: at,
        end: at,
    };
    db.session(&name("session"))
        .unwrap()
        .put(&mut tx, session, Some(b"v"))
        .unwrap();
}

fn figure(db: &Database, store: &str, name: &str) -> u64 {
    match db.metrics().unwrap().of_store(store, name) {
        Some(FigureValue::Whole(figure)) => figure,
        other => panic!("{name} is {other:?}"),
    }
}

fn windows(db: &Database, tx: &mut holdfast_core::Transaction) -> Vec<i64> {
    let mut starts = Vec::new();
    let mut scan = db
        .window("window")
        .unwrap()
        .fetch_range(tx, None, None, Timestamp::MIN, Timestamp::MAX, false)
        .unwrap();
    scan.for_each(&mut |window, _| {
        starts.push(window.start.0);
        true
    })
    .unwrap();
    starts
}

fn check_freed(db: &Arc<Database>, commit: impl Fn(i64)) {
    for n in 0..COMMITS {
        (n * ROWS..(n + 1) * ROWS).for_each(|time| put(db, "", time));
        commit(n);
        // A rollback restores all rows of the last commit.
        if n % 10 == 9 {
            put(db, "", 10 * COMMITS * ROWS);
            db.rollback().unwrap();
            let now = (n + 1) * ROWS - 1;
            assert!(
                windows(db, &mut db.begin().unwrap())
                    .into_iter()
                    .eq(now - RETENTION + 1..=now)
            );
        }
    }
    for store in STORES {
        let rows = figure(db, store, "rows");
        assert!(
            rows < (COMMITS * ROWS / 4) as u64,
            "{store} holds {rows} rows"
        );
        assert!(figure(db, store, "expired-segments-total") > 0, "{store}");
    }
}

#[test]
fn database_in_memory_frees_expired_rows() {
    let db = Database::open_in_memory(&specs(), DatabaseOptions::default()).unwrap();
    check_freed(&db, |_| db.commit(OffsetChange::Keep).unwrap());
}

#[test]
fn stores_in_memory_do_not_wait_for_files_of_other_stores() {
    let dir = tempfile::tempdir().unwrap();
    let files = specs().into_iter().map(|spec| StoreSpec {
        persistent: true,
        name: format!("files-{}", spec.name),
        ..spec
    });
    let stores: Vec<StoreSpec> = specs().into_iter().chain(files).collect();
    let options = DatabaseOptions {
        durability: Durability::Changelog,
        ..DatabaseOptions::default()
    };
    let db = Database::open(dir.path(), &stores, options).unwrap();
    check_freed(&db, |n| {
        put(&db, "files-", (n + 1) * ROWS);
        db.commit(OffsetChange::Keep).unwrap();
    });
    // Stores in files expire after a flush: a crash now would lose these commits.
    let expired = |store: &str| figure(&db, &format!("files-{store}"), "expired-segments-total");
    assert_eq!(STORES.map(expired), [0; 3]);
    db.flush(true).unwrap();
    put(&db, "files-", 2 * COMMITS * ROWS);
    db.commit(OffsetChange::Keep).unwrap();
    db.flush(true).unwrap();
    assert!(STORES.map(expired).into_iter().all(|expired| expired > 0));
}

#[test]
fn view_reads_rows_that_have_expired_since() {
    let db = Database::open_in_memory(&specs(), DatabaseOptions::default()).unwrap();
    (0..ROWS).for_each(|time| put(&db, "", time));
    db.commit(OffsetChange::Keep).unwrap();
    let mut view = db.begin().unwrap();
    for n in 1..COMMITS {
        (n * ROWS..(n + 1) * ROWS).for_each(|time| put(&db, "", time));
        db.commit(OffsetChange::Keep).unwrap();
    }
    assert!(windows(&db, &mut view).into_iter().eq(0..ROWS));
}
