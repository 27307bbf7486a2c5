//! Epochs, runs and attempts under exactly-once.

use std::sync::Arc;

use arrow_array::RecordBatch;
use holdfast_core::ErrorKind;
use holdfast_host::session::{Routed, Session};

use crate::support::{
    Host, Spark, TaskRequest, batch, joined, left, matched, refused, right, schema, unmatched,
};

#[test]
fn each_epoch_joins_its_rows_and_stages_one_object() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let first = TaskRequest::new(&spark, "a", 0)
        .run(
            host.connect(),
            &[
                right("EUR", 10, 100),
                left("EUR", 15, 1),
                left("USD", 15, 2),
            ],
        )
        .unwrap();
    assert_eq!(first.rows.len(), 2);
    assert!(first.rows.contains(&matched(1, 100, 10)) && first.rows.contains(&unmatched(2)));
    assert_eq!(
        (
            first.staged.counts.input_rows,
            first.staged.counts.output_rows,
            first.staged.counts.matched
        ),
        (3, 2, 1)
    );
    assert!(!first.staged.adopted);
    spark.commit(0);
    spark.begin(1);
    let second = TaskRequest::new(&spark, "a", 1)
        .run(
            host.connect(),
            &[left("EUR", 9, 3), left("EUR", 30, 4), right("EUR", 20, 200)],
        )
        .unwrap();
    assert_eq!(second.rows, [unmatched(3), matched(4, 200, 20)]);
    assert_eq!(spark.objects(0), ["join.0.1"]);
    assert_eq!(spark.objects(1), ["join.0.1"]);
}

#[test]
fn retry_adopts_the_staged_object_and_returns_the_same_rows() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let rows = [right("EUR", 10, 100), left("EUR", 15, 1), left("EUR", 5, 2)];
    let first = TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &rows)
        .unwrap();
    let reversed: Vec<_> = rows.iter().rev().cloned().collect();
    let retry = TaskRequest::new(&spark, "a", 0)
        .attempt(2)
        .run_batches(host.connect(), &[&reversed[..1], &reversed[1..]])
        .unwrap();
    assert!(retry.staged.adopted);
    assert_eq!(
        (retry.staged.digest, retry.rows),
        (first.staged.digest, first.rows)
    );
    assert_eq!(spark.objects(0).len(), 1);
}

#[test]
fn retry_with_other_input_fails_as_not_repeatable() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    let error = refused(
        TaskRequest::new(&spark, "a", 0)
            .attempt(2)
            .run(host.connect(), &[right("EUR", 10, 101)]),
    );
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(error.to_string().contains("persist()"), "{error}");
}

#[test]
fn concurrent_attempts_do_not_see_each_other() {
    let spark = Spark::new();
    let host = Arc::new(holdfast_host::host::Host::new(None, None));
    let rows = batch(0, &[right("EUR", 10, 100), left("EUR", 15, 1)]);
    let open = |epoch, attempt, rows: &RecordBatch| {
        let request = TaskRequest::new(&spark, "a", epoch)
            .attempt(attempt)
            .request
            .to_string();
        let Routed::Local(mut session, _) = Session::open(&host, request.as_bytes()).unwrap()
        else {
            panic!("no other host")
        };
        // The view is pinned here; later commits do not change it.
        session.push(rows.clone()).unwrap();
        session
    };
    let finish = |session: Box<Session>| {
        let mut out = Vec::new();
        let mut emit = |batch: RecordBatch| {
            out.extend(joined(&batch));
            Ok(())
        };
        let staged = session.finish(Some(&schema()), &mut emit).unwrap();
        (out, staged.adopted)
    };
    spark.begin(0);
    let (slow, twin) = (open(0, 1, &rows), open(0, 2, &rows));
    assert_eq!(finish(twin), (vec![matched(1, 100, 10)], false));
    // The second attempt's epoch is committed and the next one opens while the first attempt still
    // holds its view.
    spark.commit(0);
    spark.begin(1);
    let next = batch(0, &[left("EUR", 99, 7)]);
    let (first, second) = (open(1, 3, &next), open(1, 4, &next));
    assert_eq!(finish(slow), (vec![matched(1, 100, 10)], true));
    assert_eq!(finish(first), (vec![matched(7, 100, 10)], false));
    assert_eq!(finish(second), (vec![matched(7, 100, 10)], true));
}

#[test]
fn attempt_after_the_commit_is_fenced() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    let error = refused(
        TaskRequest::new(&spark, "a", 0)
            .attempt(2)
            .run(host.connect(), &[right("EUR", 10, 100)]),
    );
    assert_eq!(error.kind(), ErrorKind::Fenced);
    assert!(error.to_string().contains("not needed"), "{error}");
}

#[test]
fn new_run_replays_an_uncommitted_epoch() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let rows = [right("EUR", 10, 100), left("EUR", 15, 1)];
    let first = TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &rows)
        .unwrap();
    let replay = TaskRequest::new(&spark, "b", 0)
        .run(host.connect(), &rows)
        .unwrap();
    assert_eq!(
        (replay.rows, replay.staged.digest),
        (first.rows, first.staged.digest)
    );
    assert_eq!(spark.objects(0), ["join.0.1", "join.0.2"]);
    let fenced = refused(TaskRequest::new(&spark, "a", 0).run(host.connect(), &rows));
    assert_eq!(fenced.kind(), ErrorKind::Fenced);
    spark.commit(0);
    spark.begin(1);
    let next = TaskRequest::new(&spark, "b", 1)
        .run(host.connect(), &[left("EUR", 15, 2)])
        .unwrap();
    assert_eq!(next.rows, [matched(2, 100, 10)]);
}

