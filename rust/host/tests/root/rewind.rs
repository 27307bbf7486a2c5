//! How far back a rewind can go, and what it leaves.

use std::fs;

use holdfast_core::ErrorKind;
use holdfast_host::protocol::{Epoch, RunNumber};

use crate::operator_catalog::operator;
use crate::support::{EPOCH, TestRoot, claim, decided, name, refused, root, spark, stage_both};

/// A root with Spark's commits of the epochs 0 to 4, an operator since `first_epoch`, and no log.
fn with_operator_since(first_epoch: Epoch) -> TestRoot {
    let root = root();
    root.identity
        .check("q", 2, (Epoch(0), true))
        .expect("is new");
    for epoch in 0..EPOCH.0 {
        spark(
            &root,
            &format!("offsets/{epoch}"),
            "v1\n{\"batchTimestampMs\":7}\n0",
        );
        spark(&root, &format!("commits/{epoch}"), "v1\n{}");
    }
    let run = root.runs.claim("q", "a", EPOCH).expect("claims");
    let mut meta = operator();
    meta.first_epoch = first_epoch;
    root.operators
        .register(&name("join"), &meta, run, 2)
        .expect("is new");
    root
}

#[test]
fn a_rewind_to_the_first_epoch_of_the_state_needs_no_log() {
    for first in [EPOCH, Epoch(4)] {
        let root = with_operator_since(first);
        let rewound = root.rewind(Epoch(4)).expect("nothing has to be restored");
        assert_eq!(rewound.run, RunNumber(2), "since epoch {first}");
        assert_eq!(root.operators.names().expect("lists"), []);
    }
}

#[test]
fn a_rewind_to_epochs_whose_log_is_gone_is_refused() {
    let root = with_operator_since(Epoch(3));
    refused(
        root.rewind(Epoch(4)),
        ErrorKind::Restore,
        &["the log of epoch 3 was removed", "Give a later epoch"],
    );
    assert_eq!(root.operators.names().expect("lists"), [name("join")]);
}

#[test]
fn a_checksum_without_its_file_is_removed_too() {
    let root = with_operator_since(Epoch(4));
    // An interrupted command moved the files. Spark would refuse its next file of that number.
    for left in ["offsets/.7.crc", "commits/.6.crc", "commits/.3.crc"] {
        spark(&root, left, "crc");
    }
    root.rewind(Epoch(4)).expect("nothing has to be restored");
    let left = |file: &str| root.files().join("query").join(file).exists();
    assert!(!left("offsets/.7.crc") && !left("commits/.6.crc"));
    assert!(left("commits/.3.crc"), "epoch 3 stays");
}

#[test]
fn later_versions_of_sparks_own_state_are_taken_back() {
    let root = with_operator_since(Epoch(4));
    // Version 4 is the state before epoch 4.
    let stays = [
        "0/0/4.delta",
        "0/0/.4.delta.crc",
        "0/1/4_6fd2.zip",
        "0/1/SSTs/000009-6fd2.sst",
        "0/_metadata/metadata",
        "0/_metadata/v2/7",
    ];
    let goes = [
        "0/0/5.delta",
        "0/0/.5.delta.crc",
        "0/0/12.snapshot",
        "0/1/left-keyToNumValues/5_6fd2.changelog",
        "0/1/5_6fd2.zip",
    ];
    for file in stays.iter().chain(&goes) {
        spark(&root, &format!("state/{file}"), "rows");
    }
    root.rewind(Epoch(4)).expect("nothing has to be restored");
    let is_there = |below: &str, file: &str| {
        root.files()
            .join(below)
            .join("query/state")
            .join(file)
            .exists()
    };
    assert!(stays.iter().all(|file| is_there("", file)));
    for file in goes {
        assert!(!is_there("", file) && is_there("removed/2", file), "{file}");
    }
}

#[test]
fn the_first_object_of_an_operator_is_removed_last() {
    let root = with_operator_since(Epoch(4));
    let place = |file: &str| root.files().join("operators").join(file);
    let first = fs::read(place("join.json")).expect("is there");
    // So many that the folder's own order does not have the first object last by chance.
    let later: Vec<_> = (1..20).map(|n| place(&format!("join.{n}.json"))).collect();
    for file in &later {
        fs::write(file, r#"{"left": [], "right": []}"#).expect("writes");
    }
    // The first object cannot be moved.
    let moved = root.files().join("removed/2/operators/join.json");
    fs::create_dir_all(moved).expect("a folder in its place");
    root.rewind(Epoch(4)).expect_err("cannot be moved");
    assert!(later.iter().all(|file| !file.exists()));
    assert_eq!(fs::read(place("join.json")).expect("is there"), first);
}

#[test]
fn a_rewind_begins_a_new_decision() {
    let root = root();
    let first = claim(&root, "a");
    stage_both(&root, first, "x");
    assert_eq!(decided(&root).rewind, RunNumber(0));
    let mark = root.files().join("rewinds/00000000000000000002");
    fs::create_dir_all(mark.parent().expect("a folder")).expect("makes");
    fs::write(mark, r#"{"epoch":5}"#).expect("writes");
    claim(&root, "the rewind");
    let third = claim(&root, "b");
    stage_both(&root, third, "y");
    let decision = decided(&root);
    assert_eq!((decision.rewind, decision.run), (RunNumber(2), Some(third)));
}
