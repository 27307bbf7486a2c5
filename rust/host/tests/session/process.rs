//! The protocol of a processor: rows out, calls in, answers, and what becomes of a worker that does
//! not keep to it.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BinaryArray, BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field};
use holdfast_core::serde::Serde;
use holdfast_core::{ErrorKind, Result};
use holdfast_host::client::Client;
use holdfast_host::net::call::Message;
use holdfast_host::operator::process::OutputDigest;
use holdfast_host::session::request::Staged;
use serde_json::{Value, json};

use crate::support::{Database, Host, Row, Spark, left, refused};

/// Counts a key's rows in a key-value store, and knows nothing else.
fn db(spark: &Spark, epoch: i64) -> Database {
    Database::new(spark, "a", epoch).with(
        "/operator",
        operator(&json!([{"name": "hits", "kind": "key_value"}])),
    )
}

fn operator(stores: &Value) -> Value {
    json!({
        "name": "join", "kind": "process", "keys": ["currency"], "left": ["id"],
        "right": ["rate", "note"],
        "stores": stores, "deterministic": true,
        "output": [
            {"name": "currency", "from": "key", "index": 0}, {"name": "at", "from": "time"},
            {"name": "id", "from": "left", "index": 0},
        ],
    })
}

/// Opens the task's session and ends its input: from now on the client calls.
fn calling(db: &Database, client: Client, rows: &[Row]) -> Client {
    let mut client = db.pushed(client, rows).unwrap();
    client.end_input().unwrap();
    client
}

fn ask(
    client: &mut Client,
    store: &str,
    method: &str,
    columns: &[(&str, ArrayRef)],
) -> Result<Message> {
    let batch = match columns {
        [] => Message::empty().batch,
        columns => RecordBatch::try_from_iter(columns.iter().cloned()).unwrap(),
    };
    client.call(
        &Message::of(batch)
            .with("store", store)
            .with("method", method)
            .with("rows", 2),
    )
}

fn bytes(values: &[&str]) -> ArrayRef {
    Arc::new(BinaryArray::from_iter_values(values))
}

fn times(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn put(client: &mut Client, keys: &[&str], values: &[&str]) {
    let answer = ask(
        client,
        "hits",
        "put",
        &[("keys", bytes(keys)), ("values", bytes(values))],
    )
    .unwrap();
    assert_eq!(answer.batch.num_columns(), 0);
}

fn get(client: &mut Client, keys: &[&str]) -> Vec<Option<String>> {
    let answer = ask(client, "hits", "get", &[("keys", bytes(keys))]).unwrap();
    words(&answer, "value")
}

fn words(message: &Message, column: &str) -> Vec<Option<String>> {
    let found = message.batch[column].as_binary::<i32>();
    found
        .iter()
        .map(|value| value.map(|value| String::from_utf8(value.to_vec()).unwrap()))
        .collect()
}

fn ids(client: &mut Client) -> (Vec<i64>, Option<i64>) {
    let rows = client
        .call(&Message::empty().with("method", "rows"))
        .unwrap();
    (
        rows.batch["id"]
            .as_primitive::<Int64Type>()
            .values()
            .to_vec(),
        rows.word("time").map(|time| time.parse().unwrap()),
    )
}

fn done(client: Client) -> Staged {
    serde_json::from_str(&client.done(&OutputDigest::default()).unwrap()).unwrap()
}

#[test]
fn rows_come_in_order_and_puts_are_there_in_the_next_epoch() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = calling(
        &db(&spark, 0),
        host.connect(),
        &[left("EUR", 20, 2), left("USD", 30, 3), left("EUR", 10, 1)],
    );
    assert_eq!(ids(&mut client), (vec![1, 2, 3], Some(30)));
    assert_eq!(ids(&mut client), (vec![], None));
    assert_eq!(get(&mut client, &["EUR", "USD"]), [None, None]);
    put(&mut client, &["EUR", "USD", "EUR"], &["1", "1", "2"]);
    assert_eq!(
        get(&mut client, &["USD", "EUR", "GBP"]),
        [Some("1".into()), Some("2".into()), None]
    );
    let staged = done(client);
    assert_eq!((staged.records, staged.counts.input_rows), (2, 3));
    spark.commit(0);
    spark.begin(1);
    let mut client = calling(&db(&spark, 1), host.connect(), &[]);
    assert_eq!(ids(&mut client), (vec![], None));
    assert_eq!(get(&mut client, &["EUR"]), [Some("2".into())]);
    done(client);
}

