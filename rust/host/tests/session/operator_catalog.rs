//! What the root stores of an operator, and which changes of the operator it refuses.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Fields, Schema};
use holdfast_core::{ErrorKind, Result};
use holdfast_host::protocol::{Epoch, OperatorName, RunNumber};
use holdfast_host::root::{Column, OperatorMeta, PayloadSchema};

use crate::support::{Host, Spark, TaskRequest, batch, left, matched, refused, right, schema};

fn keeps(right: Vec<Column>) -> OperatorMeta {
    OperatorMeta {
        kind: "join_asof".into(),
        key: vec![Column::from(&Field::new("currency", DataType::Utf8, true))],
        time: None,
        value: Vec::new(),
        payload: PayloadSchema {
            right,
            ..PayloadSchema::default()
        },
        settings: BTreeMap::new(),
        first_epoch: Epoch(0),
    }
}

fn join() -> OperatorName {
    OperatorName::new("join").unwrap()
}

/// A stopped query whose operator `join` took part in epochs 0 and 1, and that continues with 2.
fn stopped() -> Spark {
    let (spark, host) = (Spark::new(), Host::start());
    for epoch in 0..2 {
        spark.begin(epoch);
        TaskRequest::new(&spark, "a", epoch)
            .run(host.connect(), &[right("EUR", 10, 100)])
            .unwrap();
        spark.commit(epoch);
    }
    host.stop();
    spark.delete_local();
    spark.begin(2);
    spark
}

fn log_of(spark: &Spark, epoch: i64) -> PathBuf {
    spark.path().join(format!("log/{epoch:020}"))
}

#[test]
fn operator_without_its_file_is_refused_while_its_state_exists() {
    let spark = stopped();
    let file = spark.path().join("operators/join.json");
    let content = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let (task, host) = (TaskRequest::new(&spark, "a", 2), Host::start());
    let check = |attempt| {
        let error = refused(
            task.clone()
                .attempt(attempt)
                .run(host.connect(), &[left("EUR", 10, 1)]),
        );
        assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
        assert!(
            error
                .to_string()
                .contains("operators/join.json is missing, but the root holds epochs of join"),
            "{error}"
        );
        assert!(!file.exists(), "the root stays as it is");
    };
    check(1);
    // If the query has continued without the operator, the last epoch has no object of it. An
    // earlier one still proves that it has state.
    let hidden = |epoch| spark.path().join(format!("hidden {epoch}"));
    fs::rename(log_of(&spark, 1), hidden(1)).unwrap();
    check(2);
    // So do its snapshots, when the log is trimmed.
    fs::rename(log_of(&spark, 0), hidden(0)).unwrap();
    let snapshots = spark.path().join("snapshots/join/0");
    fs::create_dir_all(&snapshots).unwrap();
    let snapshot = snapshots.join(format!("{:020}.{}.1.1", 0, "0".repeat(32)));
    fs::write(&snapshot, "{}").unwrap();
    check(3);
    fs::remove_file(snapshot).unwrap();
    (0..2).for_each(|epoch| fs::rename(hidden(epoch), log_of(&spark, epoch)).unwrap());
    // With the file restored, the state is complete again.
    fs::write(&file, content).unwrap();
    assert_eq!(
        task.attempt(4)
            .run(host.connect(), &[left("EUR", 10, 1)])
            .unwrap()
            .rows,
        [matched(1, 100, 10)]
    );
}

/// A session from before a rewind that stalls may write the file after the new run.
#[test]
fn operator_that_took_part_does_not_begin_again() {
    let spark = stopped();
    let file = spark.path().join("operators/join.json");
    let mut stored: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    // The query has continued without the operator in epoch 1.
    let left_out = log_of(&spark, 1);
    fs::remove_dir_all(&left_out).unwrap();
    fs::create_dir(&left_out).unwrap();
    fs::write(left_out.join("other.0.1"), "its part of the epoch").unwrap();
    let (task, host) = (TaskRequest::new(&spark, "a", 2), Host::start());
    for (attempt, first) in [(1, 2), (2, 5)] {
        stored["first_epoch"] = first.into();
        fs::write(&file, stored.to_string()).unwrap();
        let error = refused(
            task.clone()
                .attempt(attempt)
                .run(host.connect(), &[left("EUR", 10, 1)]),
        );
        assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
        let text = format!("began with epoch {first}, but it took part in epoch 0");
        assert!(error.to_string().contains(&text), "{error}");
    }
}

