//! `log/`: which run decides an epoch; damaged objects and foreign files.

use std::fs;

use holdfast_core::ErrorKind;
use holdfast_host::protocol::{Digest, Epoch, ObjectId, PartitionId, RunNumber};
use holdfast_host::root::{DecisionAsker, PreviousEpoch, RanSince, StageOutcome};

use crate::operator_catalog::operator;
use crate::support::{
    EPOCH, OFFSETS, claim, decided, header, name, refused, root, spark, stage, stage_both,
};

#[test]
fn an_epoch_evaluated_in_part_is_an_error_and_is_not_recorded() {
    let root = root();
    let run = claim(&root, "a");
    stage(&root, 1, run, "x").expect("stages");
    refused(
        root.decisions.of(run, EPOCH, 2),
        ErrorKind::StateMismatch,
        &[
            "epoch 5",
            "lacks operator join, partition 0",
            "holdfast rewind",
        ],
    );
    assert_eq!(root.decisions.recorded(EPOCH).expect("reads"), None);
    stage(&root, 0, run, "x").expect("stages");
    let decision = root.decisions.of(run, EPOCH, 2).expect("decides");
    assert_eq!(
        (decision.run, decision.offsets),
        (Some(run), Digest::of(OFFSETS))
    );
    let head = header("join", 1, run, "x");
    assert_eq!(
        decision.of(&name("join"), PartitionId(1)),
        Some(&head.decision())
    );
    assert_eq!(decision.of(&name("other"), PartitionId(0)), None);
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
        root.decisions.of(second, EPOCH, 2),
        ErrorKind::StateMismatch,
        &["evaluated only in part", "run 2"],
    );
}

#[test]
fn a_recorded_decision_does_not_change() {
    let root = root();
    let first = claim(&root, "a");
    stage_both(&root, first, "x");
    assert_eq!(decided(&root).run, Some(first));
    // Objects of a newer run, put by hand: without the record they would decide.
    let second = claim(&root, "b");
    for partition in 0..2 {
        let late = header("join", partition, second, "y");
        root.log.put_head(&late, &[]).expect("puts");
    }
    assert_eq!(decided(&root).run, Some(first));
    let folder = root.files().join("log/00000000000000000005");
    fs::remove_file(folder.join("decided.0")).expect("removes the record");
    assert_eq!(decided(&root).run, Some(second));
}

#[test]
fn an_epoch_without_objects_is_skipped_after_a_decided_one() {
    let root = root();
    let run = claim(&root, "a");
    stage_both(&root, run, "x");
    spark(&root, "offsets/7", "v1");
    // Nothing ran in the epochs 6 and 7. The record of 7 needs that of 6, which needs that of 5.
    let skipped = root
        .decisions
        .read_or_decide(DecisionAsker::default(), Epoch(7), 2)
        .expect("decides");
    assert_eq!((skipped.run, skipped.offsets), (None, Digest::of(b"v1")));
    let chain = |epoch: i64| {
        let decision = root.decisions.recorded(Epoch(epoch)).expect("reads");
        let decision = decision.expect("is recorded");
        let partition = decision.of(&name("join"), PartitionId(0));
        partition.map(|partition| (partition.base, partition.chain()))
    };
    let [five, six, seven] = [5, 6, 7].map(|epoch| chain(epoch).expect("is named"));
    assert_eq!((five.1, six.1), (six.0, seven.0));
    // An epoch without objects that later epochs are based on was lost.
    let folder = |epoch: i64| root.files().join(format!("log/{epoch:020}"));
    fs::remove_dir_all(folder(6)).expect("removes it");
    refused(
        root.decisions
            .read_or_decide(DecisionAsker::default(), Epoch(6), 2),
        ErrorKind::Restore,
        &["epoch 6", "was damaged"],
    );
}

