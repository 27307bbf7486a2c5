//! A processor that is not deterministic: later attempts return what the first one staged.

use std::fs;

use holdfast_host::host::request::StageReport;
use holdfast_host::net::call::CallMessage;
use serde_json::json;

use super::{ask, bytes, calling, done_empty, operator, put, times};
use crate::support::{Host, Spark, TaskRequest, left};

/// The store is at time 0 when it accepts "b", and the log has "a" before "b".
#[test]
fn rows_that_expire_within_their_epoch_are_repeated() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([
        {"name": "w", "kind": "window", "retention": 1000, "window_size": 10,
            "retain_duplicates": false},
        {"name": "d", "kind": "timestamped_window", "retention": 1000, "window_size": 10,
            "retain_duplicates": true},
        {"name": "s", "kind": "session", "retention": 1000},
    ]);
    let attempt = |run, number| {
        let task = TaskRequest::new(&spark, run, 0)
            .with("/operator", operator(&stores))
            .with("/operator/deterministic", false)
            .attempt(number);
        let mut client = calling(&task, host.connect(), &[left("EUR", 10, 1)]);
        let answer = client
            .call(&CallMessage::empty().with("method", "repeated"))
            .unwrap();
        let is_repeated: bool = answer.parsed("repeated").unwrap();
        for (store, other) in [("w", "none"), ("d", "timestamps"), ("s", "ends")] {
            let mut columns = vec![
                ("keys", bytes(&["b", "a"])),
                ("values", bytes(&["1", "2"])),
                ("starts", times(&[0, 5_000])),
                (other, times(&[0, 5_000])),
            ];
            columns.retain(|(name, _)| *name != "none");
            if !is_repeated {
                ask(&mut client, store, "put", &columns).unwrap();
            }
        }
        let staged: StageReport = serde_json::from_str(&done_empty(client).unwrap()).unwrap();
        (is_repeated, staged.adopted, staged.records)
    };
    spark.begin(0);
    assert_eq!(attempt("a", 1), (false, false, 6));
    assert_eq!(attempt("a", 2), (true, true, 6));
    assert_eq!(attempt("b", 3), (true, false, 6), "a newer run");
}

/// A host puts the object of run 1 so late that run 2 has computed other rows meanwhile.
#[test]
fn rows_of_an_older_whole_run_are_repeated_first() {
    let (spark, host) = (Spark::new(), Host::start());
    let stores = json!([{"name": "hits", "kind": "key_value"}]);
    let attempt = |run, partition, value| {
        let task = TaskRequest::new(&spark, run, 0)
            .partition(partition, 2)
            .with("/operator", operator(&stores))
            .with("/operator/deterministic", false);
        let mut client = calling(&task, host.connect(), &[left("EUR", 10, 1)]);
        let answer = client
            .call(&CallMessage::empty().with("method", "repeated"))
            .unwrap();
        let is_repeated: bool = answer.parsed("repeated").unwrap();
        if !is_repeated {
            put(&mut client, &["EUR"], &[value]);
        }
        done_empty(client).map(|_| is_repeated)
    };
    spark.begin(0);
    assert!(!attempt("a", 0, "1").unwrap());
    assert!(!attempt("a", 1, "1").unwrap());
    let object = spark.path().join(format!("log/{:020}/join.0.1", 0));
    let late = spark.path().join("late");
    fs::rename(&object, &late).unwrap();
    assert!(!attempt("b", 0, "2").unwrap());
    fs::rename(&late, &object).unwrap();
    assert!(attempt("c", 0, "3").unwrap());
    assert!(attempt("c", 1, "3").unwrap());
}
