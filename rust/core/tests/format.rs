//! The files of a database of the current format number (`tests/data/database-v1`): all kinds of
//! stores are read from them, and the database continues.
//!
//! `scripts/fixtures database` writes the files anew. A change that makes this test fail needs a
//! new format number.
#![allow(clippy::unwrap_used, reason = "a test")]

mod killed;

use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, Offset, OffsetChange, SessionQuery, Step,
    StoreKind, StoreSpec, Timestamp, TopicPartition, Transaction, WindowPut, WindowedKey,
};
use killed::copy_as_killed;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The first letters of the names of files that an open does not need.
const NOT_STORED: [&str; 4] = ["HOLDER", "LOCK", "LOG", "OPTIONS"];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/database-v1")
}

/// The stores. The second open has a longer retention and one more store.
fn specs(history_retention: i64, more: &[StoreSpec]) -> Vec<StoreSpec> {
    let window = |retain_duplicates, timestamped| StoreKind::Window {
        retention: 1_000,
        window_size: 10,
        retain_duplicates,
        timestamped,
    };
    let versions = StoreKind::Versioned {
        history_retention,
        segment_interval: 10,
    };
    let mut specs = vec![
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec::new("stamped", StoreKind::TimestampedKeyValue),
        StoreSpec::new("rates", versions),
        StoreSpec::new("windows", window(false, false)),
        StoreSpec::new("duplicates", window(true, false)),
        StoreSpec::new("stamped_windows", window(false, true)),
        StoreSpec::new("sessions", StoreKind::Session { retention: 1_000 }),
        StoreSpec {
            transactional: false,
            ..StoreSpec::new("direct", StoreKind::KeyValue)
        },
    ];
    specs.extend_from_slice(more);
    specs
}

fn memory(persistent: bool) -> StoreSpec {
    StoreSpec {
        persistent,
        ..StoreSpec::new("memory", StoreKind::KeyValue)
    }
}

fn open(path: &Path, specs: &[StoreSpec], uncommitted_max_bytes: i64) -> Arc<Database> {
    let options = DatabaseOptions {
        durability: Durability::Sync,
        uncommitted_max_bytes,
        ..DatabaseOptions::default()
    };
    Database::open(path, specs, options).unwrap()
}

fn log(partition: i32) -> TopicPartition {
    TopicPartition {
        topic: "log".into(),
        partition,
    }
}

