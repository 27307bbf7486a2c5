//! Databases: refused writes and commits, locks, and the messages of errors.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::column::{LastBatch, bytes_column, key_value_batch, key_value_schema};
use holdfast_core::{
    Commit, Database, DatabaseOptions, ErrorKind, FigureValue, OffsetChange, Op, StoreKind,
    StoreSpec, Timestamp,
};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

fn open(path: &Path) -> Arc<Database> {
    let kind = StoreKind::Versioned {
        history_retention: 100,
        segment_interval: 10,
    };
    Database::open(
        path,
        &[
            StoreSpec::new("kv", StoreKind::KeyValue),
            StoreSpec::new("rates", kind),
        ],
        DatabaseOptions::default(),
    )
    .unwrap()
}

#[test]
fn too_large_keys_and_values_are_refused_and_not_staged() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let huge = vec![0; (1 << 30) + 1];
    let mut tx = db.begin().unwrap();
    let store = db.key_value("kv").unwrap();
    for refused in [
        store.put(&mut tx, &huge, Some(b"v")),
        store.put(&mut tx, b"k", Some(&huge)),
    ] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.to_string().contains("1073741825 bytes"), "{error}");
    }
    assert!(tx.is_empty());
}

#[test]
fn failed_batch_of_puts_names_its_row_and_counts_those_before() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let huge = vec![0; (1 << 30) + 1];
    let mut tx = db.begin().unwrap();
    let store = db.key_value("kv").unwrap();
    let rows = [("a", "1"), ("b", "2")].map(|(key, value)| (key, value.as_bytes()));
    let rows = rows
        .into_iter()
        .chain([("c", huge.as_slice()), ("d", b"4")]);
    let rows = rows.map(|(key, value)| (key.as_bytes(), Some(value)));
    let error = store.put_batch(&mut tx, rows).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue);
    assert!(error.to_string().contains("[store: kv, key: c]"), "{error}");
    let mut found = Vec::new();
    for key in [b"a", b"b", b"c", b"d"] {
        found.push(store.get(&mut tx, key, |value| value.is_some()).unwrap());
    }
    assert_eq!(found, [true, true, false, false]);
    let records = db
        .metrics()
        .unwrap()
        .of_store("kv", "put-batch-records-total");
    assert_eq!(records, Some(FigureValue::Whole(2)));
}

#[test]
fn partly_failed_batch_is_not_committed() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let rates = db.versioned("rates").unwrap();
    let huge = vec![0; (1 << 30) + 1];
    let put = |value| Op::Put {
        key: b"k",
        value: Some(value),
        timestamp: Timestamp(1),
    };
    let mut tx = db.begin().unwrap();
    rates
        .apply_batch(&mut tx, &[put(b"v"), put(&huge)], true, &mut |_, _| {})
        .unwrap_err();
    let error = db.commit_transaction(tx, Commit::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(error.to_string().contains("half-way"), "{error}");
    assert!(
        rates
            .get(&mut db.begin().unwrap(), b"k", |found| found.is_none())
            .unwrap()
    );
}

#[test]
fn batch_that_fails_before_its_first_write_can_be_committed() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let rates = db.versioned("rates").unwrap();
    let huge = vec![0; (1 << 30) + 1];
    let mut tx = db.begin().unwrap();
    rates
        .apply_batch(
            &mut tx,
            &[Op::Put {
                key: b"k",
                value: Some(&huge),
                timestamp: Timestamp(1),
            }],
            true,
            &mut |_, _| {},
        )
        .unwrap_err();
    db.commit_transaction(tx, Commit::default()).unwrap();
}

/// RocksDB's call returns no error, and RocksDB counts failed work in a family that Holdfast does
/// not use. Once, both were therefore unknown.
#[test]
fn failed_compaction_is_an_error_and_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = DatabaseOptions::default();
    for (name, value) in [
        ("disable_auto_compactions", "true"),
        ("compression", "kNoCompression"),
    ] {
        options.rocksdb_options.push((name.into(), value.into()));
    }
    let specs = [StoreSpec::new("kv", StoreKind::KeyValue)];
    let db = Database::open(dir.path(), &specs, options).unwrap();
    let store = db.key_value("kv").unwrap();
    for part in 0..2u8 {
        let mut tx = db.transaction().unwrap();
        for n in 0..1_000u32 {
            store
                .put(&mut tx, &n.to_be_bytes(), Some(&[part; 100]))
                .unwrap();
        }
        drop(tx);
        db.commit(OffsetChange::Keep).unwrap();
        db.flush(true).unwrap();
    }
    let errors = || db.metrics().unwrap().get("background-errors").unwrap();
    assert_eq!(errors(), FigureValue::Whole(0));
    let files = std::fs::read_dir(dir.path()).unwrap();
    let file = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sst"))
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let file = std::fs::File::options().write(true).open(file).unwrap();
    file.write_all_at(&[0xff; 100], 10_000).unwrap();
    let error = db.compact("kv").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(error.to_string().contains("store: kv"), "{error}");
    assert_ne!(errors(), FigureValue::Whole(0));
    // The error has stopped RocksDB. Once, a second compaction did nothing and returned no error.
    let error = db.compact("kv").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StoreCorrupted, "{error}");
}

