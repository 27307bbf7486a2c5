//! Directories of other programs are refused, and nothing in them is changed.
#![allow(clippy::unwrap_used, reason = "a test")]

use holdfast_core::{Database, DatabaseOptions, ErrorKind, StoreKind, StoreSpec};
use rust_rocksdb::{DB, Options};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn open(path: &Path) -> holdfast_core::Result<std::sync::Arc<Database>> {
    let stores = [StoreSpec::new("totals", StoreKind::KeyValue)];
    Database::open(path, &stores, DatabaseOptions::default())
}

/// The files below a folder, with their contents.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.append(&mut files(&path));
        } else {
            found.insert(path.clone(), fs::read(path).unwrap());
        }
    }
    found
}

/// Makes a database as another program does, with one row.
fn make_foreign(path: &Path, families: &[&str]) {
    fs::create_dir_all(path).unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let db = DB::open_cf(&options, path, families).unwrap();
    db.put(b"k", b"v").unwrap();
}

fn assert_refused(path: &Path, words: &str) {
    let before = files(path);
    let error = open(path).err().expect("refused");
    assert_eq!(error.kind(), ErrorKind::FormatVersion);
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(files(path), before);
}

#[test]
fn database_of_another_program_is_refused_and_stays_readable() {
    // Kafka Streams makes the second and the third list for a store.
    for families in [
        &["default"][..],
        &["default", "keyValueWithTimestamp"],
        &["default", "offsets"],
    ] {
        let dir = tempfile::tempdir().unwrap();
        make_foreign(dir.path(), families);
        assert_refused(dir.path(), "database of another program");
        let db = DB::open_cf(&Options::default(), dir.path(), families).unwrap();
        assert_eq!(db.get(b"k").unwrap().unwrap(), b"v");
    }
}

#[test]
fn state_directory_of_kafka_streams_is_refused() {
    let make: [fn(&Path); 5] = [
        |task| fs::write(task.join(".checkpoint"), "0\n1\nlog 0 41\n").unwrap(),
        |task| fs::write(task.join("totals.position"), "0\n1\norders 3 99\n").unwrap(),
        |task| make_foreign(&task.join("rocksdb/totals"), &["default"]),
        |task| make_foreign(&task.join("rates/rates.-3"), &["default"]),
        |application| {
            fs::create_dir(application.join("0_0")).unwrap();
            fs::write(application.join("kafka-streams-process-metadata"), "{}").unwrap();
        },
    ];
    for make in make {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path());
        assert_refused(dir.path(), "Kafka Streams");
    }
}

#[test]
fn folder_of_a_store_in_segments_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("rates");
    make_foreign(&store.join("rates.1700000000000"), &["default"]);
    assert_refused(&store, "Kafka Streams");
}

#[test]
fn database_of_another_program_is_refused_after_an_open_that_could_not_read_it() {
    let dir = tempfile::tempdir().unwrap();
    make_foreign(dir.path(), &["default"]);
    let current = fs::read_to_string(dir.path().join("CURRENT")).unwrap();
    let (manifest, aside) = (
        dir.path().join(current.trim_end()),
        dir.path().join("aside"),
    );
    fs::rename(&manifest, &aside).unwrap();
    let before = files(dir.path());
    assert!(open(dir.path()).is_err());
    assert_eq!(files(dir.path()), before);
    fs::rename(&aside, &manifest).unwrap();
    assert_refused(dir.path(), "database of another program");
}

#[test]
fn folder_with_other_files_becomes_a_database() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    fs::create_dir(dir.path().join("totals")).unwrap();
    open(dir.path()).unwrap().close().unwrap();
}

#[test]
fn partly_created_database_opens_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("HOLDER"), "").unwrap();
    make_foreign(dir.path(), &["default"]);
    open(dir.path()).unwrap().close().unwrap();
}

#[test]
fn copy_of_a_database_opens_without_its_holder() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().close().unwrap();
    fs::remove_file(dir.path().join("HOLDER")).unwrap();
    open(dir.path()).unwrap().close().unwrap();
}

#[test]
fn error_names_a_newer_version_of_holdfast() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().close().unwrap();
    let families = DB::list_cf(&Options::default(), dir.path()).unwrap();
    let mut db = DB::open_cf(&Options::default(), dir.path(), families).unwrap();
    db.create_cf("future:totals", &Options::default()).unwrap();
    drop(db);
    assert_refused(dir.path(), "a newer version of Holdfast");
}
