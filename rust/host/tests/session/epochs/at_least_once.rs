//! Attempts and runs with different results under at-least-once: every host applies what was staged
//! first.

use std::sync::Arc;

use holdfast_host::session::{Routed, Session};

use crate::support::{Host, Spark, TaskRequest, TaskResult, batch, left, matched, right, schema};

/// A task of a run with at-least-once.
fn task(spark: &Spark, run: &str, epoch: i64, attempt: i64) -> TaskRequest {
    let task = TaskRequest::new(spark, run, epoch).attempt(attempt);
    let mut settings = task.request["settings"].clone();
    settings["processing_guarantee"] = "at_least_once".into();
    task.with("/settings", settings)
}

/// Runs epochs 1 and 2: epoch 1 on a host that may hold epoch 0 prepared, epoch 2 on a host without
/// local state.
fn rates_in_force(spark: &Spark, run: &str, host: Host) -> [TaskResult; 2] {
    spark.commit(0);
    let probe = |epoch, host: &Host| {
        spark.epoch(epoch, || {
            task(spark, run, epoch, 9)
                .run(host.connect(), &[left("EUR", 99, epoch)])
                .unwrap()
        })
    };
    let here = probe(1, &host);
    host.stop();
    spark.delete_local();
    [here, probe(2, &Host::start())]
}

#[test]
fn host_applies_what_an_earlier_attempt_staged() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let first = task(&spark, "a", 0, 1)
        .run(host.connect(), &[right("EUR", 10, 100), left("EUR", 15, 1)])
        .unwrap();
    host.stop();
    spark.delete_local();
    let host = Host::start();
    let second = task(&spark, "a", 0, 2)
        .run(host.connect(), &[right("EUR", 10, 101), left("EUR", 15, 1)])
        .unwrap();
    assert_eq!(
        (first.rows, second.rows),
        (vec![matched(1, 100, 10)], vec![matched(1, 101, 10)]),
        "each attempt returns its own results"
    );
    assert_eq!(
        (second.staged.adopted, second.staged.digest),
        (true, first.staged.digest)
    );
    let [here, elsewhere] = rates_in_force(&spark, "a", host);
    assert_eq!(
        (here.rows, elsewhere.rows),
        (vec![matched(1, 100, 10)], vec![matched(2, 100, 10)])
    );
}

#[test]
fn newer_run_keeps_what_an_older_whole_run_staged() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let first = task(&spark, "a", 0, 1)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    host.stop();
    spark.delete_local();
    let host = Host::start();
    let second = task(&spark, "b", 0, 1)
        .run(host.connect(), &[right("EUR", 10, 101), left("EUR", 15, 1)])
        .unwrap();
    assert_eq!(second.rows, [matched(1, 101, 10)]);
    assert_eq!(
        (second.staged.adopted, second.staged.digest),
        (true, first.staged.digest)
    );
    assert_eq!(spark.objects(0), ["join.0.1", "join.0.2"]);
    let [here, elsewhere] = rates_in_force(&spark, "b", host);
    assert_eq!(
        (here.rows, elsewhere.rows),
        (vec![matched(1, 100, 10)], vec![matched(2, 100, 10)])
    );
}

#[test]
fn run_that_stages_after_the_older_runs_commit_changes_nothing() {
    let spark = Spark::new();
    let host = Arc::new(holdfast_host::host::Host::new(None, None));
    let open = |run, rate| {
        let request = task(&spark, run, 0, 1).request.to_string();
        let Routed::Local(mut session, _) = Session::open(&host, request.as_bytes()).unwrap()
        else {
            panic!("no other host")
        };
        session.push(batch(0, &[right("EUR", 10, rate)])).unwrap();
        session
    };
    let finish = |session: Box<Session>| session.finish(Some(&schema()), &mut |_| Ok(())).unwrap();
    spark.begin(0);
    let first = finish(open("a", 100));
    // The newer run has claimed and started before the older run's driver commits, and stages after
    // the commit.
    let late = open("b", 101);
    spark.commit(0);
    assert_eq!(finish(late).digest, first.digest);
    assert_eq!(spark.objects(0), ["join.0.1", "join.0.2"]);
    drop(host);
    let [here, elsewhere] = rates_in_force(&spark, "b", Host::start());
    assert_eq!(
        (here.rows, elsewhere.rows),
        (vec![matched(1, 100, 10)], vec![matched(2, 100, 10)])
    );
}
