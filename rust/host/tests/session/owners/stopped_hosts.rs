//! Hosts that are stopped while another host takes their partition over.

use std::fs;
use std::sync::mpsc;
use std::thread;

use holdfast_core::ErrorKind;
use holdfast_host::client::Client;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::json;

use super::{connect, first_directory_is_free, first_epoch, terms};
use crate::support::{
    HostProcess, PATIENCE, Row, Spark, TaskRequest, left, matched, right, wait_until,
};

#[test]
fn resumed_host_closes_a_partition_that_moved() {
    let spark = Spark::new();
    let (a, b) = (HostProcess::on_a_cluster(), HostProcess::on_a_cluster());
    first_epoch(&spark, connect(&a));
    // The first host is stopped while it runs epoch 1.
    spark.begin(1);
    let rows = [right("EUR", 20, 200), left("EUR", 25, 1)];
    let asleep = TaskRequest::new(&spark, "a", 1)
        .pushed(connect(&a), &rows)
        .unwrap();
    a.stop();
    let done = TaskRequest::new(&spark, "a", 1)
        .attempt(2)
        .run(connect(&b), &rows)
        .unwrap();
    assert_eq!(
        (done.rows.as_slice(), done.staged.adopted),
        ([matched(1, 200, 20)].as_slice(), false)
    );
    assert_eq!(terms(&spark), ["1.1", "1.2"]);
    // The first host continues and finds its epoch already staged.
    a.wake();
    let mut late = asleep.finish().unwrap();
    assert_eq!(
        late.by_ref()
            .map(|batch| batch.unwrap().num_rows())
            .sum::<usize>(),
        1
    );
    assert!(late.staged().unwrap().contains(r#""adopted":true"#));
    spark.commit(1);
    assert!(!first_directory_is_free(&spark));
    // A task of the first host's executor: another host owns the partition now, and the first host
    // closes its copy.
    spark.begin(2);
    let done = TaskRequest::new(&spark, "a", 2)
        .run(connect(&a), &[left("EUR", 99, 3)])
        .unwrap();
    assert_eq!(done.rows, [matched(3, 200, 20)]);
    assert_eq!(
        terms(&spark),
        ["1.1", "1.2"],
        "a resumed host does not move the partition"
    );
    assert!(first_directory_is_free(&spark));
}

#[test]
fn task_does_not_wait_for_the_restore_of_a_partition_that_moved() {
    let spark = Spark::new();
    if !Spark::is_local() {
        return;
    }
    let (a, b) = (HostProcess::on_a_cluster(), HostProcess::on_a_cluster());
    // The second run is of another application, so the partition does not stay with its host.
    let task = |run: &str, epoch: i64| {
        let mut task = TaskRequest::new(&spark, run, epoch);
        task.request["application"] = run.into();
        task
    };
    for epoch in 0..2 {
        let rows = [right("EUR", 10 * epoch, 100 + epoch)];
        spark.epoch(epoch, || task("a", epoch).run(connect(&b), &rows).unwrap());
    }
    // The first host's restore waits for the first epoch. The second host has it in its database.
    let object = spark.path().join(format!("log/{:020}/join.0.1", 0));
    fs::remove_file(&object).unwrap();
    mknodat(CWD, &object, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    spark.begin(2);
    let rows = [right("EUR", 20, 102), left("EUR", 25, 2)];
    let _restoring = task("b", 2).pushed(connect(&a), &rows).unwrap();
    let is_restoring = || a.log().contains("replaying the log, epochs 0 to 1");
    wait_until(is_restoring, || a.log());
    a.stop();
    let done = task("b", 2).attempt(2).run(connect(&b), &rows).unwrap();
    assert_eq!(done.rows, [matched(2, 102, 20)]);
    spark.commit(2);
    a.wake();
    // The task runs on the second host, although the first host cannot close its database.
    spark.begin(3);
    let (answer, answered) = mpsc::channel();
    let (task, client) = (task("b", 3), connect(&a));
    thread::spawn(move || answer.send(task.run(client, &[left("EUR", 15, 3)])).ok());
    let done = answered
        .recv_timeout(PATIENCE)
        .expect("an answer while the restore waits")
        .unwrap();
    assert_eq!(done.rows, [matched(3, 101, 10)]);
    assert_eq!(terms(&spark), ["2.1", "2.2"]);
    assert!(
        !a.log().contains("restored in"),
        "it still restores: {}",
        a.log()
    );
}

#[test]
fn worker_does_not_wait_for_a_stopped_host() {
    let spark = Spark::new();
    let a = HostProcess::on_a_cluster();
    spark.begin(0);
    let client = TaskRequest::new(&spark, "a", 0)
        .pushed(connect(&a), &[right("EUR", 10, 100)])
        .unwrap();
    a.stop();
    let error = match client.finish() {
        Err(error) => error,
        Ok(mut output) => output
            .find_map(Result::err)
            .expect("no answer, no acknowledgement"),
    };
    assert_eq!(error.kind(), ErrorKind::InvalidState);
    assert!(
        error.to_string().contains("keeps silent")
            && error.to_string().contains("retries the task"),
        "{error}"
    );
    a.wake();
}

#[test]
fn resumed_host_owns_its_partition_again_after_the_next_owner_dies() {
    let spark = Spark::new();
    let (a, b, c) = (
        HostProcess::on_a_cluster(),
        HostProcess::on_a_cluster(),
        HostProcess::on_a_cluster(),
    );
    first_epoch(&spark, connect(&a));
    a.stop();
    spark.begin(1);
    TaskRequest::new(&spark, "a", 1)
        .run(connect(&b), &[right("EUR", 20, 200)])
        .unwrap();
    spark.commit(1);
    a.wake();
    b.kill();
    spark.begin(2);
    let done = TaskRequest::new(&spark, "a", 2)
        .run(connect(&c), &[left("EUR", 10, 1), left("EUR", 20, 2)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10), matched(2, 200, 20)]);
    let owners = spark.owners(0);
    assert_eq!(
        owners
            .iter()
            .map(|(term, _)| term.as_str())
            .collect::<Vec<_>>(),
        ["1.1", "1.2", "1.3"]
    );
    assert_eq!(owners[2].1, owners[0].1, "its copy is the most recent one");
    let log = a.log();
    assert!(
        log.contains("epochs 0 to 1 restored in")
            && log.contains(", 2 records")
            && !log.contains("snapshot"),
        "{log}"
    );
}

#[test]
fn resumed_host_restores_a_snapshot_if_its_log_was_removed() {
    let spark = Spark::new();
    let (a, b, c) = (
        HostProcess::on_a_cluster(),
        HostProcess::on_a_cluster(),
        HostProcess::on_a_cluster(),
    );
    let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28, "snapshot_interval": 0,
        "retain_epochs": 1});
    let run = |client: Client, epoch: i64, rows: &[Row]| {
        TaskRequest::new(&spark, "a", epoch)
            .with("/settings", settings.clone())
            .run(client, rows)
            .unwrap()
    };
    // The first host has checked its database in this run and keeps it open.
    for epoch in 0..3 {
        spark.epoch(epoch, || {
            run(connect(&a), epoch, &[right("EUR", epoch, epoch)])
        });
    }
    a.stop();
    let is_removed = || !spark.path().join(format!("log/{:020}", 4)).exists();
    // The log of epoch 4 must exist before its removal is observed.
    spark.epoch(3, || drop(run(connect(&b), 3, &[right("EUR", 3, 3)])));
    spark.epoch(4, || drop(run(connect(&b), 4, &[right("EUR", 4, 4)])));
    let next = spark.run_epochs_until(5, is_removed, |epoch| {
        drop(run(connect(&b), epoch, &[right("EUR", epoch, epoch)]))
    });
    a.wake();
    b.kill();
    spark.begin(next);
    let done = run(
        connect(&c),
        next,
        &[left("EUR", 1, 1), left("EUR", next, 2)],
    );
    assert_eq!(
        done.rows,
        [matched(1, 1, 1), matched(2, next - 1, next - 1)]
    );
    let owners = spark.owners(0);
    assert_eq!(
        owners.last().unwrap().1,
        owners[0].1,
        "its copy is the most recent one"
    );
    assert!(a.log().contains("restored the snapshot"), "{}", a.log());
}
