//! Operators that an earlier run of the epoch did not have.

use std::fs;

use holdfast_host::protocol::Epoch;

use super::{named, rows, run};
use crate::support::{Host, Row, Spark, TaskRequest, left, matched, refused, wait_until};

#[test]
fn operator_added_after_the_rewind_point_starts_empty() {
    // The operator's file is still there if the rewind was interrupted, or if a host wrote the file
    // after the rewind.
    for operator_is_left in [false, true] {
        let (spark, host) = (Spark::new(), Host::start());
        let other = |run: &str, epoch: i64, rows: &[Row]| {
            named(&spark, "other", run, epoch)
                .run(host.connect(), rows)
                .unwrap()
        };
        for epoch in 0..5 {
            spark.begin(epoch);
            TaskRequest::new(&spark, "old", epoch)
                .run(host.connect(), &rows(epoch, epoch))
                .unwrap();
            if epoch >= 3 {
                other("old", epoch, &rows(epoch, epoch));
            }
            spark.commit(epoch);
        }
        spark.open_root().rewind(Epoch(2)).unwrap();
        if operator_is_left {
            let file = |folder: &str| spark.path().join(format!("{folder}operators/other.json"));
            fs::copy(file("removed/2/"), file("")).unwrap();
        }
        for epoch in 2..4 {
            spark.begin(epoch);
            TaskRequest::new(&spark, "new", epoch)
                .run(host.connect(), &[])
                .unwrap();
            let done = other("new", epoch, &rows(epoch, 100 + epoch));
            assert_eq!(done.rows, [matched(epoch, 100 + epoch, epoch * 10)]);
            spark.commit(epoch);
        }
        // The operator's state has epoch 2, although it was first added in epoch 3.
        spark.begin(4);
        assert_eq!(
            other("new", 4, &[left("EUR", 27, 1)]).rows,
            [matched(1, 102, 20)]
        );
    }
}

#[test]
fn next_run_computes_an_operator_that_the_older_run_did_not() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    // The operators of a query stage one after the other; its driver dies in between.
    named(&spark, "join", "a", 0)
        .run(host.connect(), &rows(0, 1))
        .unwrap();
    for operator in ["join", "second"] {
        named(&spark, operator, "b", 0)
            .run(host.connect(), &rows(0, 1))
            .unwrap();
    }
    spark.commit(0);
    spark.begin(1);
    for operator in ["join", "second"] {
        assert_eq!(
            named(&spark, operator, "b", 1)
                .run(host.connect(), &rows(1, 2))
                .unwrap()
                .rows,
            [matched(1, 2, 10)]
        );
    }
}

#[test]
fn operator_that_never_staged_starts_with_a_later_epoch() {
    let (spark, host) = (Spark::new(), Host::start());
    let other = |run: &str, epoch: i64, retention: i64| {
        named(&spark, "other", run, epoch)
            .with("/operator/history_retention", retention)
            .run(host.connect(), &rows(epoch, epoch))
    };
    run(&spark, &host, "a", 0, &rows(0, 1));
    // The operator is registered and its task fails; the query continues without the operator.
    spark.begin(1);
    drop(
        named(&spark, "other", "b", 1)
            .pushed(host.connect(), &rows(1, 1))
            .unwrap(),
    );
    let file = spark.path().join("operators/other.json");
    wait_until(
        || file.exists(),
        || "the operator is not registered".to_owned(),
    );
    for epoch in 1..4 {
        run(&spark, &host, "c", epoch, &rows(epoch, epoch));
    }
    // The operator is added again with another setting. It starts with this epoch, so no earlier
    // epoch is missing.
    spark.begin(4);
    TaskRequest::new(&spark, "d", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    other("d", 4, 7_000_000).unwrap();
    // Now the setting must match the state.
    let error = refused(other("e", 4, 8_000_000));
    assert!(
        error
            .to_string()
            .contains("history_retention was 7000000 and is now 8000000"),
        "{error}"
    );
    // Dropping its first epoch removes that state.
    spark.open_root().drop_epoch(Epoch(4)).unwrap().unwrap();
    TaskRequest::new(&spark, "f", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    other("f", 4, 8_000_000).unwrap();
    spark.commit(4);
    spark.begin(5);
    assert!(
        refused(other("g", 5, 7_000_000))
            .to_string()
            .contains("was 8000000 and is now 7000000")
    );
}

#[test]
fn first_epoch_of_a_superseded_run_skips_no_epochs() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..2 {
        run(&spark, &host, "new", epoch, &rows(epoch, epoch));
    }
    host.stop();
    spark.delete_local();
    // A host of an older run has not noticed the rewind. It records the epoch of its own run as the
    // operator's first epoch.
    let file = spark.path().join("operators/join.json");
    let text = fs::read_to_string(&file).unwrap();
    let later = text.replace("\"first_epoch\":0", "\"first_epoch\":5");
    assert_ne!(later, text);
    fs::write(&file, later).unwrap();
    spark.begin(2);
    let error = refused(
        TaskRequest::new(&spark, "new", 2).run(Host::start().connect(), &[left("EUR", 15, 9)]),
    );
    assert!(
        error.to_string().contains("took part in epoch 1"),
        "{error}"
    );
}
