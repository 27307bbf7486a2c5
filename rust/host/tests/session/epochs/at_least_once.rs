//! Attempts and runs that come to other results, where that is allowed: what was staged first is
//! what every host applies.

use std::sync::Arc;

use holdfast_host::session::{Routed, Session};

use crate::support::{Host, Spark, TaskRequest, TaskResult, batch, left, matched, right, schema};

/// A task of one run, as its host is asked for it.
fn task(spark: &Spark, run: &str, epoch: i64, attempt: i64) -> TaskRequest {
    let task = TaskRequest::new(spark, run, epoch).attempt(attempt);
    let mut settings = task.request["settings"].clone();
    settings["processing_guarantee"] = "at_least_once".into();
    task.with("/settings", settings)
}

/// The epochs behind epoch 0, of the last run: epoch 1 by a host that may hold what it prepared,
/// epoch 2 by one that has nothing.
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
fn a_host_does_not_apply_what_it_came_to_where_an_earlier_attempt_had_staged() {
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
        "each gives what it came to"
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
fn a_newer_run_keeps_what_an_older_whole_one_staged() {
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
fn a_run_that_wakes_after_the_older_ones_commit_changes_nothing() {
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
    // The newer run has claimed and begun before the older one's driver commits, and stages behind
    // that.
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