#[test]
fn column_with_an_unreadable_type_is_refused_without_changes() {
    let spark = Spark::new();
    let of = |name: &str| {
        let inner = Fields::from(vec![Field::new(name, DataType::Int32, true)]);
        Column::from(&Field::new("x", DataType::Struct(inner), true))
    };
    let good = Column::from(&Field::new("rate", DataType::Int64, true));
    spark
        .open_root()
        .operators
        .register(&join(), &keeps(vec![good.clone()]), RunNumber(1), 1)
        .unwrap();
    let epoch = spark
        .path()
        .join(format!("log/{:020}", keeps(Vec::new()).first_epoch.0));
    fs::create_dir_all(&epoch).unwrap();
    fs::write(epoch.join("join.0.1"), "its part of the epoch").unwrap();
    let files = || {
        fs::read_dir(spark.path().join("operators"))
            .unwrap()
            .count()
    };
    for name in ["a\\b", "a\nb", "a\tb", "", "\u{200b}"] {
        let error = refused(spark.open_root().operators.register(
            &join(),
            &keeps(vec![good.clone(), of(name)]),
            RunNumber(2),
            1,
        ));
        assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
        assert!(
            error.to_string().contains("operator join: column \"x\"")
                && error.to_string().contains("rename the field"),
            "{error}"
        );
        let other = OperatorName::new("other").unwrap();
        assert_eq!(
            refused(spark.open_root().operators.register(
                &other,
                &keeps(vec![of(name)]),
                RunNumber(2),
                1
            ))
            .kind(),
            ErrorKind::InvalidValue
        );
        assert_eq!(files(), 1, "{name:?}");
    }
    // The earlier columns still work, and unusual names that Arrow can read are accepted.
    spark
        .open_root()
        .operators
        .register(&join(), &keeps(vec![good.clone()]), RunNumber(3), 1)
        .unwrap();
    for (run, name) in (4..)
        .step_by(2)
        .zip(["it's", "a\"b", "Größe 名", "a(b), c: Int32"])
    {
        for run in [run, run + 1] {
            let stored = spark
                .open_root()
                .operators
                .register(
                    &join(),
                    &keeps(vec![good.clone(), of(name)]),
                    RunNumber(run),
                    1,
                )
                .unwrap();
            assert_eq!((stored.version, stored.versions.len()), (1, 2), "{name:?}");
            stored.versions[1]
                .payload
                .right
                .iter()
                .for_each(|column| drop(column.field().unwrap()));
        }
        fs::remove_file(spark.path().join("operators/join.1.json")).unwrap();
    }
}

#[test]
fn error_about_times_of_another_type_has_the_users_names() {
    let (spark, host) = (Spark::new(), Host::start());
    let task = |epoch: i64, times: &[&str]| {
        spark.begin(epoch);
        let mut task = TaskRequest::new(&spark, "a", epoch);
        task.request["operator"]["times"] = times.into();
        task
    };
    task(0, &["ordered_at", "valid_from"])
        .run(host.connect(), &[right("EUR", 10, 100)])
        .unwrap();
    spark.commit(0);
    let wall_clock = |task: &TaskRequest| {
        let rows = &[left("EUR", 10, 1)];
        let mut client = host.connect();
        client.open(&task.request.to_string())?;
        let times = Arc::new(
            batch(0, rows)["t"]
                .as_primitive::<TimestampMicrosecondType>()
                .clone()
                .with_timezone_opt::<&str>(None),
        );
        let (mut columns, mut fields) = (
            batch(0, rows).columns().to_vec(),
            schema().fields().to_vec(),
        );
        fields[3] = Arc::new(Field::new("t", times.data_type().clone(), true));
        columns[3] = times;
        client.push(&RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap())?;
        client.finish()?.collect::<Result<Vec<_>>>()
    };
    let error = refused(wall_clock(&task(1, &["at", "valid_from"])));
    assert_eq!(error.kind(), ErrorKind::StateMismatch, "{error}");
    let text = r#"time column "at, valid_from" was Timestamp(µs, "UTC") and is now Timestamp(µs)"#;
    assert!(error.to_string().contains(text), "{error}");
    // The name of the time column may change, and its type may be missing.
    let done = task(1, &["at", "valid_from"])
        .attempt(2)
        .run(host.connect(), &[left("EUR", 10, 1)])
        .unwrap();
    assert_eq!(done.rows, [matched(1, 100, 10)]);
    spark.commit(1);
    let file = spark.path().join("operators/join.json");
    let mut stored: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(
        stored.as_object_mut().unwrap().remove("time").unwrap()["name"],
        "ordered_at, valid_from"
    );
    fs::write(&file, stored.to_string()).unwrap();
    spark.begin(2);
    let task = task(2, &["at", "valid_from"]).with("/run_id", "b");
    assert_eq!(wall_clock(&task).unwrap().len(), 1);
}

#[test]
fn inner_nullability_is_not_part_of_a_columns_type() {
    let spark = Spark::new();
    let list =
        |nullable| DataType::List(Arc::new(Field::new("element", DataType::Int32, nullable)));
    let inner = |nullable| Fields::from(vec![Field::new("v", list(nullable), nullable)]);
    let map = |nullable| {
        let entries = vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", list(nullable), nullable),
        ];
        DataType::Map(
            Arc::new(Field::new(
                "entries",
                DataType::Struct(entries.into()),
                false,
            )),
            false,
        )
    };
    let columns = |nullable| {
        let types = [
            ("l", list(nullable)),
            ("s", DataType::Struct(inner(nullable))),
            ("m", map(nullable)),
        ];
        types
            .map(|(name, data_type)| Column::from(&Field::new(name, data_type, true)))
            .to_vec()
    };
    let stored = spark
        .open_root()
        .operators
        .register(&join(), &keeps(columns(false)), RunNumber(1), 1)
        .unwrap();
    assert_eq!((stored.version, stored.versions.len()), (0, 1));
    let text = fs::read_to_string(spark.path().join("operators/join.json")).unwrap();
    assert_eq!(
        text.matches("non-null").count(),
        2,
        "the map's entries and its keys: {text}"
    );
    let stored = spark
        .open_root()
        .operators
        .register(&join(), &keeps(columns(true)), RunNumber(2), 1)
        .unwrap();
    assert_eq!((stored.version, stored.versions.len()), (0, 1));
}
