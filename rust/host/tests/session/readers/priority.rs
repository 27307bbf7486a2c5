//! Long reads give way to sessions.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use holdfast_host::net::call::CallMessage;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::read::{self, READ, ReadAnswer};
use holdfast_host::net::socket::Stream;
use holdfast_host::tables::{ReadCall, ReadRows};

use super::{Request, address, all_versions, answers, payload, reader, receive, target};
use crate::support::{HostProcess, PATIENCE, Row, Spark, TaskRequest, right};

/// A read of this many keys.
fn get(spark: &Spark, keys: usize) -> Vec<u8> {
    let request = Request::Newest {
        target: target(spark),
        store: "table".to_owned(),
        call: ReadCall {
            rows: ReadRows::Get,
            ..ReadCall::default()
        },
    };
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["EUR"; keys]));
    payload(
        &request,
        RecordBatch::try_from_iter([("currency", keys)]).ok(),
    )
}

/// Waits until this many threads of the host have a lower priority than the host.
fn wait_for_slow_threads(host: &HostProcess, expected: usize) {
    let started = Instant::now();
    loop {
        let (own, threads) = host.nice_values();
        let slow: Vec<i32> = threads.into_iter().filter(|nice| *nice > own).collect();
        if slow.len() == expected {
            assert!(slow.iter().all(|nice| *nice == (own + 5).min(19)));
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{slow:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn long_reads_have_a_low_priority_and_the_next_read_of_a_key_has_not() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    // More than the sockets hold.
    let rows: Vec<Row> = (0..400_000).map(|n| right("EUR", n, n)).collect();
    spark.epoch(0, || {
        TaskRequest::new(&spark, "a", 0)
            .run(host.connect(), &rows)
            .unwrap()
    });
    let address = address(&spark);
    let (mut short, mut many, mut scan) = (reader(&address), reader(&address), reader(&address));
    answers(&mut short, &get(&spark, 1));
    wait_for_slow_threads(&host, 0);
    let long = [
        (&mut many, get(&spark, 200_000)),
        (&mut scan, payload(&all_versions(&spark), None)),
    ];
    for (n, (stream, request)) in long.into_iter().enumerate() {
        // The host waits for the reader, in the middle of its answer.
        message::send(stream, MessageKind::Read, &request).unwrap();
        wait_for_slow_threads(&host, n + 1);
    }
    for (n, stream) in [&mut many, &mut scan].into_iter().enumerate() {
        while has_more(stream) {}
        wait_for_slow_threads(&host, 1 - n);
        // The connection's own thread has the usual priority.
        answers(stream, &get(&spark, 1));
        wait_for_slow_threads(&host, 1 - n);
    }
}

/// Receives a batch of an answer; returns whether more follow.
fn has_more(stream: &mut Stream) -> bool {
    let (kind, payload) = receive(stream);
    assert_eq!(kind, MessageKind::Answer);
    let answer = CallMessage::decode(payload).unwrap();
    let answer = read::parse(answer.attribute(READ)).unwrap();
    matches!(answer, ReadAnswer::Rows { more: true, .. })
}
