//! A query that is started again with other settings, while the host keeps running.

use std::process::Command;

use holdfast_host::client::Client;
use serde_json::{Value, json};

use crate::snapshots::manifests;
use crate::support::{
    Host, HostProcess, Spark, TaskRequest, batch, count_windows, counted, left, matched, right,
    wait_until,
};

/// Runs an epoch with one row at `time`; returns the windows that the epoch emits, each with its
/// count.
fn count(
    (spark, host): (&Spark, &Host),
    (run, emit, grace): (&str, &str, i64),
    epoch: i64,
    time: i64,
) -> Vec<(i64, i64)> {
    count_as(
        (spark, host),
        (run, count_windows(emit, grace)),
        epoch,
        time,
    )
}

/// As [`count`], with this operator.
fn count_as(
    (spark, host): (&Spark, &Host),
    (run, operator): (&str, Value),
    epoch: i64,
    time: i64,
) -> Vec<(i64, i64)> {
    let task = TaskRequest::new(spark, run, epoch).with("/operator", operator);
    let rows = [batch(0, &[left("EUR", time, 1)])];
    let (batches, _) = spark.epoch(epoch, || task.output(host.connect(), &rows).unwrap());
    counted(&batches)
}

#[test]
fn longer_grace_retains_windows_until_they_close() {
    let (spark, host) = (Spark::new(), Host::start());
    let at = (&spark, &host);
    assert_eq!(count(at, ("a", "update", 10), 0, 5), [(0, 1)]);
    let closes = ("b", "close", 50);
    assert_eq!(count(at, closes, 1, 100), [(0, 1)], "still open");
    assert_eq!(count(at, closes, 2, 130), []);
    assert_eq!(count(at, closes, 3, 170), [(100, 1)]);
}

#[test]
fn longer_grace_accepts_late_rows() {
    let (spark, host) = (Spark::new(), Host::start());
    let at = (&spark, &host);
    assert_eq!(count(at, ("a", "update", 10), 0, 5), [(0, 1)]);
    let longer = ("b", "update", 1_000);
    assert_eq!(count(at, longer, 1, 100), [(100, 1)]);
    assert_eq!(count(at, longer, 2, 8), [(0, 2)]);
    assert_eq!(count(at, longer, 3, 9), [(0, 3)]);
}

/// Runs one of two partitions of an epoch with one row at `time`; returns the windows that it
/// emits. A snapshot is due in each session.
fn count_in_partition(
    (spark, client): (&Spark, Client),
    (run, grace): (&str, i64),
    (epoch, partition): (i64, i32),
    time: i64,
) -> Vec<(i64, i64)> {
    let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28, "snapshot_interval": 0});
    let task = TaskRequest::new(spark, run, epoch)
        .partition(partition, 2)
        .with("/settings", settings)
        .with("/operator", count_windows("update", grace));
    let rows = [batch(partition, &[left("EUR", time, 1)])];
    counted(&task.output(client, &rows).unwrap().0)
}

fn on_a_new_disk(spark: &Spark, host: Host) -> Host {
    host.stop();
    spark.delete_local();
    Host::start()
}

/// The start with the shorter grace has opened the local database, which then hides the window.
#[test]
fn shorter_grace_that_commits_nothing_hides_no_windows() {
    for (is_same_host, is_same_disk) in [(true, true), (false, true), (false, false)] {
        let (spark, mut host) = (Spark::new(), Host::start());
        for (epoch, time) in [(0, 5), (1, 500)] {
            spark.begin(epoch);
            for partition in [0, 1] {
                let at = (&spark, host.connect());
                count_in_partition(at, ("a", 1_000), (epoch, partition), time);
            }
            spark.commit(epoch);
        }
        if !is_same_disk {
            // The next host restores this snapshot. At its end it would take another one.
            wait_until(
                || !manifests(&spark).is_empty(),
                || "no snapshot".to_owned(),
            );
            host = on_a_new_disk(&spark, host);
        }
        spark.begin(2);
        // Only one of the two partitions is staged, so this run decides no epoch.
        let at = (&spark, host.connect());
        count_in_partition(at, ("b", 10), (2, 0), 510);
        if !is_same_disk {
            host = on_a_new_disk(&spark, host);
        } else if !is_same_host {
            host.stop();
            host = Host::start();
        }
        for partition in [0, 1] {
            let at = (&spark, host.connect());
            let found = count_in_partition(at, ("c", 1_000), (2, partition), 8);
            let case = (partition, is_same_host, is_same_disk);
            assert_eq!(found, [(0, 2)], "{case:?}");
        }
        spark.commit(2);
    }
}