#[test]
fn the_state_comes_back_from_the_log_for_every_kind_of_store() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([
        {"name": "t", "kind": "timestamped_key_value"},
        {"name": "v", "kind": "versioned", "history_retention": 1000, "segment_interval": 100},
        {"name": "w", "kind": "window", "retention": 1000, "window_size": 10,
            "retain_duplicates": false},
        {"name": "s", "kind": "session", "retention": 1000},
    ]);
    let db = |epoch| Database::new(&spark, "a", epoch).with("/operator", operator(&stores));
    spark.begin(0);
    let mut client = calling(&db(0), host.connect(), &[]);
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
    let mut client = calling(&db(1), host.connect(), &[]);
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
            words(&answer, "value"),
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
fn a_read_that_cannot_be_leaves_the_session_as_it_was() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([
        {"name": "hits", "kind": "key_value"},
        {"name": "w", "kind": "window", "retention": 1000, "window_size": 10,
            "retain_duplicates": true},
    ]);
    let db = Database::new(&spark, "a", 0).with("/operator", operator(&stores));
    spark.begin(0);
    let mut client = calling(&db, host.connect(), &[]);
    put(&mut client, &["a"], &["1"]);
    let error = refused(ask(
        &mut client,
        "w",
        "get",
        &[("keys", bytes(&["a"])), ("starts", times(&[5]))],
    ));
    assert_eq!(error.kind(), ErrorKind::UnsupportedOperation, "{error}");
    assert_eq!(get(&mut client, &["a"]), [Some("1".into())]);
    assert_eq!(done(client).records, 1);
}

#[test]
fn what_has_ended_a_session_is_said_again() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([{"name": "hits", "kind": "key_value"},
        {"name": "s", "kind": "session", "retention": 1000}]);
    let db = Database::new(&spark, "a", 0).with("/operator", operator(&stores));
    spark.begin(0);
    let mut client = calling(&db, host.connect(), &[]);
    // Of a write some rows may be there already.
    let backwards = [
        ("keys", bytes(&["a"])),
        ("values", bytes(&["1"])),
        ("starts", times(&[9])),
        ("ends", times(&[1])),
    ];
    let first = refused(ask(&mut client, "s", "put", &backwards));
    assert_eq!(first.kind(), ErrorKind::InvalidValue, "{first}");
    for _ in 0..2 {
        let again = refused(ask(&mut client, "hits", "get", &[("keys", bytes(&["a"]))]));
        assert_eq!(
            (again.kind(), again.to_string()),
            (first.kind(), first.to_string())
        );
    }
    let again = refused(client.done(&OutputDigest::default()));
    assert_eq!(again.to_string(), first.to_string());
    assert!(spark.objects(0).is_empty());
}

#[test]
fn a_call_that_no_frame_takes_says_so_and_ends_the_session() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = calling(&db(&spark, 0), host.connect(), &[]);
    // The columns share their bytes, so they are only many on the wire.
    let large: ArrayRef = Arc::new(BinaryArray::from_iter_values([vec![0; 64 << 20]]));
    let names: Vec<String> = (0..17).map(|column| column.to_string()).collect();
    let columns: Vec<(&str, ArrayRef)> = names
        .iter()
        .map(|name| (name.as_str(), Arc::clone(&large)))
        .collect();
    let first = refused(ask(&mut client, "hits", "put", &columns));
    assert_eq!(first.kind(), ErrorKind::Serialization, "{first}");
    assert!(first.to_string().contains("fewer rows at once"), "{first}");
    // Writes that have waited are gone with it: nothing may be staged without them.
    assert_eq!(
        refused(client.done(&OutputDigest::default())).to_string(),
        first.to_string()
    );
    assert!(spark.objects(0).is_empty());
}

