//! Databases: refused writes and commits, locks, and the messages of errors.
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
