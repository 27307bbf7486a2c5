//! `log/`: staging in the protocol's order.

use std::collections::BTreeMap;
use std::fs;

use holdfast_core::ErrorKind;
use holdfast_core::ProcessingGuarantee::{AtLeastOnce, ExactlyOnce};
use holdfast_host::log::{HeadHeader, RecordsWriter};
use holdfast_host::protocol::{Attempt, Digest, IdleTimes, PartitionId, RunNumber};
use holdfast_host::root::{ChunkName, StageOutcome};

use crate::support::{
    EPOCH, OFFSETS, claim, decided, header, refused, root, spark, stage, stage_both,
};

/// Returns the data of a chunk with one record.
fn payload(value: &[u8]) -> Vec<u8> {
    let mut writer = RecordsWriter::new().expect("a writer");
    writer.push("s", b"k", Some(value), None).expect("pushes");
    writer
        .finish(&BTreeMap::new(), IdleTimes::default(), Digest::ZERO)
        .expect("finishes")
        .payload
}

#[test]
fn a_retry_adopts_an_equal_object_and_an_unequal_one_is_refused() {
    let root = root();
    let run = claim(&root, "a");
    assert_eq!(
        stage(&root, 0, run, "x").expect("stages"),
        StageOutcome::Written
    );
    let retry = HeadHeader {
        attempt: Attempt(2),
        ..header("join", 0, run, "x")
    };
    assert_eq!(
        root.stage(&retry, &[], 2, ExactlyOnce).expect("adopts"),
        StageOutcome::Adopted
    );
    refused(
        stage(&root, 0, run, "y"),
        ErrorKind::InvalidState,
        &["operator join, partition 0", "own code is not repeatable"],
    );
    let input = HeadHeader {
        input: Digest::of(b"other"),
        ..header("join", 0, run, "y")
    };
    refused(
        root.stage(&input, &[], 2, ExactlyOnce),
        ErrorKind::InvalidState,
        &["persist()"],
    );
}

#[test]
fn chunks_of_concurrent_attempts_do_not_mix_and_unnamed_ones_are_removed() {
    let root = root();
    let run = claim(&root, "a");
    let chunk = |attempt: i64, value: &[u8]| {
        let payload = payload(value);
        let object = header("join", 0, run, "x").id();
        let name = ChunkName {
            epoch: EPOCH,
            object,
            attempt: Attempt(attempt),
            nonce: format!("n{attempt}"),
            index: 0,
        };
        root.log.put_chunk(&name, &payload).expect("puts");
        name.to_string()
    };
    let (first, second) = (chunk(1, b"first"), chunk(2, b"second"));
    let head = |attempt: i64, chunk: &str| HeadHeader {
        attempt: Attempt(attempt),
        records: 1,
        chunks: vec![chunk.to_owned()],
        ..header("join", 0, run, "x")
    };
    assert_eq!(
        root.stage(&head(2, &second), &[], 2, ExactlyOnce)
            .expect("stages"),
        StageOutcome::Written
    );
    assert_eq!(
        root.stage(&head(1, &first), &[], 2, ExactlyOnce)
            .expect("adopts"),
        StageOutcome::Adopted
    );
    let head_header = root
        .log
        .head(EPOCH, &header("join", 0, run, "").id())
        .expect("reads")
        .expect("is there")
        .header;
    let records = root
        .log
        .chunk(&head_header, &head_header.chunks[0])
        .expect("reads");
    assert_eq!(
        records
            .iter()
            .map(|record| record.value)
            .collect::<Vec<_>>(),
        [Some(&b"second"[..])]
    );
    assert!(!root.files().join(&first).exists(), "no head names it");
    refused(
        root.log.chunk(&head_header, &first),
        ErrorKind::Restore,
        &["is missing"],
    );
    refused(
        root.log.chunk(&head_header, "meta.json"),
        ErrorKind::Restore,
        &["another object"],
    );
    fs::copy(root.files().join(&second), root.files().join(&first)).expect("copies");
    refused(
        root.log.chunk(&head_header, &first),
        ErrorKind::Restore,
        &["under another name"],
    );
}

