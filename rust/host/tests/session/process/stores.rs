//! The stores of a processor: restores, scans, prefetches, changed definitions.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BinaryArray, BooleanArray};
use arrow_schema::{DataType, Field};
use holdfast_core::serde::Serde;
use holdfast_core::{ErrorKind, Result};
use holdfast_host::net::call::CallMessage;
use serde_json::{Value, json};

use super::{ask, bytes, calling, column_text, done, done_empty, ids, operator, put, task, times};
use crate::support::{Host, Spark, TaskRequest, refused};

#[test]
fn every_kind_of_store_is_restored_from_the_log() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([
        {"name": "t", "kind": "timestamped_key_value"},
        {"name": "v", "kind": "versioned", "history_retention": 1000, "segment_interval": 100},
        {"name": "w", "kind": "window", "retention": 1000, "window_size": 10,
            "retain_duplicates": false},
        {"name": "s", "kind": "session", "retention": 1000},
    ]);
    let task = |epoch| TaskRequest::new(&spark, "a", epoch).with("/operator", operator(&stores));
    spark.begin(0);
    let mut client = calling(&task(0), host.connect(), &[]);
    let (keys, values) = (("keys", bytes(&["a", "b"])), ("values", bytes(&["1", "2"])));
    for (store, method, more) in [
        ("t", "put", vec![("timestamps", times(&[5, 6]))]),
        ("v", "apply", vec![("timestamps", times(&[5, 6]))]),
        ("w", "put", vec![("starts", times(&[10, 20]))]),
        (
            "s",
            "put",
            vec![("starts", times(&[1, 2])), ("ends", times(&[7, 8]))],
        ),
    ] {
        ask(
            &mut client,
            store,
            method,
            &[vec![keys.clone(), values.clone()], more].concat(),
        )
        .unwrap();
    }
    assert_eq!(done(client).records, 8);
    spark.commit(0);
    host.stop();
    spark.delete_local();
    let host = Host::start();
    spark.begin(1);
    let mut client = calling(&task(1), host.connect(), &[]);
    for (store, more) in [
        ("t", vec![]),
        ("v", vec![("as_of", times(&[6, 5]))]),
        ("w", vec![("starts", times(&[10, 11]))]),
        (
            "s",
            vec![("starts", times(&[1, 2])), ("ends", times(&[7, 9]))],
        ),
    ] {
        let answer = ask(
            &mut client,
            store,
            "get",
            &[vec![keys.clone()], more].concat(),
        )
        .unwrap();
        let second = if store == "t" { Some("2".into()) } else { None };
        assert_eq!(
            column_text(&answer, "value"),
            [Some("1".into()), second],
            "{store}"
        );
    }
    for (store, time) in [("v", 6), ("w", 20), ("s", 8)] {
        let answer = ask(&mut client, store, "time", &[]).unwrap();
        assert_eq!(
            answer.batch["number"].as_primitive::<Int64Type>().value(0),
            time,
            "{store}"
        );
    }
    done(client);
}

#[test]
fn scan_has_pages_and_does_not_see_later_writes() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = calling(&task(&spark, 0), host.connect(), &[]);
    put(&mut client, &["a", "b", "c"], &["1", "2", "3"]);
    let open: ArrayRef = Arc::new(BinaryArray::from(vec![None::<&[u8]>]));
    let range = [
        ("start", open.clone()),
        ("end", open),
        (
            "reverse",
            Arc::new(BooleanArray::from(vec![false])) as ArrayRef,
        ),
    ];
    let first = ask(&mut client, "hits", "range", &range).unwrap();
    assert_eq!(
        column_text(&first, "key"),
        [Some("a".into()), Some("b".into())]
    );
    put(&mut client, &["c", "d"], &["9", "9"]);
    let next = |cursor: &str| {
        CallMessage::empty()
            .with("method", "next")
            .with("cursor", cursor)
            .with("rows", 2)
    };
    let cursor = first.attribute("cursor").expect("there is more").to_owned();
    let second = client.call(&next(&cursor)).unwrap();
    assert_eq!(column_text(&second, "value"), [Some("3".into())]);
    let last = client
        .call(&next(second.attribute("cursor").expect("not the end yet")))
        .unwrap();
    assert_eq!((last.batch.num_rows(), last.attribute("cursor")), (0, None));
    // A closed scan has no more pages.
    let other = ask(&mut client, "hits", "range", &range).unwrap();
    let cursor = other.attribute("cursor").expect("there is more");
    let error = refused(client.call(&next(cursor).with("close", cursor)));
    assert!(error.to_string().contains("this scan is closed"), "{error}");
}

#[test]
fn other_stores_are_refused_under_the_same_name() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    done(calling(&task(&spark, 0), host.connect(), &[]));
    spark.commit(0);
    spark.begin(1);
    let other = task(&spark, 1).with(
        "/operator",
        operator(&json!([{"name": "hits", "kind": "timestamped_key_value"}])),
    );
    let error = refused(other.pushed(host.connect(), &[]).and_then(|mut client| {
        client.end_input()?;
        client.call(&CallMessage::empty().with("method", "rows"))
    }));
    assert!(error.to_string().contains("store hits"), "{error}");
}

