//! Operators that an earlier run of the epoch did not have.

use std::thread;
use std::time::{Duration, Instant};

use holdfast_host::protocol::Epoch;

use super::{named, rows, run};
use crate::support::{Host, PATIENCE, Row, Spark, TaskRequest, left, matched, refused};

#[test]
fn an_operator_that_came_later_begins_anew() {
    let (spark, host) = (Spark::new(), Host::start());
    let other = |run: &str, epoch: i64, rows: &[Row]| {
        TaskRequest::new(&spark, run, epoch)
            .with("/operator/name", "other")
            .with("/instance", "call-2")
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
    for epoch in 2..4 {
        spark.begin(epoch);
        TaskRequest::new(&spark, "new", epoch)
            .run(host.connect(), &[])
            .unwrap();
        let done = other("new", epoch, &rows(epoch, 100 + epoch));
        assert_eq!(done.rows, [matched(epoch, 100 + epoch, epoch * 10)]);
        spark.commit(epoch);
    }
    // What it put in epoch 2 is there, although it had come in epoch 3 before.
    spark.begin(4);
    assert_eq!(
        other("new", 4, &[left("EUR", 27, 1)]).rows,
        [matched(1, 102, 20)]
    );
}

#[test]
fn an_operator_that_an_older_run_had_not_come_to_is_computed_by_the_next() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    // Operators of one query stage one after the other, and its driver dies in between.
    named(&spark, "join", "a", 0)
        .run(host.connect(), &rows(0, 1))
        .unwrap();
    for operator in ["join", "behind"] {
        named(&spark, operator, "b", 0)
            .run(host.connect(), &rows(0, 1))
            .unwrap();
    }
    spark.commit(0);
    spark.begin(1);
    for operator in ["join", "behind"] {
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
fn an_operator_whose_first_epoch_went_on_without_it_begins_anew() {
    let (spark, host) = (Spark::new(), Host::start());
    let other = |run: &str, epoch: i64, retention: i64| {
        named(&spark, "other", run, epoch)
            .with("/operator/history_retention", retention)
            .run(host.connect(), &rows(epoch, epoch))
    };
    run(&spark, &host, "a", 0, &rows(0, 1));
    // It is written down, and its task fails: rolled back, the query goes on without it.
    spark.begin(1);
    drop(
        named(&spark, "other", "b", 1)
            .pushed(host.connect(), &rows(1, 1))
            .unwrap(),
    );
    let (file, started) = (spark.path().join("operators/other.json"), Instant::now());
    while !file.exists() {
        assert!(
            started.elapsed() < PATIENCE,
            "the operator is not written down"
        );
        thread::sleep(Duration::from_millis(2));
    }
    for epoch in 1..4 {
        run(&spark, &host, "c", epoch, &rows(epoch, epoch));
    }
    // Mended, with another setting: it begins with this epoch, and nothing is missing before it.
    spark.begin(4);
    TaskRequest::new(&spark, "d", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    other("d", 4, 7_000_000).unwrap();
    // Now there is a state that the setting must fit.
    let error = refused(other("e", 4, 8_000_000));
    assert!(
        error
            .to_string()
            .contains("history_retention was 7000000, is 8000000"),
        "{error}"
    );
    // Unless it goes with the epoch in which it began.
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
            .contains("was 8000000, is 7000000")
    );
}