#[test]
fn a_task_of_an_older_run_is_not_acknowledged() {
    let root = root();
    let first = claim(&root, "a");
    let second = claim(&root, "b");
    refused(
        stage(&root, 0, first, "x"),
        ErrorKind::Fenced,
        &["run 1", "run 2"],
    );
    assert_eq!(
        stage(&root, 0, second, "y").expect("the newer one is free"),
        StageOutcome::Written
    );
}

#[test]
fn an_older_whole_run_must_be_reproduced() {
    let root = root();
    let first = claim(&root, "a");
    (0..2).for_each(|p| {
        assert_eq!(
            stage(&root, p, first, "x").expect("stages"),
            StageOutcome::Written
        )
    });
    let second = claim(&root, "b");
    refused(
        stage(&root, 0, second, "y"),
        ErrorKind::StateMismatch,
        &["earlier run (1)", "old code", "holdfast epoch drop "],
    );
    assert_eq!(
        root.log.list(None, EPOCH).expect("lists").len(),
        2,
        "nothing was put"
    );
    assert_eq!(
        stage(&root, 0, second, "x").expect("the same"),
        StageOutcome::Written
    );
    stage(&root, 1, second, "x").expect("the same");
    assert_eq!(decided(&root).run, Some(second));
}

#[test]
fn under_at_least_once_what_was_staged_first_counts() {
    let root = root();
    let stage = |partition, run, attempt, content| {
        let head = HeadHeader {
            attempt: Attempt(attempt),
            ..header("join", partition, run, content)
        };
        root.stage(&head, &[], 2, AtLeastOnce).expect("stages")
    };
    let digest = |run| {
        root.log
            .head(EPOCH, &header("join", 0, run, "").id())
            .expect("reads")
            .expect("is there")
            .header
            .digest
    };
    let x = Digest::of(b"x");
    let first = claim(&root, "a");
    (0..2).for_each(|p| assert_eq!(stage(p, first, 1, "x"), StageOutcome::Written));
    assert_eq!(
        (stage(0, first, 2, "x"), stage(0, first, 3, "y")),
        (StageOutcome::Adopted, StageOutcome::Differing(x))
    );
    let second = claim(&root, "b");
    (0..2).for_each(|p| {
        assert_eq!(
            stage(p, second, 4, "y"),
            StageOutcome::Differing(x),
            "a copy"
        )
    });
    assert_eq!(
        (stage(0, second, 5, "x"), stage(0, second, 6, "z")),
        (StageOutcome::Adopted, StageOutcome::Differing(x))
    );
    assert_eq!((digest(first), digest(second)), (x, x));
    // Another state before the epoch is a fault within a run.
    let base = HeadHeader {
        base: Digest::of(b"other"),
        ..header("join", 0, second, "y")
    };
    refused(
        root.stage(&base, &[], 2, AtLeastOnce),
        ErrorKind::InvalidState,
        &["different states"],
    );
    assert_eq!(decided(&root).run, Some(second));
}

#[test]
fn a_copy_of_an_older_runs_head_names_that_runs_chunks() {
    let root = root();
    let staged = |run: RunNumber, value: &[u8]| {
        let payload = payload(value);
        let object = header("join", 0, run, "x").id();
        let chunk = ChunkName {
            epoch: EPOCH,
            object,
            attempt: Attempt(1),
            nonce: format!("n{run}"),
            index: 0,
        };
        root.log.put_chunk(&chunk, &payload).expect("puts");
        let content = str::from_utf8(value).expect("text");
        let head = HeadHeader {
            records: 2,
            chunks: vec![chunk.to_string()],
            ..header("join", 0, run, content)
        };
        (
            root.stage(&head, &payload, 1, AtLeastOnce).expect("stages"),
            head.chunks,
        )
    };
    let ((first, _), (second, unnamed)) = (
        staged(claim(&root, "a"), b"first"),
        staged(claim(&root, "b"), b"second"),
    );
    assert_eq!(
        (first, second),
        (
            StageOutcome::Written,
            StageOutcome::Differing(Digest::of(b"first"))
        )
    );
    let copy = root
        .log
        .head(EPOCH, &header("join", 0, RunNumber(2), "").id())
        .expect("reads")
        .expect("is there");
    let chunk = root
        .log
        .chunk(&copy.header, &copy.header.chunks[0])
        .expect("reads");
    let values = copy
        .records
        .iter()
        .chain(chunk.iter())
        .map(|record| record.value)
        .collect::<Vec<_>>();
    assert_eq!(values, [Some(&b"first"[..]); 2]);
    assert!(!root.files().join(&unnamed[0]).exists(), "no head names it");
    refused(
        root.log.chunk(
            &HeadHeader {
                partition: PartitionId(1),
                ..copy.header.clone()
            },
            &copy.header.chunks[0],
        ),
        ErrorKind::Restore,
        &["another object"],
    );
}