#[test]
fn longer_grace_makes_a_new_local_database_once() {
    const REASON: &str = "a new local database is made";
    let spark = Spark::new();
    let run = |host: &HostProcess, (run, grace), epoch, time| {
        let task =
            TaskRequest::new(&spark, run, epoch).with("/operator", count_windows("update", grace));
        let rows = [batch(0, &[left("EUR", time, 1)])];
        let done = spark.epoch(epoch, || task.output(host.connect(), &rows));
        counted(&done.unwrap().0)
    };
    let start = || Command::new("sleep").arg("600").spawn().unwrap();
    let mut executor = start();
    let mut host = HostProcess::of(executor.id());
    let longer = ("c", 1_000);
    run(&host, ("a", 1_000), 0, 5);
    run(&host, ("a", 1_000), 1, 500);
    run(&host, ("b", 10), 2, 510);
    run(&host, ("b", 10), 3, 511);
    assert_eq!(run(&host, longer, 4, 8), [], "closed by a committed epoch");
    assert_eq!(run(&host, longer, 5, 512), [(510, 3)]);
    assert_eq!(host.log().matches(REASON).count(), 1, "{}", host.log());
    executor.kill().unwrap();
    executor.wait().unwrap();
    assert!(host.wait().success(), "{}", host.log());
    let mut executor = start();
    let host = HostProcess::of(executor.id());
    assert_eq!(run(&host, longer, 6, 513), [(510, 4)]);
    assert!(!host.log().contains(REASON), "{}", host.log());
    executor.kill().unwrap();
    executor.wait().unwrap();
}

#[test]
fn stores_in_memory_are_restored_with_the_new_settings() {
    let (spark, host) = (Spark::new(), Host::start());
    let count = |run, grace, epoch, time| {
        let mut operator = count_windows("update", grace);
        operator["persistent"] = false.into();
        count_as((&spark, &host), (run, operator), epoch, time)
    };
    assert_eq!(count("a", 10, 0, 5), [(0, 1)]);
    assert_eq!(count("a", 10, 1, 6), [(0, 2)]);
    assert_eq!(count("b", 1_000, 2, 100), [(100, 1)]);
    assert_eq!(count("b", 1_000, 3, 8), [(0, 3)]);
}

#[test]
fn operator_that_took_no_part_may_start_with_a_longer_history() {
    let (spark, host) = (Spark::new(), Host::start());
    let task = |run: &str, epoch, retention: i64| {
        TaskRequest::new(&spark, run, epoch).with("/operator/history_retention", retention)
    };
    spark.begin(0);
    let ended = task("a", 0, 10).pushed(host.connect(), &[]).unwrap();
    spark.wait_for_local(0);
    drop(ended);
    let run = |epoch, rows: &[_]| {
        let done = spark.epoch(epoch, || task("b", epoch, 1_000).run(host.connect(), rows));
        done.unwrap().rows
    };
    assert_eq!(run(0, &[right("EUR", 100, 1)]), []);
    let late = [right("EUR", 50, 2), left("EUR", 60, 7)];
    assert_eq!(run(1, &late), [matched(7, 2, 50)]);
}

/// A replay of the log restores windows that have expired in a database that is opened again.
#[test]
fn closed_windows_are_deleted_in_the_same_way_after_a_replay() {
    let (spark, host) = (Spark::new(), Host::start());
    let at = (&spark, &host);
    assert_eq!(count(at, ("a", "update", 10), 0, 5), [(0, 1)]);
    assert_eq!(count(at, ("a", "update", 10), 1, 100), [(100, 1)]);
    // The database is at the epoch before, and the window [0, 10) has expired in it.
    assert_eq!(count(at, ("a", "update", 10), 2, 101), [(100, 2)]);
    spark.begin(3);
    let run = |run, host: &Host| {
        let task = TaskRequest::new(&spark, run, 3).with("/operator", count_windows("close", 10));
        let rows = [batch(0, &[left("EUR", 105, 1)])];
        task.output(host.connect(), &rows).unwrap().1
    };
    let first = run("b", &host);
    host.stop();
    spark.delete_local();
    let again = run("c", &Host::start());
    assert_eq!((first.digest, first.records), (again.digest, again.records));
}
