//! `log/`: heads that are put after a newer run has claimed, or after Spark has committed their
//! epoch.

use holdfast_core::ErrorKind;
use holdfast_core::ProcessingGuarantee::{AtLeastOnce, ExactlyOnce};
use holdfast_host::protocol::{Digest, PartitionId, RunNumber};
use holdfast_host::root::{DecisionAsker, Root, StageOutcome};

use crate::support::{
    EPOCH, TestRoot, claim, decided, header, name, refused, root, spark, stage, stage_both,
};

#[test]
fn an_older_run_that_stages_after_the_newer_ones_first_listing_need_not_be_reproduced() {
    let root = root();
    let stalled = Root::open(&root.opened.0, &root.opened.1).expect("opens");
    let first = claim(&stalled, "a");
    let second = claim(&root, "b");
    assert!(!root.log.had(second, EPOCH).expect("lists"));
    for partition in 0..2 {
        refused(
            stage(&stalled, partition, first, "x"),
            ErrorKind::Fenced,
            &["run 1", "run 2"],
        );
    }
    // The older run is whole now, but none of its tasks was acknowledged.
    stage_both(&root, second, "y");
    assert_eq!(decided(&root).run, Some(second));
}

#[test]
fn an_older_run_that_staged_before_the_newer_one_claimed_must_be_reproduced() {
    let root = root();
    let other = Root::open(&root.opened.0, &root.opened.1).expect("opens");
    let first = claim(&root, "a");
    // This process has listed the log before the older run staged, but not in the newer run.
    assert!(!root.log.had(first, EPOCH).expect("lists"));
    stage_both(&other, first, "x");
    let second = claim(&root, "b");
    refused(
        stage(&root, 0, second, "y"),
        ErrorKind::StateMismatch,
        &["earlier run (1)"],
    );
}

#[test]
fn a_head_that_comes_after_sparks_commit_is_not_put() {
    // Another driver's function returned early, and that driver committed the epoch.
    let commit = |root: &TestRoot| spark(root, "commits/5", "v1");
    let heads = |root: &TestRoot| root.log.list(None, EPOCH).expect("lists").len();
    let late = |root: &TestRoot, run| root.stage(&header("join", 0, run, "x"), &[], 1, ExactlyOnce);
    {
        let root = root();
        let run = claim(&root, "a");
        commit(&root);
        refused(
            late(&root, run),
            ErrorKind::InvalidState,
            &["operator join", "micro-batch ended"],
        );
        let decision = root.decisions.recorded(EPOCH).expect("reads");
        assert_eq!(decision.map(|decision| decision.run), Some(None), "skipped");
        assert_eq!(heads(&root), 0);
    }
    {
        let root = root();
        let zombie = claim(&root, "a");
        claim(&root, "b");
        commit(&root);
        refused(late(&root, zombie), ErrorKind::Fenced, &["run 1", "run 2"]);
        assert_eq!(heads(&root), 0);
        assert_eq!(root.decisions.recorded(EPOCH).expect("reads"), None);
    }
    {
        let root = root();
        let run = claim(&root, "a");
        stage(&root, 0, run, "x").expect("stages");
        commit(&root);
        refused(
            stage(&root, 1, run, "x"),
            ErrorKind::StateMismatch,
            &["evaluated only in part", "lacks operator join, partition 1"],
        );
        assert_eq!(heads(&root), 1);
    }
}

#[test]
fn a_late_copy_of_a_committed_older_run_is_put() {
    for guarantee in [ExactlyOnce, AtLeastOnce] {
        let root = root();
        let first = claim(&root, "a");
        stage_both(&root, first, "x");
        let second = claim(&root, "b");
        // The older driver had all its tasks acknowledged before the newer one claimed.
        spark(&root, "commits/5", "v1");
        let copy = root.stage(&header("join", 0, second, "x"), &[], 2, guarantee);
        assert_eq!(copy.expect("is the decision"), StageOutcome::Written);
        if guarantee == AtLeastOnce {
            let copy = root.stage(&header("join", 1, second, "y"), &[], 2, guarantee);
            let copied = StageOutcome::Differing(Digest::of(b"x"));
            assert_eq!(copy.expect("is the decision"), copied);
        }
        assert_eq!(decided(&root).run, Some(first));
    }
}

#[test]
fn a_late_head_that_completes_an_older_run_changes_no_committed_result() {
    // The first run evaluates two operators, and its last object is missing. The second run
    // evaluates one of them, and Spark commits it.
    let committed = |content: &str| {
        let root = root();
        let first = claim(&root, "a");
        stage_both(&root, first, "x");
        root.stage(&header("count", 0, first, "x"), &[], 2, ExactlyOnce)
            .expect("stages");
        let second = claim(&root, "b");
        stage_both(&root, second, content);
        spark(&root, "commits/5", "v1");
        (root, first, second)
    };
    // A stalled host has read Spark's commit log before the commit, and puts the last object after
    // it.
    let put_late = |root: &TestRoot, first: RunNumber| {
        let late = header("count", 1, first, "x");
        assert_eq!(root.log.put_head(&late, &[]).expect("puts"), None);
    };
    {
        let (root, first, second) = committed("y");
        let before = decided(&root);
        assert_eq!(before.run, Some(second));
        put_late(&root, first);
        assert_eq!(decided(&root), before, "it is recorded");
    }
    {
        let (root, first, _) = committed("y");
        put_late(&root, first);
        refused(
            root.decisions
                .read_or_decide(DecisionAsker::default(), EPOCH, 2),
            ErrorKind::StateMismatch,
            &["evaluated only in part (run 2)"],
        );
        assert_eq!(root.decisions.recorded(EPOCH).expect("reads"), None);
    }
    {
        // The newer run repeats a part of the older one, which may be the run that Spark committed.
        let (root, first, second) = committed("x");
        put_late(&root, first);
        let decision = decided(&root);
        assert_eq!(decision.run, Some(first));
        for partition in 0..2 {
            assert_eq!(
                decision.of(&name("join"), PartitionId(partition)),
                Some(&header("join", partition, second, "x").decision())
            );
        }
    }
}
