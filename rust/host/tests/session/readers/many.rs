//! Many readers, and readers that are slow.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use holdfast_host::net::call::CallMessage;
use holdfast_host::net::frame::MAX_PAYLOAD;
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::read::{self, READ, ReadAnswer};
use holdfast_host::protocol::Epoch;

use super::{address, all_versions, reader, receive, send};
use crate::support::{HostProcess, Row, Spark, TaskRequest, left, right};

const IDLE: usize = 1_000;
/// The most memory of an idle connection; about 31 KB were measured. It has a thread, the state of
/// TLS and two small buffers.
const IDLE_BYTES: u64 = 192 << 10;

fn run(spark: &Spark, host: &HostProcess, epoch: i64, rows: &[Row]) {
    spark.begin(epoch);
    TaskRequest::new(spark, "a", epoch)
        .run(host.connect(), rows)
        .unwrap();
    spark.commit(epoch);
}

#[test]
fn thousand_idle_readers_cost_little_and_harm_no_session() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    run(&spark, &host, 0, &[right("EUR", 10, 100)]);
    let address = address(&spark);
    let before = host.peak_memory();
    let mut readers: Vec<_> = (0..IDLE).map(|_| reader(&address)).collect();
    let each = host.peak_memory().saturating_sub(before) / IDLE as u64;
    println!("{each} bytes for an idle reader");
    assert!(each <= IDLE_BYTES, "{each}");
    run(&spark, &host, 1, &[left("EUR", 10, 1)]);
    // They are still served: every hundredth one is checked.
    for stream in readers.iter_mut().step_by(100) {
        send(stream, &all_versions(&spark));
        assert_eq!(receive(stream).0, MessageKind::Answer);
    }
}

#[test]
fn reader_that_reads_a_byte_at_a_time_delays_no_epoch() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    // More than the sockets hold.
    let rows: Vec<Row> = (0..400_000).map(|n| right("EUR", n, n)).collect();
    run(&spark, &host, 0, &rows);
    let mut stream = reader(&address(&spark));
    send(&mut stream, &all_versions(&spark));
    let done = AtomicBool::new(false);
    let read = thread::scope(|scope| {
        let slowly = scope.spawn(|| {
            let mut read = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                read.push(byte[0]);
                thread::sleep(Duration::from_millis(50));
            }
            read
        });
        for epoch in 1..4 {
            run(&spark, &host, epoch, &[left("EUR", 10 * epoch, epoch)]);
        }
        done.store(true, Ordering::Relaxed);
        slowly.join().unwrap()
    });
    // The view was held all the time: the answer is of epoch 0, and whole.
    let (mut whole, mut count) = (read.as_slice().chain(stream), 0);
    loop {
        let (kind, payload) = message::receive(&mut whole, MAX_PAYLOAD).unwrap().unwrap();
        assert_eq!(kind, MessageKind::Answer);
        let answer = CallMessage::decode(payload).unwrap();
        count += answer.batch.num_rows();
        match read::parse(answer.attribute(READ)).unwrap() {
            ReadAnswer::Rows { more, at } => {
                assert_eq!(at.epoch, Epoch(0));
                if !more {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(count, rows.len());
}
