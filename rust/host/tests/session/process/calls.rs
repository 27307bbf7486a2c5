//! The protocol: rows, calls, answers, errors, and workers that break it.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use holdfast_core::ErrorKind;
use holdfast_host::host::request::StageReport;
use holdfast_host::net::call::CallMessage;
use serde_json::json;

use super::{ask, bytes, calling, done, done_empty, get, ids, operator, put, task, times};
use crate::support::{Host, Row, Spark, TaskRequest, left, refused};

#[test]
fn rows_arrive_in_order_and_puts_persist_to_the_next_epoch() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = calling(
        &task(&spark, 0),
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
    let mut client = calling(&task(&spark, 1), host.connect(), &[]);
    assert_eq!(ids(&mut client), (vec![], None));
    assert_eq!(get(&mut client, &["EUR"]), [Some("2".into())]);
    done(client);
}

#[test]
fn refused_read_leaves_the_session_open() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([
        {"name": "hits", "kind": "key_value"},
        {"name": "w", "kind": "window", "retention": 1000, "window_size": 10,
            "retain_duplicates": true},
    ]);
    let task = TaskRequest::new(&spark, "a", 0).with("/operator", operator(&stores));
    spark.begin(0);
    let mut client = calling(&task, host.connect(), &[]);
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
fn later_calls_repeat_the_error_that_ended_the_session() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([{"name": "hits", "kind": "key_value"},
        {"name": "s", "kind": "session", "retention": 1000}]);
    let task = TaskRequest::new(&spark, "a", 0).with("/operator", operator(&stores));
    spark.begin(0);
    let mut client = calling(&task, host.connect(), &[]);
    // Some rows of a failed write may already be applied.
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
    let again = refused(done_empty(client));
    assert_eq!(again.to_string(), first.to_string());
    assert!(spark.objects(0).is_empty());
}

#[test]
fn call_above_the_frame_limit_ends_the_session() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = calling(&task(&spark, 0), host.connect(), &[]);
    // The columns share one buffer, so only the message is large.
    let large: ArrayRef = Arc::new(BinaryArray::from_iter_values([vec![0; 64 << 20]]));
    let names: Vec<String> = (0..17).map(|column| column.to_string()).collect();
    let columns: Vec<(&str, ArrayRef)> = names
        .iter()
        .map(|name| (name.as_str(), Arc::clone(&large)))
        .collect();
    let first = refused(ask(&mut client, "hits", "put", &columns));
    assert_eq!(first.kind(), ErrorKind::Serialization, "{first}");
    assert!(first.to_string().contains("fewer rows at once"), "{first}");
    // Buffered writes are lost with the call: nothing may be staged without them.
    assert_eq!(refused(done_empty(client)).to_string(), first.to_string());
    assert!(spark.objects(0).is_empty());
}

#[test]
fn worker_that_disconnects_between_calls_leaves_nothing() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = calling(&task(&spark, 0), host.connect(), &[left("EUR", 10, 1)]);
    put(&mut client, &["EUR"], &["1"]);
    drop(client);
    // The retry does not see the first attempt's writes, and stages first.
    let mut client = calling(
        &task(&spark, 0).attempt(2),
        host.connect(),
        &[left("EUR", 10, 1)],
    );
    assert_eq!(get(&mut client, &["EUR"]), [None]);
    assert!(spark.objects(0).is_empty());
    put(&mut client, &["EUR"], &["1"]);
    assert!(!done(client).adopted);
}

#[test]
fn equal_attempt_adopts_and_a_different_one_is_refused() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let attempt = |number, value| {
        let mut client = calling(
            &task(&spark, 0).attempt(number),
            host.connect(),
            &[left("EUR", 10, 1)],
        );
        put(&mut client, &["EUR"], &[value]);
        done_empty(client)
    };
    attempt(1, "1").unwrap();
    let second: StageReport = serde_json::from_str(&attempt(2, "1").unwrap()).unwrap();
    assert!(second.adopted);
    let error = refused(attempt(3, "other"));
    assert!(error.to_string().contains("not repeatable"), "{error}");
}

#[test]
fn unrepeatable_results_are_repeated_for_the_same_input() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let task = |run| {
        TaskRequest::new(&spark, run, 0).with(
            "/operator",
            operator(&json!([{"name": "hits", "kind": "key_value"}])),
        )
    };
    let attempt = |run, number, rows: &[Row], value| {
        let mut client = calling(
            &task(run)
                .with("/operator/deterministic", false)
                .attempt(number),
            host.connect(),
            rows,
        );
        let answer = client
            .call(&CallMessage::empty().with("method", "repeated"))
            .unwrap();
        let repeated: bool = answer.parsed("repeated").unwrap();
        if !repeated {
            put(&mut client, &["EUR"], &[value]);
        }
        (repeated, get(&mut client, &["EUR"]), done_empty(client))
    };
    let (rows, others) = ([left("EUR", 10, 1)], [left("EUR", 10, 2)]);
    let (repeated, _, staged) = attempt("a", 1, &rows, "1");
    assert!(!repeated && staged.is_ok());
    // Another attempt of the run and a newer run return what the first one returned.
    for (run, number) in [("a", 2), ("b", 3)] {
        let (repeated, value, staged) = attempt(run, number, &rows, "other");
        assert!(repeated && staged.is_ok(), "{staged:?}");
        assert_eq!(value, [Some("1".into())]);
    }
    // Other input is processed again; its results differ from the staged ones and are refused.
    let (repeated, _, staged) = attempt("b", 4, &others, "2");
    assert!(!repeated);
    assert_eq!(refused(staged).kind(), ErrorKind::StateMismatch);
}

#[test]
fn invalid_calls_end_the_session_with_an_error() {
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
        let mut client = calling(&task(&spark, 0).attempt(attempt), host.connect(), &[]);
        let error = refused(ask(&mut client, store, method, &columns));
        assert!(error.to_string().contains(words), "{error}");
        let again = refused(ask(&mut client, "hits", "get", &[keys()]));
        assert_eq!(again.to_string(), error.to_string());
    }
    // A call before the end of the input is unexpected.
    let mut client = task(&spark, 0)
        .attempt(7)
        .pushed(host.connect(), &[])
        .unwrap();
    let error = refused(ask(&mut client, "hits", "get", &[keys()]));
    assert!(error.to_string().contains("Call where"), "{error}");
    assert!(spark.objects(0).is_empty());
}
