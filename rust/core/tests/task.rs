//! Databases: what a commit is refused for, and errors that name the thing.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{
    Commit, Database, DatabaseOptions, ErrorKind, Op, StoreKind, StoreSpec, Timestamp,
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
        &[
            StoreSpec::new("kv", StoreKind::KeyValue),
            StoreSpec::new("rates", kind),
        ],
        DatabaseOptions::default(),
    )
    .unwrap()
}

#[test]
fn keys_and_values_that_do_not_fit_are_refused_and_nothing_is_staged() {
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
fn a_batch_that_failed_half_way_is_not_committed() {
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
fn a_batch_that_failed_before_its_first_write_leaves_the_transaction_whole() {
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

#[test]
fn a_path_with_lock_in_it_is_not_a_lock_that_is_held() {
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
fn a_directory_that_is_open_names_its_holder() {
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

/// RocksDB knows its own locks by the path as it was spelled: two spellings once were two writers
/// of one directory.
#[test]
fn a_directory_is_open_once_however_its_path_is_spelled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("real").join("db");
    let db = open(&path);
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path().join("real"), &link).unwrap();
    // From the working folder up to the root and down again.
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
        let told = error.to_string();
        assert!(
            told.contains(&format!("process {} (this one)", std::process::id())),
            "{told}"
        );
        assert!(
            told.contains(&path.canonicalize().unwrap().display().to_string()),
            "{told}"
        );
    }
    db.close().unwrap();
    open(&link.join("db")).close().unwrap();
}
