//! Heartbeats: while sources have new rows, an idle partition follows the others, not the clock.

use holdfast_host::protocol::Epoch;

use crate::support::{
    HEARTBEAT, Host, Joined, Row, Spark, TaskRequest, batch, count_windows, counted, heartbeat,
    left, matched, right, unmatched,
};

const SECOND: i64 = 1_000_000;

/// A task of a join whose left rows wait until the stream time is 10 past them.
fn task(spark: &Spark, partition: i32, epoch: i64) -> TaskRequest {
    let mut task = TaskRequest::new(spark, "a", epoch).partition(partition, 2);
    task.request["operator"]["grace"] = 10.into();
    task
}

/// Runs two partitions with these rows; returns the results of partition 0.
fn run(spark: &Spark, host: &Host, epoch: i64, rows: [&[Row]; 2]) -> Vec<Joined> {
    let mut results = Vec::new();
    for (partition, rows) in [(1, rows[1]), (0, rows[0])] {
        let batches = [batch(partition, rows), heartbeat(partition, HEARTBEAT)];
        let task = task(spark, partition, epoch);
        let done = task.run_records(host.connect(), &batches).unwrap();
        results = done.rows;
    }
    spark.commit(epoch);
    results
}

#[test]
fn heartbeat_does_not_overtake_a_backlog() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin_with_heartbeat(0, 0, 0);
    run(
        &spark,
        &host,
        0,
        [&[left("EUR", 100, 1)], &[left("USD", 100, 2)]],
    );
    // The waiting row goes out at the stream time 110.
    for (epoch, second, time) in [(1, 10, 200), (2, 40, 250), (3, 69, 300)] {
        spark.begin_with_heartbeat(epoch, second, epoch);
        let rows = [left("USD", time, 2)];
        assert_eq!(
            run(&spark, &host, epoch, [&[], &rows]),
            [],
            "idle for too short"
        );
    }
    spark.begin_with_heartbeat(4, 70, 4);
    let rows = [left("USD", 400, 2)];
    let expected = [unmatched(1)];
    assert_eq!(
        run(&spark, &host, 4, [&[], &rows]),
        expected,
        "it follows 300"
    );
    let decided = spark.open_root().decisions.recorded(Epoch(3));
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
    spark.begin_with_heartbeat(0, 0, 0);
    run(&spark, &host, 0, [&[left("EUR", 100, 1)], &[]]);
    // The source stays at its offset.
    for (epoch, second) in [(1, 10), (2, 40), (3, 69)] {
        spark.begin_with_heartbeat(epoch, second, 0);
        assert_eq!(run(&spark, &host, epoch, [&[], &[]]), []);
    }
    spark.begin_with_heartbeat(4, 80, 0);
    assert_eq!(run(&spark, &host, 4, [&[], &[]]), [unmatched(1)]);
}

/// Right rows may be far ahead of the left ones.
#[test]
fn waiting_rows_follow_the_left_rows_of_other_partitions() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin_with_heartbeat(0, 0, 0);
    run(
        &spark,
        &host,
        0,
        [&[left("EUR", 100, 1)], &[left("USD", 105, 2)]],
    );
    for (epoch, second) in [(1, 10), (2, 60), (3, 120)] {
        spark.begin_with_heartbeat(epoch, second, epoch);
        let rows = [left("USD", 105, 2), right("USD", 500 + epoch, 1)];
        assert_eq!(run(&spark, &host, epoch, [&[], &rows]), []);
    }
    for (epoch, expected) in [(4, vec![]), (5, vec![unmatched(1)])] {
        spark.begin_with_heartbeat(epoch, 120 + epoch, epoch);
        let rows = [left("USD", 110, 2)];
        assert_eq!(run(&spark, &host, epoch, [&[], &rows]), expected);
    }
}

#[test]
fn waiting_rows_do_not_wait_for_right_rows_to_end() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin_with_heartbeat(0, 0, 0);
    run(
        &spark,
        &host,
        0,
        [&[left("EUR", 100, 1)], &[left("USD", 100, 2)]],
    );
    for (epoch, second, expected) in [
        (1, 10, vec![]),
        (2, 40, vec![]),
        (3, 69, vec![]),
        (4, 70, vec![matched(1, 4, 98)]),
    ] {
        spark.begin_with_heartbeat(epoch, second, epoch);
        // A right row of the epoch that ends the wait is matched, too.
        let rates = [right("EUR", 94 + epoch, epoch)];
        let rows = [left("USD", 200 + epoch, 2)];
        assert_eq!(run(&spark, &host, epoch, [&rates, &rows]), expected);
    }
}

/// The newest row of the other partition is 9 after the start of its window.
#[test]
fn windows_follow_the_newest_row_of_other_partitions() {
    let (spark, host) = (Spark::new(), Host::start());
    let count = |partition, epoch, rows: &[Row]| {
        let task = TaskRequest::new(&spark, "a", epoch)
            .partition(partition, 2)
            .with("/operator", count_windows("close", 5));
        let batches = [batch(partition, rows), heartbeat(partition, HEARTBEAT)];
        counted(&task.output(host.connect(), &batches).unwrap().0)
    };
    for (epoch, second, time) in [
        (0, 0, 95),
        (1, 10, 104),
        (2, 40, 104),
        (3, 75, 109),
        (4, 90, 109),
    ] {
        spark.begin_with_heartbeat(epoch, second, epoch);
        count(1, epoch, &[left("USD", time, 2)]);
        let (rows, expected) = match epoch {
            0 => (vec![left("EUR", 95, 1)], vec![]),
            // The window [90, 100) closes at 105.
            4 => (vec![], vec![(90, 1)]),
            _ => (vec![], vec![]),
        };
        assert_eq!(count(0, epoch, &rows), expected, "epoch {epoch}");
        spark.commit(epoch);
    }
}
