//! A processor's partition without rows follows the stream time of the others.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use serde_json::{Value, json};

use super::{ask, bytes, done_empty, ids, operator, times};
use crate::support::{HEARTBEAT, Host, Row, Spark, TaskRequest, heartbeat, left};

const TIMERS: &str = "holdfast.timers";

/// Runs a partition as a worker does, which stores the stream time with the timers; returns the
/// time of the heartbeat. `write` writes to the processor's stores.
fn run(
    (spark, host): (&Spark, &Host),
    (partition, epoch): (i32, i64),
    stores: &Value,
    rows: &[Row],
    write: impl Fn(&mut holdfast_host::client::Client),
) -> Option<i64> {
    let task = TaskRequest::new(spark, "a", epoch)
        .partition(partition, 2)
        .with("/operator", operator(stores));
    let mut client = task.pushed(host.connect(), rows).unwrap();
    client.push(&heartbeat(partition, HEARTBEAT)).unwrap();
    client.end_input().unwrap();
    loop {
        let (ids, time) = ids(&mut client);
        if let Some(time) = time {
            let time = (time.cast_unsigned() ^ (1 << 63)).to_be_bytes();
            let time: ArrayRef = Arc::new(BinaryArray::from_iter_values([time]));
            let columns = [("keys", bytes(&[""])), ("values", time)];
            ask(&mut client, TIMERS, "put", &columns).unwrap();
        }
        if ids.is_empty() {
            write(&mut client);
            done_empty(client).unwrap();
            return time;
        }
    }
}

/// Partition 0 has a row at 100 and no others. Returns the time that it follows when it has been
/// idle for a minute, and partition 1 is at 300.
fn followed(stores: &Value, write: impl Fn(&mut holdfast_host::client::Client)) -> Option<i64> {
    let (spark, host) = (Spark::new(), Host::start());
    let at = (&spark, &host);
    let mut followed = None;
    for (epoch, second, time) in [
        (0, 0, 100),
        (1, 10, 200),
        (2, 40, 250),
        (3, 69, 300),
        (4, 70, 400),
    ] {
        assert_eq!(followed, None, "idle for too short");
        spark.begin_with_heartbeat(epoch, second, epoch);
        run(at, (1, epoch), stores, &[left("USD", time, 2)], &write);
        let rows = if epoch == 0 {
            vec![left("EUR", 100, 1)]
        } else {
            vec![]
        };
        followed = run(at, (0, epoch), stores, &rows, &write);
        spark.commit(epoch);
    }
    followed
}

#[test]
fn stream_time_of_timers_follows_other_partitions_while_a_source_moves() {
    let stores = json!([
        {"name": "hits", "kind": "key_value"}, {"name": TIMERS, "kind": "key_value"},
    ]);
    assert_eq!(followed(&stores, |_| ()), Some(300));
}

#[test]
fn times_of_stores_are_not_the_stream_time() {
    let stores = json!([
        {"name": "w", "kind": "window", "retention": 100_000, "window_size": 10,
            "retain_duplicates": false},
        {"name": TIMERS, "kind": "key_value"},
    ]);
    let put_ahead = |client: &mut holdfast_host::client::Client| {
        let columns = [
            ("keys", bytes(&["a"])),
            ("values", bytes(&["1"])),
            ("starts", times(&[10_000])),
        ];
        ask(client, "w", "put", &columns).unwrap();
    };
    assert_eq!(followed(&stores, put_ahead), Some(300));
}