#[test]
fn an_epoch_that_was_computed_before_a_rewind_is_not_skipped() {
    let root = root();
    let run = claim(&root, "a");
    stage_both(&root, run, "x");
    let put = |name: &str, content: &str| {
        let path = root.files().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("makes");
        fs::write(path, content).expect("writes");
    };
    put("rewinds/00000000000000000002", r#"{"epoch":6}"#);
    // The command has moved the epoch, or was interrupted before that; or `epoch drop` moved it.
    let epoch = "log/00000000000000000006/join.0.1";
    for place in [
        format!("removed/2/{epoch}"),
        epoch.to_owned(),
        format!("removed/3/{epoch}"),
    ] {
        put(&place, "its head");
        refused(
            root.decisions
                .read_or_decide(DecisionAsker::default(), Epoch(6), 2),
            ErrorKind::StateMismatch,
            &["operator join was not evaluated", "after a rewind"],
        );
        fs::remove_file(root.files().join(&place)).expect("removes");
    }
    let decision = root
        .decisions
        .read_or_decide(DecisionAsker::default(), Epoch(6), 2)
        .expect("decides");
    assert_eq!((decision.run, decision.rewind), (None, RunNumber(2)));
}

#[test]
fn a_run_from_before_a_rewind_decides_no_epoch_that_was_taken_back() {
    let root = root();
    let first = claim(&root, "a");
    let mark = root.files().join("rewinds/00000000000000000002");
    fs::create_dir_all(mark.parent().expect("a folder")).expect("makes");
    fs::write(mark, r#"{"epoch":5}"#).expect("writes");
    claim(&root, "the rewind");
    let third = claim(&root, "b");
    // The new run computes the epoch; Spark has not committed it.
    stage_both(&root, third, "y");
    refused(
        root.decisions.of(first, EPOCH, 2),
        ErrorKind::Fenced,
        &["run 1", "run 3"],
    );
    assert_eq!(root.decisions.recorded(EPOCH).expect("reads"), None);
}

#[test]
fn a_staged_epoch_without_objects_is_lost_and_not_skipped() {
    let root = root();
    let run = claim(&root, "a");
    stage_both(&root, run, "x");
    refused(
        root.decisions.before_session(
            run,
            Epoch(6),
            2,
            PreviousEpoch {
                is_staged: true,
                ran: None,
            },
        ),
        ErrorKind::Restore,
        &["log/00000000000000000006 is missing"],
    );
    assert_eq!(root.decisions.recorded(Epoch(6)).expect("reads"), None);
}

#[test]
fn an_epoch_is_evaluated_when_a_run_has_staged_all_partitions() {
    let root = root();
    let run = claim(&root, "a");
    let check = |operator: &str, partitions| {
        root.decisions
            .check_evaluated(EPOCH, &[name(operator)], partitions)
    };
    refused(
        check("join", 2),
        ErrorKind::StateMismatch,
        &["operator join was called in epoch 5", "only 0 of its 2"],
    );
    stage_both(&root, run, "x");
    check("join", 2).expect("is whole");
    refused(
        check("join", 3),
        ErrorKind::StateMismatch,
        &["only 2 of its 3"],
    );
    refused(
        check("other", 2),
        ErrorKind::StateMismatch,
        &["only 0 of its 2"],
    );
    // A newer run that has staged a part of it changes nothing.
    let newer = claim(&root, "b");
    root.log
        .put_head(&header("join", 0, newer, "x"), &[])
        .expect("puts");
    check("join", 2).expect("the older run is whole");
}

#[test]
fn an_operator_that_only_an_older_run_has_staged_is_not_evaluated() {
    let root = root();
    let older = claim(&root, "a");
    stage_both(&root, older, "x");
    let newer = claim(&root, "b");
    for partition in 0..2 {
        root.log
            .put_head(&header("count", partition, newer, "x"), &[])
            .expect("puts");
    }
    // Run 2 lacks an operator of the whole run 1, so no run would decide the epoch.
    refused(
        root.decisions.check_evaluated(EPOCH, &[name("count")], 2),
        ErrorKind::StateMismatch,
        &[
            "operator join",
            "by an earlier start",
            "holdfast epoch drop ",
        ],
    );
}

#[test]
fn an_epoch_in_which_an_operator_ran_is_not_skipped() {
    let root = root();
    let run = claim(&root, "a");
    stage_both(&root, run, "x");
    spark(&root, "offsets/6", "v1");
    let since = |epoch| RanSince {
        operator: name("join"),
        epoch: Epoch(epoch),
    };
    let decide = |ran: &RanSince| {
        let ran = Some(ran);
        root.decisions.before_session(
            run,
            Epoch(6),
            2,
            PreviousEpoch {
                is_staged: false,
                ran,
            },
        )
    };
    refused(
        decide(&since(6)),
        ErrorKind::StateMismatch,
        &["operator join was not evaluated", "--epoch 6"],
    );
    assert_eq!(root.decisions.recorded(Epoch(6)).expect("reads"), None);
    assert_eq!(decide(&since(7)).expect("it begins later").run, None);
}

#[test]
fn an_operator_without_any_log_is_not_skipped() {
    let root = root();
    let run = claim(&root, "a");
    root.operators
        .register(&name("join"), &operator(), run, 2)
        .expect("registers");
    refused(
        root.decisions
            .read_or_decide(DecisionAsker::default(), EPOCH, 2),
        ErrorKind::StateMismatch,
        &["operator join was not evaluated", "restore `log/"],
    );
    let before = root
        .decisions
        .read_or_decide(DecisionAsker::default(), Epoch(2), 2)
        .expect("decides");
    assert_eq!(before.run, None, "the operator begins later");
}

#[test]
fn changed_offsets_of_a_decided_epoch_are_named() {
    let root = root();
    let run = claim(&root, "a");
    stage_both(&root, run, "x");
    let check = || {
        root.decisions
            .before_session(run, EPOCH, 2, PreviousEpoch::default())
    };
    let changed = &["query/offsets/5", "Two drivers", "--epoch 5"];
    // Another driver has written the file before the epoch is decided.
    spark(&root, "offsets/5", "v1\n{}");
    refused(
        root.decisions.of(run, EPOCH, 2),
        ErrorKind::StateMismatch,
        changed,
    );
    assert_eq!(root.decisions.recorded(EPOCH).expect("reads"), None);
    fs::remove_file(root.files().join("query/offsets/5")).expect("removes");
    refused(check(), ErrorKind::StateMismatch, changed);
    spark(&root, "offsets/5", "v1\n{}");
    refused(check(), ErrorKind::StateMismatch, changed);
    spark(&root, "offsets/5", str::from_utf8(OFFSETS).expect("text"));
    assert_eq!(check().expect("reads").run, Some(run));
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
    assert_eq!(
        root.log
            .remove_before(Epoch(6), RunNumber(1))
            .expect("removes"),
        1
    );
    assert_eq!(root.log.list(None, EPOCH).expect("lists"), []);
    assert!(root.path() != root.files() || !folder.exists());
}
