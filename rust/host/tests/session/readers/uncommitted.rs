//! READ_UNCOMMITTED: what is staged of the next epoch is read once, within the host's memory.

use std::cell::RefCell;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BinaryArray, RecordBatch};
use holdfast_host::net::read::{ReadAnswer, ReadTarget};
use holdfast_host::net::socket::Stream;
use holdfast_host::protocol::IsolationLevel;
use holdfast_host::tables::{ReadCall, ReadRows};

use super::{Request, address, answer, answers, figures, payload, reader, send, target};
use crate::process;
use crate::support::{HostProcess, Spark, wait_until};

const READERS: usize = 20;
/// The host's memory for changes that are not committed.
const UNCOMMITTED: u64 = 8 << 20;
/// The host's memory, and what readers have of it.
const MEMORY: u64 = 64 << 20;
const READS: u64 = MEMORY / 16;
/// How much more memory the host may take for the first reader: the epoch has 40 MB of values.
const FIRST: u64 = 64 << 20;
/// How much more memory the host may take for all other readers together.
const OTHERS: u64 = 8 << 20;

/// Stages an epoch that puts these keys with a value.
fn stage(spark: &Spark, host: &HostProcess, epoch: i64, keys: std::ops::Range<usize>, byte: u8) {
    spark.begin(epoch);
    let task = process::task(spark, epoch)
        .with("/settings/uncommitted_max_bytes", UNCOMMITTED)
        .with("/settings/memory", MEMORY);
    let mut client = process::calling(&task, host.connect(), &[]);
    let value = vec![byte; 1_000];
    let keys: Vec<usize> = keys.collect();
    for keys in keys.chunks(1_000) {
        let names = keys.iter().map(|key| format!("{key:08}"));
        let columns = [
            (
                "keys",
                Arc::new(BinaryArray::from_iter_values(names)) as ArrayRef,
            ),
            (
                "values",
                Arc::new(BinaryArray::from_iter_values(vec![&value; keys.len()])),
            ),
        ];
        process::ask(&mut client, "hits", "put", &columns).unwrap();
    }
    process::done(client);
}

fn uncommitted(spark: &Spark) -> ReadTarget {
    ReadTarget {
        isolation_level: IsolationLevel::ReadUncommitted,
        ..target(spark)
    }
}

/// The first byte of the value of a key in a view.
fn first_byte(stream: &mut Stream, view: u64, key: &str) -> u8 {
    let request = Request::Rows {
        view,
        store: "hits".to_owned(),
        call: ReadCall {
            rows: ReadRows::Get,
            ..ReadCall::default()
        },
    };
    let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values([key]));
    let keys = RecordBatch::try_from_iter([("key", keys)]).ok();
    let found = answers(stream, &payload(&request, keys));
    found[0]["value"].as_binary::<i32>().value(0)[0]
}

/// Waits until the host answers from an epoch. For a root in an object store, a host finds a commit
/// up to half a second late.
fn await_epoch(stream: &mut Stream, spark: &Spark, epoch: i64) {
    let pin = Request::Pin {
        target: target(spark),
    };
    let stream = RefCell::new(stream);
    let is_there = || match answer(&mut stream.borrow_mut(), &pin) {
        ReadAnswer::Pinned { at, .. } => at.epoch.0 == epoch,
        other => panic!("{other:?}"),
    };
    wait_until(is_there, || format!("the host has no epoch {epoch}"));
}

/// The bytes in use of a part of the host's memory.
fn held(stream: &mut Stream, spark: &Spark, part: &str) -> u64 {
    let parts = figures(stream, spark).memory;
    let named = parts.iter().filter(|named| named.part == part);
    named.map(|named| named.held).sum()
}

#[test]
fn readers_of_a_staged_epoch_share_its_changes_within_the_memory() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    stage(&spark, &host, 0, 0..1_000, b'0');
    spark.commit(0);
    stage(&spark, &host, 1, 0..40_000, b'1');
    let mut stream = reader(&address(&spark));
    let before = host.peak_memory();
    let of_sessions = held(&mut stream, &spark, "uncommitted");
    let pin = Request::Pin {
        target: uncommitted(&spark),
    };
    let mut pinned = || match answer(&mut stream, &pin) {
        ReadAnswer::Pinned { view, .. } => {
            assert_eq!(first_byte(&mut stream, view, "00000007"), b'1');
            assert_eq!(first_byte(&mut stream, view, "00039999"), b'1');
            view
        }
        other => panic!("{other:?}"),
    };
    let mut views = vec![pinned()];
    let with_first = host.peak_memory();
    views.extend((1..READERS).map(|_| pinned()));
    let others = host.peak_memory() - with_first;
    let first = with_first.saturating_sub(before);
    println!("{first} bytes for the first reader, {others} for the others");
    assert!(first <= FIRST, "{first} bytes more");
    assert!(others <= OTHERS, "{others} bytes more");
    // The memory of sessions has not changed. The staged changes take memory of the reads.
    assert_eq!(held(&mut stream, &spark, "uncommitted"), of_sessions);
    let of_reads = held(&mut stream, &spark, "reads");
    assert!((1..=READS).contains(&of_reads), "{of_reads} bytes");
    // The views do not change. Once they end, no memory of the decided epoch is in use.
    spark.commit(1);
    await_epoch(&mut stream, &spark, 1);
    assert_eq!(first_byte(&mut stream, views[0], "00000007"), b'1');
    for view in views {
        send(&mut stream, &Request::Unpin { view });
    }
    let stream = RefCell::new(stream);
    wait_until(
        || {
            let held = |part| held(&mut stream.borrow_mut(), &spark, part);
            held("uncommitted") + held("reads") == 0
        },
        || "memory of the decided epoch is held".to_owned(),
    );
}

#[test]
fn changes_that_spilled_count_as_log() {
    const KEYS: usize = 20_000;
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    // 20 MB of values.
    stage(&spark, &host, 0, 0..KEYS, b'0');
    spark.commit(0);
    let mut stream = reader(&address(&spark));
    // The host applies the epoch.
    await_epoch(&mut stream, &spark, 0);
    let log = figures(&mut stream, &spark).partitions[0]
        .snapshots
        .log_bytes;
    let records = (KEYS * 1_008) as u64;
    assert!(log >= records, "{log} of {records} bytes");
}

#[test]
fn reader_sees_what_is_staged_of_the_next_epoch() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    stage(&spark, &host, 0, 0..10, b'0');
    spark.commit(0);
    let mut stream = reader(&address(&spark));
    let mut pinned = || match answer(
        &mut stream,
        &Request::Pin {
            target: uncommitted(&spark),
        },
    ) {
        ReadAnswer::Pinned { view, .. } => first_byte(&mut stream, view, "00000007"),
        other => panic!("{other:?}"),
    };
    assert_eq!(pinned(), b'0', "nothing is staged");
    stage(&spark, &host, 1, 0..10, b'1');
    assert_eq!([pinned(), pinned()], [b'1'; 2]);
    spark.commit(1);
    assert_eq!(pinned(), b'1', "final");
    stage(&spark, &host, 2, 0..10, b'2');
    assert_eq!(pinned(), b'2');
}
