//! A host with many readers stays within its memory setting.

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arrow_array::{ArrayRef, BinaryArray};
use holdfast_host::net::message::MessageKind;
use holdfast_host::net::request::MAX_REQUEST;
use holdfast_host::net::socket::Stream;
use holdfast_host::tables::{ReadCall, ReadRows};

use super::{Request, address, reader, send, target};
use crate::process;
use crate::support::{HostProcess, Spark};

const CONNECTIONS: usize = 1_000;
const SCANS: usize = 50;
const REQUESTS: usize = 50;
/// `State(memory=…)`.
const MEMORY: u64 = 256 << 20;
/// What a connection may take in addition; `docs/spark/operating.md` says up to 70 KB.
const CONNECTION: u64 = 192 << 10;
/// The process itself, and what the allocator holds.
const MARGIN: u64 = 64 << 20;
/// The rows of the table: 120 MB, far more than all sockets hold.
const ROWS: usize = 120_000;

fn fill(spark: &Spark, host: &HostProcess, rows: usize) {
    spark.begin(0);
    let task = process::task(spark, 0)
        .with("/settings/uncommitted_max_bytes", 16 << 20)
        .with("/settings/memory", MEMORY);
    let mut client = process::calling(&task, host.connect(), &[]);
    let value = vec![7; 1_000];
    for first in (0..rows).step_by(1_000) {
        let keys = (first..first + 1_000).map(|key| format!("{key:08}"));
        let columns = [
            (
                "keys",
                Arc::new(BinaryArray::from_iter_values(keys)) as ArrayRef,
            ),
            (
                "values",
                Arc::new(BinaryArray::from_iter_values(vec![&value; 1_000])),
            ),
        ];
        process::ask(&mut client, "hits", "put", &columns).unwrap();
    }
    process::done(client);
    spark.commit(0);
}

/// Begins a scan, and takes the first bytes of its answer only.
fn begin_scan(stream: &mut Stream, spark: &Spark) {
    let scan = Request::Newest {
        target: target(spark),
        store: "hits".to_owned(),
        call: ReadCall {
            rows: ReadRows::All,
            ..ReadCall::default()
        },
    };
    send(stream, &scan);
    stream.read_exact(&mut [0; 5]).unwrap();
}

#[test]
fn thousand_connections_and_fifty_open_scans_stay_within_the_memory() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    fill(&spark, &host, ROWS);
    let address = address(&spark);
    let filled = host.peak_memory();
    let connections: Vec<Stream> = (0..CONNECTIONS).map(|_| reader(&address)).collect();
    let connected = host.peak_memory();
    let mut scans: Vec<Stream> = (0..SCANS).map(|_| reader(&address)).collect();
    scans
        .iter_mut()
        .for_each(|stream| begin_scan(stream, &spark));
    // Until each scan waits for its reader.
    let mut peak = 0;
    while peak < host.peak_memory() {
        peak = host.peak_memory();
        thread::sleep(Duration::from_millis(500));
    }
    println!(
        "{filled} bytes, {connected} with {CONNECTIONS} connections, {peak} with {SCANS} scans"
    );
    let most = MEMORY + (CONNECTIONS + SCANS) as u64 * CONNECTION + MARGIN;
    assert!(peak <= most, "{peak} bytes, {most} are allowed");
    drop(connections);
}

/// Sends all of a large request but its last byte. A host that refuses it may close the connection.
fn begin_request(stream: &mut Stream) {
    let length = u32::try_from(MAX_REQUEST).unwrap().to_le_bytes();
    let sent = stream
        .write_all(&[&[MessageKind::Read as u8][..], &length].concat())
        .and_then(|()| stream.write_all(&vec![0; MAX_REQUEST - 1]))
        .and_then(|()| stream.flush());
    println!("{sent:?}");
}

#[test]
fn large_requests_of_many_readers_stay_within_the_memory() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    fill(&spark, &host, 1_000);
    let address = address(&spark);
    let mut streams: Vec<Stream> = (0..REQUESTS).map(|_| reader(&address)).collect();
    let before = host.peak_memory();
    streams.iter_mut().for_each(begin_request);
    let more = host.peak_memory().saturating_sub(before);
    println!("{more} bytes more");
    // What readers may take, and what each connection may.
    let most = MEMORY / 16 + REQUESTS as u64 * CONNECTION;
    assert!(more <= most, "{more} bytes more, {most} are allowed");
    // A usual request is answered nevertheless.
    begin_scan(&mut reader(&address), &spark);
}
