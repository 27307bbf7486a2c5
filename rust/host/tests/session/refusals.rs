//! What must not be accepted, each with an error that names the thing and says what to do.

use holdfast_core::ErrorKind;

use crate::support::{Host, Spark, Task, refused, right};

fn refusal(spark: &Spark, host: &Host, task: &Task, kind: ErrorKind, words: &[&str]) {
    let error = refused(task.run(host.connect(), &[right("EUR", 10, 100)]));
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in {error}");
    }
    assert!(spark.objects(1).is_empty(), "nothing was staged");
}

#[test]
fn another_query_partition_count_or_epoch_is_refused_and_touches_nothing() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    Task::new(&spark, "a", 0).run(host.connect(), &[right("EUR", 10, 100)]).unwrap();
    // Each is an attempt of its own, as Spark's are.
    let one = |attempt| Task::new(&spark, "a", 1).attempt(attempt);
    refusal(&spark, &host, &one(1), ErrorKind::TaskCorrupted, &["offsets/1", "checkpointLocation"]);
    spark.begin(1);
    refusal(&spark, &host, &one(2), ErrorKind::TaskCorrupted, &["commits/0"]);
    spark.commit(0);
    refusal(&spark, &host, &one(3).with("/query_id", "other"), ErrorKind::TaskCorrupted, &["other", QUERY_WORD]);
    refusal(&spark, &host, &one(4).with("/partitions", 3), ErrorKind::TaskCorrupted, &["partitions=1"]);
    refusal(&spark, &host, &one(5).with("/operator/history_retention", 7), ErrorKind::TaskCorrupted, &["history_retention", "join"]);
    refusal(&spark, &host, &one(6).with("/operator/keys/0", "country"), ErrorKind::TaskCorrupted, &["key column", "is gone"]);
    one(7).run(host.connect(), &[]).unwrap();
}

const QUERY_WORD: &str = crate::support::QUERY;

#[test]
fn two_operators_of_one_name_are_refused() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let task = Task::new(&spark, "a", 0);
    task.run(host.connect(), &[]).unwrap();
    refusal(&spark, &host, &task.with("/instance", "call-2"), ErrorKind::InvalidState, &["named join", "name="]);
}

#[test]
fn a_task_that_computes_two_partitions_is_refused() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    // What a coalesce above the operator does: one task runs a session for each partition, all in the name of its own.
    let task = Task::new(&spark, "a", 0).partition(0, 2);
    task.run(host.connect(), &[]).unwrap();
    refusal(&spark, &host, &task, ErrorKind::InvalidState, &["operator join", "partition 0 twice", "coalesce", "repartition()"]);
    // A retry is another attempt, and finds what the first one staged.
    assert!(task.attempt(2).run(host.connect(), &[]).unwrap().staged.adopted);
}

#[test]
fn a_request_that_lacks_something_says_what() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let task = Task::new(&spark, "a", 0);
    refusal(&spark, &host, &task.clone().with("/epoch", serde_json::Value::Null), ErrorKind::InvalidValue, &["an epoch"]);
    refusal(&spark, &host, &task.clone().with("/root", serde_json::Value::Null), ErrorKind::InvalidValue, &["a root"]);
    refusal(&spark, &host, &task.clone().with("/operator/kind", "juggle"), ErrorKind::InvalidValue, &["juggle"]);
    refusal(&spark, &host, &task.with("/partition", 1), ErrorKind::InvalidValue, &["partition 1 of 1"]);
}

#[test]
fn an_input_without_columns_is_refused() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = host.connect();
    client.open(&Task::new(&spark, "a", 0).request.to_string()).unwrap();
    let error = client.finish().unwrap().find_map(Result::err).expect("refused");
    assert!(error.to_string().contains("an empty one if there are no rows"), "{error}");
}

#[test]
fn a_log_object_cut_in_half_is_named() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    Task::new(&spark, "a", 0).run(host.connect(), &[right("EUR", 10, 100)]).unwrap();
    spark.commit(0);
    host.stop();
    spark.delete_local();
    let object = spark.path().join(format!("log/{:020}/join.0.1", 0));
    let bytes = std::fs::read(&object).unwrap();
    std::fs::write(&object, &bytes[..bytes.len() / 2]).unwrap();
    spark.begin(1);
    let host = Host::start();
    let task = Task::new(&spark, "a", 1);
    refusal(&spark, &host, &task, ErrorKind::Restore, &["join.0.1", "backup"]);
    // Put back, the state is whole again.
    std::fs::write(&object, bytes).unwrap();
    task.attempt(2).run(host.connect(), &[]).unwrap();
}