#[test]
fn stores_may_change_until_their_operator_has_taken_part() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut ended = calling(&task(&spark, 0), host.connect(), &[]);
    assert_eq!(ids(&mut ended), (vec![], None));
    drop(ended);
    let session = json!([{"name": "hits", "kind": "session", "retention": 1000}]);
    let other = task(&spark, 0)
        .with("/run_id", "b")
        .with("/operator", operator(&session));
    let mut client = calling(&other, host.connect(), &[]);
    let (keys, values) = (("keys", bytes(&["a"])), ("values", bytes(&["1"])));
    let more = [("starts", times(&[1])), ("ends", times(&[7]))];
    ask(
        &mut client,
        "hits",
        "put",
        &[&[keys, values], &more[..]].concat(),
    )
    .unwrap();
    let time = ask(&mut client, "hits", "time", &[]).unwrap();
    assert_eq!(time.batch["number"].as_primitive::<Int64Type>().value(0), 7);
    done(client);
}

/// An operator with a store of these serdes.
fn typed(key: Option<&Serde>, value: Option<&Serde>) -> Value {
    let hex = |serde: &Serde| {
        serde
            .descriptor()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let mut store = json!({"name": "hits", "kind": "key_value"});
    for (side, serde) in [("key_serde", key), ("value_serde", value)] {
        if let Some(serde) = serde {
            store[side] = hex(serde).into();
        }
    }
    operator(&json!([store]))
}

#[test]
fn other_serde_is_refused_under_the_same_name() {
    let (spark, host) = (Spark::new(), Host::start());
    let named = |name| Serde::named(name).unwrap();
    let of = |fields: &[(&str, DataType)]| {
        let fields = fields
            .iter()
            .map(|(name, data_type)| Field::new(*name, data_type.clone(), true));
        Serde::of_struct(&fields.collect()).unwrap()
    };
    let (text, number, float) = (named("string"), named("int64"), named("float64"));
    let row = of(&[("a", DataType::Int64)]);
    let wider = of(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let other = of(&[("b", DataType::Int64)]);
    let retyped = of(&[("a", DataType::Utf8)]);
    let (mut epoch, mut runs) = (0, 0);
    let mut run = |key: Option<&Serde>, value: Option<&Serde>| -> Result<()> {
        runs += 1;
        let task = TaskRequest::new(&spark, &format!("run {runs}"), epoch)
            .with("/operator", typed(key, value));
        spark.begin(epoch);
        let mut client = task.pushed(host.connect(), &[])?;
        client.end_input()?;
        done_empty(client)?;
        spark.commit(epoch);
        epoch += 1;
        Ok(())
    };
    // A store without serdes has bytes; the first serdes that it is opened with are stored.
    run(None, None).unwrap();
    run(Some(&text), Some(&row)).unwrap();
    run(Some(&text), Some(&row)).unwrap();
    run(None, None).unwrap();
    let changed = [
        (
            (&number, &row),
            [
                "store hits: key: ",
                "written with the serde string and is now opened with int64",
            ],
        ),
        (
            (&text, &float),
            [
                "store hits: value: ",
                "written with the serde struct and is now opened with float64",
            ],
        ),
        (
            (&text, &retyped),
            ["store hits: value: ", "column a was stored as Int64"],
        ),
    ];
    for ((key, value), words) in changed {
        let error = run(Some(key), Some(value)).expect_err(words[1]);
        assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
        for words in words.iter().chain(&["operator join", "name=..."]) {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
    // Columns of a value may be added and removed. A removed column may return only with the type
    // of its stored rows.
    run(Some(&text), Some(&wider)).unwrap();
    run(Some(&text), Some(&row)).unwrap();
    let error = run(Some(&text), Some(&other)).expect_err("another type");
    assert!(
        error.to_string().contains(
            "store hits: value: column b was stored as Utf8 and is now asked for as Int64"
        ),
        "{error}"
    );
    run(Some(&text), Some(&wider)).unwrap();
}

#[test]
fn prefetch_ends_at_the_size_of_a_message() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([{"name": "hits", "kind": "key_value"},
        {"name": "t", "kind": "timestamped_key_value"}]);
    let task = TaskRequest::new(&spark, "a", 0).with("/operator", operator(&stores));
    spark.begin(0);
    let mut client = calling(&task, host.connect(), &[]);
    let names: Vec<String> = (0..200).map(|row| format!("{row:03}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    // The last value exceeds a message, and the first key has none.
    let value = |row: usize| vec![b'x'; if row == 199 { 17 << 20 } else { 1 << 20 }];
    for store in ["hits", "t"] {
        for part in (1..200).collect::<Vec<usize>>().chunks(50) {
            let mut given = vec![
                ("keys", bytes(&keys[part[0]..=part[part.len() - 1]])),
                (
                    "values",
                    Arc::new(BinaryArray::from_iter_values(
                        part.iter().map(|row| value(*row)),
                    )) as ArrayRef,
                ),
            ];
            if store == "t" {
                given.push(("timestamps", times(&vec![5; part.len()])));
            }
            ask(&mut client, store, "put", &given).unwrap();
        }
        let mut first = |keys: &[&str]| {
            let answer = ask(&mut client, store, "get_ahead", &[("keys", bytes(keys))]).unwrap();
            let sizes = answer.batch["value"]
                .as_binary::<i32>()
                .iter()
                .map(|value| value.map(<[u8]>::len));
            sizes.collect::<Vec<_>>()
        };
        let expected: Vec<Option<usize>> =
            std::iter::once(None).chain([Some(1 << 20); 16]).collect();
        assert_eq!(first(&keys), expected);
        assert_eq!(first(&keys[17..]), [Some(1 << 20); 16]);
        let backwards: Vec<&str> = keys.iter().rev().copied().collect();
        // A value that exceeds a message is returned alone, or beside missing values.
        assert_eq!(first(&backwards), [Some(17 << 20)]);
        assert_eq!(first(&["199", "000", "199"]), [Some(17 << 20), None]);
        // Missing values take little space: many fit in one message.
        assert_eq!(first(&vec!["000"; 10_000]), vec![None; 10_000]);
    }
}
