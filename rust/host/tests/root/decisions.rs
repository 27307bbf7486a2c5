//! `log/`: which run decides an epoch; damaged objects and foreign files.

use std::fs;

use holdfast_core::ErrorKind;
use holdfast_host::protocol::{Epoch, ObjectId, PartitionId};
use holdfast_host::root::StageOutcome;

use crate::support::{EPOCH, claim, header, name, refused, root, stage};

#[test]
fn an_epoch_evaluated_in_part_or_not_at_all_is_an_error() {
    let root = root();
    let run = claim(&root, "a");
    assert_eq!(root.log.decided(EPOCH, 2).expect("nothing there"), None);
    refused(
        root.log.decided_for(&name("join"), EPOCH, 2),
        ErrorKind::StateMismatch,
        &["epoch 5", "operator join was not evaluated"],
    );
    stage(&root, 1, run, "x").expect("stages");
    refused(
        root.log.decided(EPOCH, 2),
        ErrorKind::StateMismatch,
        &[
            "epoch 5",
            "lacks operator join, partition 0",
            "holdfast rewind",
        ],
    );
    stage(&root, 0, run, "x").expect("stages");
    assert_eq!(
        root.log
            .decided_for(&name("join"), EPOCH, 2)
            .expect("decides"),
        run
    );
    refused(
        root.log.decided_for(&name("other"), EPOCH, 2),
        ErrorKind::StateMismatch,
        &["operator other was not evaluated"],
    );
}

#[test]
fn a_whole_run_that_a_newer_partial_one_contradicts_does_not_decide() {
    let root = root();
    let first = claim(&root, "a");
    stage(&root, 0, first, "x").expect("stages");
    let second = claim(&root, "b");
    stage(&root, 0, second, "y").expect("the older one is not whole");
    // The stale run's last task puts its object, but is not acknowledged.
    refused(stage(&root, 1, first, "x"), ErrorKind::Fenced, &["run 2"]);
    refused(
        root.log.decided(EPOCH, 2),
        ErrorKind::StateMismatch,
        &["evaluated only in part", "run 2"],
    );
}

#[test]
fn a_damaged_head_is_named_and_nothing_is_decided_by_it() {
    let root = root();
    let run = claim(&root, "a");
    (0..2).for_each(|p| {
        assert_eq!(
            stage(&root, p, run, "x").expect("stages"),
            StageOutcome::Written
        )
    });
    let file = |partition: i32| {
        root.files()
            .join(format!("log/00000000000000000005/join.{partition}.1"))
    };
    let bytes = fs::read(file(0)).expect("reads");
    let read = || {
        root.log
            .head(EPOCH, &header("join", 0, run, "").id())
            .map(|_| ())
    };
    fs::write(file(0), &bytes[..bytes.len() / 2]).expect("cuts");
    refused(read(), ErrorKind::Restore, &["join.0.1", "cut or changed"]);
    refused(
        stage(&root, 0, run, "x"),
        ErrorKind::Restore,
        &["cut or changed"],
    );
    fs::copy(file(1), file(0)).expect("copies");
    refused(
        read(),
        ErrorKind::Restore,
        &["under a wrong name", "partition 1"],
    );
    let object = ObjectId {
        operator: name("join"),
        partition: PartitionId(7),
        run,
    };
    assert!(
        root.log
            .head_header(EPOCH, &object)
            .expect("reads")
            .is_none()
    );
}

#[test]
fn foreign_files_in_the_log_are_not_objects() {
    let root = root();
    let run = claim(&root, "a");
    stage(&root, 0, run, "x").expect("stages");
    let folder = root.files().join("log/00000000000000000005");
    for file in ["join.1.1#1", ".DS_Store", "join.1.1.7-ab.0", "notes"] {
        fs::write(folder.join(file), "x").expect("writes");
    }
    assert_eq!(
        root.log.list(None, EPOCH).expect("lists"),
        [header("join", 0, run, "x").id()]
    );
    assert_eq!(
        root.log.list(Some(&name("other")), EPOCH).expect("lists"),
        []
    );
    // They are removed with their epoch: a host that is killed during a put leaves the first one.
    assert_eq!(root.log.remove_before(Epoch(6)).expect("removes"), 1);
    assert_eq!(root.log.list(None, EPOCH).expect("lists"), []);
    assert!(root.path() != root.files() || !folder.exists());
}
