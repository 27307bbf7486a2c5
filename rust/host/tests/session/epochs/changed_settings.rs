//! A query that is started again with other settings, while the host keeps running.

use std::process::Command;

use serde_json::{Value, json};

use crate::snapshots::{epoch_of, manifests};
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

/// A query of two partitions whose starts have different graces.
struct Starts {
    spark: Spark,
    snapshot_interval: u64,
}

impl Starts {
    /// Runs two epochs with the longer grace, and begins the next one. With an interval of 0, a
    /// snapshot is due in each session.
    fn new(host: &Host, snapshot_interval: u64) -> Self {
        let spark = Spark::new();
        let starts = Self {
            spark,
            snapshot_interval,
        };
        for (epoch, time) in [(0, 5), (1, 500)] {
            let count = |partition| starts.count(host, ("a", 1_000), (epoch, partition), time);
            starts.spark.epoch(epoch, || [0, 1].map(count));
        }
        starts.spark.begin(2);
        starts
    }

    /// Runs one partition of an epoch with one row at `time`; returns the windows that it emits.
    fn count(
        &self,
        host: &Host,
        (run, grace): (&str, i64),
        (epoch, partition): (i64, i32),
        time: i64,
    ) -> Vec<(i64, i64)> {
        let settings = json!({"uncommitted_max_bytes": -1, "memory": 1 << 28,
            "snapshot_interval": self.snapshot_interval});
        let task = TaskRequest::new(&self.spark, run, epoch)
            .partition(partition, 2)
            .with("/settings", settings)
            .with("/operator", count_windows("update", grace));
        let rows = [batch(partition, &[left("EUR", time, 1)])];
        counted(&task.output(host.connect(), &rows).unwrap().0)
    }

    /// Begins a start with the shorter grace. Only one of its partitions is staged, so it decides
    /// no epoch.
    fn begin_shorter(&self, host: &Host, run: &str) {
        self.count(host, (run, 10), (2, 0), 510);
    }

    /// Starts the query with the longer grace again, with a late row in each partition.
    fn assert_no_window_is_hidden(&self, host: &Host) {
        for partition in [0, 1] {
            let found = self.count(host, ("longer", 1_000), (2, partition), 8);
            assert_eq!(found, [(0, 2)], "partition {partition}");
        }
        self.spark.commit(2);
    }

    /// Runs the query with the shorter grace until a snapshot is of this epoch or of a later one;
    /// an operator runs in the epochs that `is_evaluated` accepts. Returns the snapshots' epochs.
    fn run_until_snapshot(
        &self,
        host: &Host,
        epoch: i64,
        is_evaluated: impl Fn(i64) -> bool,
    ) -> Vec<i64> {
        let snapshots = || -> Vec<i64> {
            let found = manifests(&self.spark);
            found.iter().map(|manifest| epoch_of(manifest)).collect()
        };
        let is_taken = || snapshots().iter().any(|found| *found >= epoch);
        let run = |epoch| {
            for partition in [0, 1] {
                if is_evaluated(epoch) {
                    self.count(host, ("b", 10), (epoch, partition), 510);
                }
            }
        };
        self.spark.run_epochs_until(2, is_taken, run);
        snapshots()
    }

    fn wait_for_snapshot(&self) {
        let is_taken = || !manifests(&self.spark).is_empty();
        wait_until(is_taken, || "no snapshot".to_owned());
    }

    /// Ends a host, which may take a snapshot then, and starts another one on a new disk.
    fn on_a_new_disk(&self, host: Host) -> Host {
        host.stop();
        self.spark.delete_local();
        Host::start()
    }
}

/// The start with the shorter grace has opened the local database, which then hides the window.
#[test]
fn shorter_grace_that_commits_nothing_hides_no_windows() {
    for is_same_host in [true, false] {
        let mut host = Host::start();
        let starts = Starts::new(&host, 0);
        starts.begin_shorter(&host, "b");
        if !is_same_host {
            host.stop();
            host = Host::start();
        }
        starts.assert_no_window_is_hidden(&host);
    }
}

#[test]
fn shorter_grace_that_commits_nothing_enters_no_snapshot() {
    let host = Host::start();
    let starts = Starts::new(&host, 0);
    starts.wait_for_snapshot();
    let host = starts.on_a_new_disk(host);
    starts.begin_shorter(&host, "b");
    let host = starts.on_a_new_disk(host);
    starts.assert_no_window_is_hidden(&host);
}

/// The second start finds a database that the first one has opened, with the same grace.
#[test]
fn two_starts_with_a_shorter_grace_enter_no_snapshot() {
    let host = Host::start();
    let starts = Starts::new(&host, 0);
    starts.begin_shorter(&host, "b");
    host.stop();
    let host = Host::start();
    starts.begin_shorter(&host, "c");
    let host = starts.on_a_new_disk(host);
    starts.assert_no_window_is_hidden(&host);
}

/// The replay makes a database that was never open with the longer grace.
#[test]
fn log_that_is_replayed_with_a_shorter_grace_enters_no_snapshot() {
    let host = Host::start();
    let starts = Starts::new(&host, 3_600_000_000);
    let host = starts.on_a_new_disk(host);
    assert!(manifests(&starts.spark).is_empty(), "only the log");
    starts.begin_shorter(&host, "b");
    let host = starts.on_a_new_disk(host);
    assert!(manifests(&starts.spark).is_empty(), "of the shorter grace");
    starts.assert_no_window_is_hidden(&host);
}

#[test]
fn shorter_grace_enters_a_snapshot_after_an_epoch_with_it() {
    let host = Host::start();
    let starts = Starts::new(&host, 0);
    let epochs = starts.run_until_snapshot(&host, 2, |_| true);
    assert!(!epochs.contains(&1), "{epochs:?}");
}

/// No operator ran in the epoch before each session, so each snapshot is of a skipped epoch.
#[test]
fn shorter_grace_enters_a_snapshot_of_a_skipped_epoch_after_an_epoch_with_it() {
    let host = Host::start();
    let starts = Starts::new(&host, 0);
    let epochs = starts.run_until_snapshot(&host, 4, |epoch| epoch % 2 == 1);
    assert!(!epochs.contains(&2), "{epochs:?}");
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
