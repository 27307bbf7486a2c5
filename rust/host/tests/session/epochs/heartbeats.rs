//! Heartbeats beside a backlog: a partition without rows follows the others, never the clock.

use std::fs;

use crate::support::{Host, Spark, TaskRequest, heartbeat, left, right, unmatched};

const SECOND: i64 = 1_000_000;
/// The wall clock of the heartbeats, far ahead of the rows.
const NOW: i64 = 1_000_000 * SECOND;

/// Writes the offsets of an epoch that was planned at `second`, with a source at `offset` and a
/// heartbeat that follows after a minute.
fn begin(spark: &Spark, epoch: i64, second: i64, offset: i64) {
    let text = format!(
        "v1\n{{\"batchTimestampMs\":{}}}\n{offset}\n{{\"holdfast_heartbeat\":{NOW},\
         \"idle_after\":{},\"started\":0}}",
        second * 1_000,
        60 * SECOND
    );
    fs::write(spark.path().join(format!("query/offsets/{epoch}")), text).unwrap();
}

/// A task of a join whose left rows wait until the stream time is 10 past them.
fn task(spark: &Spark, partition: i32, epoch: i64) -> TaskRequest {
    let mut task = TaskRequest::new(spark, "a", epoch).partition(partition, 2);
    task.request["operator"]["grace"] = 10.into();
    task
}

/// Runs partition 0, without rows, and partition 1, with a row at `time` if there is one; returns
/// the rows of partition 0.
fn run(spark: &Spark, host: &Host, epoch: i64, time: Option<i64>) -> Vec<crate::support::Joined> {
    let task = |partition| task(spark, partition, epoch);
    let rows: Vec<_> = time.map(|time| right("USD", time, 1)).into_iter().collect();
    let other = crate::support::batch(1, &rows);
    task(1)
        .run_records(host.connect(), &[other, heartbeat(1, NOW)])
        .unwrap();
    let done = task(0)
        .run_records(host.connect(), &[heartbeat(0, NOW)])
        .unwrap();
    spark.commit(epoch);
    done.rows
}

#[test]
fn heartbeat_does_not_overtake_a_backlog() {
    let (spark, host) = (Spark::new(), Host::start());
    begin(&spark, 0, 0, 0);
    for (partition, row) in [(0, left("EUR", 100, 1)), (1, right("USD", 100, 1))] {
        task(&spark, partition, 0)
            .run(host.connect(), &[row])
            .unwrap();
    }
    spark.commit(0);
    // The waiting row goes out at the stream time 110.
    for (epoch, second, time) in [(1, 10, 200), (2, 69, 300)] {
        begin(&spark, epoch, second, epoch);
        assert_eq!(
            run(&spark, &host, epoch, Some(time)),
            [],
            "idle for too short"
        );
    }
    begin(&spark, 3, 70, 3);
    let expected = [unmatched(1)];
    assert_eq!(run(&spark, &host, 3, Some(400)), expected, "it follows 300");
    let decided = spark
        .open_root()
        .decisions
        .recorded(holdfast_host::protocol::Epoch(2));
    let decision = decided.unwrap().unwrap();
    let times = decision.operators.values().next().unwrap();
    assert_eq!(
        (times[0].idle_since, times[1].idle_since),
        (Some(10 * SECOND), None)
    );
    assert_eq!(decision.sources_idle_since, None);
}

#[test]
fn heartbeat_follows_the_clock_once_no_source_moves() {
    let (spark, host) = (Spark::new(), Host::start());
    begin(&spark, 0, 0, 0);
    for (partition, rows) in [(0, vec![left("EUR", 100, 1)]), (1, vec![])] {
        task(&spark, partition, 0)
            .run(host.connect(), &rows)
            .unwrap();
    }
    spark.commit(0);
    // The source stays at its offset.
    for (epoch, second) in [(1, 10), (2, 69)] {
        begin(&spark, epoch, second, 0);
        assert_eq!(run(&spark, &host, epoch, None), []);
    }
    begin(&spark, 3, 80, 0);
    assert_eq!(run(&spark, &host, 3, None), [unmatched(1)]);
}
