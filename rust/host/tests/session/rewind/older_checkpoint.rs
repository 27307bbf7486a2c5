//! A checkpoint or a database older than the state.

use std::fs;

use holdfast_host::protocol::Epoch;

use super::{address, rows, run};
use crate::support::{Host, Spark, TaskRequest, left, matched, refused};

#[test]
fn database_ahead_of_the_checkpoint_is_an_error_without_a_rewind() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..4 {
        run(&spark, &host, "a", epoch, &rows(epoch, epoch));
    }
    spark.open_root().rewind(Epoch(3)).unwrap();
    for epoch in 3..6 {
        run(&spark, &host, "b", epoch, &rows(epoch, epoch));
    }
    spark.begin(6);
    TaskRequest::new(&spark, "b", 6)
        .run(host.connect(), &[])
        .unwrap();
    // The checkpoint goes back to epoch 3. The log still has the epochs up to the state's.
    spark.restore_checkpoint(3, 6);
    let error = refused(TaskRequest::new(&spark, "c", 3).run(host.connect(), &rows(3, 3)));
    assert!(
        error
            .to_string()
            .contains(&format!("`holdfast rewind {} --epoch 3`", address(&spark))),
        "{error}"
    );
    spark.open_root().rewind(Epoch(3)).unwrap();
    assert_eq!(
        run(&spark, &host, "d", 3, &[left("EUR", 55, 1)]).rows,
        [matched(1, 2, 20)]
    );
}

#[test]
fn hosts_with_new_databases_detect_an_older_checkpoint() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..6 {
        run(&spark, &host, "a", epoch, &rows(epoch, epoch));
    }
    spark.begin(6);
    TaskRequest::new(&spark, "a", 6)
        .run(host.connect(), &rows(6, 6))
        .unwrap();
    host.stop();
    spark.delete_local();
    spark.restore_checkpoint(3, 6);
    let host = Host::start();
    let error = refused(TaskRequest::new(&spark, "b", 3).run(host.connect(), &rows(3, 3)));
    for part in [
        "is at epoch 5",
        "older checkpoint was restored",
        "--epoch 3`",
    ] {
        assert!(
            error.to_string().contains(part),
            "{part:?} is not in {error}"
        );
    }
    spark.open_root().rewind(Epoch(3)).unwrap();
    assert_eq!(
        run(&spark, &host, "c", 3, &[left("EUR", 55, 1)]).rows,
        [matched(1, 2, 20)]
    );
}

/// A machine is away during a rewind. Its database ends with the epoch before the session's, as it
/// was before the rewind.
#[test]
fn database_from_before_a_rewind_is_rebuilt() {
    let (spark, host) = (Spark::new(), Host::start());
    // An epoch enters the database when the next one opens: the database ends with epoch 4.
    for epoch in 0..6 {
        run(&spark, &host, "old", epoch, &rows(epoch, epoch));
    }
    host.stop();
    let (here, away) = (spark.path().join("state"), spark.path().join("away"));
    fs::rename(&here, &away).unwrap();
    spark.open_root().rewind(Epoch(3)).unwrap();
    let host = Host::start();
    for epoch in 3..5 {
        run(&spark, &host, "new", epoch, &rows(epoch, 100 + epoch));
    }
    host.stop();
    spark.delete_local();
    fs::rename(&away, &here).unwrap();
    let done = run(&spark, &Host::start(), "new", 5, &[left("EUR", 49, 1)]);
    assert_eq!(done.rows, [matched(1, 104, 40)]);
}

#[test]
fn commit_lost_to_power_failure_is_not_an_older_checkpoint() {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..4 {
        run(&spark, &host, "a", epoch, &rows(epoch, epoch));
    }
    spark.begin(4);
    TaskRequest::new(&spark, "a", 4)
        .run(host.connect(), &rows(4, 4))
        .unwrap();
    host.stop();
    spark.delete_local();
    // Hosts sync the offsets of epoch 4 and the commit of epoch 3 before heads of epoch 4 exist.
    // If the disk ignores this, a loss of power may take both files.
    spark.restore_checkpoint(3, 4);
    let host = Host::start();
    assert_eq!(
        run(&spark, &host, "b", 3, &rows(3, 3)).rows,
        [matched(3, 3, 30)]
    );
    assert_eq!(
        run(&spark, &host, "b", 4, &rows(4, 4)).rows,
        [matched(4, 4, 40)]
    );
}
