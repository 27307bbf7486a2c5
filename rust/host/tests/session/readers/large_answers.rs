//! Answers that are larger than what a host may hold in memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use holdfast_host::net::message::{self, MessageKind};
use holdfast_host::net::socket::Stream;
use holdfast_host::net::stored_read::{self, StoredAnswer, StoredRead};
use holdfast_host::tables::{FOUND, FoundRow, ReadCall, ReadRows};
use serde_bytes::ByteBuf;
use serde_json::json;

use super::{Request, address, answers, payload, read_of, reader, receive, target};
use crate::process;
use crate::support::{HostProcess, Row, Spark, TaskRequest, batch, count_windows, left};

const KEYS: usize = 10_000;
const VALUE_BYTES: usize = 10_000;
/// How much more memory the host may take for an answer of 100 MB.
const MEMORY: u64 = 48 << 20;
/// The largest batch of an answer.
const BATCH: usize = 9 << 20;

fn key(number: usize) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

/// Fills a processor's store `hits` in epoch 0, with little of the host's memory.
fn fill(spark: &Spark, host: &HostProcess) {
    spark.begin(0);
    let task = process::task(spark, 0)
        .with("/settings/uncommitted_max_bytes", 4 << 20)
        .with("/settings/memory", 64 << 20);
    let mut client = process::calling(&task, host.connect(), &[]);
    let value = vec![7; VALUE_BYTES];
    for first in (0..KEYS).step_by(100) {
        let keys = (first..first + 100).map(key);
        let columns = [
            (
                "keys",
                Arc::new(BinaryArray::from_iter_values(keys)) as ArrayRef,
            ),
            (
                "values",
                Arc::new(BinaryArray::from_iter_values(vec![&value; 100])),
            ),
        ];
        process::ask(&mut client, "hits", "put", &columns).unwrap();
    }
    process::done(client);
    spark.commit(0);
}

/// A read of keys of the store.
fn get(spark: &Spark, keys: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let request = Request::Newest {
        target: target(spark),
        store: "hits".to_owned(),
        call: ReadCall {
            rows: ReadRows::Get,
            ..ReadCall::default()
        },
    };
    let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values(keys));
    payload(&request, RecordBatch::try_from_iter([("key", keys)]).ok())
}

#[test]
fn answer_to_many_keys_takes_bounded_memory_and_keeps_their_order() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    fill(&spark, &host);
    let mut stream = reader(&address(&spark));
    // This fills the cache of blocks.
    let warm = get(&spark, (0..KEYS).step_by(3).map(key));
    assert!(answers(&mut stream, &warm).len() > 1);
    let before = host.peak_memory();
    // Backward, and every tenth key is missing.
    let asked: Vec<usize> = (0..KEYS).rev().collect();
    let name = |number: &usize| {
        if number.is_multiple_of(10) {
            b"missing".to_vec()
        } else {
            key(*number)
        }
    };
    let batches = answers(&mut stream, &get(&spark, asked.iter().map(name)));
    let more = host.peak_memory().saturating_sub(before);
    println!("{} batches, {more} bytes more", batches.len());
    assert!(more <= MEMORY, "{more} bytes more");
    let mut numbers = asked.iter();
    for batch in &batches {
        assert!(batch.get_array_memory_size() <= BATCH);
        let (keys, values) = (
            batch["key"].as_binary::<i32>(),
            batch["value"].as_binary::<i32>(),
        );
        let found = batch[FOUND].as_boolean();
        for row in 0..batch.num_rows() {
            let number = numbers.next().unwrap();
            assert_eq!(keys.value(row), name(number));
            assert_eq!(found.value(row), !number.is_multiple_of(10));
            assert_eq!(values.is_valid(row), found.value(row));
        }
    }
    assert!(numbers.next().is_none());
}

/// Asks for the first keys of the store as they are stored, and one that is not there.
fn stored(stream: &mut Stream, spark: &Spark, count: usize) -> StoredAnswer<FoundRow> {
    let mut read = StoredRead {
        store: "hits".to_owned(),
        ..read_of(spark, &["missing"])
    };
    read.keys
        .keys
        .extend((0..count).map(|number| Some(ByteBuf::from(key(number)))));
    let read = stored_read::encode(&read).unwrap();
    message::send(stream, MessageKind::ReadStored, &read).unwrap();
    let (kind, answer) = receive(stream);
    assert_eq!(kind, MessageKind::Answer);
    stored_read::decode(&answer).unwrap()
}

#[test]
fn few_keys_are_answered_at_once_only_if_their_rows_are_small() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    fill(&spark, &host);
    let mut stream = reader(&address(&spark));
    let StoredAnswer::Rows { rows, .. } = stored(&mut stream, &spark, 10) else {
        panic!("100 KB are few");
    };
    let found: Vec<bool> = rows.iter().map(Option::is_some).collect();
    assert_eq!((found[0], &found[1..]), (false, &[true; 10][..]));
    let answer = stored(&mut stream, &spark, 5_000);
    assert!(matches!(answer, StoredAnswer::TooLarge { .. }), "50 MB");
    // A read that finds no row is answered at once, too.
    assert!(matches!(
        stored(&mut stream, &spark, 0),
        StoredAnswer::Rows { .. }
    ));
}

#[test]
fn collected_lists_of_groups_come_in_several_batches() {
    let (spark, host) = (Spark::new(), HostProcess::on_a_cluster());
    let (groups, each) = (6, 100_000);
    spark.begin(0);
    let aggregates = json!([{"name": "ids", "function": "collect_list", "column": 0}]);
    let window = json!({"kind": "hopping", "length": 1_000_000, "slide": 1_000_000});
    let rows: Vec<Row> = (0..groups * each)
        .map(|n| left(&(n % groups).to_string(), n, n))
        .collect();
    TaskRequest::new(&spark, "a", 0)
        .with("/operator", count_windows("update", 0))
        .with("/operator/aggregates", aggregates)
        .with("/operator/window", window)
        .output(host.connect(), &[batch(0, &rows)])
        .unwrap();
    spark.commit(0);
    let all = Request::Newest {
        target: target(&spark),
        store: "groups".to_owned(),
        call: ReadCall::default(),
    };
    let batches = answers(&mut reader(&address(&spark)), &payload(&all, None));
    assert!(batches.len() > 1, "{} rows", batches[0].num_rows());
    let lengths = batches.iter().flat_map(|batch| {
        let lists = batch["ids"].as_list::<i32>();
        (0..lists.len()).map(|row| lists.value_length(row).into())
    });
    let lengths: Vec<i64> = lengths.collect();
    assert_eq!(lengths, vec![each; usize::try_from(groups).unwrap()]);
}