#[test]
fn a_scan_comes_in_pages_and_does_not_see_later_writes() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = calling(&db(&spark, 0), host.connect(), &[]);
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
    assert_eq!(words(&first, "key"), [Some("a".into()), Some("b".into())]);
    put(&mut client, &["c", "d"], &["9", "9"]);
    let next = |cursor: &str| {
        Message::empty()
            .with("method", "next")
            .with("cursor", cursor)
            .with("rows", 2)
    };
    let cursor = first.word("cursor").expect("there is more").to_owned();
    let second = client.call(&next(&cursor)).unwrap();
    assert_eq!(words(&second, "value"), [Some("3".into())]);
    let last = client
        .call(&next(second.word("cursor").expect("not the end yet")))
        .unwrap();
    assert_eq!((last.batch.num_rows(), last.word("cursor")), (0, None));
    // One that is closed has nothing more.
    let other = ask(&mut client, "hits", "range", &range).unwrap();
    let cursor = other.word("cursor").expect("there is more");
    let error = refused(client.call(&next(cursor).with("close", cursor)));
    assert!(error.to_string().contains("this scan is closed"), "{error}");
}

#[test]
fn a_worker_that_hangs_up_between_calls_leaves_nothing() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = calling(&db(&spark, 0), host.connect(), &[left("EUR", 10, 1)]);
    put(&mut client, &["EUR"], &["1"]);
    drop(client);
    // The retry sees nothing of it, and is the first to stage.
    let mut client = calling(
        &db(&spark, 0).attempt(2),
        host.connect(),
        &[left("EUR", 10, 1)],
    );
    assert_eq!(get(&mut client, &["EUR"]), [None]);
    assert!(spark.objects(0).is_empty());
    put(&mut client, &["EUR"], &["1"]);
    assert!(!done(client).adopted);
}

#[test]
fn attempts_that_do_the_same_adopt_and_others_are_refused() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let attempt = |number, value| {
        let mut client = calling(
            &db(&spark, 0).attempt(number),
            host.connect(),
            &[left("EUR", 10, 1)],
        );
        put(&mut client, &["EUR"], &[value]);
        client.done(&OutputDigest::default())
    };
    attempt(1, "1").unwrap();
    let second: Staged = serde_json::from_str(&attempt(2, "1").unwrap()).unwrap();
    assert!(second.adopted);
    let error = refused(attempt(3, "other"));
    assert!(error.to_string().contains("not repeatable"), "{error}");
}

#[test]
fn what_is_not_repeatable_is_given_again_for_the_same_input() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let db = |run| {
        Database::new(&spark, run, 0).with(
            "/operator",
            operator(&json!([{"name": "hits", "kind": "key_value"}])),
        )
    };
    let attempt = |run, number, rows: &[Row], value| {
        let mut client = calling(
            &db(run)
                .with("/operator/deterministic", false)
                .attempt(number),
            host.connect(),
            rows,
        );
        let answer = client
            .call(&Message::empty().with("method", "repeated"))
            .unwrap();
        let repeated: bool = answer.parsed("repeated").unwrap();
        if !repeated {
            put(&mut client, &["EUR"], &[value]);
        }
        (
            repeated,
            get(&mut client, &["EUR"]),
            client.done(&OutputDigest::default()),
        )
    };
    let (rows, others) = ([left("EUR", 10, 1)], [left("EUR", 10, 2)]);
    let (repeated, _, staged) = attempt("a", 1, &rows, "1");
    assert!(!repeated && staged.is_ok());
    // An attempt of the run, and a newer run that starts with nothing local, give what the first
    // one gave.
    for (run, number) in [("a", 2), ("b", 3)] {
        let (repeated, value, staged) = attempt(run, number, &rows, "other");
        assert!(repeated && staged.is_ok(), "{staged:?}");
        assert_eq!(value, [Some("1".into())]);
    }
    // Other input is worked on anew; what comes of it is not what was staged, and is refused.
    let (repeated, _, staged) = attempt("b", 4, &others, "2");
    assert!(!repeated);
    assert_eq!(refused(staged).kind(), ErrorKind::StateMismatch);
}

