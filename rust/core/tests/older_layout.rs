//! Databases that are written in an older layout.
//!
//! RocksDB opens them with the families of the stores alone. A database that returns to this layout
//! loses nothing, and has what was written in the older layout meanwhile.
#![allow(clippy::unwrap_used, reason = "a test")]

mod killed;

use holdfast_core::{
    Commit, Database, DatabaseOptions, Durability, ErrorKind, Offset, OffsetChange, Offsets,
    StoreKind, StoreSpec, Timestamp, TopicPartition, VersionRow, read_offsets, write_offsets,
};
use killed::copy_as_killed;
use rust_rocksdb::{DB, Options};
use std::path::Path;
use std::sync::Arc;

fn specs() -> Vec<StoreSpec> {
    vec![
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec::new(
            "rates",
            StoreKind::Versioned {
                history_retention: 100,
                segment_interval: 10,
            },
        ),
        StoreSpec::new(
            "windows",
            StoreKind::Window {
                retention: 50,
                window_size: 5,
                retain_duplicates: true,
                timestamped: false,
            },
        ),
    ]
}

fn open(path: &Path, durability: Durability, older_layout: bool) -> Arc<Database> {
    Database::open(
        path,
        &specs(),
        DatabaseOptions {
            durability,
            older_layout,
            ..DatabaseOptions::default()
        },
    )
    .unwrap()
}

fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition {
        topic: topic.to_owned(),
        partition,
    }
}

fn offsets(rows: &[(&str, i32, i64)]) -> Offsets {
    rows.iter()
        .map(|(topic, partition, offset)| (tp(topic, *partition), Offset(*offset)))
        .collect()
}

/// Writes rows, offsets of stores, an input position, a property and a stream time.
fn write(db: &Database) {
    let mut tx = db.begin().unwrap();
    db.key_value("kv")
        .unwrap()
        .put(&mut tx, b"k", Some(b"v"))
        .unwrap();
    db.versioned("rates")
        .unwrap()
        .put(&mut tx, b"EUR", Some(b"1"), Timestamp(1_000))
        .unwrap();
    tx.observe(tp("orders", 3), Offset(99)).unwrap();
    let set = OffsetChange::Set(vec![
        (tp("log", 0), Some(Offset(7))),
        (tp("log", 1), Some(Offset(3))),
    ]);
    db.commit_transaction(
        tx,
        Commit {
            offsets: set,
            properties: vec![("p".into(), b"x".to_vec())],
        },
    )
    .unwrap();
    let row = VersionRow {
        key: b"l",
        value: Some(b"w"),
        timestamp: Timestamp(0),
    };
    db.restore(
        "kv",
        &[row],
        OffsetChange::Set(vec![(tp("log", 0), Some(Offset(9)))]),
    )
    .unwrap();
}

fn check(db: &Database) {
    let mut tx = db.begin().unwrap();
    assert!(
        db.key_value("kv")
            .unwrap()
            .get(&mut tx, b"k", |value| value == Some(b"v"))
            .unwrap()
    );
    assert_eq!(
        db.stream_time("rates", &tx).unwrap(),
        Some(Timestamp(1_000))
    );
    assert_eq!(db.position().get(&tp("orders", 3)), Some(Offset(99)));
    assert_eq!(db.property("p").unwrap(), Some(b"x".to_vec()));
    let stored = |store: &str| {
        (0..2)
            .map(|n| {
                db.store_offset(store, &tp("log", n))
                    .unwrap()
                    .map(|offset| offset.0)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (stored("kv"), stored("rates")),
        (vec![Some(9), Some(3)], vec![Some(9), Some(3)])
    );
}

/// Opens as older layouts do: with the families of the stores and the default one only.
fn plain(path: &Path) -> DB {
    let families = [
        "default",
        "kv:kv",
        "versions:rates",
        "latest:rates",
        "windowed:windows",
        "times:windows",
    ];
    DB::open_cf(&Options::default(), path, families).unwrap()
}

#[test]
fn round_trip_loses_nothing() {
    for durability in [Durability::Sync, Durability::Changelog] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("database");
        let db = open(&path, durability, true);
        write(&db);
        check(&db);
        db.close().unwrap();
        drop(db);
        assert_eq!(
            read_offsets(&path.join(".checkpoint")).unwrap(),
            Some(offsets(&[("log", 0, 9), ("log", 1, 3)]))
        );
        for store in ["kv", "rates", "windows"] {
            assert_eq!(
                read_offsets(&path.join(format!("{store}.position"))).unwrap(),
                Some(offsets(&[("orders", 3, 99)]))
            );
        }
        for _ in 0..2 {
            let db = plain(&path);
            assert_eq!(
                db.get_cf(&db.cf_handle("kv:kv").unwrap(), b"k").unwrap(),
                Some(b"v".to_vec())
            );
        }
        // To the older layout and back, then without it.
        for older_layout in [true, false, false] {
            let db = open(&path, durability, older_layout);
            check(&db);
            assert!(!path.join(".checkpoint").exists() && !path.join("kv.position").exists());
            db.close().unwrap();
        }
    }
}

#[test]
fn offsets_of_each_store_survive_a_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), Durability::Sync, true);
    db.commit(OffsetChange::Set(vec![(tp("log", 0), Some(Offset(4)))]))
        .unwrap();
    db.close().unwrap();
    let more = [specs(), vec![StoreSpec::new("new", StoreKind::KeyValue)]].concat();
    let options = || DatabaseOptions {
        older_layout: true,
        ..DatabaseOptions::default()
    };
    let db = Database::open(dir.path(), &more, options()).unwrap();
    assert_eq!(db.store_offset("new", &tp("log", 0)).unwrap(), None);
    let row = VersionRow {
        key: b"l",
        value: Some(b"w"),
        timestamp: Timestamp(0),
    };
    db.restore(
        "new",
        &[row],
        OffsetChange::Set(vec![(tp("log", 0), Some(Offset(2)))]),
    )
    .unwrap();
    db.close().unwrap();
    let db = Database::open(dir.path(), &more, options()).unwrap();
    let stored = |store: &str| db.store_offset(store, &tp("log", 0)).unwrap();
    assert_eq!(
        (stored("kv"), stored("new")),
        (Some(Offset(4)), Some(Offset(2)))
    );
}