fn value(n: i64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Stages the n-th transaction: a row in each store except `direct`, `memory` and `added`.
fn stage(db: &Database, tx: &mut Transaction, n: i64) {
    let (key, time) = (value(n), Timestamp(100 + n));
    let some = Some(&key[..]);
    db.key_value("kv").unwrap().put(tx, &key, some).unwrap();
    let stamped = db.timestamped_key_value("stamped").unwrap();
    stamped.put(tx, &key, some, time).unwrap();
    let rates = db.versioned("rates").unwrap();
    rates.put(tx, b"EUR", some, time).unwrap();
    for (store, timestamp) in [
        ("windows", None),
        ("duplicates", None),
        ("stamped_windows", Some(Timestamp(n))),
    ] {
        let put = WindowPut {
            key: b"k",
            value: some,
            start: if store == "duplicates" {
                Timestamp(100)
            } else {
                time
            },
            timestamp,
        };
        db.window(store).unwrap().put(tx, put).unwrap();
    }
    let session = WindowedKey {
        key: b"k",
        start: Timestamp(n),
        end: time,
    };
    let sessions = db.session("sessions").unwrap();
    sessions.put(tx, session, some).unwrap();
}

fn commit(db: &Database, n: i64) {
    let mut tx = db.begin().unwrap();
    stage(db, &mut tx, n);
    tx.observe(log(7), Offset(10 * n)).unwrap();
    let commit = Commit {
        offsets: OffsetChange::Set(vec![(log(0), Some(Offset(n)))]),
        properties: vec![("property".into(), value(n).to_vec())],
    };
    db.commit_transaction(tx, commit).unwrap();
}

/// Writes four commits: in files, in files under a longer retention, spilled, and in RocksDB's
/// write-ahead log only. Returns the database, which is still open.
fn write(path: &Path) -> Arc<Database> {
    let db = open(path, &specs(50, &[memory(false)]), -1);
    let direct = db.key_value("direct").unwrap();
    db.write(|tx| direct.put(tx, b"k", Some(b"1"))).unwrap();
    commit(&db, 1);
    db.close().unwrap();
    drop(db);
    let added = StoreSpec::new("added", StoreKind::KeyValue);
    let more = [memory(false), added];
    let db = open(path, &specs(90, &more), -1);
    commit(&db, 2);
    db.close().unwrap();
    drop(db);
    let db = open(path, &specs(90, &more), 0);
    commit(&db, 3);
    db.close().unwrap();
    drop(db);
    let db = open(path, &specs(90, &more), -1);
    commit(&db, 4);
    db
}

/// Checks the rows of the first `last` transactions.
fn check(db: &Database, last: i64) {
    let mut tx = db.begin().unwrap();
    let all: Vec<Vec<u8>> = (1..=last).map(|n| value(n).to_vec()).collect();
    let times: Vec<i64> = (1..=last).map(|n| 100 + n).collect();
    let mut found = Vec::new();
    let mut rows = db.key_value("kv").unwrap();
    let mut scan = rows.range(&mut tx, None, None, false).unwrap();
    scan.for_each(&mut |_, value| {
        found.push(value.to_vec());
        Step::Next
    })
    .unwrap();
    assert_eq!(found, all, "kv");
    rows = db.key_value("direct").unwrap();
    let is_empty = rows.get(&mut tx, b"k", |row| row.is_none()).unwrap();
    assert!(
        is_empty,
        "an unclean stop discards a store without transactions"
    );

    let stamped = db.timestamped_key_value("stamped").unwrap();
    for n in 1..=last {
        let found = stamped.get(&mut tx, &value(n), |row| {
            row.map(|row| (row.value.to_vec(), row.timestamp.0))
        });
        assert_eq!(
            found.unwrap(),
            Some((value(n).to_vec(), 100 + n)),
            "stamped"
        );
    }

    let rates = db.versioned("rates").unwrap();
    let mut versions = Vec::new();
    let mut scan = rates
        .versions(&mut tx, b"EUR", Timestamp::MIN, Timestamp::MAX, true)
        .unwrap();
    scan.for_each(&mut |_, version| {
        versions.push((version.value.to_vec(), version.timestamp.0));
        true
    })
    .unwrap();
    let wanted: Vec<_> = all.iter().cloned().zip(times.iter().copied()).collect();
    assert_eq!(versions, wanted, "rates");
    assert_eq!(rates.stream_time(&tx), Some(Timestamp(100 + last)));
    // The first retention was 50 when the stream time was 101.
    assert_eq!(rates.horizon(&tx), 51);

    for store in ["windows", "duplicates", "stamped_windows"] {
        let mut windows = Vec::new();
        let mut scan = db
            .window(store)
            .unwrap()
            .fetch_range(&mut tx, None, None, Timestamp::MIN, Timestamp::MAX, false)
            .unwrap();
        scan.for_each(&mut |window, row| {
            windows.push((row.value.to_vec(), window.start.0));
            true
        })
        .unwrap();
        let wanted: Vec<_> = if store == "duplicates" {
            all.iter().cloned().map(|value| (value, 100)).collect()
        } else {
            wanted.clone()
        };
        assert_eq!(windows, wanted, "{store}");
    }
    let timestamp =
        db.window("stamped_windows")
            .unwrap()
            .fetch(&mut tx, b"k", Timestamp(101), |row| {
                row.map(|row| row.timestamp.0)
            });
    assert_eq!(timestamp.unwrap(), Some(1), "stamped_windows");

    let query = SessionQuery {
        key_from: None,
        key_to: None,
        earliest_end: Timestamp::MIN,
        latest_start: Timestamp::MAX,
        reverse: false,
    };
    let mut sessions = Vec::new();
    let mut scan = db
        .session("sessions")
        .unwrap()
        .find_sessions(&mut tx, query)
        .unwrap();
    scan.for_each(&mut |session, value| {
        sessions.push((value.to_vec(), session.end.0));
        true
    })
    .unwrap();
    assert_eq!(sessions, wanted, "sessions");

    let offset = db.store_offset("kv", &log(0)).unwrap();
    assert_eq!(offset, Some(Offset(last)));
    assert_eq!(db.position().get(&log(7)), Some(Offset(10 * last)));
    assert_eq!(db.property("property").unwrap(), Some(value(last).to_vec()));
    for (store, is_lost) in [
        ("added", true),
        ("memory", true),
        ("direct", true),
        ("kv", false),
    ] {
        assert_eq!(db.is_lost(store, &tx).unwrap(), is_lost, "{store}");
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[test]
fn files_of_the_current_format_are_read_and_continued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("database");
    copy(&fixture(), &path);
    // The store that was in memory is now in files.
    let more = [memory(true), StoreSpec::new("added", StoreKind::KeyValue)];
    let db = open(&path, &specs(90, &more), -1);
    check(&db, 4);
    // If the number of a duplicate were used again, a row would be replaced. If that of a commit
    // were used again, the rows of a spilled commit would be missing.
    commit(&db, 5);
    check(&db, 5);
    db.close().unwrap();
    drop(db);
    let db = open(&path, &specs(90, &more), 0);
    commit(&db, 6);
    check(&db, 6);
}

/// Writes the fixture.
#[test]
#[ignore = "scripts/fixtures runs it"]
fn write_fixture() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copied) = (dir.path().join("database"), dir.path().join("copy"));
    let db = write(&path);
    copy_as_killed(&path, &copied);
    drop(db);
    if fixture().exists() {
        std::fs::remove_dir_all(fixture()).unwrap();
    }
    std::fs::create_dir_all(fixture()).unwrap();
    for file in std::fs::read_dir(&copied).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if !NOT_STORED.iter().any(|skipped| name.starts_with(skipped)) {
            std::fs::copy(file.path(), fixture().join(name)).unwrap();
        }
    }
}
