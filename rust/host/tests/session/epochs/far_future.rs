//! Far-future rows: those of the attempt whose object is valid are stored.

use std::fs::{self, File};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_ipc::reader::FileReader;
use holdfast_core::ErrorKind;

use crate::support::{Host, Spark, TaskRequest, left, matched, refused, right};

const FAR: i64 = 1_000_000;

/// A query whose micro-batch 0 is planned at the time 0.
fn planned() -> Spark {
    let spark = Spark::new();
    spark.begin(0);
    let offsets = spark.path().join("query/offsets/0");
    fs::write(offsets, "v1\n{\"batchTimestampMs\":0}\n0").unwrap();
    spark
}

fn task(spark: &Spark, run: &str, attempt: i64) -> TaskRequest {
    let mut task = TaskRequest::new(spark, run, 0).attempt(attempt);
    task.request["operator"]["max_ahead"] = (FAR - 1).into();
    task
}

/// The ids of the far-future rows that are stored.
fn stored(spark: &Spark) -> Vec<i64> {
    let path = spark.path().join(format!("ahead/join/{:020}.0.arrow", 0));
    let Ok(file) = File::open(path) else {
        return Vec::new();
    };
    let batches = FileReader::try_new(file, None).unwrap();
    let ids = batches.flat_map(|batch| {
        let batch = batch.unwrap();
        let ids = batch["id"].as_primitive::<Int64Type>();
        ids.values().to_vec()
    });
    ids.collect()
}

#[test]
fn attempt_that_differs_in_far_future_rows_is_refused_and_replaces_nothing() {
    let (spark, host) = (planned(), Host::start());
    let run = |attempt, far| {
        let rows = [right("EUR", 10, 100), left("EUR", FAR, far)];
        task(&spark, "a", attempt).run(host.connect(), &rows)
    };
    run(1, 7).unwrap();
    let error = refused(run(2, 8));
    assert_eq!(error.kind(), ErrorKind::InvalidState, "{error}");
    assert!(error.to_string().contains("Its input differs"), "{error}");
    assert_eq!(stored(&spark), [7]);
    assert!(run(3, 7).unwrap().staged.adopted);
}

#[test]
fn under_at_least_once_the_rows_of_the_first_attempt_stay() {
    let (spark, host) = (planned(), Host::start());
    let run = |attempt, far| {
        let rows = [right("EUR", 10, 100), left("EUR", FAR, far)];
        let mut task = task(&spark, "a", attempt);
        task.request["settings"]["processing_guarantee"] = "at_least_once".into();
        task.run(host.connect(), &rows).unwrap()
    };
    run(1, 7);
    run(2, 8);
    assert_eq!(stored(&spark), [7]);
    // The first attempt ended after it had staged, and before it stored the rows.
    fs::remove_dir_all(spark.path().join("ahead")).unwrap();
    run(3, 8);
    assert_eq!(stored(&spark), [7]);
}

#[test]
fn under_at_least_once_rows_that_the_first_attempt_processed_are_not_stored() {
    let (spark, host) = (planned(), Host::start());
    let run = |attempt, time| {
        let mut task = task(&spark, "a", attempt);
        task.request["settings"]["processing_guarantee"] = "at_least_once".into();
        let rows = [right("EUR", 10, 100), left("EUR", time, 7)];
        task.run(host.connect(), &rows).unwrap()
    };
    assert_eq!(run(1, 20).rows, [matched(7, 100, 10)]);
    assert!(run(2, FAR).staged.adopted);
    assert_eq!(stored(&spark), [0; 0]);
}

#[test]
fn under_at_least_once_an_attempt_without_such_rows_stores_those_of_the_first_attempt() {
    let (spark, host) = (planned(), Host::start());
    let run = |attempt, time| {
        let mut task = task(&spark, "a", attempt);
        task.request["settings"]["processing_guarantee"] = "at_least_once".into();
        task.run(host.connect(), &[left("EUR", time, 7)]).unwrap()
    };
    run(1, FAR);
    // The first attempt ended after it had staged, and before it stored the rows.
    fs::remove_dir_all(spark.path().join("ahead")).unwrap();
    assert!(run(2, 20).staged.adopted);
    assert_eq!(stored(&spark), [7]);
}

#[test]
fn under_at_least_once_the_rows_of_an_older_whole_run_stay() {
    let (spark, host) = (planned(), Host::start());
    let run = |run, far| {
        let mut task = task(&spark, run, 1);
        task.request["settings"]["processing_guarantee"] = "at_least_once".into();
        task.run(host.connect(), &[left("EUR", FAR, far)]).unwrap()
    };
    run("a", 7);
    // The older run ended before it stored the rows.
    fs::remove_dir_all(spark.path().join("ahead")).unwrap();
    assert!(run("b", 8).staged.adopted);
    assert_eq!(stored(&spark), [7]);
}

#[test]
fn newer_run_that_processes_the_rows_removes_those_of_an_incomplete_run() {
    let (spark, host) = (planned(), Host::start());
    let run = |run, max_ahead: i64| {
        let mut task = task(&spark, run, 1);
        task.request["partitions"] = 2.into();
        task.request["operator"]["max_ahead"] = max_ahead.into();
        let rows = [right("EUR", 10, 100), left("EUR", FAR, 7)];
        task.run(host.connect(), &rows).unwrap()
    };
    assert_eq!(run("a", FAR - 1).rows, []);
    assert_eq!(stored(&spark), [7]);
    // The run has staged one of two partitions, so a newer run may compute other results.
    assert_eq!(run("b", FAR).rows, [matched(7, 100, 10)]);
    assert_eq!(stored(&spark), [0; 0]);
}

#[test]
fn rows_of_a_fenced_run_replace_nothing() {
    let (spark, host) = (planned(), Host::start());
    let late = task(&spark, "a", 1).pushed(host.connect(), &[left("EUR", FAR, 7)]);
    task(&spark, "b", 1)
        .run(host.connect(), &[left("EUR", FAR, 8)])
        .unwrap();
    let late = late.unwrap();
    let error = refused(
        late.finish()
            .and_then(Iterator::collect::<Result<Vec<_>, _>>),
    );
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(stored(&spark), [8]);
}
