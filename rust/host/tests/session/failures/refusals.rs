//! Requests and roots that are refused, each with an error that names the cause and the remedy.

use std::fs;

use holdfast_core::ErrorKind;

use crate::support::{Host, HostProcess, Spark, TaskRequest, left, matched, refused, right};

fn refusal(spark: &Spark, host: &Host, task: &TaskRequest, kind: ErrorKind, words: &[&str]) {
    let error = refused(task.run(host.connect(), &[right("EUR", 10, 100)]));
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(
            error.to_string().contains(word),
            "{word:?} is not in {error}"
        );
    }
    assert!(spark.objects(1).is_empty(), "nothing was staged");
}

#[test]
fn other_query_partition_count_or_epoch_is_refused_without_changes() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    // Each request is another attempt, as in Spark.
    let one = |attempt| TaskRequest::new(&spark, "a", 1).attempt(attempt);
    refusal(
        &spark,
        &host,
        &one(1),
        ErrorKind::StateMismatch,
        &["offsets/1", "checkpointLocation"],
    );
    spark.begin(1);
    refusal(
        &spark,
        &host,
        &one(2),
        ErrorKind::StateMismatch,
        &["commits/0"],
    );
    spark.commit(0);
    refusal(
        &spark,
        &host,
        &one(3).with("/query_id", "other"),
        ErrorKind::StateMismatch,
        &["other", QUERY_WORD],
    );
    refusal(
        &spark,
        &host,
        &one(4).with("/partitions", 3),
        ErrorKind::StateMismatch,
        &["partitions=1"],
    );
    refusal(
        &spark,
        &host,
        &one(5).with("/operator/history_retention", 7),
        ErrorKind::StateMismatch,
        &["history_retention", "join"],
    );
    refusal(
        &spark,
        &host,
        &one(6).with("/operator/keys/0", "country"),
        ErrorKind::StateMismatch,
        &["key column", "is gone"],
    );
    one(7).run(host.connect(), &[]).unwrap();
}

const QUERY_WORD: &str = crate::support::QUERY;

#[test]
fn two_operators_of_one_name_are_refused() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let task = TaskRequest::new(&spark, "a", 0);
    task.run(host.connect(), &[]).unwrap();
    refusal(
        &spark,
        &host,
        &task.with("/instance", "call-2"),
        ErrorKind::InvalidState,
        &["named join", "name="],
    );
}

#[test]
fn task_that_computes_a_partition_twice_is_refused() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    // A coalesce above the operator has this effect: one task runs a session for each partition,
    // and all of them name the task's own partition.
    let task = TaskRequest::new(&spark, "a", 0).partition(0, 2);
    task.run(host.connect(), &[]).unwrap();
    refusal(
        &spark,
        &host,
        &task,
        ErrorKind::InvalidState,
        &[
            "operator join",
            "partition 0 twice",
            "coalesce",
            "repartition()",
        ],
    );
    // A retry is another attempt, and adopts what the first one staged.
    assert!(
        task.attempt(2)
            .run(host.connect(), &[])
            .unwrap()
            .staged
            .adopted
    );
}

#[test]
fn error_names_the_missing_field_of_a_request() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let task = TaskRequest::new(&spark, "a", 0);
    refusal(
        &spark,
        &host,
        &task.clone().with("/epoch", serde_json::Value::Null),
        ErrorKind::InvalidValue,
        &["an epoch"],
    );
    refusal(
        &spark,
        &host,
        &task.clone().with("/root", serde_json::Value::Null),
        ErrorKind::InvalidValue,
        &["a root"],
    );
    refusal(
        &spark,
        &host,
        &task.clone().with("/operator/kind", "juggle"),
        ErrorKind::InvalidValue,
        &["juggle"],
    );
    refusal(
        &spark,
        &host,
        &task.with("/partition", 1),
        ErrorKind::InvalidValue,
        &["partition 1 of 1"],
    );
}

#[test]
fn input_without_columns_is_refused() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    let mut client = host.connect();
    client
        .open(&TaskRequest::new(&spark, "a", 0).request.to_string())
        .unwrap();
    let error = client
        .finish()
        .unwrap()
        .find_map(Result::err)
        .expect("refused");
    assert!(
        error
            .to_string()
            .contains("an empty one if there are no rows"),
        "{error}"
    );
}

#[test]
fn error_names_a_truncated_log_object() {
    let (spark, host) = (Spark::new(), Host::start());
    spark.begin(0);
    TaskRequest::new(&spark, "a", 0)
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    host.stop();
    spark.delete_local();
    let object = spark.path().join(format!("log/{:020}/join.0.1", 0));
    let bytes = fs::read(&object).unwrap();
    fs::write(&object, &bytes[..bytes.len() / 2]).unwrap();
    spark.begin(1);
    let host = Host::start();
    let task = TaskRequest::new(&spark, "a", 1);
    refusal(
        &spark,
        &host,
        &task,
        ErrorKind::Restore,
        &["join.0.1", "backup"],
    );
    // With the object restored, the state is complete again.
    fs::write(&object, bytes).unwrap();
    task.attempt(2).run(host.connect(), &[]).unwrap();
}