#[test]
fn bad_calls_end_the_session_with_words() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let keys = || ("keys", bytes(&["a"]));
    type Case<'a> = (&'a str, &'a str, Vec<(&'a str, ArrayRef)>, &'a str);
    let cases: [Case<'_>; 6] = [
        ("nothing", "get", vec![keys()], "no store \"nothing\""),
        ("hits", "apply", vec![keys()], "no method \"apply\""),
        ("hits", "get", vec![], "keys is missing"),
        (
            "hits",
            "get",
            vec![("keys", times(&[1]))],
            "keys is not of bytes",
        ),
        (
            "hits",
            "get",
            vec![("keys", Arc::new(BinaryArray::from(vec![None::<&[u8]>])))],
            "keys has nulls",
        ),
        (
            "hits",
            "range",
            vec![("start", bytes(&[]))],
            "start has no row",
        ),
    ];
    for (attempt, (store, method, columns, words)) in (1..).zip(cases) {
        let mut client = calling(&db(&spark, 0).attempt(attempt), host.connect(), &[]);
        let error = refused(ask(&mut client, store, method, &columns));
        assert!(error.to_string().contains(words), "{error}");
        let again = refused(ask(&mut client, "hits", "get", &[keys()]));
        assert_eq!(again.to_string(), error.to_string());
    }
    // A call before the input has ended is no call at all.
    let mut client = db(&spark, 0)
        .attempt(7)
        .pushed(host.connect(), &[])
        .unwrap();
    let error = refused(ask(&mut client, "hits", "get", &[keys()]));
    assert!(error.to_string().contains("Call where"), "{error}");
    assert!(spark.objects(0).is_empty());
}

#[test]
fn another_set_of_stores_is_refused_under_the_same_name() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    done(calling(&db(&spark, 0), host.connect(), &[]));
    spark.commit(0);
    spark.begin(1);
    let other = db(&spark, 1).with(
        "/operator",
        operator(&json!([{"name": "hits", "kind": "timestamped_key_value"}])),
    );
    let error = refused(other.pushed(host.connect(), &[]).and_then(|mut client| {
        client.end_input()?;
        client.call(&Message::empty().with("method", "rows"))
    }));
    assert!(error.to_string().contains("store hits"), "{error}");
}

/// The request's words for a store of these serdes.
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
fn another_serde_of_a_store_is_refused_under_the_same_name() {
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
        let db = Database::new(&spark, &format!("run {runs}"), epoch)
            .with("/operator", typed(key, value));
        spark.begin(epoch);
        let mut client = db.pushed(host.connect(), &[])?;
        client.end_input()?;
        client.done(&OutputDigest::default())?;
        spark.commit(epoch);
        epoch += 1;
        Ok(())
    };
    // A store without serdes, as an older version has written it down, is bytes; those with which
    // it is opened then count.
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
    // Columns of a value come and go, and come back with the type that stored rows have, or not at
    // all.
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
fn what_is_fetched_ahead_ends_where_it_is_a_message() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([{"name": "hits", "kind": "key_value"},
        {"name": "t", "kind": "timestamped_key_value"}]);
    let db = Database::new(&spark, "a", 0).with("/operator", operator(&stores));
    spark.begin(0);
    let mut client = calling(&db, host.connect(), &[]);
    let names: Vec<String> = (0..200).map(|row| format!("{row:03}")).collect();
    let keys: Vec<&str> = names.iter().map(String::as_str).collect();
    // The last one is more than a message, and one before them has nothing.
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
        // A key that has more comes alone, and what has nothing beside it.
        assert_eq!(first(&backwards), [Some(17 << 20)]);
        assert_eq!(first(&["199", "000", "199"]), [Some(17 << 20), None]);
        // What has little comes with many others.
        assert_eq!(first(&vec!["000"; 10_000]), vec![None; 10_000]);
    }
}