#[test]
fn batch_of_a_scan_has_a_row_at_least() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let store = db.key_value("kv").unwrap();
    let mut tx = db.begin().unwrap();
    for key in [b"a", b"b"] {
        store.put(&mut tx, key, Some(b"v")).unwrap();
    }
    let mut scan = store.range(&mut tx, None, None, false).unwrap();
    let (mut rows, mut last) = (Vec::new(), LastBatch::default());
    while let Some(batch) = key_value_batch(&mut scan, 0, &key_value_schema(), &mut last).unwrap() {
        rows.push(batch.num_rows());
    }
    assert_eq!(rows, [1, 1]);
}

#[test]
fn batches_of_a_scan_have_its_rows() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(dir.path());
    let store = db.key_value("kv").unwrap();
    let mut tx = db.begin().unwrap();
    // The first batches have long values, the later ones short values, and the last one few rows.
    let written: Vec<_> = (0..5_100u32)
        .map(|n| {
            (
                n.to_be_bytes(),
                vec![n as u8; if n < 2_500 { 100 } else { n as usize % 7 }],
            )
        })
        .collect();
    for (key, value) in &written {
        store.put(&mut tx, key, Some(value)).unwrap();
    }
    let mut scan = store.range(&mut tx, None, None, false).unwrap();
    let (mut read, mut last) = (Vec::new(), LastBatch::default());
    while let Some(batch) =
        key_value_batch(&mut scan, 1_000, &key_value_schema(), &mut last).unwrap()
    {
        let [keys, values] = [0, 1].map(|n| bytes_column(batch.column(n), "column").unwrap());
        for row in 0..batch.num_rows() {
            read.push((
                keys.get(row).unwrap().to_vec(),
                values.get(row).unwrap().to_vec(),
            ));
        }
    }
    let written: Vec<_> = written
        .into_iter()
        .map(|(key, value)| (key.to_vec(), value))
        .collect();
    assert!(read == written, "{} of {} rows", read.len(), written.len());
}

#[test]
fn path_with_the_text_of_a_lock_error_is_not_reported_as_locked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("While lock file LOCK");
    open(&path).close().unwrap();
    let manifest = std::fs::read_dir(&path)
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|p| p.to_string_lossy().contains("MANIFEST"));
    std::fs::remove_file(manifest.unwrap()).unwrap();
    let kind = StoreKind::Versioned {
        history_retention: 100,
        segment_interval: 10,
    };
    let stores = [
        StoreSpec::new("kv", StoreKind::KeyValue),
        StoreSpec::new("rates", kind),
    ];
    let error = Database::open(&path, &stores, DatabaseOptions::default())
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::StoreCorrupted, "{error}");
}

#[test]
fn lock_error_names_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let _database = open(dir.path());
    let error = Database::open(dir.path(), &[], DatabaseOptions::default())
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::StoreLocked);
    assert!(
        error.to_string().contains(&std::process::id().to_string()),
        "{error}"
    );
}

/// RocksDB compares the paths of its locks as text. Once, a second spelling of a path therefore
/// gave the directory a second writer.
#[test]
fn directory_is_opened_once_for_all_spellings_of_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real").join("db");
    let db = open(&path);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path().join("real"), &link).unwrap();
    // From the working directory up to the root and down again.
    let up = std::env::current_dir()
        .unwrap()
        .components()
        .skip(1)
        .map(|_| "..")
        .collect::<std::path::PathBuf>();
    let relative = up.join(path.strip_prefix("/").unwrap());
    let spelled = format!("{}/./real/../real//db/", dir.path().display());
    for other in [link.join("db"), relative, spelled.into()] {
        let error = Database::open(
            &other,
            &[StoreSpec::new("kv", StoreKind::KeyValue)],
            DatabaseOptions::default(),
        )
        .err()
        .unwrap();
        assert_eq!(error.kind(), ErrorKind::StoreLocked, "{}", other.display());
        let message = error.to_string();
        assert!(
            message.contains(&format!("process {} (this one)", std::process::id())),
            "{message}"
        );
        assert!(
            message.contains(&path.canonicalize().unwrap().display().to_string()),
            "{message}"
        );
    }
    db.close().unwrap();
    open(&link.join("db")).close().unwrap();
}