#[test]
fn error_names_a_lost_log_object() {
    let (spark, host) = (Spark::new(), Host::start());
    let task = |partition, epoch| TaskRequest::new(&spark, "a", epoch).partition(partition, 2);
    for epoch in 0..4 {
        spark.begin(epoch);
        for partition in 0..2 {
            task(partition, epoch)
                .run(host.connect(), &[right("EUR", 10 + epoch, epoch)])
                .unwrap();
        }
        spark.commit(epoch);
    }
    host.stop();
    spark.begin(4);
    let hidden = spark.path().join("hidden");
    let mut attempt = 1;
    let mut lose = |name: &str, partition, kind, words: &[&str]| {
        let lost = spark.path().join(name);
        fs::rename(&lost, &hidden).unwrap();
        spark.delete_local();
        let host = Host::start();
        attempt += 1;
        let error = refused(
            task(partition, 4)
                .attempt(attempt)
                .run(host.connect(), &[left("EUR", 99, 1)]),
        );
        assert_eq!(error.kind(), kind, "{error}");
        for word in words {
            assert!(
                error.to_string().contains(word),
                "{word:?} is not in {error}"
            );
        }
        fs::rename(&hidden, &lost).unwrap();
    };
    let (second, last) = (format!("log/{:020}", 1), format!("log/{:020}", 3));
    // No host has decided the last epoch yet, so it may have been evaluated in part.
    let ways_out = [
        &*format!("restore `{last}` from a backup"),
        "do not rewind",
        "--epoch 3",
    ];
    lose(
        &format!("{last}/join.0.1"),
        1,
        ErrorKind::StateMismatch,
        &[&["evaluated only in part"], &ways_out[..]].concat(),
    );
    let object = format!("{second}/join.0.1");
    lose(
        &object,
        0,
        ErrorKind::Restore,
        &[&format!("{object} is missing"), "backup", "do not rewind"],
    );
    lose(
        &second,
        1,
        ErrorKind::Restore,
        &[&format!("{second} is missing"), "do not rewind"],
    );
    // With the object restored, the state is complete again.
    let done = task(1, 4)
        .run(Host::start().connect(), &[left("EUR", 99, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 3, 13)]);
}

#[test]
fn host_logs_the_counts_of_unused_rows() {
    let (spark, host) = (Spark::new(), HostProcess::start());
    let mut key_less = right("", 20, 1);
    if let crate::support::Row::Right { key, .. } = &mut key_less {
        *key = None;
    }
    // The retention is 5: at stream time 100 all rows before 95 are late.
    for (epoch, rows) in [
        vec![right("EUR", 100, 1)],
        vec![right("EUR", 5, 2), right("EUR", 6, 2), key_less],
    ]
    .iter()
    .enumerate()
    {
        let epoch = epoch.try_into().unwrap();
        spark.begin(epoch);
        TaskRequest::new(&spark, "a", epoch)
            .with("/operator/history_retention", 5)
            .run(host.connect(), rows)
            .unwrap();
        spark.commit(epoch);
    }
    let log = host.log();
    let text = "operator join, epoch 1: 2 rows came too late, 0 were before the table's history, 1 \
                had no key or no time, 0 are far-future rows (in ahead/)";
    assert_eq!(log.matches("came too late").count(), 1, "{log}");
    assert!(log.contains(text), "{log}");
}

#[test]
fn two_queries_share_a_local_dir() {
    let (first, second, local) = (Spark::new(), Spark::new(), tempfile::tempdir().unwrap());
    fs::write(second.path().join("query/metadata"), r#"{"id":"query-2"}"#).unwrap();
    let queries = [(&first, QUERY_WORD), (&second, "query-2")];
    for epoch in 0..3 {
        for (spark, id) in queries {
            spark.begin(epoch);
            let host = HostProcess::start();
            let task = TaskRequest::new(spark, "a", epoch)
                .with("/query_id", id)
                .with("/local_dir", local.path().to_str().unwrap());
            let rows = [right("EUR", 10 + epoch, epoch), left("EUR", 9 + epoch, 1)];
            let done = task.run(host.connect(), &rows).unwrap();
            assert_eq!(done.rows.len(), 1);
            assert!(
                !host.log().contains("is made from the root"),
                "{}",
                host.log()
            );
            spark.commit(epoch);
        }
    }
    for (_, id) in queries {
        assert!(local.path().join(id).join("join/0").is_dir());
    }
}