#[test]
fn a_run_that_read_other_offsets_does_not_stage_over_an_older_whole_run() {
    let root = root();
    let first = claim(&root, "a");
    stage_both(&root, first, "x");
    let second = claim(&root, "b");
    let other = |content| HeadHeader {
        offsets: Digest::of(b"other offsets"),
        ..header("join", 0, second, content)
    };
    refused(
        root.stage(&other("x"), &[], 2, ExactlyOnce),
        ErrorKind::StateMismatch,
        &["query/offsets/5", "Two drivers", "--epoch 5"],
    );
    // The older run computed other rows, so under at-least-once it is not copied.
    assert_eq!(
        root.stage(&other("y"), &[], 2, AtLeastOnce)
            .expect("stages"),
        StageOutcome::Written
    );
    // Within a run both sessions must have read the same offsets.
    refused(
        root.stage(&header("join", 0, second, "y"), &[], 2, AtLeastOnce),
        ErrorKind::StateMismatch,
        &["query/offsets/5"],
    );
}

#[test]
fn an_epoch_whose_commit_was_lost_must_be_reproduced() {
    for guarantee in [ExactlyOnce, AtLeastOnce] {
        let root = root();
        let first = claim(&root, "a");
        stage_both(&root, first, "x");
        spark(&root, "commits/5", "v1");
        assert_eq!(decided(&root).run, Some(first));
        fs::remove_file(root.files().join("query/commits/5")).expect("loses the commit");
        let second = claim(&root, "b");
        let stage = |partition, offsets: &[u8], content| {
            let head = HeadHeader {
                offsets: Digest::of(offsets),
                ..header("join", partition, second, content)
            };
            root.stage(&head, &[], 2, guarantee)
        };
        refused(
            stage(0, b"other", "x"),
            ErrorKind::StateMismatch,
            &["query/offsets/5", "--epoch 5"],
        );
        assert_eq!(
            stage(0, OFFSETS, "x").expect("stages"),
            StageOutcome::Written
        );
        if guarantee == ExactlyOnce {
            let error = stage(1, OFFSETS, "y");
            refused(
                error,
                ErrorKind::StateMismatch,
                &["committed this epoch before", "--epoch 5"],
            );
        } else {
            let copied = StageOutcome::Differing(Digest::of(b"x"));
            assert_eq!(stage(1, OFFSETS, "y").expect("a copy"), copied);
        }
        assert_eq!(decided(&root).run, Some(first), "the decision stands");
    }
}

#[test]
fn a_job_that_outlives_its_epoch_is_an_error() {
    let root = root();
    let run = claim(&root, "a");
    stage_both(&root, run, "x");
    spark(&root, "commits/5", "v1");
    // A second attempt at a task of the epoch has the decided content.
    let retry = HeadHeader {
        attempt: Attempt(2),
        ..header("join", 0, run, "x")
    };
    assert_eq!(
        root.stage(&retry, &[], 2, ExactlyOnce).expect("adopts"),
        StageOutcome::Adopted
    );
    let late = root.stage(&header("other", 0, run, "x"), &[], 2, ExactlyOnce);
    refused(
        late,
        ErrorKind::InvalidState,
        &["operator other", "micro-batch ended", "join your threads"],
    );
    let decision = decided(&root);
    assert_eq!(decision.operators.len(), 1, "a late object changes nothing");
}
