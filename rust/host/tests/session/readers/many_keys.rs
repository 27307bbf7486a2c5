//! Reads of more keys than a request holds, and of keys that no request holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use holdfast_core::{Error, ErrorKind, Result};
use holdfast_host::net::message::MessageKind;
use holdfast_host::net::request::{MAX_REQUEST, USUAL_REQUEST};
use holdfast_host::protocol::Epoch;
use holdfast_host::reader::{CacheSettings, Offline, ReadFrom, StateReader};
use holdfast_host::root::StorageOptions;
use holdfast_host::tables::{FOUND, ReadCall, ReadRows};

use super::{pass_on, put_proxy};
use crate::support::{Host, Row, Spark, TaskRequest, right};

const TABLE: (&str, &str) = ("join", "table");
/// What is added to a rate in each epoch.
const EACH_EPOCH: i64 = 1_000_000;

fn name(number: i64) -> String {
    format!("{number:020}")
}

/// Puts a rate for each name.
fn run(spark: &Spark, host: &Host, epoch: i64, names: i64) {
    let rows: Vec<Row> = (0..names)
        .map(|number| right(&name(number), epoch, number + epoch * EACH_EPOCH))
        .collect();
    spark.epoch(epoch, || {
        let task = TaskRequest::new(spark, "a", epoch);
        task.run(host.connect(), &rows).unwrap()
    });
}

fn connect(spark: &Spark) -> Arc<StateReader> {
    let root = spark.path().to_str().unwrap();
    let options = StorageOptions::default();
    StateReader::connect(root, &options, CacheSettings::default()).unwrap()
}

fn keys(names: &[String]) -> RecordBatch {
    let names: ArrayRef = Arc::new(StringArray::from_iter_values(names));
    RecordBatch::try_from_iter([("currency", names)]).unwrap()
}

fn from(offline: Offline) -> ReadFrom {
    ReadFrom {
        exactly: None,
        at_least: None,
        timeout: Duration::from_secs(60),
        offline,
        isolation_level: None,
        stale_ok: false,
    }
}

/// Reads keys; returns the epoch, and the rate of each.
fn get(
    reader: &StateReader,
    names: &[String],
    offline: Offline,
) -> Result<(Epoch, Vec<Option<i64>>)> {
    let call = ReadCall {
        rows: ReadRows::Get,
        ..ReadCall::default()
    };
    let found = reader.get(TABLE, &call, &keys(names), from(offline))?;
    let rates = found.batches.iter().flat_map(|rows| {
        let rates = rows["rate"].as_primitive::<Int64Type>();
        let is_found = rows[FOUND].as_boolean();
        let rates = (0..rows.num_rows()).map(|row| is_found.value(row).then(|| rates.value(row)));
        rates.collect::<Vec<_>>()
    });
    Ok((found.state.epoch, rates.collect()))
}

/// Reads this many keys while the next epoch changes all rows.
fn check_one_epoch(count: i64) {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, 0, count);
    let folder = tempfile::tempdir().unwrap();
    let proxied = put_proxy(&spark, 0, folder.path());
    let requests = AtomicUsize::new(0);
    // Backward, and every third one is missing.
    let numbers: Vec<i64> = (0..count).rev().collect();
    let is_missing = |number: i64| number % 3 == 0;
    let names = numbers.iter().map(|number| match is_missing(*number) {
        true => format!("missing {number}"),
        false => name(*number),
    });
    let names: Vec<String> = names.collect();
    let (epoch, rates) = thread::scope(|scope| {
        scope.spawn(|| {
            pass_on(&proxied, |kind, payload| {
                assert!(payload.len() <= USUAL_REQUEST, "{} bytes", payload.len());
                let is_read = kind == MessageKind::Read;
                if is_read && requests.fetch_add(1, Ordering::Relaxed) == 2 {
                    // All rates change in the middle of the read.
                    run(&spark, &host, 1, count);
                    // Waits until the host reads Spark's commits again.
                    thread::sleep(Duration::from_secs(1));
                }
                true
            });
        });
        let reader = connect(&spark);
        get(&reader, &names, Offline::Never).unwrap()
    });
    assert!(requests.load(Ordering::Relaxed) >= 4);
    assert_eq!(epoch, Epoch(0));
    let expected = numbers
        .iter()
        .map(|number| (!is_missing(*number)).then_some(*number));
    assert!(rates.into_iter().eq(expected));
    let (epoch, rates) = get(&connect(&spark), &[name(1)], Offline::Only).unwrap();
    assert_eq!((epoch, rates), (Epoch(1), vec![Some(EACH_EPOCH + 1)]));
}

#[test]
fn keys_of_several_requests_are_read_of_one_epoch_and_keep_their_order() {
    // About 200 KB of keys: a few requests of the usual size.
    check_one_epoch(9_000);
}

#[test]
fn keys_of_many_requests_are_read_of_one_epoch_and_keep_their_order() {
    check_one_epoch(25_000);
}

/// Checks that an error names the table and the limit.
fn check_too_large(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
    let text = error.to_string();
    for part in ["table table of operator join", &MAX_REQUEST.to_string()] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn key_that_no_request_holds_is_an_error_and_is_not_sent() {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, 0, 10);
    let folder = tempfile::tempdir().unwrap();
    let proxied = put_proxy(&spark, 0, folder.path());
    let too_large = "k".repeat(MAX_REQUEST);
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&largest);
    thread::spawn(move || {
        loop {
            pass_on(&proxied, |_, payload| {
                seen.fetch_max(payload.len(), Ordering::Relaxed);
                true
            });
        }
    });
    for names in [vec![too_large.clone()], vec![name(1), too_large.clone()]] {
        let error = get(&connect(&spark), &names, Offline::Never).unwrap_err();
        check_too_large(&error);
    }
    let prefix = ReadCall {
        rows: ReadRows::Prefix,
        ..ReadCall::default()
    };
    let bound = keys(std::slice::from_ref(&too_large));
    let mut rows = connect(&spark)
        .scan(TABLE, prefix, bound, None, from(Offline::Never))
        .unwrap();
    check_too_large(&rows.next().unwrap().unwrap_err());
    assert!(largest.load(Ordering::Relaxed) < 10_000, "{largest:?}");
    // Without hosts there is no limit.
    let names = vec![name(1), too_large];
    let found = get(&connect(&spark), &names, Offline::Only).unwrap();
    assert_eq!(found, (Epoch(0), vec![Some(1), None]));
}

#[test]
fn large_key_is_read_beside_small_ones() {
    let (spark, host) = (Spark::new(), Host::start());
    run(&spark, &host, 0, 10);
    let mut names: Vec<String> = (0..10).map(name).collect();
    names.insert(5, "k".repeat(MAX_REQUEST / 2));
    let (_, rates) = get(&connect(&spark), &names, Offline::Never).unwrap();
    let mut expected: Vec<Option<i64>> = (0..10).map(Some).collect();
    expected.insert(5, None);
    assert_eq!(rates, expected);
}
