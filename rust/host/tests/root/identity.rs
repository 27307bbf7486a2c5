//! `meta.json`: the query of a root, and roots that cannot be opened.

use std::fs;

use holdfast_core::ErrorKind;
use holdfast_host::protocol::Epoch;
use holdfast_host::root::{Root, StorageOptions};

use crate::support::{EPOCH, refused, root};

#[test]
fn a_root_belongs_to_one_query_with_one_partition_count() {
    let root = root();
    root.identity
        .check("q", 4, (Epoch(0), false))
        .expect("taken");
    root.identity
        .check("q", 4, (Epoch(9), false))
        .expect("the same query");
    refused(
        root.identity.check("other", 4, (Epoch(0), false)),
        ErrorKind::StateMismatch,
        &["query q", "query other", "a root of its own"],
    );
    refused(
        root.identity.check("q", 8, (Epoch(9), false)),
        ErrorKind::StateMismatch,
        &["has 4 partitions", "asks for 8", "a new, empty root"],
    );
    fs::write(root.files().join("meta.json"), r#"{"format":9,"new":true}"#).expect("writes");
    refused(
        root.identity.check("q", 4, (Epoch(9), false)),
        ErrorKind::FormatVersion,
        &["format 9"],
    );
    fs::write(root.files().join("meta.json"), "{").expect("writes");
    refused(
        root.identity.check("q", 4, (Epoch(9), false)),
        ErrorKind::Restore,
        &["meta.json", "backup"],
    );
}

#[test]
fn state_that_was_deleted_is_an_error_in_a_later_epoch() {
    let root = root();
    root.identity
        .check("q", 4, (Epoch(0), false))
        .expect("taken");
    fs::remove_file(root.files().join("meta.json")).expect("deletes");
    refused(
        root.identity.check("q", 4, (Epoch(7), false)),
        ErrorKind::StateMismatch,
        &["meta.json is missing", "epoch 7"],
    );
    assert!(!root.files().join("meta.json").exists());
}

#[test]
fn root_without_state_is_taken_in_a_later_epoch() {
    let root = root();
    refused(
        root.identity.check("q", 4, (Epoch(7), true)),
        ErrorKind::StateMismatch,
        &["meta.json is missing", "epoch 7", "new output path"],
    );
    let id = root
        .identity
        .check("q", 4, (Epoch(7), false))
        .expect("taken");
    assert_eq!(
        root.identity
            .check("q", 4, (Epoch(8), false))
            .expect("the same"),
        id
    );
}

#[test]
fn a_root_that_cannot_be_made_names_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "x").expect("writes");
    let inside = file.join("root").display().to_string();
    refused(
        Root::open(&inside, &StorageOptions::default()).map(|_| ()),
        ErrorKind::Io,
        &[&inside, "a file where a folder"],
    );
    refused(
        Root::open("hdfs://name/x", &StorageOptions::default()).map(|_| ()),
        ErrorKind::UnsupportedOperation,
        &["hdfs://name/x"],
    );
}

#[test]
fn a_write_that_the_disk_refuses_names_the_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = Root::open(
        &folder.path().display().to_string(),
        &StorageOptions::default(),
    )
    .expect("opens");
    fs::write(root.path().join("runs"), "a file in the folder's place").expect("writes");
    let place = root.path().join("runs").display().to_string();
    refused(root.runs.claim("q", "a", EPOCH), ErrorKind::Io, &[&place]);
}