#[test]
fn writes_in_the_older_layout_are_read() {
    for (found, expected) in [
        (
            Some(offsets(&[("log", 0, 12), ("other", 1, 5)])),
            vec![("log", 0, 12), ("other", 1, 5)],
        ),
        (None, vec![]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), Durability::Sync, true);
        write(&db);
        db.close().unwrap();
        let db = plain(dir.path());
        db.put_cf(&db.cf_handle("kv:kv").unwrap(), b"k", b"newer")
            .unwrap();
        drop(db);
        match &found {
            Some(found) => write_offsets(&dir.path().join(".checkpoint"), found).unwrap(),
            None => std::fs::remove_file(dir.path().join(".checkpoint")).unwrap(),
        }
        write_offsets(
            &dir.path().join("kv.position"),
            &offsets(&[("orders", 3, 120)]),
        )
        .unwrap();
        for _ in 0..2 {
            let db = open(dir.path(), Durability::Sync, false);
            assert!(
                db.key_value("kv")
                    .unwrap()
                    .get(&mut db.begin().unwrap(), b"k", |value| value
                        == Some(b"newer"))
                    .unwrap()
            );
            assert_eq!(
                db.committed_offsets()
                    .unwrap()
                    .into_iter()
                    .collect::<Offsets>(),
                offsets(&expected)
            );
            assert_eq!(db.position().get(&tp("orders", 3)), Some(Offset(120)));
            db.close().unwrap();
        }
    }
}

#[test]
fn text_files_are_removed_after_their_offsets_are_durable() {
    for durability in [Durability::Sync, Durability::Changelog] {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("database"), dir.path().join("copy"));
        open(&path, durability, false).close().unwrap();
        write_offsets(&path.join(".checkpoint"), &offsets(&[("log", 0, 41)])).unwrap();
        write_offsets(&path.join("kv.position"), &offsets(&[("orders", 3, 99)])).unwrap();
        let _open = open(&path, durability, false);
        assert!(!path.join(".checkpoint").exists() && !path.join("kv.position").exists());
        copy_as_killed(&path, &copy);
        let db = open(&copy, durability, false);
        assert_eq!(
            db.committed_offsets()
                .unwrap()
                .into_iter()
                .collect::<Offsets>(),
            offsets(&[("log", 0, 41)])
        );
        assert_eq!(db.position().get(&tp("orders", 3)), Some(Offset(99)));
    }
}

#[test]
fn text_files_do_not_overwrite_known_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), Durability::Sync, false);
    write(&db);
    db.close().unwrap();
    write_offsets(
        &dir.path().join(".checkpoint"),
        &offsets(&[("log", 0, 1), ("log", 2, 5)]),
    )
    .unwrap();
    write_offsets(
        &dir.path().join("kv.position"),
        &offsets(&[("orders", 3, 500), ("orders", 4, 1)]),
    )
    .unwrap();
    let db = open(dir.path(), Durability::Sync, false);
    check(&db);
    assert_eq!(
        db.committed_offsets()
            .unwrap()
            .into_iter()
            .collect::<Offsets>(),
        offsets(&[("log", 0, 9), ("log", 1, 3), ("log", 2, 5)])
    );
    assert_eq!(db.position().get(&tp("orders", 4)), Some(Offset(1)));
}

#[test]
fn malformed_file_is_an_error_that_names_the_line() {
    for name in [".checkpoint", "rates.position"] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(dir.path(), Durability::Sync, true);
        write(&db);
        db.close().unwrap();
        let file = dir.path().join(name);
        let good = std::fs::read_to_string(&file).unwrap();
        let bad = good.replacen(" 3", " three", 1);
        assert_ne!(good, bad);
        std::fs::write(&file, &bad).unwrap();
        for _ in 0..2 {
            let error = Database::open(dir.path(), &specs(), DatabaseOptions::default())
                .err()
                .unwrap();
            assert_eq!(error.kind(), ErrorKind::StoreCorrupted);
            assert!(
                error.to_string().contains("line ") && error.to_string().contains(name),
                "{error}"
            );
            assert_eq!(std::fs::read_to_string(&file).unwrap(), bad);
        }
        std::fs::write(&file, &good).unwrap();
        check(&open(dir.path(), Durability::Sync, false));
    }
}

#[test]
fn removed_offset_stays_removed_after_the_next_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path(), Durability::Sync, true);
    write(&db);
    db.close().unwrap();
    let db = open(dir.path(), Durability::Sync, true);
    db.commit(OffsetChange::Set(vec![(tp("log", 1), None)]))
        .unwrap();
    db.close().unwrap();
    let db = open(dir.path(), Durability::Sync, false);
    assert_eq!(db.committed_offsets().unwrap(), [(tp("log", 0), Offset(9))]);
}

#[test]
fn database_in_memory_has_no_files() {
    let db = Database::open_in_memory(
        &specs(),
        DatabaseOptions {
            older_layout: true,
            ..DatabaseOptions::default()
        },
    )
    .unwrap();
    write(&db);
    db.close().unwrap();
    assert!(!db.path().exists(), "{}", db.path().display());
}