#[test]
fn new_run_with_another_result_of_a_whole_epoch_fails() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    let error =
        refused(TaskRequest::new(&spark, "b", 0).run(host.connect(), &[right("EUR", 10, 101)]));
    assert_eq!(error.kind(), ErrorKind::StateMismatch);
    assert!(
        error.to_string().contains("holdfast epoch drop "),
        "{error}"
    );
}

#[test]
fn superseded_run_is_not_acknowledged() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let rows = [right("EUR", 10, 100), left("EUR", 15, 1)];
    let old = TaskRequest::new(&spark, "a", 0)
        .pushed(host.connect(), &rows)
        .unwrap();
    TaskRequest::new(&spark, "b", 0)
        .run(host.connect(), &rows)
        .unwrap();
    let error = old
        .finish()
        .unwrap()
        .find_map(Result::err)
        .expect("not acknowledged");
    assert_eq!(error.kind(), ErrorKind::Fenced);
}

/// Both runs begin at the same state, so only the digest tells their changes apart.
#[test]
fn part_of_an_older_run_is_not_applied() {
    // The newer run's changes are in memory beside the older one's, or there is no room for them.
    for room in [-1_i64, 1] {
        let (spark, host) = (Spark::new(), Host::start());
        let task = |run: &str, epoch, partition| {
            TaskRequest::new(&spark, run, epoch).partition(partition, 2)
        };
        spark.begin(0);
        // The driver of this run dies before partition 1 is computed.
        task("a", 0, 0)
            .run(host.connect(), &[right("EUR", 10, 100)])
            .unwrap();
        for partition in 0..2 {
            task("b", 0, partition)
                .with("/settings/uncommitted_max_bytes", room)
                .run(host.connect(), &[right("EUR", 10, 200)])
                .unwrap();
        }
        spark.commit(0);
        spark.begin(1);
        let done = task("b", 1, 0)
            .run(host.connect(), &[left("EUR", 15, 1)])
            .unwrap();
        assert_eq!(done.rows, [matched(1, 200, 10)], "room for {room}");
    }
}

#[test]
fn partly_evaluated_epoch_fails_the_next_one() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .partition(0, 2)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    spark.begin(1);
    let error = refused(
        TaskRequest::new(&spark, "a", 1)
            .partition(0, 2)
            .run(host.connect(), &[]),
    );
    assert_eq!(error.kind(), ErrorKind::StateMismatch);
    assert!(
        error.to_string().contains("evaluated only in part")
            && error.to_string().contains("holdfast rewind"),
        "{error}"
    );
}

#[test]
fn epoch_without_rows_is_staged() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..3 {
        spark.begin(epoch);
        let done = TaskRequest::new(&spark, "a", epoch)
            .run(host.connect(), &[])
            .unwrap();
        assert_eq!((done.rows.len(), done.staged.records), (0, 0));
        spark.commit(epoch);
    }
}

#[test]
fn partitions_have_separate_state() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    for partition in 0..2 {
        let rows = [right("EUR", 10, i64::from(partition))];
        TaskRequest::new(&spark, "a", 0)
            .partition(partition, 2)
            .run(host.connect(), &rows)
            .unwrap();
    }
    spark.commit(0);
    spark.begin(1);
    for partition in 0..2 {
        let done = TaskRequest::new(&spark, "a", 1)
            .partition(partition, 2)
            .run(host.connect(), &[left("EUR", 10, 1)])
            .unwrap();
        assert_eq!(done.rows, [matched(1, partition.into(), 10)]);
    }
}

#[test]
fn scratch_session_stores_nothing() {
    let host = Host::start();
    let rows = [right("EUR", 10, 100), left("EUR", 15, 1)];
    let done = TaskRequest::scratch().run(host.connect(), &rows).unwrap();
    assert_eq!(
        (done.rows.as_slice(), done.staged.epoch),
        ([matched(1, 100, 10)].as_slice(), None)
    );
    let again = TaskRequest::scratch()
        .run(host.connect(), &[left("EUR", 15, 1)])
        .unwrap();
    assert_eq!(again.rows, [unmatched(1)]);
}

#[test]
fn state_is_restored_before_the_first_rows_arrive() {
    let spark = Spark::new();
    spark.begin(0);
    let host = Host::start();
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    host.stop();
    spark.delete_local();
    spark.begin(1);
    // The columns alone restore epoch 0 from the log; neither rows nor the end of the input were
    // sent.
    let host = Host::start();
    let client = TaskRequest::new(&spark, "a", 1)
        .pushed(host.connect(), &[])
        .unwrap();
    spark.wait_for_local(0);
    let mut output = client.finish().unwrap();
    assert!(output.by_ref().all(|batch| batch.unwrap().num_rows() == 0));
    assert!(output.staged().is_some());
}
