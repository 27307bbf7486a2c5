//! Epochs whose tasks Spark read only in part, or dropped from the streaming plan, are errors. An
//! epoch of `foreachBatch` without any session is skipped.

use crate::support::{Host, Spark, TaskRequest, left, refused, right};
use holdfast_core::ErrorKind;

fn complete(spark: &Spark, host: &Host, epoch: i64) {
    let task = TaskRequest::new(spark, "a", epoch);
    spark.epoch(epoch, || {
        task.run(host.connect(), &[right("EUR", 10 + epoch, 100)])
            .unwrap()
    });
}

#[test]
fn epoch_whose_task_was_not_read_to_its_end_is_an_error() {
    let (spark, host) = (Spark::new(), Host::start());
    complete(&spark, &host, 0);
    spark.begin(1);
    let task = TaskRequest::new(&spark, "a", 1);
    let cut_off = task.pushed(host.connect(), &[right("EUR", 50, 1)]);
    drop(cut_off.unwrap());
    spark.commit(1);
    spark.begin(2);
    let error =
        refused(TaskRequest::new(&spark, "a", 2).run(host.connect(), &[left("EUR", 60, 1)]));
    assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
    assert!(
        error.to_string().contains("join was not evaluated"),
        "{error}"
    );
    assert_eq!(spark.objects(1), [] as [&str; 0], "no decision either");
}

#[test]
fn first_epoch_of_an_operator_whose_task_was_not_read_to_its_end_is_an_error() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let other = |epoch| TaskRequest::new(&spark, "a", epoch).with("/operator/name", "other");
    let cut_off = other(0).pushed(host.connect(), &[right("EUR", 50, 1)]);
    drop(cut_off.unwrap());
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    spark.begin(1);
    TaskRequest::new(&spark, "a", 1)
        .run(host.connect(), &[left("EUR", 60, 1)])
        .unwrap();
    let error = refused(other(1).run(host.connect(), &[left("EUR", 60, 1)]));
    assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
    assert!(
        error.to_string().contains("other was not evaluated"),
        "{error}"
    );
}

#[test]
fn operator_in_the_streaming_plan_is_evaluated_in_each_epoch() {
    let (spark, mut host) = (Spark::new(), Host::start());
    let task = |run, epoch| {
        let mut task = TaskRequest::new(&spark, run, epoch);
        task.request["in_streaming_plan"] = true.into();
        task
    };
    // The operator begins in epoch 1; another one ran before.
    let other = TaskRequest::new(&spark, "a", 0).with("/operator/name", "other");
    spark.epoch(0, || {
        other.run(host.connect(), &[right("EUR", 10, 100)]).unwrap()
    });
    spark.epoch(1, || {
        task("a", 1)
            .run(host.connect(), &[right("EUR", 10, 100)])
            .unwrap()
    });
    // Spark has dropped its tasks from two plans, so no host knows of these epochs.
    spark.epoch(2, || ());
    spark.epoch(3, || ());
    host = host.replaced();
    spark.begin(4);
    let error = refused(task("b", 4).run(host.connect(), &[left("EUR", 60, 1)]));
    assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
    // The first of the two is the one to rewind to.
    assert!(
        error.to_string().contains("epoch 2 was committed"),
        "{error}"
    );
}

#[test]
fn epoch_that_the_host_of_another_operator_recorded_as_skipped_is_an_error() {
    let (spark, host) = (Spark::new(), Host::start());
    let task = |epoch| {
        let mut task = TaskRequest::new(&spark, "a", epoch);
        task.request["in_streaming_plan"] = true.into();
        task
    };
    spark.epoch(0, || {
        task(0)
            .run(host.connect(), &[right("EUR", 10, 100)])
            .unwrap()
    });
    // The function of this epoch did not use its frame.
    spark.epoch(1, || ());
    spark.begin(2);
    let other = TaskRequest::new(&spark, "a", 2).with("/operator/name", "other");
    other.run(host.connect(), &[right("EUR", 10, 100)]).unwrap();
    let decision = spark.path().join(format!("log/{:020}/decided.0", 1));
    assert!(decision.exists() || !Spark::is_local());
    let error = refused(task(2).run(host.connect(), &[left("EUR", 60, 1)]));
    assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
    assert!(
        error.to_string().contains("epoch 1 was committed"),
        "{error}"
    );
}

#[test]
fn first_epochs_without_a_session_are_skipped() {
    let (spark, host) = (Spark::new(), Host::start());
    // A foreachBatch function returned early: there is no state yet.
    spark.epoch(0, || ());
    spark.epoch(1, || ());
    complete(&spark, &host, 2);
    complete(&spark, &host, 3);
}

#[test]
fn epoch_without_a_session_is_skipped() {
    let (spark, host) = (Spark::new(), Host::start());
    complete(&spark, &host, 0);
    spark.epoch(1, || ());
    complete(&spark, &host, 2);
    let decision = spark.path().join(format!("log/{:020}/decided.0", 1));
    assert!(decision.exists() || !Spark::is_local());
}
